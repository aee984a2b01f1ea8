#include "tracer/stack/stack_copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"

static int read_copy(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	const struct stack_copy *c = (const struct stack_copy *)m;
	if (addr < c->start || addr - c->start > c->len || len > c->len - (addr - c->start))
		return -EFAULT;
	memcpy(buf, c->bytes + (addr - c->start), len);
	return 0;
}

int stack_copy_init(struct stack_copy *c)
{
	*c = (struct stack_copy){.mem = {.read = read_copy}, .bytes = malloc(STACK_COPY_MOST)};
	return c->bytes ? 0 : -ENOMEM;
}

void stack_copy_free(struct stack_copy *c)
{
	free(c->bytes);
	c->bytes = NULL;
}

int stack_copy_take(struct stack_copy *c, const struct maps *maps, const struct mem *from,
		    uint64_t sp)
{
	const struct mapping *map = maps_find(maps, sp);
	c->len = 0;
	if (!map)
		return -EFAULT;
	c->start = sp - map->start < ARCH_RED_ZONE ? sp : sp - ARCH_RED_ZONE;
	c->len = map->end - c->start < STACK_COPY_MOST ? map->end - c->start : STACK_COPY_MOST;
	int r = mem_read(from, c->start, c->bytes, c->len);
	if (r)
		c->len = 0;
	return r;
}
