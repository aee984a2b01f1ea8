/* What the files of this folder share. */
#ifndef TRACER_SHIM_EXTENSION_MODES_ARGS_H
#define TRACER_SHIM_EXTENSION_MODES_ARGS_H

#include <stdint.h>

#include "tracer/shim/extension/python.h"

/* Nests of tuples, lists and dicts, as calls are given and give them, and the tensors in them. */

/* Tensors of a call, in order, one that comes twice twice; borrowed from the call. */
struct tensors {
	object **list;
	size_t n, room;
};

/* torch.Tensor, torch.nn.Parameter, torch.Size and collections.OrderedDict; once. */
void nest_ready(object *tensor, object *parameter, object *size, object *ordered_dict);

/* Is it a tensor, of whatever subclass? */
bool nest_is_tensor(object *o);

/* fn(leaf, context) for every leaf, which is borrowed, until one returns false. torch.Size is a
 * leaf. False: one did, or Python's error is set. */
bool nest_each(object *x, bool (*fn)(object *leaf, void *context), void *context);

/* Add the tensors of x to *out. False: no memory. tensors_drop frees. */
bool nest_tensors(object *x, struct tensors *out);
void tensors_drop(struct tensors *t);

/* tensors_in(*nests), METH_VARARGS: a list. */
object *modes_tensors_in(object *self, object *nests);

/* Is it made of tensors, numbers, texts and None alone, in tuples, lists and plain dicts? */
bool nest_is_known(object *x);

/* The same nest, of the same types, with fn(leaf, context), a new reference, in place of every
 * leaf; a dict of a type other than dict and OrderedDict is a leaf. NULL: Python's error is set. */
object *nest_rebuilt(object *x, object *(*fn)(object *leaf, void *context), void *context);

/* Tensors that stand for those of one call. */

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

/* A call computed with copies of its tensors in place of these: what --fallback (modes_fallback.h)
 * and --cast (modes_cast.h) share. */

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

/* Which calls a table was made of: each that differs in its function, place, shapes, dtypes,
 * devices and plain values, once. */

enum { SEEN_SLOTS = 8192 };

struct seen {
	uint64_t slots[SEEN_SLOTS];
	unsigned n;
};

/* Whether a call is new; is_new, class Seen of modes/, decides for what is not known here. Errors
 * count as no. */
bool seen_is_new(struct seen *s, object *is_new, object *plan, object *at, object *args,
		 object *kwargs);

/* Of the types, shapes, dtypes, devices and plain values among a call's arguments. */
uint64_t seen_hash(object *args, object *kwargs);

/* Nothing was seen so far. Before all else. */
void seen_forget(struct seen *s);

/* The numbers of a tensor of Python's, by DLPack (dlpack.h, version 0; PyTorch's
 * torch._C._to_dlpack gives that on all versions). */

/* Elements that lie packed, row-major, in memory of this process. */
struct numbers {
	object *tensor, *capsule; /* that own them */
	const void *data;
	int dtype; /* c10::ScalarType */
	int ndim;
	const int64_t *shape;
	int64_t n;
};

/* torch._C._to_dlpack, torch.uint8, and torch.Tensor's is_conj and is_neg; once. */
void numbers_ready(object *to_dlpack, object *uint8, object *is_conj, object *is_neg);

/* Fill *out from a tensor on whatever device; a copy is made only of one that is elsewhere or not
 * packed. False with Python's error set: it cannot be had. numbers_drop frees. */
bool numbers_of(object *tensor, struct numbers *out);
void numbers_drop(struct numbers *n);

/* Calls computed in another dtype, and what they give cast back. */

/* Take what is needed from the names of modes/, after modes_change_ready. False: one is missing. */
bool modes_cast_ready(void);

/* cast(plan, call, args, kwargs, at) (METH_VARARGS): what the call gives as if it had been left
 * alone; Unchanged where that cannot be. */
object *modes_cast(object *self, object *args);

/* --compare of calls that turn out right at once, as most do: the reference is computed on float64
 * copies, looked at, and only counted. All others are compare_call() of modes/. */

/* Take what is needed from the names of modes/, after modes_change_ready, and forget what was
 * settled. False: one is missing. */
bool modes_compare_ready(void);

/* compare(plan, call, args, kwargs, at): the feature of that name (METH_VARARGS). Gives what the
 * call gives. */
object *modes_compare(object *self, object *args);

/* Calls computed on the CPU, and what they give brought back to the device. */

/* Take what is needed from the names of modes/, after modes_change_ready. False: one is missing. */
bool modes_fallback_ready(void);

/* fallback(plan, call, args, kwargs, at) (METH_VARARGS): what the call gives as if it had been left
 * alone; Unchanged where that cannot be. */
object *modes_fallback(object *self, object *args);

#endif
