/* Inside of tracer/session.h: shared by what takes events (session.c) and what adds processes
 * (session_procs.c). */
#ifndef TRACER_SESSION_INTERNAL_H
#define TRACER_SESSION_INTERNAL_H

#include <pthread.h>

#include "base/text.h"
#include "perf/trace_format.h"
#include "symbolizer/filter.h"
#include "symbolizer/ops.h"
#include "symbolizer/lookahead.h"
#include "symbolizer/target.h"
#include "symbolizer/when.h"
#include "tracer/engine.h"
#include "tracer/session.h"

enum {
	MAX_PROCS = 255, /* one more index is the dispatch counter's */
	PLANS_MAX = 16384,
	THREAD_SLOTS = 1024,
	TARGETS_MAX = 16,     /* described in the trace */
	DISPATCH_LEAST = 100, /* dispatched ops that must be counted to tell a share */
};

struct proc {
	struct target *target; /* NULL: this index is free */
	bool alive;
	bool boxed;	     /* the boxed call is probed */
	bool code_freed;     /* the freeing of Python code is probed */
	uint32_t generation; /* of the configuration the engine has */
	uint64_t drained;
	uint64_t added;
};

/* The engine while it is being opened, in a thread of its own. */
struct opening {
	pthread_t thread;
	bool running;
	int r;
	struct err e;
	struct engine *engine;
};

struct session {
	const struct session_opts *o;
	struct opening opening;
	struct engine *engine; /* after session_ready */
	struct decoder *decoder;
	struct lookahead lookahead;
	struct op_table *ops; /* of the first libtorch met; others are not traced */
	uint64_t ops_inode;
	uint32_t ops_major, ops_minor;
	struct probe_site *sites; /* wanted ones, by file: [0, cpu_sites) and behind them */
	size_t cpu_sites, python_sites;
	struct filter ops_filter, not_filter;
	struct when *when; /* NULL: no condition */
	struct when_counts when_counts;
	struct proc procs[MAX_PROCS];
	unsigned total;
	bool pynode_known; /* where PyNode keeps its Python object */
	struct aggregate *sum;
	struct trace_writer *writer;
	struct event_printer *printer;
	const struct py_frame *textless; /* asked for in vain, the last */
	struct trace_target targets[TARGETS_MAX];
	unsigned ntargets;
	int32_t named[THREAD_SLOTS];
	struct err output_error;
	struct err fatal; /* nothing can be traced as asked for; code 0: none */
	bool output_told, closed_pipe;
	uint64_t events, lost;
	uint64_t start_ns, first_ns, now, kept_house;
	uint64_t dispatch_since; /* counting now, since */
	uint64_t dispatch_next;
};

uint64_t session_now(void);

/* The slot of a process that is traced, NULL if it is not. */
struct proc *session_proc(struct session *s, pid_t pid);

/* Put in what could not be put in when the process was added: its Python had not started, its
 * operators were not registered. */
void session_complete_procs(struct session *s);

/* Count dispatched ops for a moment, now and then. */
void session_sample_dispatch(struct session *s);

void session_free_target_info(struct trace_target *t);

#endif
