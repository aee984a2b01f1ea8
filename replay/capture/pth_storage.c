#include "replay/capture/pth_storage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/event/names.h"

const char *pth_storage_class(int dtype)
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

/* Do `s` and the storage of `t` hold the same memory in the same way? The classes are constants:
 * equal names are the same pointer. */
static bool same(const struct pth_storage *s, const struct tensor *t, const struct extent *x,
		 const char *class_name)
{
	if (s->class_name != class_name || s->impl != t->storage ||
	    s->device_type != t->meta.device_type || s->device_index != t->meta.device_index)
		return false;
	/* Tensors without elements say nothing of where the memory is. */
	if (!s->base || !x->base)
		return s->impl != 0;
	return s->base == x->base;
}

int pth_storages_find(const struct pth_storages *s, const struct tensor *t, const struct extent *x)
{
	const char *class_name = pth_storage_class(t->meta.dtype);
	for (size_t i = 0; i < s->n; i++)
		if (same(&s->list[i], t, x, class_name))
			return (int)i;
	return -ENOENT;
}

/* How much of the storage goes into the file: whole items of what is known of it. */
static uint64_t bytes_wanted(const struct pth_storage *p, const struct extent *x,
			     const struct source_tensor *more)
{
	uint64_t whole = more->has_storage_bytes ? more->storage_bytes : 0;
	whole -= whole % p->itemsize;
	return x->base && whole > x->bytes ? whole : x->bytes;
}

int pth_storages_add(struct pth_storages *s, const struct tensor *t, const struct extent *x,
		     const struct source_tensor *more)
{
	int i = pth_storages_find(s, t, x);
	if (i < 0 && s->n == s->size) {
		size_t size = s->size ? 2 * s->size : 8;
		struct pth_storage *list = reallocarray(s->list, size, sizeof(*list));
		if (!list)
			return -ENOMEM;
		s->list = list;
		s->size = size;
	}
	if (i < 0) {
		i = (int)s->n++;
		const char *class_name = pth_storage_class(t->meta.dtype);
		s->list[i] = (struct pth_storage){.class_name = class_name,
						  .impl = t->storage,
						  .itemsize = class_name ? x->itemsize : 1,
						  .device_type = t->meta.device_type,
						  .device_index = t->meta.device_index};
	}
	struct pth_storage *p = &s->list[i];
	uint64_t bytes = bytes_wanted(p, x, more);
	if (x->base)
		p->base = x->base;
	if (bytes > p->bytes)
		p->bytes = bytes;
	return i;
}

void pth_storages_free(struct pth_storages *s)
{
	free(s->list);
	*s = (struct pth_storages){0};
}
