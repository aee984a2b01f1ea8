/* A call computed with copies of its tensors in place of these: what --fallback (modes_fallback.h)
 * and --cast (modes_cast.h) share. */
#ifndef TRACER_SHIM_EXTENSION_MODES_COPIES_H
#define TRACER_SHIM_EXTENSION_MODES_COPIES_H

#include "tracer/shim/extension/modes_substitutes.h"

/* Zero-initialised; copies_drop frees. */
struct copies {
	object *plan, *call, *args, *kwargs, *at; /* the program's call; borrowed */
	struct tensors tensors;			  /* of its arguments */
	struct stand stand;
	object *new_args, *new_kwargs, *result; /* ours */
};

/* Take what is needed from the names of modes/, after modes_change_ready. False: one is missing. */
bool modes_copies_ready(void);

/* Of (plan, call, args, kwargs, at). False: there is an error, or the function is none that
 * `feature` is for. */
bool copies_take(struct copies *c, object *args, object *feature);

/* Replace the arguments by what c->stand makes of them, and call with these. False: an error. */
bool copies_make(struct copies *c);
bool copies_call(struct copies *c);

/* The dtype of a result that follows the program's arguments, or those that they were replaced by:
 * promoted() of modes/. A new reference; NULL with an error. */
object *copies_promoted(const struct copies *c, bool of_new);

/* Have function(plan, at, rows, given, result) of modes/ tell of the call; what it raises is
 * forgotten. */
void copies_tell(const struct copies *c, object *function, object *rows, object *given);

/* The replaced arguments and the result alone, and all. */
void copies_forget(struct copies *c);
void copies_drop(struct copies *c);

/* tensor.to(dtype), and whether it is on the CPU, or of a dtype. */
object *copies_to(object *tensor, object *dtype);
bool copies_is_on_cpu(object *tensor);
bool copies_is_dtype(object *tensor, object *dtype);

#endif
