#define _GNU_SOURCE
#include "tracer/capture/internal.h"

#include <string.h>

#include "symbolizer/event/names.h"
#include "symbolizer/target/mem.h"

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

/* For builds whose code does not reveal the bits: a tensor with a dispatch key that no integer
 * tensor has had may have one of the two. */
static bool may_be_lazy(const struct capture_source *c, const struct tensor *t)
{
	uint64_t keys;
	bool known = read_keys(c, t, &keys);
	if (is_integral(t)) {
		c->keys->keys |= known ? keys : 0;
		return false;
	}
	return !known || (keys & ~c->keys->keys) != 0;
}

/* Bit number `bit` of the TensorImpl at `impl`. */
static bool read_bit(const struct capture_source *c, uint64_t impl, int32_t bit, bool *out)
{
	uint8_t byte;
	if (bit < 0 || mem_read(&c->target->mem, impl + (uint32_t)bit / 8, &byte, 1))
		return false;
	*out = byte >> bit % 8 & 1;
	return true;
}

/* torch.save of 1.x cannot store the two bits, and its torch.load fails on them. */
static bool can_load_bits(const struct target *t)
{
	return strncmp(t->package.version, "1.", 2) != 0;
}

static void more_of(void *ctx, const struct tensor *t, struct source_tensor *out)
{
	const struct capture_source *c = ctx;
	const struct tensor_layout *l = &c->target->layout;
	const struct layout_facts *f = &c->target->ops->facts;
	if (!t->impl || !read_bit(c, t->impl, f->conj_bit, &out->conj) ||
	    !read_bit(c, t->impl, f->neg_bit, &out->neg))
		out->may_be_lazy = may_be_lazy(c, t);
	else if (!can_load_bits(c->target))
		out->may_be_lazy = out->conj || out->neg;
	out->has_storage_bytes =
	    t->storage && !(l->unknown & LAYOUT_NBYTES) &&
	    !mem_read_u64(&c->target->mem, t->storage + l->storage_nbytes, &out->storage_bytes);
}

struct source capture_source(struct capture_source *c)
{
	return (struct source){.ctx = c, .read = read_target, .more = more_of};
}
