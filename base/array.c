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
