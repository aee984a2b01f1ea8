/* The C++ callers of ops: from return addresses to the frames of the program's own code, with file,
 * line and function; and the rows by which stacks are walked inside the process
 * (symbolizer/plan/unwind.h). */
#ifndef SYMBOLIZER_NATIVE_NATIVE_CALLERS_H
#define SYMBOLIZER_NATIVE_NATIVE_CALLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "symbolizer/event/event.h"
#include "symbolizer/plan/unwind.h"

struct native_callers;

/* Of process `pid`; its files are opened when they are met. The code from `engine` to `engine_end`
 * runs the backward (torch::autograd::Engine::thread_main); 0: not known. NULL when out of memory.
 */
struct native_callers *native_callers_new(pid_t pid, uint64_t engine, uint64_t engine_end);
/* Learn which files are mapped now: of a process that may end before its first stack comes. */
void native_callers_open(struct native_callers *c);

void native_callers_free(struct native_callers *c); /* NULL allowed */

/* A native stack as a hit has it. */
struct native_raw {
	const uint64_t *pcs; /* return addresses, innermost first */
	uint32_t n;
	bool missed, cut;     /* NATIVE_MISSED, NATIVE_CUT */
	bool to_python;	      /* NATIVE_TO_PYTHON */
	const uint8_t *slice; /* the payload of ITEM_SLICE, of `len` bytes; NULL: none */
	uint32_t len;
};

/* Make the rows that the stack lacked, as far as the slice goes. Call it while the process is
 * alive. */
void native_callers_learn(struct native_callers *c, const struct native_raw *raw);

/* The stack as the program's own frames: those of PyTorch and of the C and C++ runtimes are left
 * out, inlined functions are frames of their own, a function without debug information has
 * "name+0x1f", or its address, its library and line 0. *own: how many of them are inside the
 * function that runs the backward; 0: that is not on the stack. Equal stacks are the same object,
 * as long as `c`. NULL: no frame is the program's, or no memory. */
const struct py_stack *native_callers_stack(struct native_callers *c, const struct native_raw *raw,
					    uint32_t *own);

/* The rows made so far, pairs of return address and rule; *n of them. They are only ever added. */
struct native_row {
	uint64_t pc;
	struct unwind_rule rule;
};
const struct native_row *native_callers_rows(const struct native_callers *c, size_t *n);

#endif
