/* What is made of the events of a session: each of its outputs, and each thing that looks at ops
 * while their threads are stopped, is an observer. The session has a list of them, and asks and
 * tells them all alike. */
#ifndef TRACER_OBSERVE_OBSERVER_H
#define TRACER_OBSERVE_OBSERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"
#include "perf/report/report.h"
#include "perf/trace/trace_format.h"
#include "perf/trace/trace_write.h"
#include "symbolizer/decode/decoder.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/event/event.h"
#include "symbolizer/plan/plan.h"

struct call_count;
struct engine;

/* What the engine says of a call when it counts the calls of ops (tracer/capture/selection.h). */
typedef struct call_count observer_count_fn(const struct op_event *ev, void *arg);

enum {
	OBSERVER_REGISTERS = 1 << 0, /* needs those of stopped threads */
	OBSERVER_NODES = 1 << 1,     /* backward nodes, whatever the options leave, stopped */
	OBSERVER_ALL = 1 << 2,	     /* ops that the options leave out, to count steps */
};

/* The first member of each observer. Functions may be NULL. Targets of threads that are not stopped
 * are NULL. */
struct observer {
	struct observer *next;
	const char *stops; /* the option that has threads stop at ops; NULL: none */
	unsigned needs;	   /* OBSERVER_*; not changed after opening */
	bool reported;	   /* its trouble */

	/* Asked when the engine is chosen: whether only calls that the engine can pick are to be
	 * stopped, and which; told when it does pick them; asked after each record then: whether
	 * gradients are awaited. */
	bool (*pick)(const struct observer *o, struct pick *out);
	void (*picked)(struct observer *o, observer_count_fn *count, void *arg);
	bool (*awaits)(const struct observer *o);

	/* Asked when plans are made: whether calls of this op need probes, which they get if all
	 * observers that have it say so; whether --when, which is compiled and checked, goes with
	 * it (0, or -EINVAL with *e). */
	bool (*wants_op)(const struct observer *o, const struct op_desc *op);
	int (*check_when)(const struct observer *o, struct err *e);

	/* `g` is open, and outlives it. 0 or -errno with *e. */
	int (*begin)(struct observer *o, struct engine *g, struct err *e);

	/* A process is traced from now on; `t` and its strings outlive the observer. */
	void (*on_target)(struct observer *o, const struct trace_target *t);

	/* An op starts; `wanted`: the lists of names leave it. */
	void (*on_start)(struct observer *o, struct target *t, const struct op_event *ev,
			 bool wanted);

	/* An op has ended, before any filter; ev->stats may be set, valid until the next call. */
	void (*on_end)(struct observer *o, struct target *t, struct op_event *ev);

	/* Whether an op that has ended is behind what is recorded. */
	bool (*is_past)(const struct observer *o, const struct op_event *ev);

	/* An op has ended and all filters leave it: it is recorded. */
	void (*on_event)(struct observer *o, struct target *t, const struct op_event *ev);

	/* Gradients have their final form; the thread is stopped. */
	void (*on_grads)(struct observer *o, struct target *t, const struct decoder_grads *g);

	/* `count` records were lost by now. */
	void (*on_lost)(struct observer *o, uint64_t now_ns, uint64_t count);

	/* What tracing costs; now and then, and at the end. */
	void (*on_stats)(struct observer *o, const struct trace_stats *stats);

	/* After each step. */
	void (*tick)(struct observer *o, uint64_t now_ns);

	/* Nothing more is to be traced. */
	bool (*is_over)(const struct observer *o);

	/* Why it does not go on; code 0: it does. The session reports it once. */
	const struct err *(*trouble)(const struct observer *o);

	/* Process `pid` has ended, or another has its number. */
	void (*forget_process)(struct observer *o, pid_t pid);

	/* Ops and stacks of processes that have ended are freed: others may come at their
	 * addresses.
	 */
	void (*forget_addresses)(struct observer *o);

	/* Where others may write to, until finish; NULL: nowhere. */
	struct trace_writer *(*writer)(struct observer *o);

	/* All has been traced: print what is to be known of it. `r`: the whole; NULL with --quiet.
	 */
	void (*summary)(struct observer *o, FILE *f, const struct report_opts *r);

	/* After all summaries: end the output. */
	void (*finish)(struct observer *o);

	void (*close)(struct observer *o); /* frees it */
};

/* The outputs. NULL without memory. */

/* The trace file `path`, made in begin. Once it cannot be written it is given up, and tracing goes
 * on. Unless `quiet`, finish says where it is. */
struct observer *observer_of_file(const char *path, bool quiet);

/* Events as text on stdout, which it makes fully buffered; over when nobody reads it any more. */
struct observer *observer_of_print(void);

/* The table of the sums at the end. */
struct observer *observer_of_sums(void);

/* Which ops overflowed, at the end; with statistics of tensors. */
struct observer *observer_of_overflow(void);

#endif
