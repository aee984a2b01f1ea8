/* Dense ids for byte strings. */
#ifndef BASE_INTERN_H
#define BASE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"

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

/* The id, or -ENOENT; adds nothing. */
int64_t intern_find(const struct intern *t, const void *bytes, uint32_t len);

/* Free everything; the table stays usable. */
void intern_free(struct intern *t);

#endif
