/* The gradients of captured calls: which nodes of the backward have them, and when they are ready.
 * Part of capturing. */
#ifndef TRACER_CAPTURE_CAPTURE_GRADS_H
#define TRACER_CAPTURE_CAPTURE_GRADS_H

#include <stdint.h>
#include <stdio.h>

#include "symbolizer/decode/decoder.h"
#include "tracer/capture/call_inputs.h"

struct capturing;
struct captured_call;

enum { GRADS_THREADS = 64, GRADS_RESULTS_MAX = 4096 };

/* A node that has ended on a thread, and whose results autograd now gives their final form. */
struct ended_node {
	int32_t tid;
	struct grad_edge at; /* node 0: none */
	const char *name;
	uint64_t *results; /* addresses of the TensorImpls, 0 for None */
	unsigned n;
};

/* Zero-initialise. */
struct capture_grads {
	struct ended_node ended[GRADS_THREADS];
	uint64_t troubles[GRADS_TROUBLES]; /* calls without grad_inputs, by reason */
	uint64_t as_returned;		   /* calls whose grad_inputs are not in their final form */
	uint64_t unseen;		   /* calls whose gradients' final form was not seen */
};

/* The op of `call` starts. */
void capture_grads_enter(struct captured_call *call, struct target *t, const struct op_event *ev);

/* It has ended well. False when no gradients will come. */
bool capture_grads_leave(struct capturing *c, struct captured_call *call, struct target *t,
			 const struct op_event *ev);

/* A backward node starts, ends. */
void capture_grads_node_starts(struct capturing *c, struct target *t, const struct op_event *ev);
void capture_grads_node_ends(struct capturing *c, struct target *t, const struct op_event *ev);

/* What the node that ended last on the thread gave has its final form. */
void capture_grads_flow(struct capturing *c, struct target *t, const struct decoder_grads *g);

/* What was left out and why. */
void capture_grads_summary(const struct capturing *c, FILE *f);

void capture_grads_free(struct capture_grads *g);

#endif
