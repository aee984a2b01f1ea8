/* Arena allocator: memory that is freed all at once, such as the values of one event or the strings
 * of one file. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena_block;

/* Zero-initialise. Not thread-safe. */
struct arena {
	struct arena_block *blocks; /* newest first */
	size_t used;		    /* bytes used of the newest block */
};

/* `size` bytes, zeroed, 16-byte aligned, valid until arena_reset or arena_free; NULL when out of
 * memory. */
void *arena_alloc(struct arena *a, size_t size);

/* A NUL-terminated copy of the first n bytes of s, which needs no NUL; NULL when out of memory. */
char *arena_strndup(struct arena *a, const char *s, size_t n);

/* Free all allocations, but keep one block for reuse. */
void arena_reset(struct arena *a);

/* Free everything; the arena stays usable. */
void arena_free(struct arena *a);

/* Growable and sorted arrays. */

/* Grow the malloc'ed array (or NULL) at *array, where `array` is a T **, to hold `need` elements of
 * `each` bytes, at least doubling it. *room is its capacity in elements. New elements are
 * uninitialised. 0, or -ENOMEM with nothing changed. */
int array_grow(void *array, size_t *room, size_t need, size_t each);

/* Upper bound in an array of `n` elements of `each` bytes, sorted by the uint64_t that each begins
 * with: the number of elements whose key is at most `key`. */
size_t array_up_to(const void *array, size_t n, size_t each, uint64_t key);

#endif
