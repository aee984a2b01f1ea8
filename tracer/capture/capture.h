/* Captures while tracing: which calls are chosen, and their tensors written while the thread stands
 * still at the op. Used by tracer/session/session.c; prints the lines that the command shows. */
#ifndef TRACER_CAPTURE_CAPTURE_H
#define TRACER_CAPTURE_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "symbolizer/decode/decoder.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/event/event.h"
#include "symbolizer/when/when.h"
#include "tracer/capture/selection.h"

struct capture_opts {
	const char *dir;	   /* --capture=DIR, "" for the current one; NULL: no capture */
	const char *nth, *steps;   /* ranges_parse; NULL: all */
	const char *step_op;	   /* filter_compile; NULL: the optimizer's step */
	uint64_t every, max_calls; /* see struct selection_policy */
	uint64_t max_bytes;	   /* 0: no limit */
};

#define CAPTURE_OPTIONS(c)                                                                         \
	{0,	   "capture", OPTION_DEFAULTED,                                                    \
	 &(c).dir, "DIR",     "save inputs, outputs and gradients below DIR (here)",               \
	 NULL},                                                                                    \
	    {0,	       "nth",	  OPTION_STRING,                                                   \
	     &(c).nth, "3,10-20", "capture: these calls of each op, counted from 1",               \
	     NULL},                                                                                \
	    {0,	  "every", OPTION_COUNT, &(c).every, "K", "capture: every K-th call of each op",   \
	     NULL},                                                                                \
	    {0, "max-calls", OPTION_COUNT, &(c).max_calls, "N", "capture: at most N calls", NULL}, \
	    {0,		  "max-bytes",                                                             \
	     OPTION_SIZE, &(c).max_bytes,                                                          \
	     "2G",	  "capture: at most so many bytes of files",                               \
	     NULL},                                                                                \
	    {0,		 "steps", OPTION_STRING,                                                   \
	     &(c).steps, "A-B",	  "capture: in these training steps, counted from 1",              \
	     NULL},                                                                                \
	{                                                                                          \
		0, "step-op", OPTION_STRING, &(c).step_op, "OP",                                   \
		    "capture: a step ends with OP, not with the optimizer's step", NULL            \
	}

struct capture;

/* Read the options and OP_CAPTURE_LIST, OP_CAPTURE_DISABLE_LIST of the environment. `when` (may be
 * NULL) and `o` must outlive it. `log` takes a line for each saved file. 0, -EINVAL with *e, or
 * -ENOMEM. */
int capture_open(const struct capture_opts *o, const struct when *when, FILE *log,
		 struct capture **out, struct err *e);

/* No gradients are wanted: calls are done at their exit. To be called before the first event. */
void capture_without_grads(struct capture *c);

/* Is this op among those that may be chosen, as far as the lists of the environment say? */
bool capture_wants_op(const struct capture *c, const struct op_desc *op);

/* What an engine may pick in place of all calls (selection_pick); then `count` tells what it says
 * of one, and its calls stand still only when they are picked. */
typedef struct call_count capture_count_fn(const struct op_event *ev, void *arg);
bool capture_pick(const struct capture *c, struct pick *out);
void capture_picked(struct capture *c, capture_count_fn *count, void *arg);

/* Do chosen calls wait for their gradients? */
bool capture_awaits(const struct capture *c);

/* Must ops be seen that are not chosen, to count steps? */
bool capture_needs_all(const struct capture *c);

/* An op starts, and its thread stands still; `wanted`: the filters of the session leave it. */
void capture_entry(struct capture *c, struct target *t, const struct op_event *ev, bool wanted);

/* An op has ended, and its thread stands still unless it was thrown. */
void capture_exit(struct capture *c, struct target *t, const struct op_event *ev);

/* The gradients that a backward node returned have their final form, and its thread stands still.
 */
void capture_gradients(struct capture *c, struct target *t, const struct decoder_grads *g);

/* Nothing will be captured any more: nothing can be written, or the limits are reached and no call
 * is left of which gradients may come. */
bool capture_is_done(const struct capture *c);

/* Why it ended before the program did; code 0: it did not. */
const struct err *capture_trouble(const struct capture *c);

/* "ditrace: captured 12 calls of 3 ops: ..." and what was skipped and why. */
void capture_summary(const struct capture *c, FILE *f);

/* Process `pid` has ended, or another has its number: its calls and steps are counted anew. */
void capture_forget(struct capture *c, pid_t pid);

void capture_free(struct capture *c);

#endif
