/* Decides whether each value can be written, which bytes each tensor has, and which storage of the
 * file holds them. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/capture/internal.h"
#include "symbolizer/event/names.h"

const char *refusal_text(enum refusal r)
{
	static const char *const texts[REFUSAL_COUNT] = {
	    [REFUSED_NOT] = "nothing",
	    [REFUSED_UNKNOWN] = "a tensor of which not all is known",
	    [REFUSED_WRAPPED] = "a sparse tensor, or one inside of vmap or grad",
	    [REFUSED_STRANGE] = "a tensor whose shape, stride and storage contradict each other",
	    [REFUSED_DEVICE] = "memory on a device",
	    [REFUSED_LAYOUT] = "a layout that is not strided",
	    [REFUSED_NO_MEMORY] = "a tensor without memory",
	    [REFUSED_NOT_DECODED] = "a value that was not decoded",
	    [REFUSED_LAZY] = "a tensor that may be a lazy conjugate or negative",
	    [REFUSED_GENERATOR] = "a random number generator",
	    [REFUSED_TEXT] = "a string that is not UTF-8",
	};
	return texts[r < REFUSAL_COUNT ? r : REFUSED_UNKNOWN];
}

/* c10::DeviceType, c10::Layout */
enum { CPU = 0, META = 14, STRIDED = 0 };

/* Everything that the bytes of a tensor depend on. */
static const unsigned needed = TENSOR_NO_SHAPE | TENSOR_NO_STRIDE | TENSOR_NO_DTYPE |
			       TENSOR_NO_DEVICE | TENSOR_NO_LAYOUT | TENSOR_NO_DATA_PTR |
			       TENSOR_NO_OFFSET;

/* Number of elements from the start of the storage through the last one of the tensor; -1 for
 * contradictory metadata. */
static int64_t reach(const struct tensor *t)
{
	int64_t numel = 1, last = t->storage_offset, step;
	bool empty = false;

	if (t->storage_offset < 0)
		return -1;
	for (unsigned i = 0; i < t->meta.ndim; i++) {
		int64_t size = t->meta.shape[i], stride = t->meta.stride[i];
		if (size < 0 || __builtin_mul_overflow(numel, size, &numel))
			return -1;
		empty |= size == 0;
		if (size > 1 && (stride < 0 || __builtin_mul_overflow(size - 1, stride, &step) ||
				 __builtin_add_overflow(last, step, &last)))
			return -1;
	}
	if (empty)
		return t->meta.numel == 0 ? 0 : -1;
	if (numel != t->meta.numel || __builtin_add_overflow(last, 1, &last))
		return -1;
	return last;
}

enum refusal extent_of(const struct tensor *t, bool devices, struct extent *out)
{
	const struct tensor_meta *m = &t->meta;
	*out = (struct extent){.itemsize = (unsigned)names_itemsize(m->dtype)};
	out->is_meta = !(m->unknown & TENSOR_NO_DEVICE) && m->device_type == META;
	if (m->unknown & needed & (out->is_meta ? ~(unsigned)TENSOR_NO_DATA_PTR : ~0u))
		return m->unknown & TENSOR_NO_LAYOUT && !(m->unknown & TENSOR_NO_SHAPE)
			   ? REFUSED_WRAPPED
			   : REFUSED_UNKNOWN;
	if (!out->itemsize || m->ndim > TENSOR_MAX_DIM)
		return REFUSED_UNKNOWN;
	if (m->layout != STRIDED)
		return REFUSED_LAYOUT;
	if (m->device_type != CPU && !out->is_meta && !devices)
		return REFUSED_DEVICE;
	int64_t n = reach(t);
	if (n < 0)
		return REFUSED_STRANGE;
	if (n == 0 || out->is_meta)
		return REFUSED_NOT;
	if (!t->data_ptr)
		return REFUSED_NO_MEMORY;
	uint64_t before;
	if (__builtin_mul_overflow((uint64_t)n, out->itemsize, &out->bytes) ||
	    __builtin_mul_overflow((uint64_t)t->storage_offset, out->itemsize, &before) ||
	    before > t->data_ptr || out->bytes > INT64_MAX)
		return REFUSED_STRANGE;
	int per_byte = names_elements_per_byte(m->dtype);
	out->bytes = (out->bytes + (uint64_t)per_byte - 1) / (uint64_t)per_byte;
	out->base = t->data_ptr - before;
	return REFUSED_NOT;
}

static bool is_utf8(const char *s, size_t n)
{
	json_t *j = json_stringn(s, n);
	json_decref(j);
	return j != NULL;
}

/* Why a value that is neither list nor tensor cannot be written. */
static enum refusal plain_refusal(const struct value *v)
{
	bool known = true;
	switch (v->kind) {
	case VALUE_STRING:
		return is_utf8(v->str, v->count) ? REFUSED_NOT : REFUSED_TEXT;
	case VALUE_GENERATOR:
		return REFUSED_GENERATOR;
	case VALUE_DTYPE:
		known = names_dtype((int)v->i);
		break;
	case VALUE_DEVICE:
		known = names_device_type(v->device.type);
		break;
	case VALUE_LAYOUT:
		known = names_layout((int)v->i);
		break;
	case VALUE_MEMORY_FORMAT:
		known = names_memory_format((int)v->i);
		break;
	case VALUE_NONE:
	case VALUE_INT:
	case VALUE_FLOAT:
	case VALUE_BOOL:
	case VALUE_SCALAR:
	case VALUE_COMPLEX:
		break;
	default:
		known = false;
	}
	return known ? REFUSED_NOT : REFUSED_NOT_DECODED;
}

/* The name of torch's storage class for a dtype, "FloatStorage"; NULL for those that torch saves as
 * UntypedStorage and rebuilds with _rebuild_tensor_v3 (torch/storage.py, _dtype_to_storage_type_map
 * and _new_dtypes of 2.13.0). */
static const char *storage_class(int dtype)
{
	static const char *const classes[][2] = {
	    {"float32", "FloatStorage"},
	    {"float64", "DoubleStorage"},
	    {"float16", "HalfStorage"},
	    {"bfloat16", "BFloat16Storage"},
	    {"int64", "LongStorage"},
	    {"int32", "IntStorage"},
	    {"int16", "ShortStorage"},
	    {"int8", "CharStorage"},
	    {"uint8", "ByteStorage"},
	    {"bool", "BoolStorage"},
	    {"complex128", "ComplexDoubleStorage"},
	    {"complex64", "ComplexFloatStorage"},
	    {"qint8", "QInt8Storage"},
	    {"quint8", "QUInt8Storage"},
	    {"qint32", "QInt32Storage"},
	    {"quint4x2", "QUInt4x2Storage"},
	    {"quint2x4", "QUInt2x4Storage"},
	};
	const char *name = names_dtype(dtype);
	for (size_t i = 0; name && i < sizeof(classes) / sizeof(classes[0]); i++)
		if (!strcmp(classes[i][0], name))
			return classes[i][1];
	return NULL;
}

/* Whether `s` is the storage of `t`: the same memory as the same class. Class names are constants:
 * equal names are equal pointers. */
static bool storage_is_of(const struct pth_storage *s, const struct tensor *t,
			  const struct extent *x, const char *class_name)
{
	if (s->class_name != class_name || s->impl != t->storage ||
	    s->device_type != t->meta.device_type || s->device_index != t->meta.device_index)
		return false;
	/* Tensors without elements do not tell where the memory is. */
	if (!s->base || !x->base)
		return s->impl != 0;
	return s->base == x->base;
}

/* Bytes of the storage to write: whole items of all of it if its size is known, else what the
 * tensor reaches. */
static uint64_t bytes_wanted(const struct pth_storage *p, const struct extent *x,
			     const struct source_tensor *more)
{
	uint64_t whole = more->has_storage_bytes ? more->storage_bytes : 0;
	whole -= whole % p->itemsize;
	return x->base && whole > x->bytes ? whole : x->bytes;
}

/* The index of the storage of `t`, whose extent is `x`: added if new, enlarged if `t` needs more;
 * or -ENOMEM. */
static int storage_of(struct pth_description *d, const struct tensor *t, const struct extent *x,
		      const struct source_tensor *more)
{
	const char *class_name = storage_class(t->meta.dtype);
	size_t i = 0;
	while (i < d->nstorages && !storage_is_of(&d->storages[i], t, x, class_name))
		i++;
	if (i == d->nstorages) {
		if (array_grow(&d->storages, &d->storages_room, i + 1, sizeof(*d->storages)))
			return -ENOMEM;
		d->storages[d->nstorages++] =
		    (struct pth_storage){.class_name = class_name,
					 .impl = t->storage,
					 .itemsize = class_name ? x->itemsize : 1,
					 .device_type = t->meta.device_type,
					 .device_index = t->meta.device_index};
	}
	struct pth_storage *s = &d->storages[i];
	uint64_t bytes = bytes_wanted(s, x, more);
	if (x->base)
		s->base = x->base;
	if (bytes > s->bytes)
		s->bytes = bytes;
	return (int)i;
}

static int describe_tensor(struct pth_description *d, const struct tensor *t,
			   const struct source *src, enum refusal *refusal)
{
	struct source_tensor more = {0};
	struct extent x;
	int storage = NO_STORAGE;
	if (src->more)
		src->more(src->ctx, t, &more);
	*refusal = extent_of(t, src->devices, &x);
	if (!*refusal && x.base && more.has_storage_bytes && more.storage_bytes < x.bytes)
		*refusal = REFUSED_STRANGE;
	if (!*refusal && more.may_be_lazy)
		*refusal = REFUSED_LAZY;
	if (*refusal)
		return -ENOTSUP;
	if (!x.is_meta)
		storage = storage_of(d, t, &x, &more);
	if (storage == -ENOMEM ||
	    array_grow(&d->tensors, &d->tensors_room, d->ntensors + 1, sizeof(*d->tensors)))
		return -ENOMEM;
	d->tensors[d->ntensors++] = (struct pth_tensor){more, storage};
	return 0;
}

/* *refusal says why `v` cannot be written, and *refused which value in it. */
static int describe_value(struct pth_description *d, const struct value *v,
			  const struct source *src, enum refusal *refusal,
			  const struct value **refused)
{
	int rc = 0;
	if (v->kind == VALUE_LIST) {
		for (uint32_t i = 0; i < v->count && !rc; i++)
			rc = describe_value(d, &v->items[i], src, refusal, refused);
		return rc;
	}
	*refused = v;
	if (v->kind == VALUE_TENSOR)
		return describe_tensor(d, v->tensor, src, refusal);
	*refusal = plain_refusal(v);
	return *refusal ? -ENOTSUP : 0;
}

/* ": cuda:0" */
static const char *device_of(const struct value *v, char *out, size_t size)
{
	char name[32];
	if (v->kind == VALUE_TENSOR)
		snprintf(out, size, ": %s",
			 names_device(name, sizeof(name), v->tensor->meta.device_type,
				      v->tensor->meta.device_index));
	return out;
}

static void hint_inside(const char *function, struct err *e)
{
	err_hint(e,
		 "it cannot be read from outside of the process; have calls saved from inside: "
		 "add --engine shim, or in place of --capture --apply '%s:op_capture'",
		 function);
}

static int set_refused(const struct pth_content *c, unsigned at, const struct value *v,
		       enum refusal refusal, struct err *e)
{
	char place[64], device[40] = "";
	if (at < c->nargs)
		snprintf(place, sizeof(place), "argument %u", at);
	else
		snprintf(place, sizeof(place), "%.60s", c->kwargs[at - c->nargs].name);
	if (refusal == REFUSED_NOT_DECODED && v->kind == VALUE_NOT_DECODED && v->str)
		return err_set(e, -ENOTSUP, "%s cannot be saved: %s: not decoded: %s", c->name,
			       place, v->str);
	err_set(e, -ENOTSUP, "%s cannot be saved: %s: %s%s", c->name, place, refusal_text(refusal),
		refusal == REFUSED_DEVICE ? device_of(v, device, sizeof(device)) : "");
	if (refusal == REFUSED_DEVICE || refusal == REFUSED_UNKNOWN)
		hint_inside(c->name, e);
	return -ENOTSUP;
}

int pth_describe(const struct pth_content *c, const struct source *src, struct pth_description *d,
		 enum refusal *refusal, struct err *e)
{
	const struct value *refused = NULL;
	for (unsigned i = 0; i < c->nargs + c->nkwargs; i++) {
		const struct value *v = i < c->nargs ? &c->args[i] : c->kwargs[i - c->nargs].value;
		int rc = describe_value(d, v, src, refusal, &refused);
		if (rc == -ENOTSUP)
			return set_refused(c, i, refused, *refusal, e);
		if (rc)
			return err_set(e, rc, "out of memory");
	}
	return 0;
}

void pth_description_free(struct pth_description *d)
{
	free(d->storages);
	free(d->tensors);
	*d = (struct pth_description){0};
}
