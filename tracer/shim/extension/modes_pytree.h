/* Nests of tuples, lists and dicts, as calls are given and give them, and the tensors in them. */
#ifndef TRACER_SHIM_EXTENSION_MODES_PYTREE_H
#define TRACER_SHIM_EXTENSION_MODES_PYTREE_H

#include "tracer/shim/extension/python.h"

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

#endif
