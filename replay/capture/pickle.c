/* data.pkl: a Python pickle of protocol 2 (opcodes: Lib/pickletools.py of CPython), with only the
 * opcodes that torch.save writes and torch.load(weights_only=True) knows
 * (torch/_weights_only_unpickler.py). Nothing is memoized: what occurs twice is written twice. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/capture/internal.h"
#include "symbolizer/event/names.h"

/* A tuple is MARK, its items, TUPLE; a list or dict is EMPTY_LIST or EMPTY_DICT, MARK, its items,
 * APPENDS or SETITEMS. REDUCE calls a callable with a tuple, the last two objects written.
 * PERSISTENT replaces the last tuple by the object that the reader has for it (a storage). */
enum {
	MARK = '(',
	TUPLE = 't',
	EMPTY_LIST = ']',
	APPENDS = 'e',
	EMPTY_DICT = '}',
	SETITEMS = 'u',
	NONE = 'N',
	LONG1 = 0x8a,
	REDUCE = 'R',
	PERSISTENT = 'Q',
	PROTO = 0x80,
	STOP = '.'
};

static void pickle_append(struct pth_pickle *p, const void *data, size_t n)
{
	if (p->failed || !n)
		return;
	if (array_grow(&p->data, &p->room, p->len + n, 1)) {
		p->failed = true;
		return;
	}
	memcpy(p->data + p->len, data, n);
	p->len += n;
}

static void pickle_op(struct pth_pickle *p, uint8_t opcode)
{
	pickle_append(p, &opcode, 1);
}

/* The opcode and the n low bytes of v, little-endian. */
static void pickle_le(struct pth_pickle *p, uint8_t opcode, uint64_t v, size_t n)
{
	uint8_t b[8];
	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)(v >> (8 * i));
	pickle_op(p, opcode);
	pickle_append(p, b, n);
}

static void pickle_bool(struct pth_pickle *p, bool b)
{
	pickle_op(p, b ? 0x88 : 0x89);
}

static void pickle_int(struct pth_pickle *p, int64_t i)
{
	if (i >= 0 && i <= UINT8_MAX) {
		pickle_le(p, 'K', (uint64_t)i, 1);
	} else if (i >= 0 && i <= UINT16_MAX) {
		pickle_le(p, 'M', (uint64_t)i, 2);
	} else if (i >= INT32_MIN && i <= INT32_MAX) {
		pickle_le(p, 'J', (uint64_t)i, 4);
	} else {
		pickle_op(p, LONG1);
		pickle_le(p, 8, (uint64_t)i, 8);
	}
}

static void pickle_uint(struct pth_pickle *p, uint64_t i)
{
	if (i <= INT64_MAX)
		return pickle_int(p, (int64_t)i);
	/* LONG1 is signed: a ninth byte keeps it positive. */
	pickle_op(p, LONG1);
	pickle_le(p, 9, i, 8);
	pickle_op(p, 0);
}

static void pickle_float(struct pth_pickle *p, double f)
{
	uint64_t bits;
	memcpy(&bits, &f, sizeof(bits));
	pickle_le(p, 'G', __builtin_bswap64(bits), 8);
}

/* `len` bytes of UTF-8. */
static void pickle_text(struct pth_pickle *p, const char *s, size_t len)
{
	p->failed |= len > UINT32_MAX;
	pickle_le(p, 'X', len, 4);
	pickle_append(p, s, len);
}

static void pickle_string(struct pth_pickle *p, const char *s)
{
	pickle_text(p, s, strlen(s));
}

/* A class, function or constant of a module. */
static void pickle_global(struct pth_pickle *p, const char *module, const char *name)
{
	pickle_op(p, 'c');
	pickle_append(p, module, strlen(module));
	pickle_op(p, '\n');
	pickle_append(p, name, strlen(name));
	pickle_op(p, '\n');
}

/* Begin a call; its arguments and pickle_called follow. */
static void pickle_callable(struct pth_pickle *p, const char *module, const char *name)
{
	pickle_global(p, module, name);
	pickle_op(p, MARK);
}

static void pickle_called(struct pth_pickle *p)
{
	pickle_op(p, TUPLE);
	pickle_op(p, REDUCE);
}

static void pickle_dims(struct pth_pickle *p, const int64_t *v, unsigned n)
{
	pickle_op(p, MARK);
	for (unsigned i = 0; i < n; i++)
		pickle_int(p, v[i]);
	pickle_op(p, TUPLE);
}

static void pickle_hooks(struct pth_pickle *p)
{
	pickle_callable(p, "collections", "OrderedDict");
	pickle_called(p);
}

static void pickle_storage(struct pth_pickle *p, const struct pth_storage *s, int number)
{
	char text[32];
	pickle_op(p, MARK);
	pickle_string(p, "storage");
	if (s->class_name)
		pickle_global(p, "torch", s->class_name);
	else
		pickle_global(p, "torch.storage", "UntypedStorage");
	snprintf(text, sizeof(text), "%d", number);
	pickle_string(p, text);
	pickle_string(p, names_device(text, sizeof(text), s->device_type, s->device_index));
	pickle_uint(p, s->bytes / s->itemsize);
	pickle_op(p, TUPLE);
	pickle_op(p, PERSISTENT);
}

static void pickle_dtype(struct pth_pickle *p, int code)
{
	pickle_global(p, "torch", names_dtype(code));
}

/* The dict for set_tensor_metadata (torch/_utils.py). */
static void pickle_lazy_bits(struct pth_pickle *p, const struct source_tensor *more)
{
	pickle_op(p, EMPTY_DICT);
	pickle_op(p, MARK);
	if (more->conj) {
		pickle_string(p, "conj");
		pickle_bool(p, true);
	}
	if (more->neg) {
		pickle_string(p, "neg");
		pickle_bool(p, true);
	}
	pickle_op(p, SETITEMS);
	p->limits |= PTH_NOT_1_13;
}

static void pickle_strided(struct pth_pickle *p, const struct tensor *t, const struct pth_tensor *x,
			   const struct pth_storage *storage)
{
	const char *class_name = storage->class_name;
	pickle_callable(p, "torch._utils",
			class_name ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
	pickle_storage(p, storage, x->storage);
	pickle_int(p, t->storage_offset);
	pickle_dims(p, t->meta.shape, t->meta.ndim);
	pickle_dims(p, t->meta.stride, t->meta.ndim);
	pickle_bool(p, t->meta.requires_grad && !x->more.is_parameter);
	pickle_hooks(p);
	if (!class_name)
		pickle_dtype(p, t->meta.dtype);
	if (x->more.conj || x->more.neg)
		pickle_lazy_bits(p, &x->more);
	pickle_called(p);
	if (!class_name)
		p->limits |= PTH_NOT_1_13;
	else if (class_name[0] == 'Q')
		p->limits |= PTH_NO_QUANTIZER;
}

/* Whether weights_only of 1.13.1 accepts this dtype as a value. */
static bool dtype_is_safe_1_13(int code)
{
	static const char *const safe[] = {"complex32", "complex64", "complex128", "float16",
					   "float32",	"float64",   "int8",	   "int16",
					   "int32",	"int64"};
	for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++)
		if (!strcmp(safe[i], names_dtype(code)))
			return true;
	return false;
}

static void pickle_dtype_value(struct pth_pickle *p, int code)
{
	pickle_dtype(p, code);
	if (!dtype_is_safe_1_13(code))
		p->limits |= PTH_FULL_LOAD_1_13;
}

static void pickle_meta(struct pth_pickle *p, const struct tensor *t)
{
	pickle_callable(p, "torch._utils", "_rebuild_meta_tensor_no_storage");
	pickle_dtype_value(p, t->meta.dtype);
	pickle_dims(p, t->meta.shape, t->meta.ndim);
	pickle_dims(p, t->meta.stride, t->meta.ndim);
	pickle_bool(p, t->meta.requires_grad);
	pickle_called(p);
}

static void pickle_tensor(struct pth_pickle *p, const struct tensor *t, const struct pth_tensor *x,
			  const struct pth_storage *storages)
{
	if (x->more.is_parameter)
		pickle_callable(p, "torch._utils", "_rebuild_parameter");
	if (x->storage == NO_STORAGE)
		pickle_meta(p, t);
	else
		pickle_strided(p, t, x, &storages[x->storage]);
	if (x->more.is_parameter) {
		pickle_bool(p, t->meta.requires_grad);
		pickle_hooks(p);
		pickle_called(p);
	}
}

static void pickle_complex(struct pth_pickle *p, double re, double im)
{
	pickle_callable(p, "__builtin__", "complex");
	pickle_float(p, re);
	pickle_float(p, im);
	pickle_called(p);
	p->limits |= PTH_FULL_LOAD_1_13;
}

static void pickle_device(struct pth_pickle *p, const struct value *v)
{
	pickle_callable(p, "torch", "device");
	pickle_string(p, names_device_type(v->device.type));
	if (v->device.index >= 0)
		pickle_int(p, v->device.index);
	pickle_called(p);
	p->limits |= PTH_FULL_LOAD_1_13;
}

static void pickle_layout(struct pth_pickle *p, int code)
{
	char name[64];
	snprintf(name, sizeof(name), "torch.%s", names_layout(code));
	pickle_callable(p, "torch.serialization", "_get_layout");
	pickle_string(p, name);
	pickle_called(p);
}

static void pickle_number(struct pth_pickle *p, const struct value *v, uint8_t kind)
{
	if (kind == VALUE_BOOL) {
		pickle_bool(p, v->i);
	} else if (kind == VALUE_FLOAT) {
		pickle_float(p, v->f);
		p->limits |= PTH_FULL_LOAD_1_13;
	} else if (v->kind == VALUE_SCALAR && v->is_unsigned) {
		pickle_uint(p, (uint64_t)v->i);
	} else {
		pickle_int(p, v->i);
	}
}

/* A value that is neither list nor tensor. */
static void pickle_plain(struct pth_pickle *p, const struct value *v)
{
	switch (v->kind) {
	case VALUE_INT:
	case VALUE_FLOAT:
	case VALUE_BOOL:
		return pickle_number(p, v, v->kind);
	case VALUE_SCALAR:
		return pickle_number(p, v, v->scalar);
	case VALUE_COMPLEX:
		return pickle_complex(p, v->c.re, v->c.im);
	case VALUE_STRING:
		return pickle_text(p, v->str, v->count);
	case VALUE_DTYPE:
		return pickle_dtype_value(p, (int)v->i);
	case VALUE_DEVICE:
		return pickle_device(p, v);
	case VALUE_LAYOUT:
		return pickle_layout(p, (int)v->i);
	case VALUE_MEMORY_FORMAT:
		p->limits |= PTH_FULL_LOAD;
		return pickle_global(p, "torch", names_memory_format((int)v->i));
	default:
		return pickle_op(p, NONE);
	}
}

/* *next is the number of tensors pickled so far, which come in the order of d->tensors. */
static void pickle_value(struct pth_pickle *p, const struct value *v,
			 const struct pth_description *d, size_t *next)
{
	if (v->kind == VALUE_TENSOR) {
		pickle_tensor(p, v->tensor, &d->tensors[(*next)++], d->storages);
	} else if (v->kind == VALUE_LIST) {
		pickle_op(p, EMPTY_LIST);
		pickle_op(p, MARK);
		for (uint32_t i = 0; i < v->count; i++)
			pickle_value(p, &v->items[i], d, next);
		pickle_op(p, APPENDS);
	} else {
		pickle_plain(p, v);
	}
}

static void pickle_args(struct pth_pickle *p, const struct pth_content *c,
			const struct pth_description *d, size_t *next)
{
	pickle_op(p, MARK);
	if (c->args_in_one)
		pickle_op(p, MARK);
	for (unsigned i = 0; i < c->nargs; i++)
		pickle_value(p, &c->args[i], d, next);
	if (c->args_in_one)
		pickle_op(p, TUPLE);
	pickle_op(p, TUPLE);
}

static void pickle_kwargs(struct pth_pickle *p, const struct pth_content *c,
			  const struct pth_description *d, size_t *next)
{
	pickle_op(p, EMPTY_DICT);
	pickle_op(p, MARK);
	for (unsigned i = 0; i < c->nkwargs; i++) {
		pickle_string(p, c->kwargs[i].name);
		pickle_value(p, c->kwargs[i].value, d, next);
	}
	pickle_op(p, SETITEMS);
}

static void pickle_owners(struct pth_pickle *p, const struct pth_content *c)
{
	if (!c->of)
		return;
	pickle_string(p, "of");
	pickle_op(p, MARK);
	for (unsigned i = 0; i < c->nargs; i++)
		pickle_string(p, c->of[i]);
	pickle_op(p, TUPLE);
}

int pth_pickle(const struct pth_content *c, const struct pth_description *d, struct pth_pickle *p,
	       struct err *e)
{
	size_t next = 0;
	pickle_op(p, PROTO);
	pickle_op(p, 2);
	pickle_op(p, EMPTY_DICT);
	pickle_op(p, MARK);
	pickle_string(p, "name");
	pickle_string(p, c->name);
	pickle_string(p, "args");
	pickle_args(p, c, d, &next);
	pickle_string(p, "kwargs");
	pickle_kwargs(p, c, d, &next);
	pickle_string(p, "identifier");
	pickle_string(p, c->identifier);
	pickle_owners(p, c);
	pickle_op(p, SETITEMS);
	pickle_op(p, STOP);
	return p->failed ? err_set(e, -ENOMEM, "out of memory") : 0;
}

void pth_pickle_free(struct pth_pickle *p)
{
	free(p->data);
	*p = (struct pth_pickle){0};
}
