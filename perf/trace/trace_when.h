/* --when of the commands that read a trace file. */
#ifndef PERF_TRACE_TRACE_WHEN_H
#define PERF_TRACE_TRACE_WHEN_H

#include "base/err.h"
#include "symbolizer/when/when.h"

/* A condition on the events of one file. Zero-initialise. */
struct trace_when {
	const char *text; /* as given; NULL: every event is chosen */
	struct when *when;
	struct when_counts counts;
};

/* Read `w->text`, if there is one, and check it against the ops that `path` has by now, for which
 * the file is read once. Of a file that cannot be read, or only in part, the condition is checked
 * against what there is. 0, -EINVAL, -ENOMEM. */
int trace_when_open(struct trace_when *w, const char *path, struct err *e);

/* Whether the event is chosen; counts it when not. */
bool trace_when_chooses(struct trace_when *w, const struct op_event *ev);

/* Print on stderr how many events were left out, if there is a condition. */
void trace_when_print(const struct trace_when *w);

void trace_when_close(struct trace_when *w);

#endif
