/* A part of a trace: --time and --step of the commands that read one. */
#ifndef PERF_TRACE_TRACE_SPAN_H
#define PERF_TRACE_TRACE_SPAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/intern.h"
#include "base/ranges.h"
#include "symbolizer/event/event.h"
#include "symbolizer/ops/filter.h"
#include "symbolizer/when/when.h"

struct trace_steps;

/* Zero-initialise but for the texts, which are the caller's; NULL: all. */
struct trace_span {
	const char *time;    /* "3s-5s", "3s-", "-500ms": since the file was begun */
	const char *step;    /* "3", "2-4": training steps, counted from 1 */
	const char *step_op; /* which op ends a step, see symbolizer/ops/filter.h */

	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC */
	struct ranges ranges;
	struct filter op;
	struct intern pids;
	struct trace_steps *processes; /* by the number in `pids` */
	size_t room;
};

/* Read the texts; for steps `path` is read once to find them. 0, -EINVAL, -ENOENT (the trace has no
 * such step), -ENOMEM, or what trace_reader_open gives. */
int trace_span_open(struct trace_span *s, const char *path, struct err *e);

/* Whether the event started in the part. */
bool trace_span_has(const struct trace_span *s, const struct op_event *ev);

void trace_span_close(struct trace_span *s);

/* --when of the commands that read a trace file. */

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
