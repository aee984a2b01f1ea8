/* The registers in a sample of perf_event_open(2). */
#ifndef TRACER_SAMPLE_PERF_REGS_X86_64_H
#define TRACER_SAMPLE_PERF_REGS_X86_64_H

#include <stddef.h>
#include <stdint.h>

enum { PERF_REGS = 20 };

/* For perf_event_attr.sample_regs_user: all that struct pt_regs has of 64-bit code. */
extern const uint64_t perf_regs_mask;

/* The abi of a sample of such code (PERF_SAMPLE_REGS_ABI_64, linux/perf_event.h). */
enum { PERF_REGS_ABI = 2 };

/* From the PERF_REGS words of a sample to ARCH_REGS words by enum arch_reg. */
void perf_regs_take(const uint64_t *words, uint64_t *regs);

#endif
