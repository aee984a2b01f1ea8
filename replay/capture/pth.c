#include "replay/capture/pth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/capture/internal.h"
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

enum {
	CHUNK = 1 << 20
}; /* bytes read from the target at a time: stays in the second-level cache */

const char *pth_limits_text(char *out, size_t size, unsigned limits)
{
	static const struct {
		unsigned limit;
		const char *text;
	} texts[] = {
	    {PTH_FULL_LOAD, "torch.load needs weights_only=False"},
	    {PTH_FULL_LOAD_1_13, "torch.load of 1.13 needs weights_only=False"},
	    {PTH_NOT_1_13, "torch 1.13 cannot load it"},
	    {PTH_NO_QUANTIZER, "quantized tensors are without scale and zero point"},
	};
	size_t len = 0;
	if (size)
		out[0] = '\0';
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (!(limits & texts[i].limit) || len >= size)
			continue;
		int n = snprintf(out + len, size - len, "%s%s", len ? ", " : "", texts[i].text);
		len += n > 0 ? (size_t)n : 0;
	}
	return out;
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

static int refuse(const struct pth_content *c, unsigned at, const struct value *v,
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

static int collect(struct pth_state *s, const struct pth_content *c, struct pth_result *out,
		   struct err *e)
{
	const struct value *refused = NULL;
	for (unsigned i = 0; i < c->nargs + c->nkwargs; i++) {
		const struct value *v = i < c->nargs ? &c->args[i] : c->kwargs[i - c->nargs].value;
		int rc = pth_value_collect(s, v, &out->refusal, &refused);
		out->refused = i;
		if (rc == -ENOTSUP)
			return refuse(c, i, refused, out->refusal, e);
		if (rc)
			return err_set(e, rc, "out of memory");
	}
	return 0;
}

static void args(struct pth_state *s, const struct pth_content *c)
{
	pickle_mark(&s->pickle);
	if (c->args_in_one)
		pickle_mark(&s->pickle);
	for (unsigned i = 0; i < c->nargs; i++)
		pth_value_pickle(s, &c->args[i]);
	if (c->args_in_one)
		pickle_tuple(&s->pickle);
	pickle_tuple(&s->pickle);
}

static void owners(struct pickle *p, const struct pth_content *c)
{
	if (!c->of)
		return;
	pickle_string(p, "of");
	pickle_mark(p);
	for (unsigned i = 0; i < c->nargs; i++)
		pickle_string(p, c->of[i]);
	pickle_tuple(p);
}

static int make_pickle(struct pth_state *s, const struct pth_content *c, struct err *e)
{
	struct pickle *p = &s->pickle;
	pickle_begin(p);
	pickle_dict(p);
	pickle_string(p, "name");
	pickle_string(p, c->name);
	pickle_string(p, "args");
	args(s, c);
	pickle_string(p, "kwargs");
	pickle_dict(p);
	for (unsigned i = 0; i < c->nkwargs; i++) {
		pickle_string(p, c->kwargs[i].name);
		pth_value_pickle(s, c->kwargs[i].value);
	}
	pickle_setitems(p);
	pickle_string(p, "identifier");
	pickle_string(p, c->identifier);
	owners(p, c);
	pickle_setitems(p);
	pickle_end(p);
	return p->failed ? err_set(e, -ENOMEM, "out of memory") : 0;
}

static int write_storage(struct archive *a, const struct pth_storage *st, size_t number,
			 const struct source *src, uint8_t *chunk, struct err *e)
{
	char name[32];
	snprintf(name, sizeof(name), "data/%zu", number);
	int rc = archive_member(a, name, st->bytes, e);
	if (!rc && !st->bytes)
		rc = archive_write(a, NULL, 0, e);
	for (uint64_t at = 0; !rc && at < st->bytes;) {
		size_t n = st->bytes - at < CHUNK ? (size_t)(st->bytes - at) : CHUNK;
		rc = src->read(src->ctx, st->base + at, chunk, n);
		if (rc)
			return err_set(e, rc, "cannot read %zu bytes at 0x%llx of the process: %s",
				       n, (unsigned long long)(st->base + at), strerror(-rc));
		rc = archive_write(a, chunk, n, e);
		at += n;
	}
	return rc;
}

static int write_members(struct archive *a, const struct pth_state *s, struct err *e)
{
	const char *order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "little" : "big";
	int rc = archive_add(a, "data.pkl", s->pickle.data, s->pickle.len, e);
	uint8_t *chunk = malloc(CHUNK);

	if (!chunk)
		return err_set(e, -ENOMEM, "out of memory");
	if (!rc)
		rc = archive_add(a, "byteorder", order, strlen(order), e);
	for (size_t i = 0; i < s->storages.n && !rc; i++)
		rc = write_storage(a, &s->storages.list[i], i, s->src, chunk, e);
	if (!rc)
		rc = archive_add(a, "version", "3\n", 2, e);
	free(chunk);
	return rc;
}

/* Before anything is read: what will not fit is not begun. */
static int check_size(const struct pth_state *s, const char *path, uint64_t max_bytes,
		      struct err *e)
{
	uint64_t sum = s->pickle.len;
	for (size_t i = 0; i < s->storages.n; i++)
		if (__builtin_add_overflow(sum, s->storages.list[i].bytes, &sum))
			sum = UINT64_MAX;
	if (!max_bytes || sum <= max_bytes)
		return 0;
	return err_set(e, -EOVERFLOW,
		       "%s: %llu bytes are more than the %llu that are left of the limit", path,
		       (unsigned long long)sum, (unsigned long long)max_bytes);
}

static int write_file(const char *path, const struct pth_state *s, uint64_t max_bytes,
		      uint64_t *bytes, struct err *e)
{
	struct archive *a;
	int rc = check_size(s, path, max_bytes, e);
	if (!rc)
		rc = archive_open(path, max_bytes, &a, e);
	if (rc)
		return rc;
	rc = write_members(a, s, e);
	if (!rc)
		return archive_close(a, bytes, e);
	archive_abort(a);
	return rc;
}

int pth_write(const char *path, const struct pth_content *c, const struct source *src,
	      uint64_t max_bytes, struct pth_result *out, struct err *e)
{
	struct pth_state s = {.src = src};
	*out = (struct pth_result){0};
	int rc = collect(&s, c, out, e);
	if (!rc)
		rc = make_pickle(&s, c, e);
	if (!rc)
		rc = write_file(path, &s, max_bytes, &out->bytes, e);
	out->limits = s.limits;
	pth_storages_free(&s.storages);
	pickle_free(&s.pickle);
	return rc;
}
