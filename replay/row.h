/* One judged tensor (or value) of a captured call: what the tables of replay and diff show. */
#ifndef REPLAY_ROW_H
#define REPLAY_ROW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "replay/numbers/verdict.h"
#include "replay/worker.h"

struct replay_row {
	size_t place;  /* index of the capture in its list */
	size_t number; /* of the row, as they came */
	char role[16]; /* "output", "grad"; of diff also "input", "grad_output" */
	char
	    index[64]; /* "0" or "1,0" in a nest; of a gradient the argument; "" for the only one */
	char dtype[24];	 /* "float32"; "" for what is no tensor */
	char device[24]; /* where it was computed; "" when not known */
	enum verdict verdict;
	double score; /* see verdict_judge; sorts rows */
	char why[512];
	char note[64]; /* what else is to be said, "" for nothing */
	bool has_figures;
	bool allclose, equal;
	double cosine, max_abs, max_rel, ulp, atol, rtol;
	bool has_cpu;	   /* what the CPU in the same dtype would have had */
	bool cpu_emulated; /* computed in float32 and rounded: this CPU has no such kernel */
	double cpu_max_abs, cpu_ulp;
	/* What the verdict was made of, in its units. */
	double worst, rms, mean, along, cpu_worst, cpu_rms, cpu_mean, cpu_along, reach;
};

struct rows {
	struct replay_row *list;
	size_t n, size;
};

struct row_rules {
	bool by_allclose; /* ditorch's tolerances decide */
	unsigned threads; /* of a comparison, 0: all */
};

/* The next row of `rows`, zeroed; NULL without memory. */
struct replay_row *rows_add(struct rows *rows);
void rows_free(struct rows *rows);

/* A row from a message of the runner about a tensor, a value, a mismatch or something that it does
 * not judge; the tensors lie in the memory of `w`. -EPROTO for a message that does not fit. */
int row_fill(struct replay_row *r, const char *op, json_t *message, struct worker *w,
	     const struct row_rules *rules, struct err *e);

/* Worst first: wrong before not judged before right, then by score, then as they came. For qsort.
 */
int row_order(const void *a, const void *b);

#endif
