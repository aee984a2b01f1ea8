/* The native stack of a thread that stands still, by libdw. */
#ifndef TRACER_NATIVE_STACK_H
#define TRACER_NATIVE_STACK_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"
#include "tracer/mem.h"

/* Print up to `most` frames of thread `tid` of process `pid`, innermost first, a line each with
 * `indent` before it: the function's name and its library, or the address where there is no symbol.
 * `regs` are its registers by enum arch_reg (ARCH_REGS of them), `mem` its memory. The unwinding
 * tables and symbols are those of the process's own files; nothing is fetched from elsewhere. Where
 * the tables end, so do the frames. Returns how many there were, or -errno with *e. */
int native_stack_print(FILE *f, const char *indent, pid_t pid, pid_t tid, const uint64_t *regs,
		       const struct mem *mem, unsigned most, struct err *e);

#endif
