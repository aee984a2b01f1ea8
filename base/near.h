/* The names nearest to a mistyped one. */
#ifndef BASE_NEAR_H
#define BASE_NEAR_H

#include <stdbool.h>
#include <stddef.h>

enum { NEAR_MAX = 5, NEAR_WORD = 64 };

/* Zero-initialise but for `word`, the name as typed, which must stay. */
struct near {
	const char *word;
	size_t n;
	struct {
		unsigned distance;
		char name[NEAR_WORD];
	} found[NEAR_MAX]; /* nearest first */
};

/* Offer a name. Kept while it is among the NEAR_MAX nearest by edit distance (insertions,
 * deletions, changes and swaps of neighbours) and not too far: a third of the word's length, and at
 * least 2. Names and words of NEAR_WORD bytes and more are passed over. */
void near_add(struct near *x, const char *name);

/* "add, addr, addmm" into out; false when nothing is near. */
bool near_list(const struct near *x, char *out, size_t size);

#endif
