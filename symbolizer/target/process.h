/* The memory of a process, facts about processes, capabilities, and user-level errors about a
 * process. */
#ifndef SYMBOLIZER_TARGET_PROCESS_H
#define SYMBOLIZER_TARGET_PROCESS_H

#include <elf.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Access to the target's memory through an abstract reader: a live process, or a buffer in a test.
 */

/* A reader of target memory. `read` copies `len` bytes at target address `addr` to `buf`; returns
 * 0, or -errno (-EFAULT when any byte of the range is not readable, -ESRCH when the process is
 * gone). */
struct mem {
	int (*read)(const struct mem *m, uint64_t addr, void *buf, size_t len);
	pid_t pid; /* for mem_process */
};

/* A reader of the live process `pid` by process_vm_readv(2); needs ptrace access rights to it. */
struct mem mem_process(pid_t pid);

static inline int mem_read(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	return m->read(m, addr, buf, len);
}

/* A reader of `len` bytes that were copied from `start`, by their address in the target, and of
 * nothing else: mem.read is mem_copy_read. */
struct mem_copy {
	struct mem mem; /* first */
	uint64_t start;
	size_t len;
	const uint8_t *bytes;
};

int mem_copy_read(const struct mem *m, uint64_t addr, void *buf, size_t len);

/* Read one 8-byte word. 0 or -errno. */
int mem_read_u64(const struct mem *m, uint64_t addr, uint64_t *out);

/* Read `n` 8-byte words at the addresses `addrs` in few system calls. 0, or -errno when one cannot
 * be read. */
int mem_read_words(const struct mem *m, const uint64_t *addrs, uint64_t *out, size_t n);

/* Read a NUL-terminated string of at most size - 1 bytes into out, truncated when longer; always
 * NUL-terminated on success. Returns its length or -errno. */
ssize_t mem_read_str(const struct mem *m, uint64_t addr, char *out, size_t size);

/* Strings of libstdc++ in the target's memory. */

/* sizeof(std::string). C++11 ABI: {char *, size_t, 16 bytes: the text itself or its capacity}
 * (bits/basic_string.h). The older ABI, `cow` (bits/cow_string.h): {char *}, with {size_t length,
 * capacity; int refcount - 1} before the text; used by PyTorch's Linux wheels on PyPI up to 2.5. */
static inline unsigned std_string_size(bool cow)
{
	return cow ? 8 : 32;
}

/* Copy the std::string at `addr` to out, NUL-terminated. Returns its length; -1 when there is none,
 * it is not printable, or it has `size` bytes or more. */
int std_string_read(const struct mem *m, bool cow, uint64_t addr, char *out, size_t size);

/* The relevant lines of /proc/PID/status (proc_pid_status(5)). */
struct process_status {
	char state; /* R S D T t Z X I; 0: unknown */
	pid_t tgid, ppid;
	pid_t tracer;	    /* 0: not traced */
	pid_t ns_pid;	    /* in its innermost PID namespace */
	unsigned ns_levels; /* nesting of its PID namespace, 1: ours; 0: unknown */
	uid_t uid;
	unsigned threads;
	uint64_t caps; /* effective; bit n: capability n of linux/capability.h */
	unsigned seccomp, seccomp_filters; /* mode; number of filters (0 before Linux 5.9) */
};

struct process {
	pid_t pid; /* the process, also when read by a thread's ID */
	struct process_status status;
	uint64_t start_ticks; /* start time, clock ticks since boot; with pid, an identity */
	char comm[32];
	char exe[4096];			 /* the target's path; "" when it cannot be read */
	bool ns_known;			 /* the two below are valid */
	bool other_mnt_ns, other_pid_ns; /* differs from ditrace's own */
};

/* Parse a process ID typed by the user. 0, or -EINVAL with *e. */
int process_parse_pid(const char *word, pid_t *pid, struct err *e);

/* Read the facts of process (or thread) `pid` from /proc. 0; -ESRCH with *e when it does not exist
 * or has ended. Facts readable only by its owner are left empty. */
int process_read(pid_t pid, struct process *out, struct err *e);

/* The same, with `proc` in place of /proc; does not check for zombies. */
int process_read_at(const char *proc, pid_t pid, struct process *out, struct err *e);

/* Read /proc/PID/`name` into out, truncated to size - 1 bytes and NUL-terminated. Its length, or
 * -errno with out "". */
ssize_t process_file(pid_t pid, const char *name, char *out, size_t size);

/* Read the number in the file `proc`/sys/`name` ("kernel/perf_event_paranoid"; `proc` is "/proc").
 * False, with *out unchanged, if there is none. */
bool process_setting(const char *proc, const char *name, long *out);

/* What follows "`name`:" and blanks on a line of a /proc file's text, up to the end of the text;
 * NULL if there is no such line. */
const char *process_line(const char *text, const char *name);

/* The IDs on the line `name` ("Uid", "Gid") of a status file's text: real, effective, saved, of
 * file system access (proc_pid_status(5)). False, with *ids unchanged, if there are not four. */
bool process_ids(const char *text, const char *name, uint32_t ids[4]);

/* Parse the number on the line "`name`: NUMBER" of a /proc file's text. False if there is none. */
bool process_number(const char *text, const char *name, uint64_t *out);

/* Parse the NUL-terminated text of a status file; missing facts are 0 or unknown. */
void process_parse_status(const char *text, struct process_status *out);

/* The current threads of `pid`; *out is from malloc. Returns their number, 0 when the process has
 * ended, or -errno. */
ssize_t process_threads(pid_t pid, pid_t **out);

/* Set `e` for a failure `code` (negative errno) to do `what` ("attach to", "read the memory of")
 * with process `pid`: no such process, another user's, a zombie. Returns the code, -ESRCH for a
 * process that has ended. */
int process_error(pid_t pid, int code, const char *what, struct err *e);

/* The same for a failed ptrace(PTRACE_SEIZE); names an existing tracer (-EBUSY). */
int process_seize_error(pid_t pid, int code, struct err *e);

/* Whether the process has a shadow stack (Intel CET). It must match the return addresses on the
 * stack, which neither emulated calls nor frames written from outside maintain. */
bool process_has_shadow_stack(pid_t pid);

/* 0 when the process exists and /proc shows no obstacle to tracing it as this user; else -ESRCH or
 * -EPERM with *e. */
int process_check(pid_t pid, struct err *e);

/* The command line, words separated by blanks, truncated to size. Returns out ("?" when it cannot
 * be read). */
const char *process_cmdline(pid_t pid, char *out, size_t size);

/* Whether any thread of the process is alive; zombies are not. */
bool process_alive(pid_t pid);

/* What the process has started and not waited for (/proc/PID/task/TID/children, of
 * CONFIG_PROC_CHILDREN), in malloc'ed *out; one that starts or ends meanwhile may be missing. How
 * many, or -ENOMEM. */
ssize_t process_children(pid_t pid, pid_t **out);

/* State of a thread: R S D T t Z X I (proc_pid_stat(5)); 0 if there is no such thread. */
char process_thread_state(pid_t pid, pid_t tid);

/* Whether there is no such thread any more, or a zombie; ptrace(2) refuses one with EPERM. */
bool process_thread_ended(pid_t pid, pid_t tid);

/* Whether the two tasks share an address space: threads, or a vfork(2) child that has not called
 * execve yet, and its parent. */
bool process_shares_memory(pid_t a, pid_t b);

/* Whether process `pid` maps a libtorch (libraries.c). */
bool process_has_torch(pid_t pid);

/* Whether it maps everything that tracing needs: libtorch and the libraries it is linked to. */
bool process_has_all_torch(pid_t pid);

/* The name of user `uid`, else its number, into out; returns out. */
const char *process_user(uid_t uid, char *out, size_t size);

/* The auxiliary vector (getauxval(3)). */

/* The value of `type` (AT_ENTRY, AT_BASE) in /proc/PID/auxv; 0 when there is none or it cannot be
 * read. */
uint64_t auxv_read(pid_t pid, uint64_t type);

/* Capabilities of ditrace itself (capabilities(7)). */

/* The relevant ones, as numbered in linux/capability.h. */
enum {
	CAPS_SYS_PTRACE = 19,
	CAPS_SYS_ADMIN = 21,
	CAPS_PERFMON = 38,
	CAPS_BPF = 39,
	CAPS_CHECKPOINT_RESTORE = 40,
};

/* ditrace's effective capabilities from PROC/self/status (`proc` is "/proc" except in tests), one
 * bit each; 0 when they cannot be read. */
uint64_t caps_effective(const char *proc);

/* Whether `mask` grants `cap`. CAP_SYS_ADMIN includes CAP_BPF, CAP_PERFMON and
 * CAP_CHECKPOINT_RESTORE (include/linux/capability.h: bpf_capable, perfmon_capable,
 * checkpoint_restore_ns_capable). */
bool caps_has(uint64_t mask, int cap);

/* The names of those of the `n` capabilities `caps` that `mask` lacks, "CAP_BPF, CAP_PERFMON"; ""
 * if none. Returns out. */
const char *caps_missing(uint64_t mask, const int *caps, size_t n, char *out, size_t size);

/* Which part of a training on many processes a process is. */

/* Numbers are -1 where they are not known. */
struct process_rank {
	int32_t rank, world_size; /* both are known, or neither is */
	int32_t local_rank;	  /* among the ranks of its host */
	int32_t node;		  /* of its launcher among the launchers */
	int32_t restarts;	  /* of all ranks by the launcher before this one started */
	char host[64];		  /* "": not known */
};

/* Read it from the environment that process `pid` was started with: RANK, WORLD_SIZE, LOCAL_RANK,
 * GROUP_RANK, TORCHELASTIC_RESTART_COUNT (torch/distributed/elastic/agent/server/
 * local_elastic_agent.py, _start_workers, 1.13 to 2.13); without these, what mpirun of Open MPI, of
 * MPICH and Intel MPI, and srun set. What the program has put into its environment since is not
 * seen. */
void process_rank_read(pid_t pid, struct process_rank *out);

/* The same from `size` bytes of NUL-terminated NAME=VALUE; host is left empty. */
void process_rank_parse(const char *environ, size_t size, struct process_rank *out);

/* What inherits the environment of a rank, or sets it, is not that rank. */
enum rank_role {
	RANK_NONE,     /* its environment has no rank */
	RANK_OWN,      /* for all that is seen */
	RANK_WORKER,   /* of a rank above it: a worker of a DataLoader, a compiler */
	RANK_LAUNCHER, /* of ranks, or a shell around one: the rank of srun, of a node */
};

/* The role of process `pid` at this moment, with what process_rank_read says of it: a launcher is
 * known by what it has started. Reads a few files of the processes above and below. */
enum rank_role process_rank_role(pid_t pid, const struct process_rank *rank);

/* Processes in a frozen control group (cgroups(7)), which no signal reaches and of which no thread
 * can be stopped. */

/* Who froze it: the file of the group that is frozen, its own or one above, and the word that thaws
 * it: cgroup.freeze and "0" (Documentation/admin-guide/cgroup-v2.rst), freezer.state and "THAWED"
 * (cgroup-v1/freezer-subsystem.rst). */
struct frozen {
	char file[PATH_MAX];
	const char *word;
};

/* Whether the process is in a frozen group, as far as the groups can be seen here. */
bool frozen_find(pid_t pid, struct frozen *out);

/* "process PID is frozen", what that means for `what` ("it is traced when it is thawed"), and how
 * to thaw it. Returns -EAGAIN. */
int frozen_error(pid_t pid, const struct frozen *f, const char *what, struct err *e);

#endif
