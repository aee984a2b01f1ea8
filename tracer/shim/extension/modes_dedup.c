#define _GNU_SOURCE
#include "tracer/shim/extension/modes_args.h"

#include <string.h>

enum { SEEN_MOST = SEEN_SLOTS / 2 };

static struct {
	object *shape, *dtype, *device, *name;
} own;

static uint64_t mixed(uint64_t key, uint64_t more)
{
	uint64_t x = (key ^ more) * 0x9e3779b97f4a7c15;
	return x ^ x >> 29;
}

static uint64_t hash_of(object *o)
{
	ssize_t h = o ? py.PyObject_Hash(o) : 0;
	if (!o || h == -1)
		python_forget();
	return (uint64_t)h;
}

static uint64_t attribute_hash(object *o, object *name)
{
	object *found = py.PyObject_GetAttr(o, name);
	uint64_t h = hash_of(found);
	python_drop(found);
	return h;
}

static bool add_leaf(object *leaf, void *context)
{
	uint64_t *key = context;
	*key = mixed(*key, (uint64_t)(uintptr_t)python_type(leaf));
	if (nest_is_tensor(leaf)) {
		*key = mixed(*key, attribute_hash(leaf, own.shape));
		*key = mixed(*key, attribute_hash(leaf, own.dtype));
		*key = mixed(*key, attribute_hash(leaf, own.device));
	} else if (py.PyType_GetFlags(python_type(leaf)) & (LONG_SUBCLASS | TEXT_SUBCLASS) ||
		   python_type(leaf) == py.PyFloat_Type) {
		*key = mixed(*key, hash_of(leaf));
	}
	return true;
}

/* The slot of a key, or a free one. */
static uint64_t *seen_slot(struct seen *s, uint64_t key)
{
	size_t i = key % SEEN_SLOTS;
	while (s->slots[i] && s->slots[i] != key)
		i = (i + 1) % SEEN_SLOTS;
	return &s->slots[i];
}

uint64_t seen_hash(object *args, object *kwargs)
{
	uint64_t key = 0;
	nest_each(args, add_leaf, &key);
	nest_each(kwargs, add_leaf, &key);
	return key;
}

bool seen_is_new(struct seen *s, object *is_new, object *plan, object *at, object *args,
		 object *kwargs)
{
	uint64_t key =
	    mixed(mixed(attribute_hash(plan, own.name), hash_of(at)), seen_hash(args, kwargs)) | 1;
	uint64_t *slot = seen_slot(s, key);
	if (*slot || s->n >= SEEN_MOST)
		return false;
	*slot = key;
	s->n++;
	object *name = py.PyObject_GetAttr(plan, own.name);
	object *r =
	    name ? py.PyObject_CallFunctionObjArgs(is_new, name, at, args, kwargs, PY_END) : NULL;
	bool yes = r && py.PyObject_IsTrue(r) == 1;
	if (!r)
		python_forget();
	python_drop(r);
	python_drop(name);
	return yes;
}

void seen_forget(struct seen *s)
{
	memset(s, 0, sizeof(*s));
	if (own.name)
		return;
	own.shape = py.PyUnicode_InternFromString("shape");
	own.dtype = py.PyUnicode_InternFromString("dtype");
	own.device = py.PyUnicode_InternFromString("device");
	own.name = py.PyUnicode_InternFromString("name");
}
