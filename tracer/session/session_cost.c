/* What tracing costs: the time in probes beside the CPU time of the threads that hit them. */
#include <stdio.h>
#include <stdlib.h>

#include "symbolizer/target/process.h"
#include "tracer/session/internal.h"

/* proc_pid_schedstat(5): its first number, in nanoseconds. */
static bool cpu_of(const struct traced_thread *t, uint64_t *ns)
{
	char name[48], text[64], *end;
	snprintf(name, sizeof(name), "task/%d/schedstat", t->tid);
	if (process_file(t->pid, name, text, sizeof(text)) <= 0)
		return false;
	*ns = strtoull(text, &end, 10);
	return end != text;
}

static void update(struct traced_thread *t, bool counts)
{
	uint64_t now;
	if (!cpu_of(t, &now))
		return;
	/* Less than before: another thread has its number. */
	if (counts)
		t->spent_ns += now >= t->last_ns ? now - t->last_ns : now;
	t->last_ns = now;
}

static void update_all(struct session *s, bool counts)
{
	for (unsigned i = 0; i < s->cost.n; i++)
		update(&s->cost.threads[i], counts);
}

static struct traced_thread *find(struct session_cost *c, pid_t pid, pid_t tid)
{
	for (unsigned i = 0; i < c->n; i++)
		if (c->threads[i].tid == tid && c->threads[i].pid == pid)
			return &c->threads[i];
	return NULL;
}

static struct traced_thread *add(struct session_cost *c, pid_t pid, pid_t tid)
{
	if (c->n == COST_THREADS)
		return NULL;
	c->threads[c->n] = (struct traced_thread){.pid = pid, .tid = tid};
	return &c->threads[c->n++];
}

void session_cost_meet(struct session *s, const struct hit *h)
{
	const pid_t tid = (pid_t)h->tid;
	struct session_cost *c = &s->cost;
	const uint16_t proc = h->proc;
	const struct target *target = proc < PROCS_MAX ? s->procs[proc].target : NULL;
	if (!target)
		return;
	c->last_tid = tid;
	c->last_proc = proc;
	if (find(c, target->pid, tid))
		return;
	struct traced_thread *t = add(c, target->pid, tid);
	c->unknown |= !t;
	if (!t || !cpu_of(t, &t->last_ns))
		return;
	/* Hits are read late while much is to be learned, and count from when they were: as if the
	 * thread had run since then; but not from before the probes were in. */
	const uint64_t now = session_now(), from = h->ts > c->from_ns ? h->ts : c->from_ns;
	const uint64_t past = now > from ? now - from : 0;
	t->spent_ns = past < t->last_ns ? past : t->last_ns;
}

static uint64_t hits_of(const struct session *s)
{
	struct engine_counters c;
	s->engine->counters(s->engine, &c);
	return c.hits;
}

void session_cost_placing(struct session *s)
{
	session_cost_update(s);
	s->cost.hits_before = hits_of(s);
}

void session_cost_placed(struct session *s)
{
	update_all(s, false);
	s->cost.from_ns = session_now();
	s->cost.hits_left_out += hits_of(s) - s->cost.hits_before;
}

void session_cost_update(struct session *s)
{
	update_all(s, true);
	s->cost.hits_counted = hits_of(s) - s->cost.hits_left_out;
}

void session_cost_restart(struct session *s)
{
	update_all(s, false);
	s->cost.from_ns = session_now();
	for (unsigned i = 0; i < s->cost.n; i++)
		s->cost.threads[i].spent_ns = 0;
	s->cost.hits_left_out = hits_of(s);
	s->cost.hits_counted = 0;
}

uint64_t session_cost_cpu(const struct session *s)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < s->cost.n; i++)
		sum += s->cost.threads[i].spent_ns;
	return s->cost.unknown ? 0 : sum;
}

uint64_t session_cost_probes(const struct session *s, const struct engine_counters *c)
{
	const double hits = (double)s->cost.hits_counted;
	return c->hits ? (uint64_t)((double)c->probe_ns * hits / (double)c->hits) : 0;
}
