#define _GNU_SOURCE
#include "tracer/engine/shim/jumps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The first word of the head; then come the handlers' addresses, 0 for none. */
#define POOL_MAGIC UINT64_C(0x31706d756a746964)
_Static_assert((JUMP_HANDLERS + 1) * 8 <= JUMP_POOL_HEAD, "the head of a pool");

static uint64_t *part_head(const struct pool_part *p)
{
	return (uint64_t *)(void *)p->bytes;
}

static uint32_t part_room(const struct pool_part *p)
{
	return (uint32_t)((p->at.len - JUMP_POOL_HEAD) / JUMP_STUB);
}

static uint8_t *part_stub(const struct pool_part *p, uint32_t i)
{
	return p->bytes + JUMP_POOL_HEAD + (size_t)i * JUMP_STUB;
}

static uint64_t part_stub_at(const struct pool_part *p, uint32_t i)
{
	return p->at.addr + JUMP_POOL_HEAD + (uint64_t)i * JUMP_STUB;
}

/* The part with the stub `i`. */
static struct pool_part *part_of(const struct pool *p, uint32_t i)
{
	unsigned k = p->parts - 1;
	while (k && p->part[k].first > i)
		k--;
	return (struct pool_part *)&p->part[k];
}

uint8_t *pool_stub(const struct pool *p, uint32_t i)
{
	const struct pool_part *in = part_of(p, i);
	return part_stub(in, i - in->first);
}

uint64_t pool_stub_at(const struct pool *p, uint32_t i)
{
	const struct pool_part *in = part_of(p, i);
	return part_stub_at(in, i - in->first);
}

static bool reaches_both_ways(const struct jump_part *p, uint64_t addr)
{
	return jump_reaches(addr, p->addr) && jump_reaches(addr, p->addr + p->len) &&
	       jump_reaches(p->addr, addr) && jump_reaches(p->addr + p->len, addr);
}

static bool part_reaches(const struct jump_part *p, const struct jump_site *s)
{
	const uint64_t end = s->addr + s->len;
	return (end <= p->addr || s->addr >= p->addr + p->len) && reaches_both_ways(p, s->addr) &&
	       reaches_both_ways(p, end) &&
	       (!s->relative || reaches_both_ways(p, jump_relative_target(s)));
}

bool jump_pool_reaches(const struct jump_pool *p, const struct jump_site *s)
{
	uint64_t k = 0;
	while (k < p->n && k < JUMP_PARTS && !part_reaches(&p->part[k], s))
		k++;
	return k < p->n && k < JUMP_PARTS;
}

bool pool_reaches(const struct pool *p, uint32_t i, const struct jump_site *s)
{
	return part_reaches(&part_of(p, i)->at, s);
}

static int part_index(struct pool_part *p, struct map *by_window)
{
	const uint64_t *head = part_head(p);
	int r = 0;
	while (p->handlers < JUMP_HANDLERS && head[1 + p->handlers])
		p->handlers++;
	for (; !r && p->stubs < part_room(p); p->stubs++) {
		uint64_t window = jump_stub_window(part_stub(p, p->stubs));
		if (!window)
			break;
		r = map_put(by_window, window, p->first + p->stubs);
	}
	p->were = p->stubs;
	p->handlers_were = p->handlers;
	return r;
}

static int part_read(struct pool *p, int mem, struct pool_part *part, struct err *e)
{
	part->bytes = malloc(part->at.len);
	if (!part->bytes)
		return err_set(e, -ENOMEM, "no memory");
	int r = jump_mem_read(mem, part->at.addr, part->bytes, part->at.len);
	if (r)
		return err_set(e, r, "cannot read the memory for jumps: %s", strerror(-r));
	uint64_t *head = part_head(part);
	if (*head && *head != POOL_MAGIC)
		return err_set(e, -EINVAL, "the memory for jumps has something else in it");
	*head = POOL_MAGIC;
	r = part_index(part, &p->by_window);
	return r ? err_set(e, r, "no memory") : 0;
}

int pool_read(struct pool *p, int mem, const struct jump_pool *at, struct err *e)
{
	uint32_t first = 0;
	int r = 0;
	*p = (struct pool){0};
	for (uint64_t k = 0; k < at->n && !r; k++) {
		struct pool_part *part = &p->part[p->parts++];
		*part = (struct pool_part){.at = at->part[k], .first = first};
		first += part_room(part);
		r = part_read(p, mem, part, e);
	}
	return r;
}

void pool_free(struct pool *p)
{
	for (unsigned k = 0; k < p->parts; k++)
		free(p->part[k].bytes);
	map_free(&p->by_window);
	*p = (struct pool){0};
}

int64_t pool_of_window(const struct pool *p, uint64_t window)
{
	return map_get(&p->by_window, window);
}

int64_t pool_of_address(const struct pool *p, uint64_t addr)
{
	for (unsigned k = 0; k < p->parts; k++) {
		const struct pool_part *in = &p->part[k];
		const uint64_t i = (addr - part_stub_at(in, 0)) / JUMP_STUB;
		if (addr >= part_stub_at(in, 0) && i < in->stubs &&
		    part_stub_at(in, (uint32_t)i) == addr)
			return (int64_t)(in->first + i);
	}
	return -ENOENT;
}

/* The word of the head with that handler. */
static int64_t part_handler(struct pool_part *p, uint64_t handler)
{
	uint64_t *head = part_head(p);
	unsigned i = 0;
	while (i < p->handlers && head[1 + i] != handler)
		i++;
	if (i == JUMP_HANDLERS)
		return -ENOSPC;
	if (i == p->handlers)
		head[1 + p->handlers++] = handler;
	return 1 + i;
}

int pool_contents(struct pool *p, uint32_t i, const struct jump_site *s, uint8_t out[JUMP_STUB])
{
	struct pool_part *in = part_of(p, i);
	int64_t word = part_handler(in, s->handler);
	if (word < 0)
		return (int)word;
	jump_stub_contents(out, s, pool_stub_at(p, i), in->at.addr + (uint64_t)word * 8);
	return 0;
}

int64_t pool_add(struct pool *p, const struct jump_site *s)
{
	unsigned k = 0;
	while (k < p->parts &&
	       (p->part[k].stubs == part_room(&p->part[k]) || !part_reaches(&p->part[k].at, s)))
		k++;
	if (k == p->parts)
		return -ENOSPC;
	struct pool_part *in = &p->part[k];
	const uint32_t i = in->first + in->stubs;
	int r = pool_contents(p, i, s, pool_stub(p, i));
	r = r ? r : map_put(&p->by_window, s->addr, i);
	if (!r)
		in->stubs++;
	return r ? r : (int64_t)i;
}

/* The head comes first: a stub calls what it has. */
static int part_write(struct pool_part *p, int mem)
{
	int r = 0;
	if (p->handlers > p->handlers_were)
		r = jump_mem_write(mem, p->at.addr, p->bytes, (1 + p->handlers) * sizeof(uint64_t));
	if (!r && p->stubs > p->were)
		r = jump_mem_write(mem, part_stub_at(p, p->were), part_stub(p, p->were),
				   (size_t)(p->stubs - p->were) * JUMP_STUB);
	if (r)
		return r;
	p->were = p->stubs;
	p->handlers_were = p->handlers;
	return 0;
}

int pool_write(struct pool *p, int mem)
{
	int r = 0;
	for (unsigned k = 0; k < p->parts && !r; k++)
		r = part_write(&p->part[k], mem);
	return r;
}
