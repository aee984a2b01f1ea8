/* The tensors that a captured call was given, where their gradients flow, and those that have come.
 * An op that is made of others has a graph of several nodes: what flows out of it to the edge of an
 * argument is that argument's gradient. */
#ifndef TRACER_CAPTURE_CALL_INPUTS_H
#define TRACER_CAPTURE_CALL_INPUTS_H

#include <stddef.h>

#include "replay/capture/kept.h"
#include "symbolizer/event/event.h"
#include "tracer/capture/grad_edge.h"

/* Why the gradients of a call's arguments cannot be told. */
enum grads_trouble {
	GRADS_FINE,
	GRADS_UNKNOWN, /* where they flow could not be read */
	GRADS_SHARED,  /* two arguments come out of one op, or are the same */
	GRADS_SUMMED,  /* an argument's is the sum of several */
	GRADS_LOST,    /* its bytes could not be kept until all were there */
	GRADS_TROUBLES,
};

/* A few words for a summary. Static. */
const char *grads_trouble_text(enum grads_trouble t);

struct call_input {
	const char *name;	     /* in input.pth: "0", "1[2]" by place, "weight" by keyword */
	const struct tensor *tensor; /* only impl and meta.requires_grad are good later on */
	struct grad_edge edge;
	bool was_leaf;		   /* at the entry */
	const struct tensor *grad; /* NULL: none has come */
};

/* Zero-initialise. */
struct call_inputs {
	struct arena arena;
	struct call_input *list; /* of each tensor in the order of the arguments, lists flattened */
	unsigned n;
	struct kept grads;
	enum grads_trouble trouble;
};

/* At the entry of the op. Without memory, or when something is not known, in->trouble tells. */
void call_inputs_begin(struct call_inputs *in, struct target *t, const struct op_event *ev);

/* At its exit, when leaves have their nodes. */
void call_inputs_end(struct call_inputs *in, struct target *t, const struct op_event *ev);

/* How many of the arguments have their gradient flow to `edge`; *input is one of them. */
unsigned call_inputs_at(const struct call_inputs *in, const struct grad_edge *edge,
			struct call_input **input);

/* Keep `grad`, that flows to *input, as it is now. */
void call_inputs_keep(struct call_inputs *in, struct call_input *input, const struct tensor *grad,
		      const struct source *live, size_t max);

/* The gradients as values, NONE for those that have not come, and the names of the arguments. False
 * without memory or when there are none. */
bool call_inputs_grads(struct call_inputs *in, struct value **grads, const char *const **names);

void call_inputs_free(struct call_inputs *in);

#endif
