/* What tracing costs: the time in probes beside the CPU time of the threads that hit them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/system.h"
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

static void update(struct traced_thread *t)
{
	uint64_t now;
	if (!cpu_of(t, &now))
		return;
	/* Less than before: another thread has its number. */
	t->spent_ns += now >= t->last_ns ? now - t->last_ns : now;
	t->last_ns = now;
}

static struct traced_thread *find(struct session_cost *c, pid_t pid, pid_t tid)
{
	for (unsigned i = 0; i < c->n; i++)
		if (c->threads[i].tid == tid && c->threads[i].pid == pid)
			return &c->threads[i];
	return NULL;
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
	if (c->n == COST_THREADS) {
		c->unknown = true;
		return;
	}
	struct traced_thread *t = &c->threads[c->n++];
	*t = (struct traced_thread){.pid = target->pid, .tid = tid};
	if (!cpu_of(t, &t->last_ns))
		return;
	/* Hits are read late while much is to be learned, and count from when they were: as if the
	 * thread had run since then. */
	uint64_t now = clock_ns(CLOCK_MONOTONIC), past = now > h->ts ? now - h->ts : 0;
	t->last_ns -= past < t->last_ns ? past : t->last_ns;
}

void session_cost_update(struct session *s)
{
	for (unsigned i = 0; i < s->cost.n; i++)
		update(&s->cost.threads[i]);
}

uint64_t session_cost_cpu(const struct session *s)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < s->cost.n; i++)
		sum += s->cost.threads[i].spent_ns;
	return s->cost.unknown ? 0 : sum;
}
