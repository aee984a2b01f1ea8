#include "tui/model/view.h"

#include <stddef.h>

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
