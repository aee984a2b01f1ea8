/* Unwinding one frame of a function without unwind tables, as hand-written kernels of numeric
 * libraries have none, by dataflow analysis of its code. */
#ifndef SYMBOLIZER_NATIVE_FRAME_STEP_H
#define SYMBOLIZER_NATIVE_FRAME_STEP_H

#include <stddef.h>
#include <stdint.h>

#include "symbolizer/code/cfg.h"
#include "symbolizer/target/mem.h"

struct frame_step_code {
	const uint8_t *code; /* the whole function, `len` bytes at address `vaddr` */
	size_t len;
	uint64_t vaddr;
	const struct mem *mem;		 /* of the process, for jump tables */
	const struct cfg_reader *reader; /* used instead of `mem` if not NULL */
};

/* Turn the registers `regs` (ARCH_REGS of them, by enum arch_reg) of a frame at address `pc` of the
 * function into those of its caller; the new instruction pointer is the return address. *known: bit
 * n is set if register n is known, on entry and on return. `stack` reads the thread's stack.
 *
 * Register dataflow along all paths from the function's start to `pc` (symbolizer/code/dataflow.h)
 * gives the distance to the stack pointer at the entry and where registers are saved. 0, -ENOTSUP
 * when the code does not determine it, -EFAULT when the stack cannot be read, -ENOMEM. */
int frame_step(const struct frame_step_code *f, const struct mem *stack, uint64_t pc,
	       uint64_t *regs, uint32_t *known);

/* The same in two steps, for a function that is unwound repeatedly. */
struct frame_code;

/* Analyse the function. 0 and *out (free with frame_code_free), -ENOTSUP or -ENOMEM. What `f`
 * points to is borrowed and must outlive it. */
int frame_code_new(const struct frame_step_code *f, struct frame_code **out);
int frame_code_step(struct frame_code *c, const struct mem *stack, uint64_t pc, uint64_t *regs,
		    uint32_t *known);
enum { FRAME_STACK_ARGS = 26 };

/* The arguments of a call, as far as its frame still holds them. */
struct frame_args {
	uint64_t sp; /* stack pointer at the entry */
	uint64_t reg[ARCH_INT_ARGS];
	uint64_t stack[FRAME_STACK_ARGS]; /* words of the stack argument area, from sp + 8 */
	uint32_t known, stack_known;	  /* bit n: reg[n] or stack[n] is valid */
};

/* The integer arguments of the frame at `pc` (for a caller, an address within the call instruction)
 * with registers `regs`; bit n of `known`: register n is known. Only arguments that a register, or
 * a slot that nothing else can have written, holds on every path from the entry. 0 or -ENOTSUP. */
int frame_code_args(struct frame_code *c, const struct mem *stack, uint64_t pc,
		    const uint64_t *regs, uint32_t known, struct frame_args *out);

void frame_code_free(struct frame_code *c); /* NULL allowed */

#endif
