/* Tensors that stand for those of one call. */
#ifndef TRACER_SHIM_EXTENSION_MODES_SUBSTITUTES_H
#define TRACER_SHIM_EXTENSION_MODES_SUBSTITUTES_H

#include "tracer/shim/extension/modes_pytree.h"

struct stand_pair {
	object *x;    /* the program's; borrowed from the call */
	object *copy; /* ours */
	long version; /* of the copy when it was made; STAND_UNVERSIONED */
};
enum { STAND_UNVERSIONED = -1 };

/* Zero-initialised but for `made` and its context. */
struct stand {
	struct stand_pair *pairs;
	size_t n, room;
	/* A copy of a tensor, a new reference; NULL without an error: it stands for itself. */
	object *(*made)(object *tensor, void *context);
	/* The same of any other leaf, never NULL without an error; may be NULL: all are kept. */
	object *(*other)(object *leaf, void *context);
	void *context;
};

/* Once, after modes_change_ready. False: a name of modes/ is missing. */
bool stand_ready(void);

/* The nest with all tensors replaced; each is copied once. NULL: Python's error is set. */
object *stand_for(struct stand *s, object *nest);

/* The program's tensor that a copy stands for; borrowed, or NULL. */
object *stand_original(const struct stand *s, object *copy);

/* What a result must be to be given to the program. False: Unchanged is raised, as it shows the
 * memory of a copy. */
bool stand_check(const struct stand *s, object *result);

/* Write what the call has changed into the program's tensors, all or nothing. False: Unchanged, or
 * what that has raised. */
bool stand_write_back(const struct stand *s, object *plan, object *args, object *kwargs);

void stand_drop(struct stand *s);

#endif
