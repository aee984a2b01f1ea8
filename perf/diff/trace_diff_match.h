/* Which rows of two traces are the same. For trace_diff.c alone. */
#ifndef PERF_DIFF_TRACE_DIFF_MATCH_H
#define PERF_DIFF_TRACE_DIFF_MATCH_H

#include "perf/diff/trace_diff.h"

/* Make out->rows: the pairs, and the rows that only one trace has. Rows are the same when op,
 * phase, file name, line, function and shape are; of what is left when the text of the line is the
 * same instead of its number; of what is left then when all but the shape is. 0 or -ENOMEM. */
int trace_diff_match(const struct aggregate *a, const struct aggregate *b, struct trace_diff *out);

#endif
