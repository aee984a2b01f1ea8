#include "tracer/capture/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/capture/internal.h"

struct selection_op {
	bool known, wanted; /* by the lists, if `known` */
	uint64_t calls;	    /* calls seen */
	uint64_t left;	    /* of these, those in nth */
};

static int read_list(const char *name, struct oplist *out, struct err *e)
{
	const char *text = getenv(name);
	return text ? oplist_compile(name, text, out, e) : 0;
}

const struct selection_variables selection_capture = {"OP_CAPTURE_LIST", "OP_CAPTURE_DISABLE_LIST"};
const struct selection_variables selection_overflow = {"OP_OVERFLOW_CHECK_LIST",
						       "OP_OVERFLOW_CHECK_DISABLE_LIST"};

int selection_environment(struct selection_policy *p, const struct selection_variables *v,
			  struct err *e)
{
	int rc = read_list(v->only, &p->only, e);
	return rc ? rc : read_list(v->disabled, &p->disabled, e);
}

void selection_policy_free(struct selection_policy *p)
{
	ranges_free(&p->nth);
	ranges_free(&p->steps);
	filter_free(&p->step_op);
	oplist_free(&p->only);
	oplist_free(&p->disabled);
}

bool selection_wants_op(const struct selection_policy *p, const struct op_desc *op)
{
	if (p->disabled.n && oplist_match(&p->disabled, op))
		return false;
	return !p->only.n || oplist_match(&p->only, op);
}

uint64_t selection_see(struct selection *s, const struct op_event *ev)
{
	if (s->policy->step_op.n)
		s->steps.op = &s->policy->step_op;
	return steps_see(&s->steps, ev);
}

static struct selection_op *op_of(struct selection *s, const struct op_desc *op)
{
	bool is_new;
	int64_t id = intern(&s->names, op->name, (uint32_t)strlen(op->name), &is_new);
	if (id < 0)
		return NULL;
	size_t known = s->room;
	if (array_grow(&s->ops, &s->room, (size_t)id + 1, sizeof(*s->ops)))
		return NULL;
	memset(s->ops + known, 0, (s->room - known) * sizeof(*s->ops));
	struct selection_op *o = &s->ops[id];
	if (!o->known) {
		o->known = true;
		o->wanted = selection_wants_op(s->policy, op);
	}
	return o;
}

static bool is_simple(const struct ranges *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (i && r->list[i].first <= r->list[i - 1].last)
			return false;
	return r->n <= PICK_RANGES;
}

bool selection_pick(const struct selection_policy *p, struct pick *out)
{
	if ((!p->nth.n && p->every < 2) || p->every > UINT32_MAX || p->steps.n ||
	    !is_simple(&p->nth))
		return false;
	*out = (struct pick){.n = (uint32_t)p->nth.n, .every = (uint32_t)p->every};
	for (size_t i = 0; i < p->nth.n; i++) {
		out->first[i] = p->nth.list[i].first;
		out->last[i] = p->nth.list[i].last;
	}
	return true;
}

static bool counted(const struct selection_policy *p, struct selection_op *o,
		    struct call_count count)
{
	struct pick pick;
	if (count.how == CALL_PICKED)
		return true;
	if (count.how == CALL_NUMBERED)
		return count.number && selection_pick(p, &pick) && pick_takes(&pick, count.number);
	if (!ranges_have(&p->nth, ++o->calls))
		return false;
	return p->every < 2 || o->left++ % p->every == 0;
}

bool selection_is_spent(const struct selection *s)
{
	return s->policy->max_calls && *s->chosen >= s->policy->max_calls;
}

enum selection_answer selection_choose(struct selection *s, const struct op_event *ev,
				       struct call_count count)
{
	const struct selection_policy *p = s->policy;
	uint64_t step = s->steps.done + 1;

	if (ev->op->kind != OP_DISPATCHED)
		return SELECTION_NO;
	if (selection_is_spent(s) || ranges_over(&p->steps, step))
		return SELECTION_OVER;
	struct selection_op *o = op_of(s, ev->op);
	if (!o || !o->wanted || !ranges_have(&p->steps, step) || !counted(p, o, count))
		return SELECTION_NO;
	++*s->chosen;
	return SELECTION_YES;
}

void selection_give_back(struct selection *s)
{
	--*s->chosen;
}

void selection_free(struct selection *s)
{
	intern_free(&s->names);
	free(s->ops);
	s->ops = NULL;
	s->room = 0;
}

int selections_read(struct selections *s, const struct capture_opts *o,
		    const struct selection_variables *v, struct err *e)
{
	struct selection_policy *p = &s->policy;
	p->every = o->every;
	p->max_calls = o->max_calls;
	int r = o->nth ? ranges_parse("--nth", o->nth, &p->nth, e) : 0;
	if (!r && o->steps)
		r = ranges_parse("--step", o->steps, &p->steps, e);
	if (!r && o->step_op)
		r = filter_compile("--step-op", o->step_op, &p->step_op, e);
	return r ? r : selection_environment(p, v, e);
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
