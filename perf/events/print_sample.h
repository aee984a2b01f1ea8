/* Samples as text and as JSON. */
#ifndef PERF_EVENTS_PRINT_SAMPLE_H
#define PERF_EVENTS_PRINT_SAMPLE_H

#include <stdio.h>

#include "symbolizer/event/sample.h"

/* "3.141593 s  1234/1235  aten::mm (backward)" with the frames below it, innermost first: native
 * ones, then Python's. The time is since `origin_ns`. */
void sample_print(FILE *f, const struct sample *s, uint64_t origin_ns);

/* One JSON object without a newline: sample (true), time_ns, pid, tid, weight, op (null: none),
 * phase, in_kernel, mismatched, python and native: arrays of {file, line, function}, innermost
 * first. */
void sample_json(FILE *f, const struct sample *s);

/* One of its two stacks, as there. */
void sample_json_stack(FILE *f, const struct py_stack *s);

#endif
