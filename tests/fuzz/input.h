/* The input of a fuzz target, consumed piece by piece. */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <string.h>

struct input {
	const unsigned char *data;
	size_t left;
};

/* Copy at most `len` bytes to out; returns their number. */
static inline size_t take(struct input *in, void *out, size_t len)
{
	size_t n = in->left < len ? in->left : len;
	memcpy(out, in->data, n);
	in->data += n;
	in->left -= n;
	return n;
}

#endif
