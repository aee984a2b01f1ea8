#define _GNU_SOURCE
#include "tracer/capture_source.h"

#include <string.h>

#include "symbolizer/names.h"
#include "tracer/mem.h"

static int read_target(void *ctx, uint64_t address, void *to, size_t n)
{
	const struct capture_source *c = ctx;
	return mem_read(&c->target->mem, address, to, n);
}

static bool read_keys(const struct capture_source *c, const struct tensor *t, uint64_t *keys)
{
	const struct tensor_layout *l = &c->target->layout;
	return !(l->unknown & LAYOUT_KEY_SET) && t->impl &&
	       !mem_read_u64(&c->target->mem, t->impl + l->key_set, keys);
}

static bool is_integral(const struct tensor *t)
{
	const char *dtype = t->meta.unknown & TENSOR_NO_DTYPE ? NULL : names_dtype(t->meta.dtype);
	return dtype && (strstr(dtype, "int") || !strcmp(dtype, "bool"));
}

/* The bits' places differ from version to version; a tensor that has a key which integers do not
 * have may have one of the two. Of complex ones it is said only when the ordinary keys are known.
 */
static bool may_be_lazy(const struct capture_source *c, const struct tensor *t)
{
	uint64_t keys;
	const char *dtype = t->meta.unknown & TENSOR_NO_DTYPE ? NULL : names_dtype(t->meta.dtype);
	bool is_complex = dtype && strstr(dtype, "complex");
	if (!read_keys(c, t, &keys))
		return is_complex;
	if (is_integral(t)) {
		c->keys->keys |= keys;
		c->keys->known = true;
		return false;
	}
	return c->keys->known ? (keys & ~c->keys->keys) != 0 : is_complex;
}

static void more_of(void *ctx, const struct tensor *t, struct source_tensor *out)
{
	const struct capture_source *c = ctx;
	const struct tensor_layout *l = &c->target->layout;
	out->may_be_lazy = may_be_lazy(c, t);
	out->has_storage_bytes =
	    t->storage && !(l->unknown & LAYOUT_NBYTES) &&
	    !mem_read_u64(&c->target->mem, t->storage + l->storage_nbytes, &out->storage_bytes);
}

struct source capture_source(struct capture_source *c)
{
	return (struct source){.ctx = c, .read = read_target, .more = more_of};
}
