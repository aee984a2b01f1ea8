#define _GNU_SOURCE
#include "tracer/doctor_target.h"

#include <time.h>

#include "base/text.h"
#include "tracer/session/session_internal.h"

static void check_python(const struct target *t, struct checks *c)
{
	struct err why = {0};
	struct py_runtime *py = NULL;
	if (t->py) {
		checks_addf(c, CHECK_OK, "", "CPython %s", python_version(t->py));
	} else if (python_open(t->pid, &t->mem, &py, &why)) {
		checks_addf(c, CHECK_WARN, why.hint, "no Python lines will be shown: %s", why.what);
	}
	python_close(py);
}

static void check_ops(const struct op_table *t, struct checks *c)
{
	char calls[32], nodes[32], slow[32];
	checks_addf(c, CHECK_OK, "", "%s and %s; with a slow, single-stepped end probe: %s",
		    text_counted(calls, sizeof(calls), t->ncalls, "op"),
		    text_counted(nodes, sizeof(nodes), t->nnodes, "backward node"),
		    t->ret_exits ? text_count(slow, sizeof(slow), t->ret_exits) : "none");
	if (t->no_values)
		checks_addf(c, CHECK_WARN, "", "the arguments of %s cannot be decoded",
			    text_counted(calls, sizeof(calls), t->no_values, "op"));
}

static void check_layout(const struct target *t, struct checks *c)
{
	if (t->layout.solved)
		checks_addf(c, CHECK_OK, "", "tensor layout found and checked: %s",
			    t->layout.source);
	else
		checks_add(c, CHECK_WARN,
			   "no op ran meanwhile: the layout of tensors will be found when one does",
			   "");
}

static void check_share(struct session *s, struct checks *c)
{
	struct engine_counters n;
	s->engine->counters(s->engine, &n);
	if (n.dispatched < DISPATCH_LEAST)
		return;
	double share = 100.0 * (double)n.dispatched_seen / (double)n.dispatched;
	checks_addf(c, share < 99.5 ? CHECK_WARN : CHECK_OK, "",
		    "%.1f %% of the dispatched ops are seen", share);
}

static void trace_a_moment(struct session *s)
{
	enum { TURNS = 400 };
	const struct timespec turn = {.tv_nsec = 1000 * 1000};
	for (unsigned i = 0; i < TURNS && session_step(s, NULL) == 0; i++)
		nanosleep(&turn, NULL);
}

void doctor_target(pid_t pid, struct checks *c)
{
	/* The engine shim would leave its library in the process. */
	struct session_opts o = {.depth = SESSION_ALL_LEVELS, .attach = pid, .engine = ENGINE_BPF};
	struct session *s;
	struct err e = {0};
	int r = session_open(&o, &s, &e);
	if (r) {
		o.engine = ENGINE_PTRACE;
		r = session_open(&o, &s, &e);
	}
	if (r) {
		checks_add(c, CHECK_FAIL, e.what, e.hint);
		return;
	}
	if (session_add(s, pid, &e)) {
		checks_add(c, CHECK_FAIL, e.what, e.hint);
	} else {
		const struct proc *p = session_proc(s, pid);
		trace_a_moment(s);
		check_python(p->target, c);
		check_ops(s->ops, c);
		check_layout(p->target, c);
		check_share(s, c);
	}
	session_close(s);
}
