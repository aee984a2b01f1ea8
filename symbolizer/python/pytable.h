/* A hash index: from 64-bit hashes to item numbers of arrays kept elsewhere. */
#ifndef SYMBOLIZER_PYTHON_PYTABLE_H
#define SYMBOLIZER_PYTHON_PYTABLE_H

#include <stddef.h>
#include <stdint.h>

#define PYTABLE_NONE 0xffffffffU

/* Zero-initialise. */
struct pytable {
	struct pytable_slot {
		uint64_t hash;
		uint32_t item; /* + 1; 0: free */
	} * slot;
	uint32_t size, used; /* size: 0 or a power of two */
};

/* Items whose hash is `hash`, one a call: start with *pos = 0, PYTABLE_NONE at the end. The caller
 * compares the keys. */
uint32_t pytable_next(const struct pytable *t, uint64_t hash, uint32_t *pos);

/* Add an item, whether or not it is there already. 0 or -ENOMEM. */
int pytable_add(struct pytable *t, uint64_t hash, uint32_t item);

/* Forget all items; keeps the memory. */
void pytable_clear(struct pytable *t);
void pytable_free(struct pytable *t);

/* A hash of `len` bytes, good enough for power-of-two tables. Not for adversaries: compare keys. */
uint64_t pytable_hash(const void *bytes, size_t len, uint64_t seed);

#endif
