/* How long calls took while the program ran (--apply OP:measure_op_time): ditorch's CSV, and a
 * table of all at the end. */
#ifndef TRACER_INTERVENE_INTERVENE_TIMES_H
#define TRACER_INTERVENE_INTERVENE_TIMES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "replay/times.h"

/* A function at a line. */
struct intervene_timed {
	char *name, *where;
	struct intervene_spent {
		uint64_t n, total, least, most; /* calls, ns */
	} forward, backward;
};

/* Zero-initialise; intervene_times_free gives everything back. */
struct intervene_times {
	struct intervene_timed *list;
	size_t n, size;
	struct times_list
	    calls; /* that are not in the CSV yet; calls.list[i] is of places.list[i] */
	struct capture_places places;
	FILE *csv;
	char path[160];
	bool failed; /* the CSV cannot be written, which was said */
};

/* What is told of one call: {"name", "where", "id"} with "forward": [ns] and the texts "input" and
 * "output", or with "backward": [ns], "grad_inputs", "grad_outputs" of a call that was told before.
 * 0; -ENOMEM; -EPROTO. */
int intervene_times_add(struct intervene_times *t, json_t *m);

/* Write what is left to the CSV, and the table and where the CSV is to standard error; nothing when
 * there was no call. */
void intervene_times_print(struct intervene_times *t);

void intervene_times_free(struct intervene_times *t);

#endif
