/* The arguments of an operator's call as Python would pass them to the function of its name. */
#ifndef REPLAY_CAPTURE_CALL_ARGS_H
#define REPLAY_CAPTURE_CALL_ARGS_H

#include "base/arena.h"
#include "replay/capture/pth.h"

struct call_args {
	unsigned nargs;			  /* the first so many of the event are positional */
	const struct pth_keyword *kwargs; /* in the arena */
	unsigned nkwargs;
};

/* Sort the arguments of `ev` by the schema: keyword-only ones are keywords. Left out, as a program
 * leaves them out, are keywords that have their default and the last positional ones that have
 * theirs: the dispatcher's operator takes more arguments than the Python function (aten::layer_norm
 * has cudnn_enable), and those have their default then. An operator without a schema has positional
 * arguments only. Returns 0 or -ENOMEM. */
int call_args_sort(const struct op_event *ev, struct arena *a, struct call_args *out);

/* The arguments that the operator writes to, by their names, in the arena; none for one without a
 * schema. Returns 0 or -ENOMEM. */
int call_args_written(const struct op_event *ev, struct arena *a, const struct pth_keyword **out,
		      unsigned *n);

#endif
