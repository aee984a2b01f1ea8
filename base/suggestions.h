/* The names nearest to a mistyped one. */
#ifndef BASE_SUGGESTIONS_H
#define BASE_SUGGESTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum { SUGGESTIONS_MAX = 5, SUGGESTIONS_WORD = 64 };

/* Zero-initialise but for `word`, the name as typed, which must stay. */
struct suggestions {
	const char *word;
	size_t n;
	struct {
		unsigned distance;
		char name[SUGGESTIONS_WORD];
	} found[SUGGESTIONS_MAX]; /* nearest first */
};

/* Offer a name. Kept while it is among the SUGGESTIONS_MAX nearest by edit distance (insertions,
 * deletions, changes and swaps of neighbours) and not too far: a third of the word's length, and at
 * least 2. Names and words of SUGGESTIONS_WORD bytes and more are passed over. */
void suggestions_add(struct suggestions *x, const char *name);

/* "add, addr, addmm" into out; false when nothing is near. */
bool suggestions_list(const struct suggestions *x, char *out, size_t size);

#endif
