/* Copies of the process's own memory. */
#ifndef TRACER_ENGINE_OWN_COPY_H
#define TRACER_ENGINE_OWN_COPY_H

#include <stddef.h>

/* An inline memcpy for a few words, where a call would cost more. Above 8 bytes the tail is copied
 * as one whole word that overlaps what was copied before. */
static inline void own_copy(void *to, const void *from, size_t len)
{
	char *t = to;
	const char *f = from, *end = f + len;
	for (; end - f >= 32; f += 32, t += 32)
		__builtin_memcpy(t, f, 32);
	for (; end - f >= 8; f += 8, t += 8)
		__builtin_memcpy(t, f, 8);
	if (f != end && len > 8)
		__builtin_memcpy(t + (end - f) - 8, end - 8, 8);
	else
		while (f != end)
			*t++ = *f++;
}

#endif
