#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/system.h"
#include "symbolizer/target/process.h"
#include "tui/model/internal.h"
#include "tui/model/view.h"

struct thread_look {
	uint64_t ns;
	uint32_t weight;
	bool ran;
};

struct looks_thread {
	int32_t pid, tid;
	size_t first, n; /* ring buffer: n samples from looks[first] on */
	uint64_t last_ns;
	struct thread_look *looks;
};

static struct looks_thread *looks_find_thread(const struct looks *l, int32_t pid, int32_t tid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->threads[i].pid == pid && l->threads[i].tid == tid)
			return &l->threads[i];
	return NULL;
}

/* Reuse the entry of a thread without recent samples: it has exited. */
static struct looks_thread *reuse(struct looks *l, int32_t pid, int32_t tid, uint64_t now)
{
	const uint64_t long_ns = 10000000000;
	for (size_t i = 0; i < l->n; i++) {
		struct looks_thread *t = &l->threads[i];
		if (now < t->last_ns + long_ns)
			continue;
		*t = (struct looks_thread){.pid = pid, .tid = tid, .looks = t->looks};
		return t;
	}
	return NULL;
}

static struct looks_thread *add_thread(struct looks *l, int32_t pid, int32_t tid)
{
	struct thread_look *looks = calloc(LOOKS_KEPT, sizeof(*looks));
	if (!looks || array_grow(&l->threads, &l->room, l->n + 1, sizeof(*l->threads))) {
		free(looks);
		return NULL;
	}
	l->threads[l->n] = (struct looks_thread){.pid = pid, .tid = tid, .looks = looks};
	return &l->threads[l->n++];
}

static struct thread_look *at(const struct looks_thread *t, size_t i)
{
	return &t->looks[(t->first + i) % LOOKS_KEPT];
}

/* Drop every second sample, and double the weight of the others. */
static void merge(struct looks_thread *t)
{
	for (size_t i = 0; i < LOOKS_KEPT / 2; i++) {
		*at(t, i) = *at(t, 2 * i);
		at(t, i)->weight *= 2;
	}
	t->n = LOOKS_KEPT / 2;
}

int looks_add(struct looks *l, int32_t pid, int32_t tid, uint64_t ns, bool ran)
{
	struct looks_thread *t = looks_find_thread(l, pid, tid);
	if (!t && l->n == LOOKS_THREADS && !(t = reuse(l, pid, tid, ns)))
		return 0;
	if (!t && !(t = add_thread(l, pid, tid)))
		return -ENOMEM;
	t->last_ns = ns;
	if (t->n == LOOKS_KEPT)
		merge(t);
	*at(t, t->n++) = (struct thread_look){.ns = ns, .weight = 1, .ran = ran};
	return 0;
}

void looks_take(struct looks *l, const struct op_event *ev, uint64_t from, struct off_op_part *out)
{
	struct looks_thread *t = looks_find_thread(l, ev->pid, ev->tid);
	*out = (struct off_op_part){0};
	for (; t && t->n && at(t, 0)->ns <= ev->end_ns; t->n--, t->first++) {
		const struct thread_look *look = at(t, 0);
		if (look->ns < from || look->ns >= ev->start_ns)
			continue;
		*(look->ran ? &out->ran : &out->waited) += look->weight;
	}
	if (t)
		t->first %= LOOKS_KEPT;
}

void looks_free(struct looks *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->threads[i].looks);
	free(l->threads);
	*l = (struct looks){0};
}

int off_op_see(struct off_op *o, const struct op_event *ev, struct off_op_part **part,
	       uint64_t *from)
{
	struct op_event gap;
	int r = gaps_see(&o->gaps, ev, &gap);
	if (r <= 0)
		return r;
	*part = gap.stack ? &o->python : &o->other;
	(*part)->ns += gap.end_ns - gap.start_ns;
	*from = gap.start_ns;
	return 1;
}

void off_op_reset(struct off_op *o)
{
	gaps_free(&o->gaps);
	*o = (struct off_op){0};
}

static struct step_process *steps_find(struct step_times *t, int32_t pid)
{
	for (unsigned i = 0; i < STEP_PROCESSES; i++) {
		struct step_process *p = &t->processes[i];
		if (p->pid == pid || p->pid == 0) {
			p->pid = pid;
			return p;
		}
	}
	return NULL;
}

static void end_step(struct step_times *t, struct step_process *p)
{
	if (!t->pid)
		t->pid = p->pid;
	if (t->pid == p->pid) {
		t->done++;
		if (p->ended_ns && p->last_ns > p->ended_ns)
			t->ns[t->timed++ % STEP_TIMES] = p->last_ns - p->ended_ns;
	}
	p->ended_ns = p->last_ns;
}

/* Events come in order of their end, steps_see needs the order of start: for the outermost ops of a
 * thread, all it looks at, they are the same. */
void step_times_see(struct step_times *t, const struct op_event *ev)
{
	struct step_process *p = ev->depth ? NULL : steps_find(t, ev->pid);
	if (!p)
		return;
	steps_see(&p->steps, ev);
	if (p->steps.done != p->seen) {
		p->seen = p->steps.done;
		end_step(t, p);
	}
	if (p->steps.inside && p->steps.tid == ev->tid)
		p->last_ns = ev->end_ns;
}

unsigned step_times_last(const struct step_times *t, uint64_t *out, unsigned n)
{
	if (n > STEP_TIMES)
		n = STEP_TIMES;
	if (n > t->timed)
		n = (unsigned)t->timed;
	for (unsigned i = 0; i < n; i++)
		out[i] = t->ns[(t->timed - n + i) % STEP_TIMES];
	return n;
}
