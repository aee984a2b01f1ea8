/* What ditrace needs of the machine and of a target, each as a check with its result and its
 * remedy. */
#ifndef TRACER_DOCTOR_CHECKS_H
#define TRACER_DOCTOR_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Trying on ditrace itself what it needs of the kernel: the only way to know. */

struct bpf_selftest {
	int load;	       /* 0, or -errno of making the map and loading the program */
	int link;	       /* 0, or -errno of making a uprobe_multi link filtered by our PID */
	uint64_t first, other; /* hits seen of the one call made by the first thread, by another */
};

/* Probe a function of ditrace with a counting program, and call it. Linux 6.6 to 6.9 filter by
 * thread where they should by process, and then `other` is 0. */
void selftest_bpf(struct bpf_selftest *out);

/* 0, or -errno of opening the perf event that follow.h uses, on ditrace itself. */
int selftest_perf(void);

/* 0, or -errno of what the engine ptrace does with a process, tried on a child of our own. */
int selftest_ptrace(void);

enum check_status {
	CHECK_OK,
	CHECK_WARN, /* tracing works, with the restriction that the text names */
	CHECK_FAIL, /* tracing will not work */
};

struct check {
	enum check_status status;
	char *text;  /* one line */
	char *fix;   /* what to do about it, a command where there is one; "" for none */
	bool of_bpf; /* it concerns the engine bpf alone */
};

/* Zero-initialise; free with checks_free. */
struct checks {
	struct check *list;
	size_t n, room;
	bool failed; /* one of them did, or memory ran out */
	bool of_bpf; /* what is added now concerns the engine bpf alone */
};

/* Append; `text` and `fix` are copied. */
void checks_add(struct checks *c, enum check_status status, const char *text, const char *fix);

/* The same with a text to format. */
void checks_addf(struct checks *c, enum check_status status, const char *fix, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The engine bpf is not needed: what it lacks is no failure, but a warning. */
void checks_spare_bpf(struct checks *c);

void checks_free(struct checks *c);

/* Where the checks look. */
struct check_env {
	const char *proc, *sys; /* "/proc", "/sys" but in tests */
	struct bpf_selftest bpf;
	int perf;	  /* of selftest_perf */
	int ptrace;	  /* of selftest_ptrace */
	bool ptrace_only; /* the engine bpf does not work here */
	bool attach;	  /* to a process that runs; false: it is not known whether */
};

/* The machine's own, with the self-tests run. */
void check_env_init(struct check_env *env);

/* One fact each; a check of something that the kernel lacks (Yama, lockdown) adds nothing. */
void check_kernel(const struct check_env *env, struct checks *c);
void check_capabilities(const struct check_env *env, struct checks *c);
void check_probes(const struct check_env *env, struct checks *c);
void check_perf_events(const struct check_env *env, struct checks *c);
void check_yama(const struct check_env *env, struct checks *c);
void check_seccomp(const struct check_env *env, struct checks *c);
void check_container(const struct check_env *env, struct checks *c);
void check_lockdown(const struct check_env *env, struct checks *c);
void check_hidepid(const struct check_env *env, struct checks *c);
void check_ptrace(const struct check_env *env, struct checks *c);

/* All of the above. */
void checks_machine(const struct check_env *env, struct checks *c);

/* Process `pid`: whether it is there, may be traced, its namespaces, its PyTorch and whether the
 * files of that can be opened. False when nothing more can be said of it. */
bool checks_process(const struct check_env *env, pid_t pid, struct checks *c);

#endif
