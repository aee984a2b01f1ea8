/* Kernels, copies and sets by name, device and stream. */
#ifndef PERF_REPORT_KERNELS_H
#define PERF_REPORT_KERNELS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "perf/report/report.h"
#include "symbolizer/event/event.h"

/* What rows are by: flags. */
enum { KERNELS_NAME = 1, KERNELS_DEVICE = 2, KERNELS_STREAM = 4 /* and its device */ };

/* Whether --group asks for kernels or streams; *keys: by what, if 1 is returned. 0: it does not.
 * -EINVAL: they do not go with the other keys. */
int kernels_parse(const char *group, unsigned *keys, struct err *e);

/* Parse a sort key of such rows. 0 or -EINVAL. */
int kernels_parse_sort(const char *text, enum report_sort *sort, struct err *e);

/* NULL if out of memory; free with kernels_free. */
struct kernels;
struct kernels *kernels_new(unsigned keys);
void kernels_free(struct kernels *k); /* NULL allowed */

/* Memory grows with the number of distinct rows and of the lines that launch them. What the
 * activity points to is copied. 0 or -ENOMEM. */
int kernels_add(struct kernels *k, const struct activity *a);

/* A row for each, with the op and line that most of its time was launched by. Percentages are of
 * opts->busy_ns; `a` names devices. 0, -ENOMEM or -EIO. */
int kernels_print(FILE *f, const struct kernels *k, const struct aggregate *a,
		  const struct report_opts *opts);

/* The rows as CSV with a header, and as a JSON array. 0, -ENOMEM or -EIO. */
int kernels_print_csv(FILE *f, const struct kernels *k, const struct report_opts *opts);
struct json_out;
int kernels_json(struct json_out *j, const char *key, const struct kernels *k,
		 const struct report_opts *opts);

#endif
