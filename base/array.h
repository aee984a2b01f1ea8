/* Arrays that grow. */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stddef.h>

/* Make the array that the pointer at `array` (a T **) points to, from malloc or NULL, hold `need`
 * elements of `each` bytes, at least doubling it; *room is how many it holds. What is new is not
 * initialised. 0 or -ENOMEM, and then nothing has changed. */
int array_grow(void *array, size_t *room, size_t need, size_t each);

#endif
