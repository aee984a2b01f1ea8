#define _GNU_SOURCE
#include "tracer/engine/shim/jumps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The first word of the head; then come the handlers' addresses, 0 for none. */
#define POOL_MAGIC UINT64_C(0x31706d756a746964)
_Static_assert((JUMP_HANDLERS + 1) * 8 <= JUMP_POOL_HEAD, "the head of a pool");

static uint64_t *pool_head(const struct pool *p)
{
	return (uint64_t *)(void *)p->bytes;
}

static uint32_t pool_room(const struct pool *p)
{
	return (uint32_t)((p->at.len - JUMP_POOL_HEAD) / JUMP_STUB);
}

uint8_t *pool_stub(const struct pool *p, uint32_t i)
{
	return p->bytes + JUMP_POOL_HEAD + (size_t)i * JUMP_STUB;
}

uint64_t pool_stub_at(const struct pool *p, uint32_t i)
{
	return p->at.addr + JUMP_POOL_HEAD + (uint64_t)i * JUMP_STUB;
}

static int pool_index(struct pool *p)
{
	const uint64_t *head = pool_head(p);
	int r = 0;
	while (p->handlers < JUMP_HANDLERS && head[1 + p->handlers])
		p->handlers++;
	for (; !r && p->stubs < pool_room(p); p->stubs++) {
		uint64_t window = jump_stub_window(pool_stub(p, p->stubs));
		if (!window)
			break;
		r = map_put(&p->by_window, window, p->stubs);
	}
	p->were = p->stubs;
	p->handlers_were = p->handlers;
	return r;
}

int pool_read(struct pool *p, int mem, const struct jump_pool *at, struct err *e)
{
	*p = (struct pool){.at = *at, .bytes = malloc(at->len)};
	if (!p->bytes)
		return err_set(e, -ENOMEM, "no memory");
	int r = jump_mem_read(mem, at->addr, p->bytes, at->len);
	if (r)
		return err_set(e, r, "cannot read the memory for jumps: %s", strerror(-r));
	uint64_t *head = pool_head(p);
	if (*head && *head != POOL_MAGIC)
		return err_set(e, -EINVAL, "the memory for jumps has something else in it");
	*head = POOL_MAGIC;
	r = pool_index(p);
	return r ? err_set(e, r, "no memory") : 0;
}

void pool_free(struct pool *p)
{
	free(p->bytes);
	map_free(&p->by_window);
	*p = (struct pool){0};
}

int64_t pool_of_window(const struct pool *p, uint64_t window)
{
	return map_get(&p->by_window, window);
}

int64_t pool_of_address(const struct pool *p, uint64_t addr)
{
	uint64_t i = (addr - pool_stub_at(p, 0)) / JUMP_STUB;
	return addr >= pool_stub_at(p, 0) && i < p->stubs && pool_stub_at(p, (uint32_t)i) == addr
		   ? (int64_t)i
		   : -ENOENT;
}

/* The word of the head with that handler. */
static int64_t pool_handler(struct pool *p, uint64_t handler)
{
	uint64_t *head = pool_head(p);
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
	int64_t word = pool_handler(p, s->handler);
	if (word < 0)
		return (int)word;
	jump_stub_contents(out, s, pool_stub_at(p, i), p->at.addr + (uint64_t)word * 8);
	return 0;
}

int64_t pool_add(struct pool *p, const struct jump_site *s)
{
	if (p->stubs == pool_room(p))
		return -ENOSPC;
	int r = pool_contents(p, p->stubs, s, pool_stub(p, p->stubs));
	r = r ? r : map_put(&p->by_window, s->addr, p->stubs);
	return r ? r : (int64_t)p->stubs++;
}

/* The head comes first: a stub calls what it has. */
int pool_write(struct pool *p, int mem)
{
	int r = 0;
	if (p->handlers > p->handlers_were)
		r = jump_mem_write(mem, p->at.addr, p->bytes, (1 + p->handlers) * sizeof(uint64_t));
	if (!r && p->stubs > p->were)
		r = jump_mem_write(mem, pool_stub_at(p, p->were), pool_stub(p, p->were),
				   (size_t)(p->stubs - p->were) * JUMP_STUB);
	if (r)
		return r;
	p->were = p->stubs;
	p->handlers_were = p->handlers;
	return 0;
}
