/* Inside of tracer/capture/capturing.h: shared by what captures forward calls (capturing.c) and
 * what captures their gradients (capture_grads.c). */
#ifndef TRACER_CAPTURE_CAPTURING_INTERNAL_H
#define TRACER_CAPTURE_CAPTURING_INTERNAL_H

#include "replay/capture/capture.h"
#include "tracer/capture/capture_calls.h"
#include "tracer/capture/capture_grads.h"
#include "tracer/capture/capture_source.h"
#include "tracer/capture/capturing.h"
#include "tracer/capture/selections.h"

struct capturing {
	const struct when *when;
	FILE *log;
	capturing_count_fn *count; /* NULL: no engine counts */
	void *count_arg;
	struct selections selections;
	struct capture files;
	struct capture_calls calls;
	struct capture_grads grads;
	struct ordinary_keys keys;
	uint64_t saved;			    /* calls of which a file was written */
	uint64_t not_known;		    /* calls of which the condition could not be told */
	uint64_t too_early;		    /* calls of which the inputs could not be read yet */
	char refused_op[CAPTURE_NAME_SIZE]; /* the last of which a refusal was told */
	int refused_code;
	bool without_grads;
	bool over;
	struct err trouble;
};

/* Write one file of `call` and tell of it. */
void capturing_save(struct capturing *c, struct captured_call *call, enum capture_part part,
		    const struct op_event *ev, const struct source *src);

#endif
