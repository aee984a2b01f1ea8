/* Statistics of a tensor for --overflow: those of --stats (replay/numbers/stats.h). */
#define _GNU_SOURCE
#include "tracer/shim/extension/modes.h"

#include <inttypes.h>
#include <stdio.h>

#include "replay/numbers/stats.h"
#include "tracer/shim/extension/modes_args.h"

enum { COLUMNS = 11 };

static void bound(char out[32], const struct stats *s, double value, int64_t exact)
{
	if (!s->is_int || !s->count)
		snprintf(out, 32, "%.6g", value);
	else
		snprintf(out, 32, s->is_unsigned ? "%" PRIu64 : "%" PRId64, exact);
}

static object *row_of(const struct stats *s)
{
	char text[COLUMNS][32];
	bool bad = s->nan || s->pos_inf || s->neg_inf;
	snprintf(text[0], 32, "%s", bad ? "True" : "False");
	bound(text[1], s, s->min, s->min_int);
	bound(text[2], s, s->max, s->max_int);
	snprintf(text[3], 32, "%.6g", s->mean);
	snprintf(text[4], 32, "%.6g", s->std);
	snprintf(text[5], 32, "%.6g", s->l2);
	snprintf(text[6], 32, "%" PRIu64, s->nan);
	snprintf(text[7], 32, "%" PRIu64, s->pos_inf);
	snprintf(text[8], 32, "%" PRIu64, s->neg_inf);
	snprintf(text[9], 32, "%" PRIu64, s->zeros);
	snprintf(text[10], 32, "%016" PRIx64, s->hash);
	object *row = py.PyList_New(0);
	for (int i = 0; row && i < COLUMNS; i++) {
		object *cell = py.PyUnicode_FromString(text[i]);
		if (cell && py.PyList_Append(row, cell))
			py.PyErr_Clear();
		python_drop(cell);
	}
	return row;
}

object *modes_measure(object *self, object *tensor)
{
	struct numbers n;
	(void)self;
	if (!numbers_of(tensor, &n))
		return NULL;
	struct stats s;
	struct stats_sum *sum = stats_begin(n.dtype);
	if (sum) {
		stats_add(sum, n.data, (size_t)n.n);
		stats_end(sum, &s);
	}
	numbers_drop(&n);
	return sum ? row_of(&s) : python_none();
}
