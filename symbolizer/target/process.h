/* Facts of a process, and errors about one in words a user can act on. */
#ifndef SYMBOLIZER_TARGET_PROCESS_H
#define SYMBOLIZER_TARGET_PROCESS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* The lines of /proc/PID/status that matter here (proc_pid_status(5)). */
struct process_status {
	char state; /* R S D T t Z X I; 0: unknown */
	pid_t tgid, ppid;
	pid_t tracer;	    /* 0: nobody traces it */
	pid_t ns_pid;	    /* in the innermost PID namespace it is in */
	unsigned ns_levels; /* PID namespaces between ours (1) and its own; 0: unknown */
	uid_t uid;
	unsigned threads;
	uint64_t caps; /* effective capabilities, bit n: capability n of linux/capability.h */
	unsigned seccomp, seccomp_filters; /* mode; how many filters (Linux 5.9; 0 before) */
};

struct process {
	pid_t
	    pid; /* the process; where it was asked for by the number of a thread, that thread's */
	struct process_status status;
	uint64_t start_ticks; /* when it started, clock ticks since boot: with pid an identity */
	char comm[32];
	char exe[4096];			 /* as the target sees it; "" when it cannot be read */
	bool ns_known;			 /* the two below could be read */
	bool other_mnt_ns, other_pid_ns; /* than ditrace's own */
};

/* The process ID that a user wrote. 0, or -EINVAL with *e. */
int process_parse_pid(const char *word, pid_t *pid, struct err *e);

/* What /proc tells of process (or thread) `pid`. 0; -ESRCH with *e when there is none or it has
 * ended. Facts that only its owner may read are left empty. */
int process_read(pid_t pid, struct process *out, struct err *e);

/* The same from below another directory than /proc. */
int process_read_at(const char *proc, pid_t pid, struct process *out, struct err *e);

/* The file /proc/PID/`name`, cut to size - 1 bytes and ended with a NUL. Its length or -errno, and
 * then "". */
ssize_t process_file(pid_t pid, const char *name, char *out, size_t size);

/* The number in the file `proc`/sys/`name` ("kernel/perf_event_paranoid"; `proc` is "/proc").
 * False, and *out as it was: there is none. */
bool process_setting(const char *proc, const char *name, long *out);

/* The number on the line "`name`: NUMBER" of such a file. False: there is none. */
bool process_number(const char *text, const char *name, uint64_t *out);

/* Read the text of a status file (NUL-terminated); what is not in it is 0 or unknown. */
void process_parse_status(const char *text, struct process_status *out);

/* The threads of `pid` that are there at this moment, from malloc. Returns their number, 0 when it
 * has ended, or -errno. */
ssize_t process_threads(pid_t pid, pid_t **out);

/* Set `e` for a failure `code` (negative errno) to do `what` ("attach to", "read the memory of")
 * with process `pid`: no such process, somebody else's, a zombie. Returns `code`. */
int process_error(pid_t pid, int code, const char *what, struct err *e);

/* The same for a ptrace(PTRACE_SEIZE) that failed: names who traces it already. */
int process_seize_error(pid_t pid, int code, struct err *e);

/* A shadow stack (Intel CET) must hold what calls put on the stack: neither emulating them nor a
 * frame that was written from outside does that. */
bool process_has_shadow_stack(pid_t pid);

/* 0 when the process is there and could be traced by this user as far as /proc tells; else -ESRCH,
 * -EPERM with the reason. */
int process_check(pid_t pid, struct err *e);

/* The command line with blanks between its words, cut to size. Returns out ("?" when it cannot be
 * read). */
const char *process_cmdline(pid_t pid, char *out, size_t size);

/* Whether the process still runs: it does while any of its threads does; zombies do not. */
bool process_alive(pid_t pid);

/* R S D T t Z X I (proc_pid_stat(5)); 0: there is no such thread (any more). */
char process_thread_state(pid_t pid, pid_t tid);

/* Whether the two run in the same memory: threads, and a child of vfork(2) with its parent, which
 * waits until it has become another program. */
bool process_shares_memory(pid_t a, pid_t b);

/* The name of user `uid`, or its number, into out; returns out. */
const char *process_user(uid_t uid, char *out, size_t size);

/* What the kernel tells a program at its start (getauxval(3)). */

/* The value of `type` (AT_ENTRY, AT_BASE) of process `pid`, from /proc/PID/auxv; 0 when there is
 * none or it cannot be read. */
uint64_t auxv_read(pid_t pid, uint64_t type);

/* Capabilities of ditrace itself (capabilities(7)). */

/* Those that matter here; numbers of linux/capability.h. */
enum {
	CAPS_SYS_PTRACE = 19,
	CAPS_SYS_ADMIN = 21,
	CAPS_PERFMON = 38,
	CAPS_BPF = 39,
	CAPS_CHECKPOINT_RESTORE = 40,
};

/* The effective capabilities of ditrace as PROC/self/status has them (`proc` is "/proc" but in
 * tests), one bit each; 0 when they cannot be read. */
uint64_t caps_effective(const char *proc);

/* Whether `mask` gives the right that goes with `cap`. CAP_SYS_ADMIN includes CAP_BPF, CAP_PERFMON
 * and CAP_CHECKPOINT_RESTORE (include/linux/capability.h: bpf_capable, perfmon_capable,
 * checkpoint_restore_ns_capable). */
bool caps_has(uint64_t mask, int cap);

/* "CAP_BPF, CAP_PERFMON": those of the n in `caps` that `mask` lacks; "" when it lacks none.
 * Returns out. */
const char *caps_missing(uint64_t mask, const int *caps, size_t n, char *out, size_t size);

#endif
