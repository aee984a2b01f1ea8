#define _GNU_SOURCE
#include "tracer/session/session.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "perf/events/print_event.h"
#include "perf/report/aggregate.h"
#include "perf/report/overflow.h"
#include "perf/report/report.h"
#include "perf/trace/trace_write.h"
#include "symbolizer/decode/decoder.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/ops/filter.h"
#include "symbolizer/python/pycode.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "tracer/engine/engine.h"
#include "tracer/session/internal.h"

uint64_t session_now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* An output that fails is given up; the target must not notice. */
static void output_failed(struct session *s, int r)
{
	if (s->output_error.code)
		return;
	err_set(&s->output_error, r, "cannot write %s: %s; tracing goes on without it",
		s->o->output, strerror(-r));
	err_hint(&s->output_error, "free some space, or record somewhere else with -o FILE");
}

static void name_thread(struct session *s, const struct op_event *ev)
{
	char path[64], name[64] = "";
	uint32_t slot = (uint32_t)ev->tid % THREAD_SLOTS;
	if (s->named[slot] == ev->tid)
		return;
	s->named[slot] = ev->tid;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", ev->pid, ev->tid);
	FILE *f = fopen(path, "re");
	if (f && fgets(name, sizeof(name), f))
		name[strcspn(name, "\n")] = '\0';
	if (f)
		fclose(f);
	if (name[0])
		trace_write_thread(s->writer, ev->pid, ev->tid, name);
}

/* The line of code goes into the trace with its frame, while the file is at hand. */
static void find_text(struct session *s, const struct op_event *ev)
{
	const struct py_frame *f = py_stack_where(ev->where_stack);
	if (!f || f->text || f == s->textless)
		return;
	/* Its process may have ended, and another have the number: only its own knows the frame. */
	for (unsigned i = 0; i < PROCS_MAX; i++) {
		const struct target *t = s->procs[i].target;
		if (t && t->pid == ev->pid && t->py && py_frame_text(t->py, f))
			return;
	}
	s->textless = f;
}

static struct target *target_of(struct session *s, const struct op_event *ev)
{
	const struct proc *p = session_proc(s, ev->pid);
	return p ? p->target : NULL;
}

/* Whether it passes the filters, and is recorded. */
static bool record(struct session *s, const struct op_event *ev)
{
	/* Boxed calls and Python's nodes are all probed alike: which op it is, only the event
	 * tells. */
	if ((s->o->ops || s->o->not_ops) && !session_wants(s, ev->op))
		return false;
	if (s->o->count && s->events >= s->o->count)
		return false;
	if (s->tensor_stats && stats_collector_is_past(s->tensor_stats, ev))
		return false;
	if (s->when && !when_chooses(s->when, ev, &s->when_counts))
		return false;
	s->events++;
	find_text(s, ev);
	aggregate_add(s->sum, ev);
	if (s->overflow)
		overflow_add(s->overflow, ev);
	if (s->writer) {
		name_thread(s, ev);
		int r = trace_write_event(s->writer, ev);
		if (r)
			output_failed(s, r);
	}
	if (s->printer && event_print(s->printer, ev) < 0)
		s->closed_pipe = true;
	return true;
}

static void on_event(const struct op_event *ev, void *arg)
{
	struct session *s = arg;
	struct target *t = s->stands ? target_of(s, ev) : NULL;
	struct op_event measured = *ev;
	if (t && s->capture)
		capture_exit(s->capture, t, ev);
	if (s->tensor_stats)
		measured.stats = stats_collector_exit(s->tensor_stats, t, ev);
	bool recorded = record(s, &measured);
	if (s->tensor_stats)
		stats_collector_done(s->tensor_stats, t, &measured, recorded);
}

static void on_stopped_hit(const struct hit *h, void *arg)
{
	struct session *s = arg;
	/* Of the shim's threads some have gone on. */
	s->stands = !s->engine->observes || h->flags & HIT_STOPPED;
	decoder_feed_now(s->decoder, h);
	if (s->engine->count_call)
		s->engine->set_awaited(s->engine, capture_awaits(s->capture));
}

static void on_hit(const struct hit *h, void *arg)
{
	struct session *s = arg;
	decoder_feed(s->decoder, h);
}

/* Hand what has come to the decoder; as the engine's consume. */
static int consume(struct session *s)
{
	return s->engine->consume(s->engine, s->holds ? on_stopped_hit : on_hit, s);
}

static void on_start(const struct op_event *ev, void *arg)
{
	struct session *s = arg;
	struct target *t = target_of(s, ev);
	bool wanted = session_wants(s, ev->op);
	if (t && s->capture)
		capture_entry(s->capture, t, ev, wanted);
	if (t && s->tensor_stats)
		stats_collector_entry(s->tensor_stats, s->stands ? t : NULL, ev, wanted);
}

static void on_grads(const struct decoder_grads *g, void *arg)
{
	struct session *s = arg;
	const struct proc *p = session_proc(s, g->pid);
	if (p)
		capture_gradients(s->capture, p->target, g);
}

int session_begin_decoding(struct session *s)
{
	s->decoder = decoder_new(on_event, s);
	if (!s->decoder)
		return -ENOMEM;
	if (s->holds)
		decoder_on_start(s->decoder, on_start);
	if (s->capture)
		decoder_on_grads(s->decoder, on_grads);
	return 0;
}

static void count_lost(struct session *s)
{
	struct engine_counters c;
	s->engine->counters(s->engine, &c);
	uint64_t lost = c.lost + decoder_dropped(s->decoder);
	if (lost <= s->lost)
		return;
	aggregate_lost(s->sum, lost - s->lost);
	if (s->writer)
		trace_write_lost(s->writer, s->now, lost - s->lost);
	s->lost = lost;
}

static void housekeeping(struct session *s)
{
	enum { EVERY_NS = 20 * 1000 * 1000 };
	if (s->now - s->kept_house < EVERY_NS)
		return;
	s->kept_house = s->now;
	session_complete_procs(s);
	session_sample_dispatch(s);
	count_lost(s);
	session_write_stats(s);
}

/* The engine is told as soon as the layout of a process's tensors is known. */
static void update_procs(struct session *s)
{
	for (unsigned i = 0; i < PROCS_MAX; i++) {
		struct proc *p = &s->procs[i];
		if (!p->target)
			continue;
		target_refresh(p->target);
		if (p->generation == p->target->conf.generation)
			continue;
		p->generation = p->target->conf.generation;
		s->engine->set_proc(s->engine, (uint16_t)i, &p->target->conf);
	}
}

static int engine_failed(const struct session *s, int code, struct err *e)
{
	if (code != -ECHILD)
		return err_set(e, code, "cannot read the engine's records: %s", strerror(-code));
	err_set(e, code, "%s", s->engine->gone);
	return err_hint(e, "%s", s->engine->gone_hint);
}

/* What has failed and was not told yet; NULL: nothing. */
static const struct err *untold(struct session *s)
{
	if (s->output_error.code && !s->output_told) {
		s->output_told = true;
		return &s->output_error;
	}
	const struct err *capture = s->capture ? capture_trouble(s->capture) : NULL;
	if (!capture || !capture->code || s->capture_told)
		return NULL;
	s->capture_told = true;
	return capture;
}

int session_step(struct session *s, struct err *e)
{
	s->now = session_now();
	if (s->fatal.code) {
		if (e)
			*e = s->fatal;
		return s->fatal.code;
	}
	int r = consume(s);
	decoder_tick(s->decoder, s->now);
	if (r < 0)
		return engine_failed(s, r, e);
	session_free_ended(s, r < ENGINE_AT_ONCE);
	update_procs(s);
	if (s->writer && (r = trace_writer_tick(s->writer, s->now)) < 0)
		output_failed(s, r);
	if (s->printer && fflush(stdout))
		s->closed_pipe = true;
	housekeeping(s);
	const struct err *failed = untold(s);
	if (failed && e)
		*e = *failed;
	if (s->engine->trouble.code && e && !e->code) {
		*e = s->engine->trouble;
		s->engine->trouble = (struct err){0};
	}
	bool late = s->o->for_ns && s->first_ns && s->now - s->first_ns >= s->o->for_ns;
	bool captured = s->capture && capture_is_done(s->capture);
	bool found = s->tensor_stats && stats_collector_is_over(s->tensor_stats);
	return late || captured || found || s->closed_pipe ||
	       (s->o->count && s->events >= s->o->count);
}

const char *session_note(const struct session *s)
{
	return s->engine_note.code ? s->engine_note.what : NULL;
}

int session_wake(const struct session *s)
{
	return s->engine->wake;
}

pid_t session_tracer(const struct session *s)
{
	return s->engine->tracer;
}

bool session_follows(const struct session *s)
{
	return s->engine->follow;
}

int session_watch(struct session *s, pid_t pid, struct err *e)
{
	return s->engine->watch(s->engine, pid, e);
}

int session_follow(struct session *s, follow_fn *fn, void *arg)
{
	return s->engine->follow(s->engine, fn, arg);
}

unsigned session_total(const struct session *s)
{
	return s->total;
}

/* All probes out, and then all that they had sent. */
static void stop_probes(struct session *s)
{
	session_calibrate(s);
	s->engine->detach(s->engine, ENGINE_ALL_PROCS);
	while (consume(s) > 0)
		update_procs(s);
	decoder_finish(s->decoder);
	s->now = session_now();
	count_lost(s);
}

static void print_summary(struct session *s, const struct trace_stats *stats)
{
	struct report_opts r = {
	    .targets = s->targets,
	    .ntargets = s->ntargets,
	    .stats = stats,
	    .when = s->when ? &s->when_counts : NULL,
	    .limit = 20,
	    .terminal = terminal_of(stderr),
	};
	report_print(stderr, s->sum, &r);
	if (!s->tensor_stats)
		return;
	putc('\n', stderr);
	overflow_print(s->overflow, stderr, r.limit, r.terminal);
	stats_collector_summary(s->tensor_stats, stderr);
}

struct trace_writer *session_writer(struct session *s)
{
	return s->writer;
}

int session_finish(struct session *s, struct err *e)
{
	char size[32];
	int r = 0;
	struct trace_stats stats;
	stop_probes(s);
	session_stats(s, &stats);
	if (s->printer)
		fflush(stdout);
	if (s->capture)
		capture_summary(s->capture, stderr);
	if (!s->o->quiet)
		print_summary(s, &stats);
	if (s->writer) {
		trace_write_stats(s->writer, &stats);
		r = trace_writer_flush(s->writer);
		uint64_t bytes = trace_writer_bytes(s->writer);
		int closed = trace_writer_close(s->writer, true);
		s->writer = NULL;
		r = r ? r : closed;
		if (r)
			output_failed(s, r);
		if (!s->output_error.code && !s->o->quiet)
			fprintf(stderr, "trace written to %s (%s); see: ditrace report%s%s\n",
				s->o->output, text_bytes(size, sizeof(size), bytes),
				strcmp(s->o->output, "ditrace.data") ? " " : "",
				strcmp(s->o->output, "ditrace.data") ? s->o->output : "");
	}
	const struct err *failed = untold(s), *more = failed ? untold(s) : NULL;
	if (failed && e)
		*e = *failed;
	if (more)
		err_print(more);
	if (s->output_error.code)
		return s->output_error.code;
	return s->capture ? capture_trouble(s->capture)->code : 0;
}

void session_close(struct session *s)
{
	if (!s)
		return;
	trace_writer_close(s->writer, false);
	session_end_preload(s);
	if (s->engine)
		s->engine->close(s->engine);
	decoder_free(s->decoder);
	event_printer_free(s->printer);
	aggregate_free(s->sum);
	for (unsigned i = 0; i < PROCS_MAX; i++)
		target_close(s->procs[i].target);
	op_table_free(s->ops);
	free(s->sites);
	for (unsigned i = 0; i < s->ntargets; i++)
		session_free_target_info(&s->targets[i]);
	filter_free(&s->ops_filter);
	filter_free(&s->not_filter);
	when_free(s->when);
	capture_free(s->capture);
	stats_collector_free(s->tensor_stats);
	overflow_free(s->overflow);
	free(s);
}
