/* Lists of numbers and ranges as users write them: "3,10-20,50-". */
#ifndef BASE_RANGES_H
#define BASE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct range {
	uint64_t first, last; /* inclusive; last is UINT64_MAX for "50-" */
};

/* Zero-initialised: all numbers. Owns `list`. */
struct ranges {
	struct range *list;
	size_t n;
};

/* Parse `text`; `option` is the option's name for messages. Numbers start at 1. Returns 0 (free
 * with ranges_free), or -EINVAL or -ENOMEM with *e. */
int ranges_parse(const char *option, const char *text, struct ranges *out, struct err *e);

/* The same of numbers that start at `least`. */
int ranges_parse_from(const char *option, const char *text, uint64_t least, struct ranges *out,
		      struct err *e);

/* Whether `n` is in one of the ranges. */
bool ranges_have(const struct ranges *r, uint64_t n);

/* Whether all ranges end before `n`. */
bool ranges_over(const struct ranges *r, uint64_t n);

void ranges_free(struct ranges *r);

#endif
