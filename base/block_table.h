/* Blocks of memory that are allocated, by address. */
#ifndef BASE_BLOCK_TABLE_H
#define BASE_BLOCK_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

struct block {
	uint64_t key;	/* the caller's: an address, perhaps with a device in it */
	uint64_t bytes; /* 0: it is free */
	uint64_t tag;	/* the caller's */
};

/* Zero-initialise. Its memory grows with the blocks that are allocated, not with those that were.
 */
struct block_table {
	struct map at; /* index in `list`, by key */
	struct block *list;
	size_t room;
	uint32_t n, live;
};

/* The block, also one that is free for some time more; NULL: nothing is known of it. Valid until
 * the next block_table_put. */
struct block *block_table_get(const struct block_table *t, uint64_t key);

/* A block of `bytes` (more than 0) is allocated; *before is what was there, with bytes 0 if it was
 * free. 0 or -ENOMEM, with nothing changed but that. */
int block_table_put(struct block_table *t, uint64_t key, uint64_t bytes, uint64_t tag,
		    struct block *before);

/* It is freed. What it was; bytes 0: it was not allocated. */
struct block block_table_take(struct block_table *t, uint64_t key);

void block_table_free(struct block_table *t);

#endif
