#include "tracer/capture/selections.h"

int selections_read(struct selections *s, const struct capturing_opts *o, struct err *e)
{
	struct selection_policy *p = &s->policy;
	p->every = o->every;
	p->max_calls = o->max_calls;
	int r = o->nth ? ranges_parse("--nth", o->nth, &p->nth, e) : 0;
	if (!r && o->steps)
		r = ranges_parse("--steps", o->steps, &p->steps, e);
	if (!r && o->step_op)
		r = filter_compile("--step-op", o->step_op, &p->step_op, e);
	return r;
}

bool selections_restrict(const struct selections *s)
{
	const struct selection_policy *p = &s->policy;
	return p->nth.n || p->steps.n || p->every > 1 || p->max_calls || p->only.n || p->disabled.n;
}

static struct selection_process *selections_find(struct selections *s, pid_t pid)
{
	for (unsigned i = 0; i < SELECTIONS_MAX; i++)
		if (s->processes[i].pid == pid)
			return &s->processes[i];
	return NULL;
}

struct selection *selections_of(struct selections *s, pid_t pid)
{
	struct selection_process *p = selections_find(s, pid);
	if (p)
		return &p->selection;
	p = selections_find(s, 0);
	if (!p)
		return NULL;
	p->pid = pid;
	p->selection.policy = &s->policy;
	p->selection.chosen = &s->chosen;
	return &p->selection;
}

void selections_forget(struct selections *s, pid_t pid)
{
	struct selection_process *p = selections_find(s, pid);
	if (!p)
		return;
	selection_free(&p->selection);
	*p = (struct selection_process){0};
}

void selections_free(struct selections *s)
{
	for (unsigned i = 0; i < SELECTIONS_MAX; i++)
		selection_free(&s->processes[i].selection);
	selection_policy_free(&s->policy);
}
