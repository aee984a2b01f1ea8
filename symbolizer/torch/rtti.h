/* Names of C++ classes of objects in the target, by the type information that vtables point to. */
#ifndef SYMBOLIZER_TORCH_RTTI_H
#define SYMBOLIZER_TORCH_RTTI_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/target/mem.h"

enum { RTTI_ANCESTORS = 12 };

/* A class, named as in its type_info without "_ZTS": "N3c1010TensorImplE". Lives as long as the
 * cache. */
struct rtti_class {
	uint64_t vtable; /* address in the target, as objects hold it */
	const char *name;
	uint8_t
	    nancestors; /* direct and indirect bases, each once, the first RTTI_ANCESTORS of them */
	const char *ancestors[RTTI_ANCESTORS];
	int kind;	   /* for the user of the cache; 0 at first */
	const void *facts; /* likewise, NULL at first: what rtti_keep has returned, say */
};

struct rtti;

/* A cache over the memory of one target; `m` must outlive it. NULL without memory. Not thread-safe.
 */
struct rtti *rtti_new(const struct mem *m);

/* NULL allowed. */
void rtti_free(struct rtti *r);

/* The class whose vtable is at `vtable` (the first word of an object); NULL if that is none. Read
 * once: the Itanium C++ ABI (2.9.4 and 2.9.5) puts offset-to-top and the type_info's address in the
 * two words before a vtable, and in a type_info first its own vtable, then the name, then the
 * bases; all of it is static data. What is not wholly there, as long as the library is being
 * relocated, is read again the next time. */
struct rtti_class *rtti_of_vtable(struct rtti *r, uint64_t vtable);

/* The class of the object at `addr`; NULL if it is none or cannot be read. */
struct rtti_class *rtti_of_object(struct rtti *r, uint64_t addr);

/* Whether `c` (NULL: false) is the class `name` or is derived from it. */
bool rtti_is_a(const struct rtti_class *c, const char *name);

/* A copy of `len` bytes that lives as long as the cache; NULL without memory. */
const void *rtti_keep(struct rtti *r, const void *data, size_t len);

#endif
