/* Arguments and results of calls: nests of tensors, substitutes, numbers; and the features that
 * work on them. */
#ifndef TRACER_SHIM_EXTENSION_MODES_ARGS_H
#define TRACER_SHIM_EXTENSION_MODES_ARGS_H

#include <stdint.h>

#include "tracer/shim/extension/python.h"

/* modes_pytree.c: nests of tuples, lists and dicts, as calls take and return them. */

/* The tensors of a call in order, with repetitions; borrowed from the call. */
struct tensors {
	object **list;
	size_t n, room;
};

/* Fetch what is needed from modes/. False with Python's error set: a name is missing. */
bool nest_ready(void);

/* Whether it is a tensor, of any subclass. */
bool nest_is_tensor(object *o);

/* Call fn(leaf, context) for every leaf (borrowed) until one returns false. torch.Size is a leaf.
 * False: one did, or Python's error is set. */
bool nest_each(object *x, bool (*fn)(object *leaf, void *context), void *context);

/* Add the tensors of x to *out. False: no memory. Free with tensors_drop. */
bool nest_tensors(object *x, struct tensors *out);
void tensors_drop(struct tensors *t);

/* tensors_in(*nests), METH_VARARGS: a list. */
object *modes_tensors_in(object *self, object *nests);

/* Whether it consists only of tensors, numbers, strings and None, in tuples, lists and plain dicts.
 */
bool nest_is_known(object *x);

/* A nest of the same structure and types, with fn(leaf, context), a new reference, in place of
 * every leaf; a dict of a type other than dict and OrderedDict is a leaf. A new reference; NULL:
 * Python's error is set. */
object *nest_rebuilt(object *x, object *(*fn)(object *leaf, void *context), void *context);

/* modes_substitutes.c: tensors that stand in for those of one call. */

struct stand_pair {
	object *x;    /* the program's; borrowed from the call */
	object *copy; /* owned */
	long version; /* of the copy when it was made; or STAND_UNVERSIONED */
};
enum { STAND_UNVERSIONED = -1 };

/* Zero-initialise; set `made`, `other` and `context`. */
struct stand {
	struct stand_pair *pairs;
	size_t n, room;
	/* Makes a copy of a tensor, a new reference; NULL without an error: use the tensor itself.
	 */
	object *(*made)(object *tensor, void *context);
	/* The same for any other leaf, but NULL only with an error. May be NULL: all are kept. */
	object *(*other)(object *leaf, void *context);
	void *context;
};

/* The nest with all tensors replaced, each copied once. A new reference; NULL: Python's error is
 * set. */
object *stand_for(struct stand *s, object *nest);

/* The program's tensor that a copy stands for; borrowed, or NULL. */
object *stand_original(const struct stand *s, object *copy);

/* Whether a result may be returned to the program. False: Unchanged is raised, since it refers to
 * the memory of a copy. */
bool stand_check(const struct stand *s, object *result);

/* Write what the call has changed in the copies into the program's tensors, all or nothing. False:
 * Unchanged or another error is set. */
bool stand_write_back(const struct stand *s, object *plan, object *args, object *kwargs);

/* Drop the copies and free the table. */
void stand_drop(struct stand *s);

/* modes_substitutes.c: a call computed with copies in place of its tensors, for --fallback and
 * --cast.
 */

/* Zero-initialise; free with copies_drop. */
struct copies {
	object *plan, *call, *args, *kwargs, *at; /* the program's call; borrowed */
	struct tensors tensors;			  /* of its arguments */
	struct stand stand;
	object *new_args, *new_kwargs, *result; /* owned */
};

/* Fetch what is needed from modes/. False with Python's error set: a name is missing. */
bool modes_copies_ready(void);

/* Fill *c from the arguments (plan, call, args, kwargs, at). False: an error is set, Unchanged if
 * `feature` does not apply to the function. */
bool copies_take(struct copies *c, object *args, object *feature);

/* copies_make: replace the arguments by what c->stand makes of them. copies_call: call with these.
 * False: an error is set. */
bool copies_make(struct copies *c);
bool copies_call(struct copies *c);

/* The dtype of a result by promotion from the program's arguments, or (of_new) from the replaced
 * ones: promoted() of modes/. A new reference; NULL with an error. */
object *copies_promoted(const struct copies *c, bool of_new);

/* Have function(plan, at, rows, given, result) of modes/ report the call; ignores its errors. */
void copies_tell(const struct copies *c, object *function, object *rows, object *given);

/* copies_forget frees the replaced arguments and the result, copies_drop everything. */
void copies_forget(struct copies *c);
void copies_drop(struct copies *c);

/* tensor.to(dtype), a new reference; whether it is on the CPU; whether it has that dtype. */
object *copies_to(object *tensor, object *dtype);
bool copies_is_on_cpu(object *tensor);
bool copies_is_dtype(object *tensor, object *dtype);

/* modes_dedup.c: which calls a table has already; calls are the same if function, place, shapes,
 * dtypes, devices and plain values are. */

enum { SEEN_SLOTS = 8192 };

struct seen {
	uint64_t slots[SEEN_SLOTS];
	unsigned n;
};

/* Whether a call is new; one that looks new here is decided by is_new (class Seen of modes/).
 * Errors count as no. */
bool seen_is_new(struct seen *s, object *is_new, object *plan, object *at, object *args,
		 object *kwargs);

/* A hash of the types, shapes, dtypes, devices and plain values among a call's arguments. */
uint64_t seen_hash(object *args, object *kwargs);

/* Forget all calls. Call it first. */
void seen_forget(struct seen *s);

/* modes_dlpack.c: the elements of a Python tensor, by DLPack (dlpack.h, version 0, which
 * torch._C._to_dlpack provides in all versions). */

/* Elements in packed row-major order in memory of this process. */
struct numbers {
	object *tensor, *capsule; /* owners of the memory */
	const void *data;
	int dtype; /* c10::ScalarType */
	int ndim;
	const int64_t *shape;
	int64_t n;
};

/* Fetch what is needed from modes/. False with Python's error set: a name is missing. */
bool numbers_ready(void);

/* Whether a tensor has elements and no memory for them, so that to read them would end the program:
 * a ZeroTensor, which stands for zeros in gradients, or one whose storage was resized to nothing,
 * as FSDP does with parameters. */
bool numbers_lack_memory(object *tensor);

/* Fill *out from a tensor on any device, copying only one that is elsewhere or not packed. False:
 * Python's error is set. Free with numbers_drop. */
bool numbers_of(object *tensor, struct numbers *out);
void numbers_drop(struct numbers *n);

/* modes_cast.c: --cast, calls computed in another dtype with their results cast back. */

/* Fetch what is needed from modes/. False with Python's error set: a name is missing. */
bool modes_cast_ready(void);

/* cast(plan, call, args, kwargs, at) (METH_VARARGS): the result as the unchanged call would return
 * it; raises Unchanged where that is impossible. */
object *modes_cast(object *self, object *args);

/* modes_compare.c: --compare for calls that are right at first sight, as most are: the reference is
 * computed on float64 copies, compared, and only counted. All others go to compare_call() of
 * modes/. */

/* Fetch what is needed from modes/, and forget all lines. False, with Python's error set where that
 * is known: a name is missing. */
bool modes_compare_ready(void);

/* compare(plan, call, args, kwargs, at) (METH_VARARGS): returns what the call returns. */
object *modes_compare(object *self, object *args);

/* modes_fallback.c: --fallback, calls computed on the CPU with their results moved to the device.
 */

/* Fetch what is needed from modes/. False with Python's error set: a name is missing. */
bool modes_fallback_ready(void);

/* fallback(plan, call, args, kwargs, at) (METH_VARARGS): the result as the unchanged call would
 * return it; raises Unchanged where that is impossible. */
object *modes_fallback(object *self, object *args);

#endif
