/* --group and --sort of a report, as they are written. */
#ifndef PERF_REPORT_GROUP_H
#define PERF_REPORT_GROUP_H

#include "base/err.h"
#include "perf/report/report.h"

/* Read "op,line,shape" into AGGREGATE_* keys. 0 or -EINVAL. */
int group_parse(const char *text, unsigned *keys, struct err *e);

/* Read the name of a key to sort rows by `keys` by. 0, or -EINVAL: there is no such key, or the
 * rows do not have it. */
int group_parse_sort(const char *text, unsigned keys, enum report_sort *sort, struct err *e);

#endif
