#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/events/print_event.h"
#include "perf/report/aggregate.h"
#include "perf/report/overflow.h"
#include "perf/trace/trace_write.h"
#include "tracer/engine/engine.h"
#include "tracer/session/internal.h"

static int open_filters(struct session *s, struct err *e)
{
	int r = 0;
	if (s->o->ops)
		r = filter_compile("--ops", s->o->ops, &s->ops_filter, e);
	if (!r && s->o->not_ops)
		r = filter_compile("--not-ops", s->o->not_ops, &s->not_filter, e);
	if (!r && s->o->when)
		r = when_compile("--when", s->o->when, &s->when, e);
	if (!r && s->o->capture.dir)
		r = capture_open(&s->o->capture, s->when, stderr, &s->capture, e);
	if (!r && s->capture && s->o->phase == SESSION_FORWARD)
		capture_without_grads(s->capture);
	if (!r)
		r = stats_collector_open(&s->o->measure, &s->o->capture, s->when, stderr,
					 &s->tensor_stats, e);
	return r;
}

/* Memory is read while its thread stands still. */
static const char *needs_held_threads(const struct session_opts *o)
{
	return o->capture.dir	      ? "--capture"
	       : o->measure.first_nan ? "--first-nan"
	       : o->measure.stats     ? "--stats"
				      : NULL;
}

/* Which calls stand still, if the engine bpf can pick them. */
static bool is_pickable(const struct session *s, struct pick *out)
{
	return s->capture && s->o->engine != ENGINE_PTRACE && capture_pick(s->capture, out);
}

/* The library has the thread wait that records a call. */
static bool shim_measures(const struct session_opts *o)
{
	return o->engine == ENGINE_SHIM && !o->measure.first_nan;
}

static int check_engine(const struct session *s, struct err *e)
{
	struct pick pick;
	const struct session_opts *o = s->o;
	if (!s->holds || o->engine == ENGINE_PTRACE || o->engine == ENGINE_AUTO || shim_measures(o))
		return 0;
	if (o->engine == ENGINE_SHIM) {
		err_set(e, -EINVAL,
			"--engine shim cannot do %s: it is told of no registers, which native "
			"stacks begin with",
			s->holds);
		return err_hint(e, "leave --engine out: %s takes the engine ptrace", s->holds);
	}
	if (o->engine == ENGINE_BPF && is_pickable(s, &pick))
		return 0;
	err_set(e, -EINVAL, "%s needs threads that stand still, and --engine bpf stops none",
		s->holds);
	if (s->capture)
		return err_hint(e, "leave --engine out; bpf can with --nth or --every, and without "
				   "--when and --steps");
	return err_hint(e, "leave --engine out: %s takes the engine ptrace", s->holds);
}

static int registers(void *arg, pid_t tid, uint64_t *out)
{
	struct session *s = arg;
	return s->engine->registers(s->engine, tid, out);
}

/* A boxed call of an op whose other calls the engine counts is counted with them. */
static struct call_count count_of(const struct op_event *ev, void *arg)
{
	struct session *s = arg;
	const struct proc *p = session_proc(s, ev->pid);
	for (uint32_t i = 0; p && i < s->ops->n; i++) {
		const struct op_probe *o = &s->ops->ops[i];
		if (o->role != ROLE_CALL || strcmp(o->desc.name, ev->op->name))
			continue;
		if (&o->desc == ev->op)
			return (struct call_count){CALL_PICKED, 0};
		uint16_t proc = (uint16_t)(p - s->procs);
		return (struct call_count){CALL_NUMBERED,
					   s->engine->count_call(s->engine, proc, i)};
	}
	return (struct call_count){CALL_NOT_COUNTED, 0};
}

/* The engine of threads that stand still. */
static int open_holding(struct session *s, struct err *e)
{
	struct pick pick;
	struct err why = {0};
	if (is_pickable(s, &pick)) {
		int r = engine_both_open(PLANS_MAX, session_is_complete, &pick, &s->engine, &why);
		if (!r) {
			capture_picked(s->capture, count_of, s);
			return 0;
		}
		if (s->o->engine == ENGINE_BPF) {
			*e = why;
			return r;
		}
	}
	int r = engine_ptrace_open(PLANS_MAX, session_is_complete, &s->engine, e);
	if (!r && s->o->engine == ENGINE_AUTO)
		err_set(&s->engine_note, -ENOTSUP,
			"the engine is ptrace, since %s needs threads that stand still", s->holds);
	return r;
}

static int open_engine(struct session *s, struct err *e)
{
	enum engine_choice choice = (enum engine_choice)s->o->engine;
	const struct engine_wanted wanted = {
	    .choice = choice,
	    .nplans = PLANS_MAX,
	    .interesting = session_is_complete,
	    .pid = s->o->attach,
	};
	int r = s->holds && !shim_measures(s->o)
		    ? open_holding(s, e)
		    : engine_open(&wanted, &s->engine, &s->engine_note, e);
	if (!r && s->tensor_stats)
		stats_collector_registers(s->tensor_stats, registers, s);
	return r;
}

static int open_outputs(struct session *s)
{
	s->sum = aggregate_new_by(AGGREGATE_DEFAULT | AGGREGATE_STEADY);
	s->printer = s->o->print ? event_printer_new(stdout) : NULL;
	/* The program writes there, too: whole events at a time. */
	if (s->o->print)
		setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	s->overflow = s->tensor_stats ? overflow_new() : NULL;
	if (!s->sum || (s->tensor_stats && !s->overflow) || (s->o->print && !s->printer))
		return -ENOMEM;
	return session_begin_decoding(s);
}

int session_open(const struct session_opts *o, struct session **out, struct err *e)
{
	struct session *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, -ENOMEM, "no memory");
	s->o = o;
	s->holds = needs_held_threads(o);
	s->start_ns = session_now();
	int r = o->depth ? 0 : err_set(e, -EINVAL, "--depth 0 would record nothing");
	if (r)
		err_hint(e, "--depth 1 records the outermost ops, those that Python called");
	r = r ? r : open_filters(s, e);
	r = r ? r : check_engine(s, e);
	if (!r && o->pid)
		session_preload(s, o->pid);
	if (!r)
		r = open_engine(s, e);
	if (!r && o->output)
		r = trace_writer_open(o->output, &s->writer, e);
	if (!r && open_outputs(s))
		r = err_set(e, -ENOMEM, "no memory");
	if (r) {
		session_close(s);
		return r;
	}
	*out = s;
	return 0;
}

void session_stats(struct session *s, struct trace_stats *out)
{
	struct engine_counters c;
	s->engine->counters(s->engine, &c);
	*out = (struct trace_stats){
	    .probe_ns = c.mean_ns ? c.hits * (c.mean_ns + c.trap_ns) : 0,
	    .seen_permille = TRACE_SEEN_UNKNOWN,
	    .wall_ns = s->now - (s->first_ns ? s->first_ns : s->now),
	};
	bool all = !s->o->ops && !s->o->not_ops && !s->when && s->o->depth == SESSION_ALL_LEVELS &&
		   s->o->phase == SESSION_ALL;
	if (all && c.dispatched >= DISPATCH_LEAST)
		out->seen_permille = (uint32_t)(1000 * c.dispatched_seen / c.dispatched);
}

void session_calibrate(struct session *s)
{
	if (!s->calibrated)
		s->engine->calibrate(s->engine);
	s->calibrated = true;
}

/* Whoever reads the file while it grows is told once a second, if anything happened. */
void session_write_stats(struct session *s)
{
	enum { EVERY_NS = 1000 * 1000 * 1000 };
	struct trace_stats stats;
	struct engine_counters c;
	/* While dispatched ops are counted a measurement would count, too. */
	if (!s->writer || !s->first_ns || s->dispatch_since || s->now - s->stats_ns < EVERY_NS)
		return;
	s->stats_ns = s->now;
	s->engine->counters(s->engine, &c);
	if (c.hits == s->stats_hits)
		return;
	s->stats_hits = c.hits;
	session_calibrate(s);
	session_stats(s, &stats);
	trace_write_stats(s->writer, &stats);
}
