/* Internal to perf/collectives: what ranks do between two collectives. */
#ifndef PERF_COLLECTIVES_SKEW_H
#define PERF_COLLECTIVES_SKEW_H

#include "perf/collectives/internal.h"

/* What a rank is named by: see skew_verdict. A call was waited for if its last rank came later than
 * the last but one by SKEW_PERCENT_MIN of the mean time between two calls. */
enum { SKEW_CALLS_MIN = 20, SKEW_DEVIATIONS = 4, SKEW_PERCENT_MIN = 5 };

/* Time in an op, or in no op up to it, at a line. */
struct skew_row {
	const struct op_desc *op;
	const struct py_frame *where; /* NULL: none */
	bool gap;
	uint64_t *ns; /* of each rank */
};

struct skew_rank {
	uint64_t last;	  /* how often it came last */
	uint64_t lead_ns; /* by how much after the last but one, all together */
	uint64_t waited;  /* how often of the calls that were waited for, and by how much */
	struct histogram leads_ns;
	uint64_t ops_ns, gaps_ns, waits_ns;
	struct histogram late_ns; /* after the first one */
};

struct skew {
	const struct collectives *c;
	const struct collective_world *world; /* NULL: none */
	size_t *calls;			      /* numbers, from 0, of those that are compared */
	struct collective_entry *entries;
	size_t n, room, entries_room;
	size_t waited; /* calls for which the last rank kept the others waiting */
	struct skew_rank *ranks;
	struct intern keys, strings;
	struct skew_row *rows;
	size_t nrows, rows_room;
	struct gaps gaps;
	bool no_memory;
};

struct skew_verdict {
	size_t rank;		    /* that comes last most often, by index */
	bool is_named;		    /* it is beyond chance, and matters */
	double percent;		    /* of the time the others wait for it */
	uint64_t median_ns;	    /* by which it comes last, where it is waited for */
	const struct skew_row *row; /* in which it spends most more than the others; NULL: none that
				       explains half of that */
	uint64_t more_ns;	    /* for each time that it is waited for */
};

struct skew_verdict skew_verdict(const struct skew *s);

/* By how much more than any other rank `rank` spends in the row, all calls together; 0: not more.
 */
uint64_t skew_more(const struct skew *s, const struct skew_row *r, size_t rank);

/* The row with the largest skew_more; NULL: none. */
const struct skew_row *skew_most(const struct skew *s, size_t rank);

/* From the first call compared to the last. */
uint64_t skew_span(const struct skew *s);

#endif
