/* Giving dense numbers to things: to equal byte strings (intern), to the same object (ptrmap). */
#ifndef BASE_INTERN_H
#define BASE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct intern_slot {
	uint32_t hash, id1; /* id1: id + 1, 0 for an empty slot */
	uint32_t len;
	const void *bytes;
};

/* Zero-initialise. Not thread-safe. */
struct intern {
	struct intern_slot *slots;
	uint32_t size, used; /* size: a power of two */
	size_t bytes;	     /* memory taken by the contents */
	struct arena arena;
};

/* The id of the `len` bytes at `bytes`; *is_new when they were not known, and then the id is the
 * number of those before. Copies the bytes. Returns the id or -ENOMEM. */
int64_t intern(struct intern *t, const void *bytes, uint32_t len, bool *is_new);

/* The id, or -ENOENT without adding anything. */
int64_t intern_find(const struct intern *t, const void *bytes, uint32_t len);

void intern_free(struct intern *t);

struct ptrmap_slot {
	const void *key;
	uint32_t value;
};

/* Zero-initialise. Not thread-safe. */
struct ptrmap {
	struct ptrmap_slot *slots;
	uint32_t size, used;
};

/* The value kept for `key` (not NULL), or -ENOENT. */
int64_t ptrmap_get(const struct ptrmap *m, const void *key);

/* Keep `value` for `key`, which is not there yet. 0 or -ENOMEM. */
int ptrmap_put(struct ptrmap *m, const void *key, uint32_t value);

/* Forget all keys; the memory goes too. */
void ptrmap_free(struct ptrmap *m);

#endif
