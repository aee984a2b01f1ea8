/* One step up a stack from a function that has no unwinding table, as hand-written kernels of
 * numeric libraries: by its code. */
#ifndef SYMBOLIZER_NATIVE_FRAME_STEP_H
#define SYMBOLIZER_NATIVE_FRAME_STEP_H

#include <stddef.h>
#include <stdint.h>

#include "symbolizer/code/cfg.h"
#include "symbolizer/target/mem.h"

struct frame_step_code {
	const uint8_t *code; /* the whole function, `len` bytes that begin at address `vaddr` */
	size_t len;
	uint64_t vaddr;
	const struct mem *mem;		 /* of the process, for jump tables */
	const struct cfg_reader *reader; /* where not NULL, asked instead */
};

/* `regs` (ARCH_REGS, by enum arch_reg) of a thread, or of a caller on its stack, that is at address
 * `pc` of the function become those of the function's caller: its instruction pointer is the return
 * address. *known has bit 1 << r for each register whose value is known, and comes back so. `stack`
 * reads the thread's stack.
 *
 * The code is followed along all paths from the function's start to `pc`
 * (symbolizer/code/dataflow.h): that tells how far the stack pointer is from where it was
 * at the entry, and where registers were saved. 0, -ENOTSUP when the code does not tell, -EFAULT
 * when the stack cannot be read, -ENOMEM.
 */
int frame_step(const struct frame_step_code *f, const struct mem *stack, uint64_t pc,
	       uint64_t *regs, uint32_t *known);

/* The same in two parts, for a function that is stepped from again and again. */
struct frame_code;

/* Look at the function. 0 and *out (free with frame_code_free), -ENOTSUP or -ENOMEM. What `f`
 * points to must outlive it. */
int frame_code_new(const struct frame_step_code *f, struct frame_code **out);
int frame_code_step(struct frame_code *c, const struct mem *stack, uint64_t pc, uint64_t *regs,
		    uint32_t *known);
enum { FRAME_STACK_ARGS = 26 };

/* What a function was called with, as far as its frame still tells. */
struct frame_args {
	uint64_t sp; /* stack pointer at the entry */
	uint64_t reg[ARCH_INT_ARGS];
	uint64_t stack[FRAME_STACK_ARGS]; /* words of the caller's argument area, from sp + 8 */
	uint32_t known, stack_known;	  /* bit n: of reg, of stack */
};

/* The integer arguments of the frame that stands at `pc` (of a caller, an address in the call) with
 * these registers, of which bit n of `known` says whether register n is: what a register or a place
 * in the frame that nothing else can have written holds on every path from the entry. 0 or
 * -ENOTSUP. */
int frame_code_args(struct frame_code *c, const struct mem *stack, uint64_t pc,
		    const uint64_t *regs, uint32_t known, struct frame_args *out);

void frame_code_free(struct frame_code *c); /* NULL allowed */

#endif
