/* A row of an aggregate, for tests. */
#ifndef TESTS_UNIT_AGGREGATE_ROW_H
#define TESTS_UNIT_AGGREGATE_ROW_H

#include <string.h>

#include "perf/report/aggregate.h"
#include "tests/unit/unit.h"

/* The first one of the op with this name; the test fails if there is none. */
static inline const struct aggregate_row *row(const struct aggregate *a, const char *op)
{
	size_t n;
	const struct aggregate_row *const *rows = aggregate_rows(a, &n);
	for (size_t i = 0; i < n; i++)
		if (!strcmp(rows[i]->op, op))
			return rows[i];
	fail_msg("no row %s", op);
	return NULL;
}

#endif
