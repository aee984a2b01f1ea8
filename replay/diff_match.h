/* Which calls of two runs are the same: the same op from the same source line, the same time it
 * came there, in the process of the same rank. */
#ifndef REPLAY_DIFF_MATCH_H
#define REPLAY_DIFF_MATCH_H

#include <stddef.h>

#include "replay/capture_find.h"

struct diff_pair {
	size_t a, b; /* indices in the two lists */
};

struct diff_match {
	struct diff_pair *pairs; /* in the order of the calls of the first run */
	size_t n;
	size_t only_a, only_b; /* calls without a partner */
};

/* Match the captures of two runs, both as capture_find sorts them; processes are taken in the order
 * of their numbers. A source line that only one of two runs knows is taken for the same. Returns 0
 * or -ENOMEM; diff_match_free gives the pairs back. */
int diff_match(const struct capture_places *a, const struct capture_places *b,
	       struct diff_match *out);

void diff_match_free(struct diff_match *m);

#endif
