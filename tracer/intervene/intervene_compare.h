/* What --compare found: of each function at each line its worst results, however long the program
 * runs. */
#ifndef TRACER_INTERVENE_INTERVENE_COMPARE_H
#define TRACER_INTERVENE_INTERVENE_COMPARE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"
#include "replay/capture_find.h"
#include "replay/row.h"

/* How often a place was judged: its rows are the worst of all its calls. */
struct intervene_tally {
	uint64_t calls, wrong, judged_grads;
};

/* Zero-initialise. */
struct intervene_compare {
	struct capture_places places; /* functions at lines of the program */
	struct intervene_tally *tallies;
	struct rows rows;
	int64_t *numbers; /* forward_id of the call that rows.list[i] is of, by row.number */
	uint64_t tensors, not_judged;
	double spent_ns, passed_ns; /* of all processes: in comparing, and in all */
};

/* The call that a process is about to have judged. */
struct intervene_call {
	size_t place;
	int64_t number; /* forward_id */
	bool open, wrong, newly_wrong;
	json_t *shown;	       /* ours; tables of a call that has a new failure; NULL: none */
	struct table *results; /* the same: of what it gave */
};

/* Its messages: an op begins (into *call), a tensor or value of it (of the process behind `w`), the
 * op ends. Failures that are new are printed on standard error. 0, -EPROTO or -ENOMEM. */
int intervene_compare_op(struct intervene_compare *c, struct intervene_call *call, json_t *m);
int intervene_compare_row(struct intervene_compare *c, struct intervene_call *call, json_t *m,
			  struct worker *w);
int intervene_compare_end(struct intervene_compare *c, struct intervene_call *call);

/* The process is gone: forget the call. */
void intervene_compare_drop(struct intervene_call *call);

/* Calls that were compared in the process without anything new: [[name, file, line, function,
 * calls, gradients, tensors judged, tensors not judged], ...]. 0, -EPROTO or -ENOMEM. */
int intervene_compare_silent(struct intervene_compare *c, json_t *calls);

/* The summary on standard error, worst first, and the worst rows as CSV (intervene_result.h) in
 * op_tools_results/op_autocompare_result. `budget`: the share of the time, 0: none was given. */
void intervene_compare_print(struct intervene_compare *c, double budget);

void intervene_compare_free(struct intervene_compare *c);

#endif
