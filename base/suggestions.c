#include "base/text.h"

#include <stdio.h>
#include <string.h>

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;
	return m < c ? m : c;
}

/* Optimal string alignment distance; both words are shorter than SUGGESTIONS_WORD. */
static unsigned distance(const char *a, size_t na, const char *b, size_t nb)
{
	unsigned rows[3][SUGGESTIONS_WORD];
	unsigned *before = rows[0], *last = rows[1], *row = rows[2];

	for (size_t j = 0; j <= nb; j++)
		last[j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			row[j] =
			    min3(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < row[j])
				row[j] = before[j - 2] + 1;
		}
		unsigned *spare = before;
		before = last;
		last = row;
		row = spare;
	}
	return last[nb];
}

static bool is_there(const struct suggestions *x, const char *name)
{
	for (size_t i = 0; i < x->n; i++)
		if (!strcmp(x->found[i].name, name))
			return true;
	return false;
}

void suggestions_add(struct suggestions *x, const char *name)
{
	size_t na = strlen(x->word), nb = strlen(name);
	size_t far = na / 3 > 2 ? na / 3 : 2;

	if (!na || !nb || na >= SUGGESTIONS_WORD || nb >= SUGGESTIONS_WORD || na > nb + far ||
	    nb > na + far)
		return;
	unsigned d = distance(x->word, na, name, nb);
	if (d > far || d >= na || is_there(x, name))
		return;
	size_t at = x->n;
	while (at > 0 && x->found[at - 1].distance > d)
		at--;
	if (at == SUGGESTIONS_MAX)
		return;
	size_t end = x->n < SUGGESTIONS_MAX ? x->n++ : SUGGESTIONS_MAX - 1;
	memmove(&x->found[at + 1], &x->found[at], (end - at) * sizeof(x->found[0]));
	x->found[at].distance = d;
	memcpy(x->found[at].name, name, nb + 1);
}

bool suggestions_list(const struct suggestions *x, char *out, size_t size)
{
	size_t used = 0;
	if (!size)
		return false;
	out[0] = '\0';
	for (size_t i = 0; i < x->n; i++) {
		int n = snprintf(out + used, size - used, "%s%s", i ? ", " : "", x->found[i].name);
		if (n < 0 || (size_t)n >= size - used) {
			out[used] = '\0';
			break;
		}
		used += (size_t)n;
	}
	return used > 0;
}
