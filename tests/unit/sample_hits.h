/* Hand-made records of an engine, and a process to decode them for. */
#ifndef TESTS_UNIT_SAMPLE_HITS_H
#define TESTS_UNIT_SAMPLE_HITS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/decode/decoder.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/plan/plan.h"
#include "tests/unit/faketorch.h"

enum { SAMPLE_RECORD = 1 << 16 };

/* A record followed by its items. */
struct record {
	struct hit hit; /* first member; hit.size grows with the items */
	uint8_t items[SAMPLE_RECORD];
};

/* Append an item of `len` bytes, padded as plan.h says. */
static inline void record_item(struct record *r, unsigned kind, unsigned read, uint32_t aux,
			       const void *data, size_t len)
{
	struct item i = {(uint8_t)kind, (uint8_t)read, (uint16_t)len, aux};
	size_t at = r->hit.size - sizeof(r->hit), padded = (len + 7) & ~(size_t)7;
	if (len > UINT16_MAX || at + sizeof(i) + padded > sizeof(r->items))
		abort();
	memset(r->items + at, 0, sizeof(i) + padded);
	memcpy(r->items + at, &i, sizeof(i));
	if (len)
		memcpy(r->items + at + sizeof(i), data, len);
	r->hit.size += (uint32_t)(sizeof(i) + padded);
}

static inline void record_word(struct record *r, unsigned read, uint64_t word)
{
	record_item(r, ITEM_DATA, read, 0, &word, sizeof(word));
}

static inline void record_begin(struct record *r, struct hit hit)
{
	r->hit = hit;
	r->hit.size = sizeof(r->hit);
}

static inline struct items record_items(const struct record *r)
{
	return (struct items){.data = r->items, .len = r->hit.size - (uint32_t)sizeof(r->hit)};
}

/* A process without Python; its memory is that of `fake`. */
struct sample_target {
	struct fake fake;
	struct op_table ops;
	struct target target;
};

enum { SAMPLE_SNAPSHOTS = 24 };

static inline int sample_read(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	const char *at = (const char *)m - offsetof(struct sample_target, target.mem);
	return fake_read(&((const struct sample_target *)at)->fake.mem, addr, buf, len);
}

/* Learn the layout of its tensors, as after some time of training. */
static inline int sample_target_learn(struct sample_target *s)
{
	static struct tensor_snapshot snap[SAMPLE_SNAPSHOTS];
	for (unsigned i = 0; i < SAMPLE_SNAPSHOTS; i++) {
		struct fake_tensor t = fake_ordinary(&s->fake);
		fake_snapshot(&s->fake, &t, &snap[i]);
	}
	int r = layout_solve(snap, SAMPLE_SNAPSHOTS, NULL, s->target.rtti, &s->target.mem,
			     &s->target.layout, NULL);
	s->target.layout_complete = s->target.layout_known = !r;
	return r;
}

/* Set up with `ops`, which stay the caller's. The tensor layout is still unknown. */
static inline void sample_target_init(struct sample_target *s, struct op_probe *ops, uint32_t n)
{
	struct invented in = fake_layout(1);
	fake_init(&s->fake, &in, 1);
	s->ops = (struct op_table){.ops = ops, .n = n, .scalar_complex_tag = 2};
	s->target = (struct target){.pid = 77, .ops = &s->ops, .mem.read = sample_read};
	s->target.rtti = rtti_new(&s->target.mem);
	s->target.registry = registry_new(&s->target.mem, false, s->target.rtti);
	if (!s->target.rtti || !s->target.registry)
		abort();
}

static inline void sample_target_free(struct sample_target *s)
{
	native_callers_free(s->target.callers);
	registry_free(s->target.registry);
	rtti_free(s->target.rtti);
	node_map_free(&s->target.nodes);
	free(s->target.snapshots);
	free(s->target.seen);
}

/* How tensors are read into packed items (TPART_PACKED). */
static inline struct tensor_read sample_packed_read(const struct tensor_layout *l)
{
	return (struct tensor_read){.win_len = l->win_len,
				    .storage = l->storage,
				    .storage_from = l->storage_data_ptr,
				    .storage_len = 8,
				    .meta = l->autograd_meta,
				    .sizes = l->sizes,
				    .inline_dims = l->inline_dims,
				    .tail = 32};
}

static inline uint32_t sample_append(uint8_t *to, uint32_t len, const uint8_t *from, uint32_t n)
{
	memcpy(to + len, from, n);
	return len + n;
}

/* The words of a packed item with TPART_STORAGE, at most 2 * WIN_MAX bytes: of the window, and of
 * what the storage pointer points to. Returns their length. */
static inline uint32_t sample_pack(const struct tensor_read *c, const struct tensor_snapshot *snap,
				   uint8_t *bytes)
{
	const uint8_t *w = snap->impl, *dims = w + c->sizes + 8;
	unsigned part = (c->storage - SNAPSHOT_FIRST) / 8;
	uint32_t ndim = w[c->sizes] <= c->inline_dims ? w[c->sizes] : 0;
	uint32_t len = sample_append(bytes, 0, (const uint8_t *)&snap->impl_addr, 8);
	len = sample_append(bytes, len, w, 8);
	len = sample_append(bytes, len, w + c->storage, 8);
	len = sample_append(bytes, len, w + c->meta, 8);
	len = sample_append(bytes, len, w + c->sizes, 8);
	len = sample_append(bytes, len, dims, 8 * ndim);
	len = sample_append(bytes, len, dims + 8 * c->inline_dims, 8 * ndim);
	len = sample_append(bytes, len, w + c->tail, c->win_len - c->tail);
	return sample_append(bytes, len, snap->at[part].bytes + c->storage_from, 8);
}

#endif
