/* Hand-made records of an engine, and a process to decode them for. */
#ifndef TESTS_UNIT_SAMPLE_HITS_H
#define TESTS_UNIT_SAMPLE_HITS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/decode/decode_value.h"
#include "symbolizer/decode/target.h"
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
	registry_free(s->target.registry);
	rtti_free(s->target.rtti);
	node_map_free(&s->target.nodes);
	free(s->target.snapshots);
}

#endif
