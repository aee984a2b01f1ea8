/* What was done in all processes, for the summary. */
#ifndef TRACER_INTERVENE_INTERVENE_TOTALS_H
#define TRACER_INTERVENE_INTERVENE_TOTALS_H

#include <stddef.h>
#include <stdint.h>

#include "tracer/intervene/intervene_rules.h"

struct intervene_total {
	char *feature, *name, *reason; /* reason: why it was left alone, NULL: it was not */
	uint64_t calls;
};

/* Zero-initialise. */
struct intervene_totals {
	struct intervene_total *list;
	size_t n;
};

/* Add those of a process: [[feature, name, reason or null, calls], ...]; NULL: none. */
void intervene_totals_add(struct intervene_totals *t, json_t *totals);

/* What computes in a process without calling a function that could be changed, and its threads that
 * were found to run ops: both [[what, how many], ...]; NULL: nothing. */
void intervene_totals_unseen(struct intervene_totals *t, json_t *unseen, json_t *threads);

/* Those threads as a text, "2 entered, 1 without Python"; NULL: none is known. */
json_t *intervene_totals_threads(const struct intervene_totals *t);

/* On standard error: for each feature that is on a line, and a table of its functions. */
void intervene_totals_print(const struct intervene_totals *t, const struct intervene_rules *rules);

void intervene_totals_free(struct intervene_totals *t);

#endif
