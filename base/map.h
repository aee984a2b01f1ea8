/* Hash maps, dense ids for byte strings, and blocks of memory by address. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* A hash index from 64-bit hashes to item numbers of arrays stored elsewhere (map_next, map_add),
 * or an exact map by 64-bit keys (map_get, map_put). Use a map in one of the two ways only. */

#define MAP_NONE 0xffffffffU

struct map_slot {
	uint64_t hash;
	uint32_t item1; /* item + 1; 0: empty slot */
};

/* Zero-initialise. Not thread-safe. */
struct map {
	struct map_slot *slot;
	uint32_t size, used; /* size: 0 or a power of two */
};

/* The items with hash `hash` in the order of map_add, one per call: start with *pos = 0, MAP_NONE
 * at the end. The caller compares the keys. */
uint32_t map_next(const struct map *m, uint64_t hash, uint32_t *pos);

/* Add an item, below MAP_NONE, without checking for duplicates. 0 or -ENOMEM. */
int map_add(struct map *m, uint64_t hash, uint32_t item);

/* The value of `key`, or -ENOENT. */
int64_t map_get(const struct map *m, uint64_t key);

/* Set or replace the value of `key`, below MAP_NONE. 0, or -ENOMEM with nothing changed. */
int map_put(struct map *m, uint64_t key, uint32_t value);

/* Remove everything; keep the memory. */
void map_clear(struct map *m);

/* Free everything; the map stays usable. */
void map_free(struct map *m);

/* A hash of `len` bytes, for map_next and map_add, or as the `seed` of a further one. Not
 * collision-resistant: compare keys. */
uint64_t map_hash(const void *bytes, size_t len, uint64_t seed);

/* Dense ids. */

/* Zero-initialise. Not thread-safe. */
struct intern {
	struct map index;
	struct intern_item *items; /* by id */
	size_t room;
	uint32_t used; /* number of ids */
	size_t bytes;  /* bytes of all interned contents */
	struct arena arena;
};

/* The id of the `len` bytes at `bytes`, which are copied when new. *is_new: they were not interned
 * yet; ids count from 0. Returns the id or -ENOMEM. */
int64_t intern(struct intern *t, const void *bytes, uint32_t len, bool *is_new);

/* A copy of `text`, the same for equal texts, until intern_free. NULL when out of memory. */
const char *intern_text(struct intern *t, const char *text);

/* The id, or -ENOENT; adds nothing. */
int64_t intern_find(const struct intern *t, const void *bytes, uint32_t len);

/* Free everything; the table stays usable. */
void intern_free(struct intern *t);

/* Blocks of memory that are allocated, by address. */

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
