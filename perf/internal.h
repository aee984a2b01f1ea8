/* The command report, in its parts. */
#ifndef PERF_INTERNAL_H
#define PERF_INTERNAL_H

#include "base/err.h"
#include "perf/calls/call_tree.h"
#include "perf/report/aggregate.h"
#include "perf/report/blocks.h"
#include "perf/report/report.h"
#include "perf/trace/trace_read.h"

enum { FORMAT_TABLE, FORMAT_JSON, FORMAT_CSV };
enum { GRAPH_NONE, GRAPH_CALLERS, GRAPH_CALLEES };

struct report {
	const char *path, *group, *sort, *columns, *percent_limit;
	int format, graph, frames;
	uint64_t limit; /* rows of each part; 0: all */
	bool sides, gaps, per_step;
	bool all; /* with `graph`: frames that fold, too */
	bool collectives, skew;
	bool samples; /* report samples, not ops */
	struct report_opts opts;
	struct report_columns chosen;
	struct trace_choice choice;
	struct trace_query *query;
	struct read_progress progress;
	struct aggregate *sum, *gap_sum; /* gap_sum: for --gaps */
	struct gaps between;
	struct kernels *kernels;    /* for --group kernel */
	struct code_blocks *blocks; /* for --group block */
	uint64_t nblocks;	    /* marks that begin one */
	struct call_tree *tree;	    /* for --call-graph */
	struct overflow *overflow;
	struct breakdown *steps; /* NULL: ops are left out */
	struct breakdown_result shown_steps;
	struct trace_target *targets;
	size_t targets_room;
	struct report_thread *threads;
	size_t threads_room;
	const struct trace_clock **clocks;
	size_t clocks_room;
	struct report_samples sampled;
	struct trace_stats stats;
	bool has_stats;
};

/* Whether it is of a part in time, beyond which marks that end a block that begins there are read.
 */
static inline bool report_is_of_span(const struct report *p)
{
	return p->choice.time || p->choice.step || p->per_step;
}

/* Check that the options go together, and allocate what they need. 0, -EINVAL or -ENOMEM. */
int report_prepare(struct report *p, struct err *e);

/* Which of the options are not of --collectives and --skew. 0 or -EINVAL. */
int report_check_collectives(const struct report *p, struct err *e);

/* Sum up all of p->query. Returns like trace_query_next at the end of the file. */
int report_read(struct report *p, struct err *e);

/* report --collectives and --skew. */

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
