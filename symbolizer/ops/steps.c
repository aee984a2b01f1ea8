#include "symbolizer/ops/filter.h"

#include <string.h>

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);
	return n >= k && !strcmp(s + n - k, end);
}

/* Whether `f` is the step of an optimizer of PyTorch, or the wrapper around the step of any
 * optimizer (profile_hook_step, torch/optim/optimizer.py). Function names may be qualified. */
static bool is_step(const struct py_frame *f)
{
	const char *dot = f->function ? strrchr(f->function, '.') : NULL;
	const char *name = dot ? dot + 1 : f->function;
	if (!f->file || !name)
		return false;
	if (ends_with(f->file, "torch/optim/optimizer.py"))
		return !strcmp(name, "wrapper") || !strcmp(name, "step");
	return strstr(f->file, "torch/optim/") && !ends_with(f->file, "/lr_scheduler.py") &&
	       !strcmp(name, "step");
}

/* The frame that called the optimizer, the innermost one outside it: its id + 1; 0 when `stack` is
 * not in an optimizer's step; UINT32_MAX when the stack does not reach that far. */
static uint32_t caller_of_step(const struct py_stack *stack)
{
	uint16_t i, last = 0;
	bool found = false;
	for (i = 0; stack && i < stack->depth; i++)
		if (is_step(stack->frames[i])) {
			found = true;
			last = i;
		}
	if (!found)
		return 0;
	for (i = (uint16_t)(last + 1); i < stack->depth; i++)
		if (!stack->frames[i]->is_torch)
			return stack->frames[i]->id + 1;
	return UINT32_MAX;
}

static void end_step(struct steps *s)
{
	s->done++;
	s->inside = false;
}

static void see_optimizer(struct steps *s, const struct op_event *ev)
{
	uint32_t caller = caller_of_step(ev->stack);
	if (s->tid && s->tid != ev->tid)
		return;
	if (s->inside && caller != s->caller)
		end_step(s);
	if (!s->inside && caller) {
		s->inside = true;
		s->caller = caller;
		s->tid = ev->tid;
	}
}

static void see_op(struct steps *s, const struct op_event *ev)
{
	if (s->inside && s->tid == ev->tid && ev->depth <= s->depth)
		end_step(s);
	if (!s->inside && filter_match(s->op, ev->op)) {
		s->inside = true;
		s->tid = ev->tid;
		s->depth = ev->depth;
	}
}

uint64_t steps_see(struct steps *s, const struct op_event *ev)
{
	if (s->op)
		see_op(s, ev);
	else
		see_optimizer(s, ev);
	return s->done + 1;
}
