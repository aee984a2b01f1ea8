/* The command lines of run and attach, checked before a program is started or a process touched,
 * and how tracing begins. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/system.h"
#include "base/text.h"
#include "symbolizer/ops/filter.h"
#include "symbolizer/target/process.h"
#include "symbolizer/when/when.h"
#include "tracer/engine/engine.h"
#include "tracer/monitor/monitor.h"
#include "tracer/sample/sampler.h"
#include "tracer/trace_loop.h"

/* Samples in addition to a session's events. */

struct trace_samples {
	struct record_samples to;
	struct sampler *sampler;
};

static int parse_hz(const char *text, uint64_t *hz, struct err *e)
{
	*hz = SAMPLER_HZ;
	if (*text && (!text_number(text, hz) || !*hz)) {
		err_set(e, -EINVAL, "--sample %s: not a number of samples a second", text);
		return err_hint(e, "--sample=99");
	}
	return 0;
}

/* Whether `hz` is such an argument. 0, or -EINVAL with *e. */
static int trace_samples_check(const char *text, struct err *e)
{
	uint64_t hz;
	return text ? parse_hz(text, &hz, e) : 0;
}

/* Start sampling at `hz`, the argument of --sample; NULL: do not sample, *out is NULL; "": 99 per
 * second. The caller keeps the session. 0 or -errno with *e; free with trace_samples_finish. */
static int trace_samples_open(const char *text, struct session *session, struct trace_samples **out,
			      struct err *e)
{
	uint64_t hz;
	*out = NULL;
	if (!text)
		return 0;
	int r = parse_hz(text, &hz, e);
	if (r)
		return r;
	struct trace_samples *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, -ENOMEM, "no memory");
	const struct sampler_sink sink = record_samples_sink(&s->to);
	s->to.writer = session_writer(session);
	r = sampler_open(hz, &sink, &s->sampler, e);
	if (r) {
		free(s);
		return r;
	}
	record_samples_tell_rate(s->sampler, hz);
	trace_write_sampling(s->to.writer, sampler_how(s->sampler));
	*out = s;
	return 0;
}

static int trace_samples_add_child(struct trace_samples *s, pid_t child, struct err *e)
{
	return s ? sampler_add_child(s->sampler, child, e) : 0;
}

/* Like sampler_add_child and sampler_add_process; `s` may be NULL in these and the following
 * functions. */
static int trace_samples_add_process(struct trace_samples *s, pid_t pid, struct err *e)
{
	return s ? sampler_add_process(s->sampler, pid, e) : 0;
}

int trace_samples_fd(const struct trace_samples *s)
{
	return s ? sampler_fd(s->sampler) : -1;
}

int trace_samples_read(struct trace_samples *s, struct err *e)
{
	int r = s ? sampler_read(s->sampler) : 0;
	return r ? err_set(e, r, "cannot take samples: %s", strerror(-r)) : 0;
}

void trace_samples_finish(struct trace_samples *s)
{
	if (!s)
		return;
	sampler_read(s->sampler);
	record_samples_summary(s->sampler);
	sampler_close(s->sampler);
	free(s);
}

/* The command line. */

static int check_list(const char *option, const char *list, struct err *e)
{
	struct filter f = {0};
	int r = list ? filter_compile(option, list, &f, e) : 0;
	filter_free(&f);
	return r;
}

static int check_ranges(const char *option, const char *text, struct err *e)
{
	struct ranges ranges = {0};
	int r = text ? ranges_parse(option, text, &ranges, e) : 0;
	ranges_free(&ranges);
	return r;
}

static int check_when(const char *text, struct err *e)
{
	struct when *when = NULL;
	int r = text ? when_compile("--when", text, &when, e) : 0;
	when_free(when);
	return r;
}

static int check_first_nan(const char *word, struct err *e)
{
	if (!word || !*word || !strcmp(word, "hold"))
		return 0;
	err_set(e, -EINVAL, "--first-nan=%s: there is only --first-nan=hold", word);
	return err_hint(e, "without a word, the program runs on");
}

static int check_depth(uint64_t depth, struct err *e)
{
	if (depth)
		return 0;
	err_set(e, -EINVAL, "--depth 0 would record nothing");
	return err_hint(e, "--depth 1 records the outermost ops, those that Python called");
}

static int check_buffer(uint64_t bytes, struct err *e)
{
	if (!bytes || (bytes >= ENGINE_RING_LEAST && bytes <= ENGINE_RING_MOST))
		return 0;
	err_set(e, -EINVAL, "--buffer: rings have no %" PRIu64 " bytes", bytes);
	return err_hint(e, "from 512k to 64M");
}

/* The other engines let no thread wait, and that takes no part where registers are needed, or
 * nodes.
 */
static int check_no_loss(const struct session_opts *o, struct err *e)
{
	const char *stops = o->measure.first_nan ? "--first-nan"
			    : o->capture.dir	 ? "--capture"
						 : NULL;
	if (!o->no_loss || o->engine == ENGINE_SHIM)
		return 0;
	if (o->engine == ENGINE_AUTO && !stops)
		return 0;
	err_set(e, -EINVAL, "--no-loss needs the engine shim, and %s%s takes another",
		stops ? stops : "--engine ", stops ? "" : engine_names[o->engine]);
	return err_hint(e,
			stops ? "add --engine shim" : "leave --engine out, or take --engine shim");
}

/* The engines shim and bpf leave ops out for a while; breakpoints of ptrace stay where they are,
 * and a trap takes as long when nothing is recorded. */
static int check_turns(const struct session_opts *o, struct err *e)
{
	uint32_t turns;
	const char *stops = o->measure.first_nan ? "--first-nan"
			    : o->measure.stats	 ? "--stats"
			    : o->capture.dir	 ? "--capture"
			    : o->memory		 ? "--memory"
						 : NULL;
	if (!o->turns)
		return 0;
	int r = session_turns_parse(o->turns, &turns, e);
	if (r)
		return r;
	if (stops) {
		err_set(e, -EINVAL, "--measure-overhead cannot measure what %s takes", stops);
		return err_hint(e, "measure without %s what recording ops takes", stops);
	}
	if (o->engine != ENGINE_PTRACE)
		return 0;
	err_set(
	    e, -EINVAL,
	    "--measure-overhead needs the engine shim or bpf: the traps of --engine ptrace cannot "
	    "be left out in turns");
	return err_hint(e, "leave --engine out, or take --engine shim");
}

int trace_options_check(const struct session_opts *o, struct err *e)
{
	int r = check_depth(o->depth, e);
	r = r ? r : check_buffer(o->buffer, e);
	r = r ? r : check_list("--ops", o->ops, e);
	r = r ? r : check_list("--not-ops", o->not_ops, e);
	r = r ? r : trace_samples_check(o->sample, e);
	r = r || !o->prometheus ? r : metrics_server_check(o->prometheus, e);
	r = r ? r : check_when(o->when, e);
	r = r ? r : check_ranges("--nth", o->capture.nth, e);
	r = r ? r : check_ranges("--step", o->capture.steps, e);
	r = r ? r : check_list("--step-op", o->capture.step_op, e);
	return r ? r : check_first_nan(o->measure.first_nan, e);
}

struct partner {
	bool given, has;
	const char *option, *needs;
};

static int check_partners(const struct partner *p, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		if (!p[i].given || p[i].has)
			continue;
		err_set(e, -EINVAL, "%s does nothing without %s", p[i].option, p[i].needs);
		return err_hint(e, "add it, or leave out %s", p[i].option);
	}
	return 0;
}

int check_options(const struct session_opts *o, const struct intervene_opts *change, bool changes,
		  struct err *e)
{
	const struct capture_opts *c = &o->capture;
	bool measures = o->measure.stats || o->measure.first_nan || change->first_nan;
	bool chooses = c->dir || change->capture || measures;
	bool saves = c->dir || changes;
	const struct partner partners[] = {
	    {c->nth, chooses, "--nth", "--capture, --stats or --first-nan"},
	    {c->every, chooses || change->compare, "--every",
	     "--capture, --stats, --first-nan or --compare"},
	    {c->steps, chooses, "--step", "--capture, --stats or --first-nan"},
	    {c->step_op, c->steps, "--step-op", "--step"},
	    {c->max_calls, saves || measures, "--max-calls", "--capture"},
	    {c->max_bytes, saves || measures, "--max-bytes", "--capture"},
	    {change->budget, changes, "--budget", "--compare"},
	    {change->level, changes, "--level", "--fallback, --cast, --compare or --overflow"},
	};
	int r = trace_options_check(o, e);
	r = r ? r : check_no_loss(o, e);
	r = r ? r : check_turns(o, e);
	return r ? r : check_partners(partners, sizeof(partners) / sizeof(partners[0]), e);
}

static int no_torch(pid_t pid, struct err *e)
{
	char line[256];
	err_set(e, -ENOENT, "process %d (%s) has no PyTorch loaded", pid,
		process_cmdline(pid, line, sizeof(line)));
	return err_hint(e, "if it is going to load it, wait with: ditrace attach --wait %d", pid);
}

/* Follow children if the kernel permits it; tracing the process itself does not depend on it.
 * Called before probes are placed, so that no child is missed, even if the engine turns out to
 * follow by itself. */
static void follow(struct trace_loop *l, struct err *why)
{
	if (!follow_new(&l->follow, why) && !follow_add_process(l->follow, l->pid, why))
		return;
	follow_free(l->follow);
	l->follow = NULL;
}

static int follow_by_engine(struct trace_loop *l, const struct err *why, struct err *e)
{
	if (session_follows(l->session)) {
		if (!session_enters(l->session)) {
			follow_free(l->follow);
			l->follow = NULL;
		}
		return session_watch(l->session, l->pid, e);
	}
	if (!l->follow)
		fprintf(stderr, "ditrace: children of %d will not be traced: %s\n", l->pid,
			why->what);
	return 0;
}

/* Those without PyTorch are followed: what they start may have it. */
static int add_other(struct trace_loop *l, pid_t pid, struct err *e)
{
	struct err why = {0};
	int r = process_check(pid, e);
	if (r)
		return r;
	if (l->follow && follow_add_process(l->follow, pid, &why))
		l->trouble = why;
	if (process_has_torch(pid)) {
		session_expect(l->session, pid);
		r = session_add(l->session, pid, e);
	}
	return r || !session_follows(l->session) ? r : session_watch(l->session, pid, e);
}

/* One that has ended meanwhile is none of them any more. */
static int add_others(struct trace_loop *l, struct err *e)
{
	for (size_t i = 0; i < l->nothers; i++) {
		struct err why = {0};
		int r = add_other(l, l->others[i], &why);
		if (r && r != -ESRCH) {
			*e = why;
			return r;
		}
	}
	if (l->nothers)
		session_start_time(l->session);
	return 0;
}

int start_attached(struct trace_loop *l, struct session_opts *o, bool wait, struct err *e)
{
	struct err why = {0};
	int r = process_check(l->pid, e);
	r = r ? r : trace_loop_await_thaw(l, e);
	if (r)
		return r;
	bool has_torch = process_has_torch(l->pid);
	if (!has_torch && !wait)
		return no_torch(l->pid, e);
	o->pid = has_torch ? l->pid : 0;
	o->attach = l->pid;
	r = session_open(o, &l->session, e);
	if (r)
		return r;
	r = trace_samples_open(o->sample, l->session, &l->samples, e);
	r = r ? r : trace_samples_add_process(l->samples, l->pid, e);
	if (r)
		return r;
	follow(l, &why);
	r = has_torch ? session_add(l->session, l->pid, e) : 0;
	if (r)
		return r;
	trace_loop_note(l);
	r = follow_by_engine(l, &why, e);
	r = r ? r : add_others(l, e);
	if (r || has_torch)
		return r;
	fprintf(stderr, "ditrace: waiting for process %d to load PyTorch\n", l->pid);
	return process_has_torch(l->pid) ? session_add(l->session, l->pid, e) : 0;
}

/* Not optional here: without the kernel's records nothing would report that a library was mapped;
 * but where the library inside does, they tell only of those that are started without it. */
static int follow_child(struct trace_loop *l, pid_t pid, struct err *e)
{
	struct err why = {0};
	const bool alone = session_follows(l->session);
	int r = alone ? session_watch(l->session, pid, e) : 0;
	if (r || (alone && !session_enters(l->session)))
		return r;
	r = follow_new(&l->follow, &why);
	r = r ? r : follow_add_child(l->follow, pid, &why);
	if (r && !alone) {
		*e = why;
	} else if (r) {
		follow_free(l->follow);
		l->follow = NULL;
		r = 0;
	}
	return r;
}

int start_program(struct trace_loop *l, const struct session_opts *o, char *const argv[],
		  const struct spawn_caller *caller, int *status, struct err *e)
{
	struct spawn child;
	*status = EXIT_FAILED;
	int r = session_open(o, &l->session, e);
	if (r)
		return r;
	trace_loop_note(l);
	r = spawn_prepare(argv, caller, session_tracer(l->session), &child, e);
	if (r)
		return r;
	r = trace_samples_open(o->sample, l->session, &l->samples, e);
	r = r ? r : trace_samples_add_child(l->samples, child.pid, e);
	r = r ? r : follow_child(l, child.pid, e);
	if (r) {
		spawn_cancel(&child);
		return r;
	}
	l->pid = child.pid;
	trace_loop_signals(l);
	r = spawn_release(&child, argv, e);
	if (r)
		*status = spawn_failure_status(r);
	return r;
}
