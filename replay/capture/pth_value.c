#include "replay/capture/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "symbolizer/event/names.h"

static struct source_tensor more_of(const struct pth_state *s, const struct tensor *t)
{
	struct source_tensor more = {0};
	if (s->src->more)
		s->src->more(s->src->ctx, t, &more);
	return more;
}

static bool is_utf8(const char *s, size_t n)
{
	json_t *j = json_stringn(s, n);
	json_decref(j);
	return j != NULL;
}

/* Is a value that is neither list nor tensor one that can be written? */
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

static int collect_tensor(struct pth_state *s, const struct tensor *t, enum refusal *refusal)
{
	struct source_tensor more = more_of(s, t);
	struct extent x;
	*refusal = extent_of(t, s->src->devices, &x);
	if (!*refusal && x.base && more.has_storage_bytes && more.storage_bytes < x.bytes)
		*refusal = REFUSED_STRANGE;
	if (!*refusal && more.may_be_lazy)
		*refusal = REFUSED_LAZY;
	if (*refusal)
		return -ENOTSUP;
	if (x.is_meta)
		return 0;
	int rc = pth_storages_add(&s->storages, t, &x, &more);
	return rc < 0 ? rc : 0;
}

int pth_value_collect(struct pth_state *s, const struct value *v, enum refusal *refusal,
		      const struct value **refused)
{
	int rc = 0;
	if (v->kind == VALUE_LIST) {
		for (uint32_t i = 0; i < v->count && !rc; i++)
			rc = pth_value_collect(s, &v->items[i], refusal, refused);
		return rc;
	}
	*refused = v;
	if (v->kind == VALUE_TENSOR)
		return collect_tensor(s, v->tensor, refusal);
	*refusal = plain_refusal(v);
	return *refusal ? -ENOTSUP : 0;
}

static void ints(struct pickle *p, const int64_t *v, unsigned n)
{
	pickle_mark(p);
	for (unsigned i = 0; i < n; i++)
		pickle_int(p, v[i]);
	pickle_tuple(p);
}

static void hooks(struct pickle *p)
{
	pickle_global(p, "collections", "OrderedDict");
	pickle_mark(p);
	pickle_tuple(p);
	pickle_reduce(p);
}

static void storage(struct pth_state *s, int number)
{
	const struct pth_storage *st = &s->storages.list[number];
	struct pickle *p = &s->pickle;
	char text[32];

	pickle_mark(p);
	pickle_string(p, "storage");
	if (st->class_name)
		pickle_global(p, "torch", st->class_name);
	else
		pickle_global(p, "torch.storage", "UntypedStorage");
	snprintf(text, sizeof(text), "%d", number);
	pickle_string(p, text);
	pickle_string(p, names_device(text, sizeof(text), st->device_type, st->device_index));
	pickle_uint(p, st->bytes / st->itemsize);
	pickle_tuple(p);
	pickle_persistent(p);
}

static void dtype(struct pickle *p, int code)
{
	pickle_global(p, "torch", names_dtype(code));
}

/* set_tensor_metadata's (torch/_utils.py). */
static void metadata(struct pth_state *s, const struct source_tensor *more)
{
	struct pickle *p = &s->pickle;
	pickle_dict(p);
	if (more->conj) {
		pickle_string(p, "conj");
		pickle_bool(p, true);
	}
	if (more->neg) {
		pickle_string(p, "neg");
		pickle_bool(p, true);
	}
	pickle_setitems(p);
	s->limits |= PTH_NOT_1_13;
}

static void strided_tensor(struct pth_state *s, const struct tensor *t, const struct extent *x,
			   const struct source_tensor *more)
{
	const char *class_name = pth_storage_class(t->meta.dtype);
	struct pickle *p = &s->pickle;

	pickle_global(p, "torch._utils", class_name ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
	pickle_mark(p);
	storage(s, pth_storages_find(&s->storages, t, x));
	pickle_int(p, t->storage_offset);
	ints(p, t->meta.shape, t->meta.ndim);
	ints(p, t->meta.stride, t->meta.ndim);
	pickle_bool(p, t->meta.requires_grad && !more->is_parameter);
	hooks(p);
	if (!class_name)
		dtype(p, t->meta.dtype);
	if (more->conj || more->neg)
		metadata(s, more);
	pickle_tuple(p);
	pickle_reduce(p);
	if (!class_name)
		s->limits |= PTH_NOT_1_13;
	else if (class_name[0] == 'Q')
		s->limits |= PTH_NO_QUANTIZER;
}

/* Can weights_only of 1.13.1 have this dtype as a value? */
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

static void dtype_value(struct pth_state *s, int code)
{
	dtype(&s->pickle, code);
	if (!dtype_is_safe_1_13(code))
		s->limits |= PTH_FULL_LOAD_1_13;
}

static void meta_tensor(struct pth_state *s, const struct tensor *t)
{
	struct pickle *p = &s->pickle;
	pickle_global(p, "torch._utils", "_rebuild_meta_tensor_no_storage");
	pickle_mark(p);
	dtype_value(s, t->meta.dtype);
	ints(p, t->meta.shape, t->meta.ndim);
	ints(p, t->meta.stride, t->meta.ndim);
	pickle_bool(p, t->meta.requires_grad);
	pickle_tuple(p);
	pickle_reduce(p);
}

static void tensor(struct pth_state *s, const struct tensor *t)
{
	struct source_tensor more = more_of(s, t);
	struct pickle *p = &s->pickle;
	struct extent x;

	extent_of(t, s->src->devices, &x);
	if (more.is_parameter) {
		pickle_global(p, "torch._utils", "_rebuild_parameter");
		pickle_mark(p);
	}
	if (x.is_meta)
		meta_tensor(s, t);
	else
		strided_tensor(s, t, &x, &more);
	if (more.is_parameter) {
		pickle_bool(p, t->meta.requires_grad);
		hooks(p);
		pickle_tuple(p);
		pickle_reduce(p);
	}
}

static void complex_number(struct pth_state *s, double re, double im)
{
	struct pickle *p = &s->pickle;
	pickle_global(p, "__builtin__", "complex");
	pickle_mark(p);
	pickle_float(p, re);
	pickle_float(p, im);
	pickle_tuple(p);
	pickle_reduce(p);
	s->limits |= PTH_FULL_LOAD_1_13;
}

static void device(struct pth_state *s, const struct value *v)
{
	struct pickle *p = &s->pickle;
	pickle_global(p, "torch", "device");
	pickle_mark(p);
	pickle_string(p, names_device_type(v->device.type));
	if (v->device.index >= 0)
		pickle_int(p, v->device.index);
	pickle_tuple(p);
	pickle_reduce(p);
	s->limits |= PTH_FULL_LOAD_1_13;
}

static void layout(struct pickle *p, int code)
{
	char name[64];
	snprintf(name, sizeof(name), "torch.%s", names_layout(code));
	pickle_global(p, "torch.serialization", "_get_layout");
	pickle_mark(p);
	pickle_string(p, name);
	pickle_tuple(p);
	pickle_reduce(p);
}

static void number(struct pth_state *s, const struct value *v, uint8_t kind)
{
	if (kind == VALUE_BOOL) {
		pickle_bool(&s->pickle, v->i);
	} else if (kind == VALUE_FLOAT) {
		pickle_float(&s->pickle, v->f);
		s->limits |= PTH_FULL_LOAD_1_13;
	} else if (v->kind == VALUE_SCALAR && v->is_unsigned) {
		pickle_uint(&s->pickle, (uint64_t)v->i);
	} else {
		pickle_int(&s->pickle, v->i);
	}
}

static void list(struct pth_state *s, const struct value *v)
{
	pickle_list(&s->pickle);
	for (uint32_t i = 0; i < v->count; i++)
		pth_value_pickle(s, &v->items[i]);
	pickle_appends(&s->pickle);
}

void pth_value_pickle(struct pth_state *s, const struct value *v)
{
	struct pickle *p = &s->pickle;
	switch (v->kind) {
	case VALUE_TENSOR:
		return tensor(s, v->tensor);
	case VALUE_LIST:
		return list(s, v);
	case VALUE_INT:
	case VALUE_FLOAT:
	case VALUE_BOOL:
		return number(s, v, v->kind);
	case VALUE_SCALAR:
		return number(s, v, v->scalar);
	case VALUE_COMPLEX:
		return complex_number(s, v->c.re, v->c.im);
	case VALUE_STRING:
		return pickle_text(p, v->str, v->count);
	case VALUE_DTYPE:
		return dtype_value(s, (int)v->i);
	case VALUE_DEVICE:
		return device(s, v);
	case VALUE_LAYOUT:
		return layout(p, (int)v->i);
	case VALUE_MEMORY_FORMAT:
		s->limits |= PTH_FULL_LOAD;
		return pickle_global(p, "torch", names_memory_format((int)v->i));
	default:
		return pickle_none(p);
	}
}
