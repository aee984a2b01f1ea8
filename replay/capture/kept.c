#define _GNU_SOURCE
#include "replay/capture/capture_files.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct kept_tensor {
	struct kept_tensor *before;
	struct tensor *tensor;
	struct source_tensor more;
	uint64_t address;
	size_t n;
	unsigned char *bytes; /* of [address, address + n) */
};

static const struct kept_tensor *kept_find(const struct kept *k, uint64_t address, size_t n)
{
	for (const struct kept_tensor *x = k->last; x; x = x->before)
		if (address >= x->address && n <= x->n && address - x->address <= x->n - n)
			return x;
	return NULL;
}

/* Whether `x` has the same bytes as every kept tensor that overlaps it. */
static bool agrees(const struct kept *k, const struct kept_tensor *x)
{
	for (const struct kept_tensor *y = k->last; y; y = y->before) {
		uint64_t from = x->address > y->address ? x->address : y->address;
		uint64_t x_end = x->address + x->n, y_end = y->address + y->n;
		uint64_t end = x_end < y_end ? x_end : y_end;
		if (from < end && memcmp(x->bytes + (from - x->address),
					 y->bytes + (from - y->address), end - from) != 0)
			return false;
	}
	return true;
}

static int64_t *copy_dims(struct arena *a, const int64_t *dims, unsigned n)
{
	int64_t *to = arena_alloc(a, n * sizeof(*to) + 1);
	if (to && n)
		memcpy(to, dims, n * sizeof(*to));
	return to;
}

static struct tensor *copy_tensor(struct arena *a, const struct tensor *t)
{
	struct tensor *to = arena_alloc(a, sizeof(*to));
	if (!to)
		return NULL;
	*to = *t;
	to->meta.shape = copy_dims(a, t->meta.shape, t->meta.ndim);
	to->meta.stride = copy_dims(a, t->meta.stride, t->meta.ndim);
	return to->meta.shape && to->meta.stride ? to : NULL;
}

static int read_bytes(struct kept *k, struct kept_tensor *x, const struct source *src)
{
	if (!x->n)
		return 0;
	x->bytes = arena_alloc(&k->arena, x->n);
	if (!x->bytes)
		return -ENOMEM;
	int r = src->read(src->ctx, x->address, x->bytes, x->n);
	return r ? r : agrees(k, x) ? 0 : -EEXIST;
}

int kept_add(struct kept *k, const struct tensor *t, const struct source *src, size_t max,
	     struct tensor **out)
{
	struct extent extent;
	if (extent_of(t, src->devices, &extent))
		return -ENOTSUP;
	size_t n = extent.base ? extent.bytes : 0;
	if (n > max)
		return -EFBIG;
	struct kept_tensor *x = arena_alloc(&k->arena, sizeof(*x));
	if (!x || !(x->tensor = copy_tensor(&k->arena, t)))
		return -ENOMEM;
	x->address = extent.base;
	x->n = n;
	if (src->more)
		src->more(src->ctx, t, &x->more);
	/* Only this part of the storage was copied. */
	x->more.has_storage_bytes = false;
	int r = read_bytes(k, x, src);
	if (r)
		return r;
	x->before = k->last;
	k->last = x;
	k->bytes += n;
	*out = x->tensor;
	return 0;
}

static int read_kept(void *ctx, uint64_t address, void *to, size_t n)
{
	const struct kept_tensor *x = kept_find(ctx, address, n);
	if (!x)
		return -EFAULT;
	memcpy(to, x->bytes + (address - x->address), n);
	return 0;
}

static void kept_more(void *ctx, const struct tensor *t, struct source_tensor *out)
{
	const struct kept *k = ctx;
	for (const struct kept_tensor *x = k->last; x; x = x->before)
		if (x->tensor == t)
			*out = x->more;
}

struct source kept_source(struct kept *k)
{
	return (struct source){.ctx = k, .read = read_kept, .more = kept_more};
}

void kept_free(struct kept *k)
{
	arena_free(&k->arena);
	*k = (struct kept){0};
}

enum { SPARSE = 16, SMALL = 1 << 20, KEPT = 64 << 20 };

static bool contains(const struct snapshot_range *r, uint64_t address, size_t n)
{
	return address >= r->address && n <= r->n && address - r->address <= r->n - n;
}

static const struct snapshot_range *snapshot_find_range(const struct snapshot *s, uint64_t address,
							size_t n)
{
	for (size_t i = 0; i < s->nranges; i++)
		if (contains(&s->ranges[i], address, n))
			return &s->ranges[i];
	return NULL;
}

int snapshot_add(struct snapshot *s, const struct tensor *t, const struct source *src, size_t max)
{
	struct extent x;
	if (extent_of(t, src->devices, &x) || x.is_meta)
		return -ENOTSUP;
	if (!x.base)
		return 0; /* no elements */
	uint64_t n = x.base + x.bytes - t->data_ptr;
	if (snapshot_find_range(s, t->data_ptr, n))
		return 0;
	bool sparse = n > SMALL && n / SPARSE / x.itemsize > (uint64_t)t->meta.numel;
	if (sparse || n > max || s->len > max - n)
		return -EFBIG;
	if (array_grow(&s->ranges, &s->ranges_room, s->nranges + 1, sizeof(*s->ranges)) ||
	    array_grow(&s->bytes, &s->room, s->len + n, 1))
		return -ENOMEM;
	int r = src->read(src->ctx, t->data_ptr, s->bytes + s->len, n);
	if (r)
		return r;
	s->ranges[s->nranges++] =
	    (struct snapshot_range){.address = t->data_ptr, .n = n, .at = s->len};
	s->len += n;
	return 0;
}

/* Copy the part of [address, address + n) that the range covers to its place in `to`. */
static void lay_over(const struct snapshot *s, const struct snapshot_range *r, uint64_t address,
		     unsigned char *to, size_t n)
{
	uint64_t from = r->address > address ? r->address : address;
	uint64_t end = r->address + r->n < address + n ? r->address + r->n : address + n;
	if (from < end)
		memcpy(to + (from - address), s->bytes + r->at + (from - r->address), end - from);
}

static int read_then(void *ctx, uint64_t address, void *to, size_t n)
{
	const struct snapshot *s = ctx;
	const struct snapshot_range *r = snapshot_find_range(s, address, n);
	if (r) {
		memcpy(to, s->bytes + r->at + (address - r->address), n);
		return 0;
	}
	int rc = s->live.read(s->live.ctx, address, to, n);
	for (size_t i = 0; !rc && i < s->nranges; i++)
		lay_over(s, &s->ranges[i], address, to, n);
	return rc;
}

static void live_more(void *ctx, const struct tensor *t, struct source_tensor *out)
{
	const struct snapshot *s = ctx;
	if (s->live.more)
		s->live.more(s->live.ctx, t, out);
}

struct source snapshot_source(struct snapshot *s, const struct source *live)
{
	s->live = *live;
	return (struct source){
	    .ctx = s, .read = read_then, .more = live_more, .devices = live->devices};
}

void snapshot_clear(struct snapshot *s)
{
	s->nranges = s->len = 0;
	if (s->room <= KEPT)
		return;
	free(s->bytes);
	s->bytes = NULL;
	s->room = 0;
}

void snapshot_free(struct snapshot *s)
{
	free(s->ranges);
	free(s->bytes);
	*s = (struct snapshot){0};
}
