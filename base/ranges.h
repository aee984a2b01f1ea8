/* Numbers as a user lists them: "3,10-20,50-". */
#ifndef BASE_RANGES_H
#define BASE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct range {
	uint64_t first, last; /* both belong to it; last is UINT64_MAX for "50-" */
};

/* Zero-initialised: every number. Owns `list`. */
struct ranges {
	struct range *list;
	size_t n;
};

/* Read `text`; `option` is the option's name for messages. Numbers begin at 1. Returns 0, -EINVAL
 * or -ENOMEM. */
int ranges_parse(const char *option, const char *text, struct ranges *out, struct err *e);

bool ranges_have(const struct ranges *r, uint64_t n);

/* Is `n` behind all of them: does no number from `n` on belong? */
bool ranges_over(const struct ranges *r, uint64_t n);

void ranges_free(struct ranges *r);

#endif
