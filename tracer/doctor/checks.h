/* Checks of what ditrace needs from the machine and from a target, each with its result and its
 * remedy. */
#ifndef TRACER_DOCTOR_CHECKS_H
#define TRACER_DOCTOR_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* selftest.c: whether the kernel provides what ditrace needs, tried on ditrace itself. */

struct bpf_selftest {
	int load;	       /* 0, or -errno of creating the map and loading the program */
	int link;	       /* 0, or -errno of creating a uprobe_multi link filtered by PID */
	uint64_t first, other; /* hits counted of one call by the first thread, one by another */
};

/* Probe a function of ditrace with a counting program, and call it. Linux 6.6 to 6.9 filter by
 * thread instead of process, and then `other` is 0. */
void selftest_bpf(struct bpf_selftest *out);

/* 0, or -errno of opening, on ditrace itself, the perf event that follow.h uses. */
int selftest_perf(void);

/* 0, or -errno of pidfd_open(2), by which follow.h learns that a process has ended. */
int selftest_pidfd(void);

/* 0, or -errno of what the engine ptrace does with a process, tried on a child. */
int selftest_ptrace(void);

enum check_status {
	CHECK_OK,
	CHECK_WARN, /* tracing works, with the restriction in the text */
	CHECK_FAIL, /* tracing does not work */
};

struct check {
	enum check_status status;
	char *text;  /* one line */
	char *fix;   /* the remedy, a command if possible; "": none */
	bool of_bpf; /* it concerns only the engine bpf */
};

/* Zero-initialise; free with checks_free. */
struct checks {
	struct check *list;
	size_t n, room;
	bool failed; /* a check did, or memory ran out */
	bool of_bpf; /* checks added now concern only the engine bpf */
};

/* Append; `text` and `fix` are copied. */
void checks_add(struct checks *c, enum check_status status, const char *text, const char *fix);

/* The same with a text to format. */
void checks_addf(struct checks *c, enum check_status status, const char *fix, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The engine bpf is not needed: downgrade its failures to warnings. */
void checks_spare_bpf(struct checks *c);

void checks_free(struct checks *c);

/* Input of the checks. */
struct check_env {
	const char *proc, *sys; /* "/proc" and "/sys", except in tests */
	struct bpf_selftest bpf;
	int perf;	  /* of selftest_perf */
	int pidfd;	  /* of selftest_pidfd */
	int ptrace;	  /* of selftest_ptrace */
	struct err files; /* of target_files_check */
	bool ptrace_only; /* the engine bpf does not work here */
	bool attach;	  /* the target runs already; false: not known */
};

/* Set it to that of this machine, and run the self-tests. */
void check_env_init(struct check_env *env);

/* One fact each. A check of something that the kernel lacks (Yama, lockdown) adds nothing. */
void check_kernel(const struct check_env *env, struct checks *c);
void check_capabilities(const struct check_env *env, struct checks *c);
void check_probes(const struct check_env *env, struct checks *c);
void check_perf_events(const struct check_env *env, struct checks *c);
void check_pidfd(const struct check_env *env, struct checks *c);
void check_files(const struct check_env *env, struct checks *c);
void check_yama(const struct check_env *env, struct checks *c);
void check_seccomp(const struct check_env *env, struct checks *c);
void check_container(const struct check_env *env, struct checks *c);
void check_lockdown(const struct check_env *env, struct checks *c);
void check_hidepid(const struct check_env *env, struct checks *c);
void check_ptrace(const struct check_env *env, struct checks *c);

/* All of the above. */
void checks_machine(const struct check_env *env, struct checks *c);

/* Check process `pid`: whether it exists and may be traced, its namespaces, its PyTorch and whether
 * that file can be opened. False when no further checks make sense. */
bool checks_process(const struct check_env *env, pid_t pid, struct checks *c);

#endif
