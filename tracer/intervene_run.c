/* run and attach with interventions. */
#include "tracer/trace_loop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/system.h"
#include "symbolizer/target/process.h"
#include "tracer/intervene/intervene.h"
#include "tracer/proc/thread_facts.h"

/* --capture saves calls by the library: not collectives, which it stops at. */
static bool saves_inside(const struct session_opts *o)
{
	return o->engine == ENGINE_SHIM && o->capture.dir && !o->capture.collectives;
}

bool intervene_traces(const struct session_opts *o)
{
	bool inside = saves_inside(o);
	return o->output || o->print || o->prometheus || o->when ||
	       o->depth != SESSION_ALL_LEVELS || o->phase || o->measure.stats ||
	       o->measure.first_nan || o->count || (o->capture.dir && !inside) ||
	       (o->engine != ENGINE_AUTO && !inside);
}

/* The option that chooses calls from outside the process; NULL: none is given. */
static const char *chosen_by(const struct session_opts *o)
{
	const struct capture_opts *c = &o->capture;
	return o->when ? "--when" : c->steps ? "--step" : c->step_op ? "--step-op" : NULL;
}

/* Those that only captures have from inside, too. */
static const char *numbered_by(const struct session_opts *o)
{
	return o->capture.nth ? "--nth" : o->capture.every ? "--every" : NULL;
}

static int check_capture(const struct session_opts *o, struct err *e)
{
	const char *option = chosen_by(o);
	if (!option)
		return 0;
	err_set(e, -EINVAL, "%s does not go together with --capture --engine shim", option);
	return err_hint(e,
			"leave %s out; calls are chosen by --nth and --every, or by --apply "
			"'OP:op_capture:CONDITION'",
			option);
}

static bool changes_more(const struct intervene_opts *c)
{
	return c->fallback || c->fallback_all || c->cast || c->compare || c->overflow || c->apply.n;
}

static int check_first_nan(const struct intervene_opts *change, const struct session_opts *o,
			   struct err *e)
{
	const char *option = chosen_by(o);
	option = option ? option : numbered_by(o);
	if (!option && (changes_more(change) || change->capture))
		option = "what changes functions, or --capture,";
	if (!option && change->level && strcmp(change->level, "aten") != 0)
		option = "--level torch";
	if (!option)
		return 0;
	err_set(e, -EINVAL, "%s does not go together with --first-nan from inside of the process",
		option);
	return err_hint(e, "leave it out; --engine ptrace measures from outside, on the CPU");
}

static void tell_inside(const char *option, const char *why, const char *device, bool operators)
{
	fprintf(stderr, "ditrace: %s works from inside of the process, as %s %s\n", option, why,
		device);
	if (!operators)
		fputs("  it meets functions that Python calls (linear); --level aten meets "
		      "operators (addmm), without their gradients\n",
		      stderr);
}

/* What from outside is not measured or saved, and what does so instead. */
static void tell_outside(const struct session_opts *o)
{
	if (o->measure.first_nan)
		fputs("ditrace: --first-nan cannot measure memory of a device together with these "
		      "options; alone it does, from inside of the process\n",
		      stderr);
	if (o->capture.dir && !o->capture.collectives)
		fputs("ditrace: --capture cannot save memory of a device together with these "
		      "options; with functions in --ops (linear, not aten::linear), --nth, --every "
		      "and -o it does, from inside of the process\n",
		      stderr);
}

static const char *device_in_use(pid_t pid)
{
	return pid ? devices_of(pid) : devices_here();
}

/* Whether --ops names operators, which are met from inside with --level aten alone. */
static bool names_operators(const struct intervene_opts *change, const struct session_opts *o)
{
	return o->ops && strstr(o->ops, "::") && !changes_more(change);
}

/* Whether the other options let --first-nan or --capture be done from inside. */
static bool may_be_inside(const struct intervene_opts *change, const struct session_opts *o)
{
	const bool nan = o->measure.first_nan,
		   alone = nan || change->level || names_operators(change, o);
	struct session_opts rest = *o;
	rest.measure.first_nan = NULL;
	rest.capture.dir = NULL;
	if (!alone) /* what is met as a function can be traced, too */
		rest.output = NULL, rest.print = false, rest.prometheus = NULL;
	return o->engine == ENGINE_AUTO && (nan || o->capture.dir) && !chosen_by(o) &&
	       !o->capture.collectives && !intervene_traces(&rest) &&
	       !(nan && (numbered_by(o) || changes_more(change) || o->capture.dir));
}

/* From outside nothing on a device can be read, and from inside no call is chosen by its step. */
void intervene_choose_inside(struct intervene_opts *change, struct session_opts *o, pid_t pid)
{
	const char *nan = o->measure.first_nan;
	o->capture.collectives = capture_is_of_collectives(o->ops);
	if (nan && *nan && strcmp(nan, "hold") != 0)
		return; /* which is refused */
	const char *device = device_in_use(pid), *inside = may_be_inside(change, o) ? device : NULL;
	const bool operators = names_operators(change, o);
	if (inside)
		tell_inside(nan ? "--first-nan" : "--capture", pid ? "it uses" : "there is", device,
			    nan || change->level || operators);
	else if (device && o->engine != ENGINE_SHIM)
		tell_outside(o);
	if (device && o->measure.stats && !nan)
		fputs("ditrace: --stats cannot measure memory of a device; --overflow does, from "
		      "inside of the process\n",
		      stderr);
	if (nan && (inside || o->engine == ENGINE_SHIM)) {
		change->first_nan = nan;
		o->measure.first_nan = NULL;
		o->engine = ENGINE_AUTO;
	} else if (inside) {
		o->engine = ENGINE_SHIM; /* which saves calls so */
		if (operators && !change->level)
			change->level = "aten";
	}
}

static int check(const struct intervene_opts *change, const struct session_opts *o, struct err *e)
{
	int r = change->first_nan ? check_first_nan(change, o, e)
		: change->capture ? check_capture(o, e)
				  : 0;
	if (r || !change->ops || change->cast || change->overflow || change->capture ||
	    change->first_nan)
		return r;
	err_set(e, -EINVAL,
		"--ops chooses for --cast, --overflow and --capture, and what is traced; "
		"--fallback and --compare have lists of their own");
	return err_hint(e, "write --fallback '%s' or --compare '%s'", change->ops, change->ops);
}

/* One round of intervening. */
static void turn(struct intervene *v, struct trace_loop *l)
{
	enum { LOOK_MS = 20 };
	if (trace_loop_halts()) {
		intervene_set_away(v, true);
		trace_loop_halt("nothing was changed meanwhile");
		intervene_set_away(v, false);
	}
	intervene_step(v, LOOK_MS);
	trace_loop_look(l);
}

/* Run the command until it exits. Returns its exit status. */
static int see_through(struct intervene *v, char **argv, const struct spawn_caller *caller,
		       struct err *e)
{
	struct trace_loop l = {.is_child = true};
	struct spawn child;
	if (spawn_prepare(argv, caller, 0, &child, e))
		return EXIT_FAILED;
	l.pid = child.pid;
	trace_loop_signals(&l);
	int r = spawn_release(&child, argv, e);
	if (r)
		return spawn_failure_status(r);
	while (!l.gone)
		turn(v, &l);
	trace_loop_tell_end(&l);
	intervene_finish(v);
	if (trace_loop_wait(&l))
		return EXIT_FAILED;
	int said = intervene_status(v), status = spawn_exit_status(l.status);
	return said == EXIT_FOUND || intervene_refused(v) || !status ? said : status;
}

int intervene_await_torch(struct trace_loop *l, bool wait, struct err *e)
{
	const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
	while (wait && !process_has_torch(l->pid) && !l->gone && !trace_loop_stopped()) {
		nanosleep(&pause, NULL);
		trace_loop_look(l);
	}
	if (process_has_torch(l->pid))
		return 0;
	err_set(e, -ENOENT, "process %d has no PyTorch loaded", l->pid);
	return err_hint(e, "if it is going to load it, wait with --wait");
}

/* Whether functions were changed for so long. A process that has not begun for want of processors
 * is waited for, one that is stopped is not. */
static bool is_time_over(const struct intervene *v, pid_t pid, uint64_t came_ns, uint64_t for_ns)
{
	const uint64_t patience = UINT64_C(20000000000), began_ns = intervene_began(v);
	const uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct process p;
	if (now - (began_ns ? began_ns : came_ns) < for_ns)
		return false;
	return began_ns || now - came_ns > patience || process_read(pid, &p, NULL) ||
	       p.status.state == 'T';
}

/* Intervene until the process exits, a signal arrives or the time is over. */
static void stay(struct intervene *v, struct trace_loop *l, uint64_t for_ns)
{
	const uint64_t came_ns = clock_ns(CLOCK_MONOTONIC);
	while (!l->gone && !trace_loop_stopped() && !intervene_is_over(v) &&
	       !(for_ns && is_time_over(v, l->pid, came_ns, for_ns)))
		turn(v, l);
	intervene_leave(v);
	intervene_finish(v);
}

/* Check what does not go together, and read `change` into *rules, to be freed by the caller.
 * Buffers stderr, so that a table is written in one piece amid the program's output. 0 or -errno
 * with *e. */
static int intervene_prepare(struct intervene_opts *change, const struct session_opts *o,
			     struct intervene_rules *rules, struct err *e)
{
	static char buffer[1 << 16];
	setvbuf(stderr, buffer, _IOFBF, sizeof(buffer));
	change->max_calls = o->capture.max_calls;
	change->max_bytes = o->capture.max_bytes;
	change->nth = change->capture ? o->capture.nth : NULL;
	change->pick = change->capture && !change->compare ? o->capture.every : 0;
	if (change->sample)
		fprintf(stderr, "ditrace: --sample %s is called --every %s now\n", change->sample,
			!strncmp(change->sample, "1/", 2) ? change->sample + 2 : "N");
	int r = check(change, o, e);
	return r ? r : intervene_rules_read(change, rules, e);
}

static int end(struct intervene *v, struct intervene_rules *rules, const struct err *e, int status)
{
	if (e->code)
		err_print(e);
	if (v)
		intervene_close(v);
	intervene_rules_free(rules);
	return status;
}

bool intervene_run_wanted(struct intervene_opts *change, struct session_opts *o, bool traces)
{
	change->every = change->compare ? o->capture.every : 0;
	change->capture = saves_inside(o) ? o->capture.dir : NULL;
	if (!intervene_wanted(change))
		return false;
	bool lists = !traces || change->cast || change->overflow || change->capture ||
		     change->fallback_all || (change->compare && !strcmp(change->compare, "all"));
	if (lists) {
		change->ops = o->ops;
		change->not_ops = o->not_ops;
		o->ops = o->not_ops = NULL;
	}
	if (o->sample && (!traces || strchr(o->sample, '/'))) {
		change->sample = o->sample;
		o->sample = NULL;
	}
	if (change->capture)
		o->capture.dir = NULL;
	return true;
}

int intervene_run(struct intervene_opts *change, const struct session_opts *o, char **argv,
		  const struct spawn_caller *caller)
{
	struct err e = {0};
	struct intervene_rules rules = {0};
	struct intervene *v = NULL;
	int r = intervene_prepare(change, o, &rules, &e),
	    status = r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	if (!r && !intervene_open(&rules, o->user, &v, &e))
		status = see_through(v, argv, caller, &e);
	return end(v, &rules, &e, status);
}

int intervene_attach(struct intervene_opts *change, const struct session_opts *o, pid_t pid,
		     bool wait)
{
	struct err e = {0};
	struct intervene_rules rules = {0};
	struct intervene *v = NULL;
	struct trace_loop l = {.pid = pid};
	trace_loop_signals(&l);
	int r = intervene_prepare(change, o, &rules, &e);
	if (r)
		return end(v, &rules, &e, r == -EINVAL ? EXIT_USAGE : EXIT_FAILED);
	r = process_check(pid, &e);
	r = r ? r : trace_loop_await_thaw(&l, &e);
	r = r ? r : intervene_await_torch(&l, wait, &e);
	r = r ? r : intervene_enter(&rules, pid, &v, &e);
	if (!r)
		stay(v, &l, o->for_ns);
	return end(v, &rules, &e, r ? EXIT_FAILED : intervene_status(v));
}

/* Interventions beside a trace: in a thread of their own, as judging a call may take longer than
 * the engine's records can wait. */

struct intervene_beside {
	struct intervene *v;
	struct intervene_rules rules;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool running, stop, away, is_away; /* under the lock */
	bool attached;
};

/* False: it is time to stop. */
static bool obey(struct intervene_beside *b)
{
	pthread_mutex_lock(&b->lock);
	bool stop = b->stop;
	if (b->away != b->is_away) {
		intervene_set_away(b->v, b->away);
		b->is_away = b->away;
		pthread_cond_signal(&b->changed);
	}
	pthread_mutex_unlock(&b->lock);
	return !stop;
}

static void *work(void *arg)
{
	enum { LOOK_MS = 20 };
	struct intervene_beside *b = arg;
	while (obey(b)) {
		intervene_step(b->v, LOOK_MS);
		fflush(stderr); /* see intervene_prepare */
	}
	return NULL;
}

static int start(struct intervene_beside *b, struct err *e)
{
	sigset_t all, was;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &was);
	int r = pthread_create(&b->thread, NULL, work, b);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	b->running = !r;
	return r ? err_set(e, -r, "cannot start a thread: %s", strerror(r)) : 0;
}

static int check_level(const struct intervene_rules *r, struct err *e)
{
	if (!r->is_aten)
		return 0;
	if (r->rule[INTERVENE_FIRST_NAN].on) {
		err_set(e, -EINVAL,
			"--first-nan from inside of the process does not go together with a trace");
		return err_hint(e, "leave out what asks for one: -o, --print, --count");
	}
	err_set(e, -EINVAL,
		"--level aten does not go together with a trace: an operator is met within its "
		"call, which would be recorded twice, and what ditrace computes would be part of "
		"the times of the calls around it");
	return err_hint(e, "leave --level out, so that functions are met before they call "
			   "operators (softmax, not aten::_softmax); or trace in a run of its own");
}

int intervene_beside_open(struct intervene_opts *change, const struct session_opts *o, pid_t pid,
			  struct intervene_beside **out, struct err *e)
{
	struct intervene_beside *b = calloc(1, sizeof(*b));
	if (!b)
		return err_set(e, -ENOMEM, "no memory");
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->changed, NULL);
	b->attached = pid;
	*out = b;
	int r = intervene_prepare(change, o, &b->rules, e);
	r = r ? r : check_level(&b->rules, e);
	if (!r)
		r = pid ? intervene_enter(&b->rules, pid, &b->v, e)
			: intervene_open(&b->rules, o->user, &b->v, e);
	return r ? r : start(b, e);
}

void intervene_beside_set_away(struct intervene_beside *b, bool away)
{
	if (!b)
		return;
	pthread_mutex_lock(&b->lock);
	b->away = away;
	while (b->is_away != b->away)
		pthread_cond_wait(&b->changed, &b->lock);
	pthread_mutex_unlock(&b->lock);
}

static void stop(struct intervene_beside *b)
{
	pthread_mutex_lock(&b->lock);
	b->stop = true;
	pthread_mutex_unlock(&b->lock);
	pthread_join(b->thread, NULL);
	if (b->attached)
		intervene_leave(b->v);
	intervene_finish(b->v);
}

bool intervene_beside_close(struct intervene_beside *b)
{
	if (!b)
		return false;
	if (b->running)
		stop(b);
	bool refused = b->v && intervene_refused(b->v);
	if (b->v)
		intervene_close(b->v);
	intervene_rules_free(&b->rules);
	pthread_cond_destroy(&b->changed);
	pthread_mutex_destroy(&b->lock);
	free(b);
	return refused;
}
