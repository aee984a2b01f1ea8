#define _GNU_SOURCE
#include "replay/capture/source.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

static void more_of(void *ctx, const struct tensor *t, struct source_tensor *out)
{
	const struct snapshot *s = ctx;
	if (s->live.more)
		s->live.more(s->live.ctx, t, out);
}

struct source snapshot_source(struct snapshot *s, const struct source *live)
{
	s->live = *live;
	return (struct source){
	    .ctx = s, .read = read_then, .more = more_of, .devices = live->devices};
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
