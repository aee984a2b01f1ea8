/* The selection of each process: what the options --nth, --every, --max-calls and --steps leave. */
#ifndef TRACER_CAPTURE_SELECTIONS_H
#define TRACER_CAPTURE_SELECTIONS_H

#include "tracer/capture/capturing.h"
#include "tracer/capture/selection.h"

enum { SELECTIONS_MAX = 256 };

/* Zero-initialise; must not be moved once used. */
struct selections {
	struct selection_policy policy;
	struct selection_process {
		pid_t pid; /* 0: free */
		struct selection selection;
	} processes[SELECTIONS_MAX];
	uint64_t chosen; /* calls, in all processes */
};

/* Read the options; `dir` and `max_bytes` are not looked at. 0, -EINVAL with *e, or -ENOMEM. */
int selections_read(struct selections *s, const struct capturing_opts *o, struct err *e);

/* Whether there is a selection at all: not every call is chosen. */
bool selections_restrict(const struct selections *s);

/* That of process `pid`; NULL when there are too many at once. */
struct selection *selections_of(struct selections *s, pid_t pid);

/* Process `pid` has ended: nothing is counted for it. */
void selections_forget(struct selections *s, pid_t pid);

void selections_free(struct selections *s);

#endif
