/* What the operators that threads are in at this moment were called with: read from the frames of
 * at::_ops::NAME::call on their stacks, as far as these still tell. */
#ifndef TRACER_STACK_OP_ARGS_H
#define TRACER_STACK_OP_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "symbolizer/event/event.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/target/maps.h"

struct op_args;

/* Get ready for process `pid`, which has mapped what `maps` says; takes a fraction of a second. 0
 * and *out (free with op_args_close), or -errno with *e: it has no libtorch, or one that cannot be
 * understood. */
int op_args_open(pid_t pid, const struct maps *maps, struct op_args **out, struct err *e);
void op_args_close(struct op_args *a); /* NULL allowed */

/* One call, as it was caught. */
struct op_caught;

/* While thread t->tid stands still: the innermost call of an operator on its stack, which t->mem
 * reads, with what its arguments point to. From `arena`; NULL: there is none, its frame does not
 * tell, or no memory. */
struct op_caught *op_args_catch(struct op_args *a, struct native_stacks *stacks,
				const struct native_thread *t, struct arena *arena);

/* Learn from it how the tensors of this process are laid out: all that were caught, before the
 * first is decoded. */
void op_args_learn(struct op_args *a, const struct op_caught *c);

struct op_call {
	const char *op; /* "aten::mm"; NULL: none */
	/* Of its arguments the names and the values, those that are not known
	 * VALUE_NOT_DECODED. */
	const char **names;
	const struct value *args;
	unsigned nargs;
};

/* All of it from `arena`, but for static strings. */
struct op_call op_args_decode(struct op_args *a, const struct op_caught *c, struct arena *arena);

#endif
