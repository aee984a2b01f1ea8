/* Trying on ditrace itself what it needs of the kernel: the only way to know. */
#ifndef TRACER_DOCTOR_SELFTEST_H
#define TRACER_DOCTOR_SELFTEST_H

#include <stdint.h>

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

#endif
