/* What replay found, for people and for programs. */
#ifndef REPLAY_REPLAY_REPORT_H
#define REPLAY_REPLAY_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "replay/capture_find.h"
#include "replay/row.h"

enum outcome_kind {
	OUTCOME_DONE,
	OUTCOME_SKIPPED, /* nothing that could be compared: random ops */
	OUTCOME_NOT_RUN, /* could not be run: damaged, refused, died */
};

/* How it went with one captured call. */
struct outcome {
	enum outcome_kind kind;
	char *why; /* owned; NULL for OUTCOME_DONE */
};

struct replay_report {
	const struct capture_places *places;
	struct outcome *outcomes; /* one for each place; has not begun: OUTCOME_DONE */
	struct rows rows;
	bool detail;		    /* programs get all that is known of a row */
	size_t done;		    /* calls that ended */
	const char *torch, *python; /* versions */
	const char *interpreter;    /* path */
	const char
	    *judged; /* what: "results in the capture", "results of a new run"; NULL: nothing */
};

struct replay_counts {
	size_t calls, skipped, not_run;
	size_t right, wrong, not_judged; /* tensors and values */
	size_t wrong_calls;
};

void replay_count(const struct replay_report *r, struct replay_counts *c);

/* A row a tensor, worst first. Sorts the rows. 0, -ENOMEM or -EIO. */
int replay_print_table(FILE *f, struct replay_report *r, int width, bool color);

/* The same in the order in which the rows are. */
int replay_print_rows(FILE *f, const struct replay_report *r, int width, bool color);

/* What failed, by op, worst first; what could not be run; how much there was. Sorts the rows. */
void replay_print_summary(FILE *f, struct replay_report *r);

/* A JSON object a line for each row (and for each call that was not run): op, id, role, index,
 * verdict, allclose, cosine, max_abs_diff, max_relative_diff, ulp, atol, rtol, reason, file, line,
 * and with `detail` more (ditrace-replay(1)). Numbers that JSON has not are strings: "nan", "inf",
 * "-inf". */
int replay_print_json(FILE *f, const struct replay_report *r);

/* The same as CSV with a header line. */
int replay_print_csv(FILE *f, const struct replay_report *r);

void replay_report_free(struct replay_report *r);

#endif
