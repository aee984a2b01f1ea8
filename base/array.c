#define _GNU_SOURCE
#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int array_grow(void *array, size_t *room, size_t need, size_t each)
{
	enum { LEAST = 16 };
	void *old, *p;
	if (need <= *room)
		return 0;
	size_t more = *room ? 2 * *room : LEAST;
	if (more < need)
		more = need;
	memcpy(&old, array, sizeof(old));
	p = reallocarray(old, more, each);
	if (!p)
		return -ENOMEM;
	memcpy(array, &p, sizeof(p));
	*room = more;
	return 0;
}

size_t array_up_to(const void *array, size_t n, size_t each, uint64_t key)
{
	size_t low = 0, high = n;
	while (low < high) {
		size_t middle = (low + high) / 2;
		uint64_t at;
		memcpy(&at, (const char *)array + middle * each, sizeof(at));
		if (at <= key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}
