/* report --collectives and --skew. */
#ifndef PERF_REPORT_COLLECTIVES_H
#define PERF_REPORT_COLLECTIVES_H

#include "base/err.h"
#include "perf/trace/trace_read.h"

struct collectives_report {
	const char *path;
	struct trace_choice choice;
	bool skew; /* which rank the others wait for; else a row for each collective */
	bool json, csv;
	uint64_t limit; /* rows; 0: all */
};

/* Print it. Returns the exit status of the command; what failed was printed. */
int report_collectives(const struct collectives_report *o);

#endif
