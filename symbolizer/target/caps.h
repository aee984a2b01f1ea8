/* Capabilities of ditrace itself (capabilities(7)). */
#ifndef SYMBOLIZER_TARGET_CAPS_H
#define SYMBOLIZER_TARGET_CAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
