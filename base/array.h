/* Arrays that grow. */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>

/* Make the array that the pointer at `array` (a T **) points to, from malloc or NULL, hold `need`
 * elements of `each` bytes, at least doubling it; *room is how many it holds. What is new is not
 * initialised. 0 or -ENOMEM, and then nothing has changed. */
int array_grow(void *array, size_t *room, size_t need, size_t each);

/* How many of the `n` elements of `each` bytes begin with a uint64_t of at most `key`, by which
 * they are sorted. */
size_t array_up_to(const void *array, size_t n, size_t each, uint64_t key);

#endif
