/* Inside of tracer/session/session.h: shared by what begins (session_open.c), what takes events
 * (session.c), what adds processes (session_procs.c) and what probes them (session_probes.c). */
#ifndef TRACER_SESSION_INTERNAL_H
#define TRACER_SESSION_INTERNAL_H

#include <pthread.h>

#include "base/clock.h"
#include "base/text.h"
#include "perf/trace/trace_format.h"
#include "symbolizer/decode/decoder.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/ops/filter.h"
#include "symbolizer/ops/ops.h"
#include "symbolizer/when/when.h"
#include "tracer/engine/engine.h"
#include "tracer/observe/observer.h"
#include "tracer/session/session.h"

enum {
	PLANS_MAX = 16384,
	TARGETS_MAX = 16,     /* described in the trace */
	DISPATCH_LEAST = 100, /* dispatched ops that must be counted to tell a share */
};

struct proc {
	struct target *target; /* NULL: this index is free */
	bool alive;
	bool boxed;	     /* the boxed call is probed */
	bool code_freed;     /* the freeing of Python code is probed */
	uint32_t generation; /* of the configuration the engine has */
	uint64_t added;
	bool decoded; /* of one that has ended: all of its records */
};

/* The op table of a libtorch, and which file that is. */
struct loaded_ops {
	struct op_table *table; /* NULL: none */
	uint64_t inode;
	uint32_t major, minor;
};

/* The op table of the process that is to be traced first, made in a thread of its own while the
 * kernel checks the engine's programs. */
struct preload {
	pthread_t thread;
	bool running;
	pid_t pid;
	struct loaded_ops ops;
};

struct session {
	const struct session_opts *o;
	struct engine *engine;
	struct err engine_note; /* code 0: none */
	struct decoder *decoder;
	struct preload preload;
	struct op_table *ops;	  /* that of `loaded` */
	struct loaded_ops loaded; /* of the first libtorch met; others are not traced */
	struct probe_site *sites; /* wanted ones, by file: [0, cpu_sites) and behind them */
	size_t cpu_sites, python_sites;
	struct filter ops_filter, not_filter;
	struct when *when; /* NULL: no condition */
	struct when_counts when_counts;
	struct observer *observers;
	const char *stops; /* the option that has threads stop at ops; NULL: none */
	unsigned needs;	   /* OBSERVER_*, of all observers */
	bool stopped;	   /* the thread of the record that is decoded now */
	struct proc procs[PROCS_MAX];
	unsigned total;
	bool pynode_known;		 /* where PyNode keeps its Python object */
	const struct py_frame *textless; /* asked for in vain, the last */
	struct trace_target targets[TARGETS_MAX];
	unsigned ntargets;
	struct err fatal; /* nothing can be traced as asked for; code 0: none */
	bool calibrated;  /* what a probe costs was measured */
	uint64_t events, lost;
	uint64_t start_ns, first_ns, now, kept_house;
	uint64_t stats_ns, stats_hits; /* when stats were last written, and of how many hits */
	uint64_t dispatch_since;       /* counting now, since */
	uint64_t dispatch_next;
};

/* Call `fn` of each observer that has it. */
#define OBSERVERS_CALL(s, fn, ...)                                                                 \
	do {                                                                                       \
		for (struct observer *o_ = (s)->observers; o_; o_ = o_->next)                      \
			if (o_->fn)                                                                \
				o_->fn(o_, ##__VA_ARGS__);                                         \
	} while (0)

/* The first observer that has `fn`, NULL when none has. */
#define OBSERVERS_FIRST(s, fn)                                                                     \
	({                                                                                         \
		struct observer *o_ = (s)->observers;                                              \
		while (o_ && !o_->fn)                                                              \
			o_ = o_->next;                                                             \
		o_;                                                                                \
	})

static inline uint64_t session_now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Make the decoder, whose events the session takes from now on. Returns 0 or -ENOMEM. */
int session_begin_decoding(struct session *s);

/* The slot of a process that is traced, NULL if it is not. */
struct proc *session_proc(struct session *s, pid_t pid);

/* session_plan.c: give the engine the plan of this session, what the options leave of the op
 * table's, and put its sites into s->sites. 0 or -errno with *e. */
int session_make_plan(struct session *s, struct err *e);

/* Whether the lists of names leave this op. */
bool session_wants(const struct session *s, const struct op_desc *op);

/* session_probes.c: probe the n sites of library `lib` (enum ops_file) in the process of slot
 * `index`. 0, also where it has no such library, or -errno with *e. */
int session_probe_library(struct session *s, uint16_t index, const struct libraries *l,
			  unsigned lib, const struct probe_site *sites, size_t n, struct err *e);

/* Put in what could not be put in when the process was added: its Python had not started, its
 * operators were not registered. */
void session_complete_procs(struct session *s);

/* session_ended.c, after each consume: free the slots of processes that have ended and whose
 * records are decoded, many at a time. `all`: there are no records that were not consumed. */
void session_free_ended(struct session *s, bool all);

/* Count dispatched ops for a moment, now and then. */
void session_sample_dispatch(struct session *s);

/* session_ops.c: begin to make the op table of `pid`; make it, or take what was begun, into s->ops
 * (0 or -errno); end what was begun and not taken. */
void session_preload(struct session *s, pid_t pid);
int session_load_ops(struct session *s, pid_t pid, const struct libraries *l, struct err *e);
void session_end_preload(struct session *s);

/* Whether `m`, a libtorch, is the one that the op table was made of. */
bool session_has_ops_of(const struct session *s, const struct mapping *m);

void session_free_target_info(struct trace_target *t);

#endif
