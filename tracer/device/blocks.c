/* The blocks of a process's memory: how much is freed is known from what was allocated there. */
#include "tracer/device/internal.h"

bool blocks_allocated(struct blocks *b, struct memory_event *m, struct memory_event *before)
{
	struct block was = {0};
	const bool is_kept =
	    !m->bytes || !block_table_put(&b->table, m->address, m->bytes, m->of.start_ns, &was);
	if (is_kept && was.bytes) {
		*before = *m;
		before->freed = true;
		before->bytes = was.bytes;
		b->total -= was.bytes;
		before->total = b->total;
	}
	b->total += m->bytes;
	m->total = b->total;
	return is_kept && was.bytes;
}

bool blocks_freed(struct blocks *b, struct memory_event *m)
{
	const struct block *x = block_table_get(&b->table, m->address);
	if (x && m->of.start_ns < x->tag)
		return false;
	m->bytes = block_table_take(&b->table, m->address).bytes;
	b->total -= m->bytes;
	m->total = b->total;
	return true;
}

void blocks_free(struct blocks *b)
{
	block_table_free(&b->table);
	*b = (struct blocks){0};
}
