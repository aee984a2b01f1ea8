/* Captures while tracing: chooses calls, and writes their tensors while the thread is stopped at
 * the op. Prints the lines that the command shows. */
#ifndef TRACER_CAPTURE_CAPTURE_H
#define TRACER_CAPTURE_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "symbolizer/when/when.h"
#include "tracer/observe/observer.h"

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
	    {0,		 "every", OPTION_POSITIVE,                                                 \
	     &(c).every, "K",	  "capture, compare: every K-th call of each op",                  \
	     NULL},                                                                                \
	    {0,	  "max-calls", OPTION_POSITIVE, &(c).max_calls, "N", "capture: at most N calls",   \
	     NULL},                                                                                \
	    {0,		  "max-bytes",                                                             \
	     OPTION_SIZE, &(c).max_bytes,                                                          \
	     "2G",	  "capture: at most so many bytes of files",                               \
	     NULL},                                                                                \
	    {0,		 "step", OPTION_STRING,                                                    \
	     &(c).steps, "A-B",	 "capture: in these training steps, counted from 1",               \
	     NULL},                                                                                \
	{                                                                                          \
		0, "step-op", OPTION_STRING, &(c).step_op, "OP",                                   \
		    "capture: a step ends with OP, not with the optimizer's step", NULL            \
	}

/* Create the observer that captures. Reads the options, and OP_CAPTURE_LIST and
 * OP_CAPTURE_DISABLE_LIST of the environment. `when` (may be NULL) and `o` must outlive it. Without
 * `with_grads` a call is complete at its exit. `log` gets a line for each saved file. 0, -EINVAL
 * with *e, or -ENOMEM. */
int capture_open(const struct capture_opts *o, const struct when *when, bool with_grads, FILE *log,
		 struct observer **out, struct err *e);

#endif
