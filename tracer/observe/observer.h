/* Observers consume the events of a session: each of its outputs, and everything that examines ops
 * while their threads are stopped. The session keeps a list of them and treats them all alike. */
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

/* How the engine counted a call, if it counts the calls of ops (tracer/capture/capture.h). */
typedef struct call_count observer_count_fn(const struct op_event *ev, void *arg);

enum {
	OBSERVER_REGISTERS = 1 << 0, /* needs the registers of stopped threads */
	OBSERVER_NODES = 1 << 1, /* needs backward nodes, stopped, whatever the options select */
	OBSERVER_ALL = 1 << 2,	 /* needs ops that the options exclude, to count steps */
};

/* The first member of each observer. Functions may be NULL. A struct target is NULL if the thread
 * is not stopped. */
struct observer {
	struct observer *next;
	const char *stops; /* the option that makes threads stop at ops; NULL: none */
	unsigned needs;	   /* OBSERVER_*; not changed after opening */
	bool reported;	   /* its trouble was reported */

	/* pick, called when the engine is chosen: whether only calls that the engine can pick need
	 * to stop, and which. picked, called if the engine does pick them. awaits, called after
	 * each record from then on: whether gradients are awaited. */
	bool (*pick)(const struct observer *o, struct pick *out);
	void (*picked)(struct observer *o, observer_count_fn *count, void *arg);
	bool (*awaits)(const struct observer *o);

	/* Called when plans are made. wants_op: whether calls of this op need probes; they get them
	 * only if all observers with this function agree. check_when: whether --when, already
	 * compiled and checked, is compatible (0, or -EINVAL with *e). */
	bool (*wants_op)(const struct observer *o, const struct op_desc *op);
	int (*check_when)(const struct observer *o, struct err *e);

	/* `g` is open and outlives the observer. 0 or -errno with *e. */
	int (*begin)(struct observer *o, struct engine *g, struct err *e);

	/* What the process is that is traced from now on; before on_target, and for all. Again for
	 * one without ops that turned out to be no rank. */
	void (*on_process)(struct observer *o, const struct trace_process *p);

	/* From now on a process is traced; `t` and its strings outlive the observer. */
	void (*on_target)(struct observer *o, const struct trace_target *t);

	/* An op starts; `wanted`: it passes the name lists. */
	void (*on_start)(struct observer *o, struct target *t, const struct op_event *ev,
			 bool wanted);

	/* An op has ended; called before any filter. ev->stats may be set; it is valid until the
	 * next call. */
	void (*on_end)(struct observer *o, struct target *t, struct op_event *ev);

	/* Whether an op that has ended comes too late to be recorded. */
	bool (*is_past)(const struct observer *o, const struct op_event *ev);

	/* A thread of which an op is recorded, before the first one. */
	void (*on_thread)(struct observer *o, int32_t pid, int32_t tid, const char *name);

	/* An op that passes all filters has ended: it is recorded. */
	void (*on_event)(struct observer *o, struct target *t, const struct op_event *ev);

	/* Calls that pass all filters were summed up instead of recorded. */
	void (*on_sum)(struct observer *o, const struct op_sum *s);

	/* A collective is done. */
	void (*on_done)(struct observer *o, const struct work_done *w);

	/* A collective of Gloo has written what it gives: nobody who waits for it was told yet.
	 * Threads then also stop at c10d::Work::wait. */
	void (*on_written)(struct observer *o, struct target *t, const struct work_done *w);

	/* A device did something that a recorded process launched; `of.id` is that of on_event. */
	void (*on_activity)(struct observer *o, const struct activity *a);

	/* `count` more activities of process `pid` were lost. */
	void (*on_activities_lost)(struct observer *o, int32_t pid, uint64_t now_ns,
				   uint64_t count);

	/* Memory was allocated or freed; `count` more records of that were lost. */
	void (*on_memory)(struct observer *o, const struct memory_event *m);
	void (*on_memory_lost)(struct observer *o, int32_t pid, uint64_t now_ns, uint64_t count);

	/* Gradients have their final form; the thread is stopped. */
	void (*on_grads)(struct observer *o, struct target *t, const struct decoder_grads *g);

	/* `count` more records were lost. */
	void (*on_lost)(struct observer *o, uint64_t now_ns, uint64_t count);

	/* The cost of tracing; called once a second while probes are hit, and at the end. */
	void (*on_stats)(struct observer *o, const struct trace_stats *stats);

	/* Called after each session_step. */
	void (*tick)(struct observer *o, uint64_t now_ns);

	/* What it has to say by the command's exit status: EXIT_FOUND; EXIT_FAILED: it cannot say;
	 * EXIT_GOOD. */
	int (*status)(const struct observer *o);

	/* Whether tracing should end. */
	bool (*is_over)(const struct observer *o);

	/* Why the observer gave up; code 0: it did not. The session reports it once. */
	const struct err *(*trouble)(const struct observer *o);

	/* Process `pid` has exited, or a new one has this PID. */
	void (*forget_process)(struct observer *o, pid_t pid);

	/* Ops and stacks of exited processes are freed: others may take their addresses. */
	void (*forget_addresses)(struct observer *o);

	/* A writer for others to use until finish; NULL: none. */
	struct trace_writer *(*writer)(struct observer *o);

	/* Tracing has ended: print a summary. `r`: options for the whole report; NULL with --quiet.
	 */
	void (*summary)(struct observer *o, FILE *f, const struct report_opts *r);

	/* Called after all summaries: complete the output. */
	void (*finish)(struct observer *o);

	void (*close)(struct observer *o); /* frees it */
};

/* The outputs. NULL if out of memory. */

/* The trace `path`, created in begin; `one_file`: not a folder, even of several ranks; `chosen`:
 * the options that leave ops out, "": none, it outlives the observer. If writing fails it is given
 * up, and tracing goes on. Unless `quiet`, finish prints its path and size. */
struct observer *observer_of_file(const char *path, const char *chosen, bool one_file, bool quiet);

/* Events as text on stdout, which it makes fully buffered; it is over once the reader of stdout is
 * gone. */
struct observer *observer_of_print(void);

/* The table of times, printed at the end; `whole`: all ops are recorded, so that what is between
 * them is in no op; `marks`: these (op_mark) are ops. */
struct observer *observer_of_sums(bool whole, bool marks);

/* The ops that overflowed, printed at the end; requires tensor statistics. */
struct observer *observer_of_overflow(void);

#endif
