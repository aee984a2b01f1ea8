/* Memory that is given back all at once: the values of one event, the strings of one file. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena_block;

/* Zero-initialise. Not thread-safe. */
struct arena {
	struct arena_block *blocks; /* newest first */
	size_t used;		    /* bytes of the newest block in use */
};

/* `size` bytes, zeroed, 16-byte aligned, valid until arena_reset or arena_free; NULL without
 * memory. */
void *arena_alloc(struct arena *a, size_t size);

/* A NUL-terminated copy of the first n bytes of s (s needs no NUL); NULL without memory. */
char *arena_strndup(struct arena *a, const char *s, size_t n);

/* Forget everything allocated, keep one block for the next round. */
void arena_reset(struct arena *a);

/* Give all memory back; the arena may be used again. */
void arena_free(struct arena *a);

/* Arrays that grow. */

/* Make the array that the pointer at `array` (a T **) points to, from malloc or NULL, hold `need`
 * elements of `each` bytes, at least doubling it; *room is how many it holds. What is new is not
 * initialised. 0 or -ENOMEM, and then nothing has changed. */
int array_grow(void *array, size_t *room, size_t need, size_t each);

/* How many of the `n` elements of `each` bytes begin with a uint64_t of at most `key`, by which
 * they are sorted. */
size_t array_up_to(const void *array, size_t n, size_t each, uint64_t key);

#endif
