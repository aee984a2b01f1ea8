/* Dense ids for byte strings (intern) and values by object address (ptrmap). Not thread-safe. */
#ifndef BASE_INTERN_H
#define BASE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct intern_slot {
	uint32_t hash, id1; /* id1: id + 1; 0: empty slot */
	uint32_t len;
	const void *bytes;
};

/* Zero-initialise. Not thread-safe. */
struct intern {
	struct intern_slot *slots;
	uint32_t size, used; /* size: a power of two */
	size_t bytes;	     /* bytes of all interned contents */
	struct arena arena;
};

/* The id of the `len` bytes at `bytes`, which are copied when new. *is_new: they were not interned
 * yet; ids count from 0. Returns the id or -ENOMEM. */
int64_t intern(struct intern *t, const void *bytes, uint32_t len, bool *is_new);

/* The id, or -ENOENT; adds nothing. */
int64_t intern_find(const struct intern *t, const void *bytes, uint32_t len);

/* Free everything; the table stays usable. */
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

/* The value stored for `key` (not NULL), or -ENOENT. */
int64_t ptrmap_get(const struct ptrmap *m, const void *key);

/* Store `value` for `key`, which must not be present. 0 or -ENOMEM. */
int ptrmap_put(struct ptrmap *m, const void *key, uint32_t value);

/* Remove all keys and free the memory. */
void ptrmap_free(struct ptrmap *m);

#endif
