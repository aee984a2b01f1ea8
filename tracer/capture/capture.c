#define _GNU_SOURCE
#include "tracer/capture/capture.h"

#include <errno.h>
#include <stdlib.h>

#include "base/text.h"
#include "replay/capture/capture_files.h"
#include "tracer/capture/internal.h"

static void begin_call(struct capture *c, struct target *t, const struct op_event *ev)
{
	if (c->collectives.on) {
		capture_collectives_begin(c, t, ev);
		return;
	}
	struct captured_call *call = capture_calls_add(&c->calls, ev->id);
	if (!call || !capture_call_of(&c->files, ev, &call->call)) {
		capture_calls_drop(&c->calls, call);
		return;
	}
	capture_place_of(c, ev->pid, call->call.place, sizeof(call->call.place));
	capture_save_live(c, t, call, CAPTURE_INPUT, ev);
	if (!c->without_grads)
		capture_grads_enter(call, t, ev);
}

/* Tensor layout is learned from the first tensors of a process; until then part of a tensor may be
 * unknown. With --max-calls it is better to capture a later call instead. */
static bool are_known(const struct value *v, uint32_t n)
{
	struct extent x;
	for (uint32_t i = 0; i < n; i++) {
		enum refusal r =
		    v[i].kind == VALUE_TENSOR ? extent_of(v[i].tensor, true, &x) : REFUSED_NOT;
		if (r == REFUSED_UNKNOWN || r == REFUSED_WRAPPED)
			return false;
		if (v[i].kind == VALUE_NOT_DECODED)
			return false;
		if (v[i].kind == VALUE_LIST && !are_known(v[i].items, v[i].count))
			return false;
	}
	return true;
}

static void choose(struct capture *c, struct target *t, struct selection *s,
		   const struct op_event *ev)
{
	if (when_decide(c->when, ev, WHEN_ENTRY_ONLY, &c->when_counts) != WHEN_YES)
		return;
	const struct call_count count =
	    c->count ? c->count(ev, c->count_arg) : (struct call_count){CALL_NOT_COUNTED, 0};
	switch (selection_choose(s, ev, count)) {
	case SELECTION_YES:
		if (c->selections.policy.max_calls && !t->layout_known &&
		    !are_known(ev->args, ev->nargs)) {
			c->too_early++;
			selection_give_back(s);
			return;
		}
		begin_call(c, t, ev);
		c->over |= selection_is_spent(s); /* there may be no later call to report this */
		break;
	case SELECTION_OVER:
		c->over = true;
		break;
	default:
		break;
	}
}

static void capture_on_start(struct observer *o, struct target *t, const struct op_event *ev,
			     bool wanted)
{
	struct capture *c = (struct capture *)o;
	struct selection *s = selections_of(&c->selections, ev->pid);
	if (!s)
		return;
	selection_see(s, ev);
	if (c->collectives.on && wanted && ev->op->kind == OP_FUNCTION &&
	    capture_collectives_wants(ev))
		c->collectives.no_ops++;
	if (!t || !ev->held || (c->collectives.on && !capture_collectives_wants(ev)))
		return;
	if (ev->op->kind == OP_DISPATCHED) {
		if (wanted && !c->over && selection_wants_op(&c->selections.policy, ev->op))
			choose(c, t, s, ev);
		return;
	}
	if (ev->op->kind == OP_BACKWARD)
		capture_grads_node_starts(c, t, ev);
}

/* Why it has no results. Which exception it was is not known. */
static void save_thrown(struct capture *c, struct target *t, const struct captured_call *call)
{
	struct capture_source place = {.target = t, .keys = &c->keys};
	const struct source live = capture_source(&place);
	struct pth_content nothing = {0};
	struct capture_about about = {0};
	if (call->files)
		capture_save_content(c, &call->call, "raised", &nothing, &about, &live);
}

static void capture_on_end(struct observer *o, struct target *t, struct op_event *ev)
{
	struct capture *c = (struct capture *)o;
	if (c->collectives.on)
		capture_collectives_end(c, t, ev);
	if (!t || c->collectives.on)
		return;
	if (ev->op->kind == OP_BACKWARD) {
		capture_grads_node_ends(c, t, ev);
		return;
	}
	struct captured_call *call = capture_calls_find(&c->calls, ev->id);
	if (!call)
		return;
	bool ended = !ev->thrown && ev->end_ns && ev->held;
	if (ended)
		capture_save_live(c, t, call, CAPTURE_OUTPUT, ev);
	else if (ev->thrown)
		save_thrown(c, t, call);
	if (!ended || c->without_grads || !capture_grads_leave(c, call, t, ev))
		capture_calls_drop(&c->calls, call);
}

static void capture_on_grads(struct observer *o, struct target *t, const struct decoder_grads *g)
{
	capture_grads_flow((struct capture *)o, t, g);
}

static void capture_on_process(struct observer *o, const struct trace_process *p)
{
	capture_places_add((struct capture *)o, p);
}

static void capture_on_written(struct observer *o, struct target *t, const struct work_done *w)
{
	capture_collectives_written((struct capture *)o, t, w);
}

static int capture_begin(struct observer *o, struct engine *g, struct err *e)
{
	(void)e;
	((struct capture *)o)->engine = g;
	return 0;
}

static bool capture_wants_op(const struct observer *o, const struct op_desc *op)
{
	return selection_wants_op(&((const struct capture *)o)->selections.policy, op);
}

static int capture_check_when(const struct observer *o, struct err *e)
{
	const struct capture *c = (const struct capture *)o;
	if (!c->when || !when_needs_exit(c->when))
		return 0;
	err_set(e, -EINVAL,
		"--when with --capture cannot ask for results, elapsed or thrown: inputs "
		"are saved before the op runs");
	return err_hint(e, "ask for arguments only");
}

static bool capture_pick(const struct observer *o, struct pick *out)
{
	const struct capture *c = (const struct capture *)o;
	if (!selection_pick(&c->selections.policy, out))
		return false;
	/* Engines count all calls, not only those for which the condition holds. */
	bool all =
	    out->n == 1 && out->first[0] == 1 && out->last[0] == UINT64_MAX && out->every < 2;
	return !c->when || all;
}

static void capture_picked(struct observer *o, observer_count_fn *count, void *arg)
{
	struct capture *c = (struct capture *)o;
	c->count = count;
	c->count_arg = arg;
}

/* Captured calls wait for their gradients. */
static bool capture_awaits(const struct observer *o)
{
	return ((const struct capture *)o)->calls.n > 0;
}

/* Nothing can be written any more, or the limits are reached and no call waits for gradients. */
static bool capture_has_ended(const struct observer *o)
{
	const struct capture *c = (const struct capture *)o;
	return c->over && ((!c->calls.n && !c->collectives.n) || c->trouble.code);
}

static const struct err *capture_trouble(const struct observer *o)
{
	return &((const struct capture *)o)->trouble;
}

static void capture_summary(struct observer *o, FILE *f, const struct report_opts *r)
{
	const struct capture *c = (const struct capture *)o;
	(void)r;
	char calls[32], files[32], size[32], n[32];
	fprintf(f, "ditrace: captured %s call%s in %s file%s, %s\n",
		text_count(calls, sizeof(calls), c->saved), c->saved == 1 ? "" : "s",
		text_count(files, sizeof(files), c->files.files), c->files.files == 1 ? "" : "s",
		text_bytes(size, sizeof(size), c->files.bytes));
	for (unsigned i = 1; i < REFUSAL_COUNT; i++)
		if (c->files.refused[i])
			fprintf(f, "  skipped %s file%s: %s\n",
				text_count(n, sizeof(n), c->files.refused[i]),
				c->files.refused[i] == 1 ? "" : "s", refusal_text(i));
	capture_collectives_summary(&c->collectives, f);
	if (c->without_grads && !c->collectives.on)
		fputs("  no gradients: --phase forward leaves the backward out\n", f);
	capture_grads_summary(c, f);
	if (c->too_early)
		fprintf(f,
			"  skipped %s call%s: where tensors have their parts was not known yet\n",
			text_count(n, sizeof(n), c->too_early), c->too_early == 1 ? "" : "s");
	if (c->when_counts.unknown)
		fprintf(f, "  skipped %s call%s: --when asks for a value that is not known\n",
			text_count(n, sizeof(n), c->when_counts.unknown),
			c->when_counts.unknown == 1 ? "" : "s");
}

static void capture_forget_process(struct observer *o, pid_t pid)
{
	struct capture *c = (struct capture *)o;
	selections_forget(&c->selections, pid);
	capture_collectives_forget(c, pid);
}

static void capture_close(struct observer *o)
{
	struct capture *c = (struct capture *)o;
	selections_free(&c->selections);
	capture_calls_free(&c->calls);
	capture_grads_free(&c->grads);
	capture_collectives_free(&c->collectives);
	free(c->processes.all);
	free(c);
}

int capture_open(const struct capture_opts *o, const struct when *when, bool with_grads, FILE *log,
		 struct observer **out, struct err *e)
{
	struct capture *c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(e, -ENOMEM, "no memory");
	c->observer = (struct observer){
	    .stops = "--capture",
	    .needs = OBSERVER_NODES,
	    .pick = capture_pick,
	    .picked = capture_picked,
	    .awaits = capture_awaits,
	    .wants_op = capture_wants_op,
	    .check_when = capture_check_when,
	    .on_start = capture_on_start,
	    .on_end = capture_on_end,
	    .on_process = capture_on_process,
	    .on_grads = with_grads ? capture_on_grads : NULL,
	    .begin = capture_begin,
	    .is_over = capture_has_ended,
	    .trouble = capture_trouble,
	    .summary = capture_summary,
	    .forget_process = capture_forget_process,
	    .close = capture_close,
	};
	if (o->collectives) {
		c->collectives.on = true;
		c->observer.needs = 0;
		c->observer.pick = NULL;
		c->observer.on_grads = NULL;
		c->observer.on_written = capture_on_written;
	}
	c->when = when;
	c->without_grads = !with_grads;
	c->log = log;
	c->files.root = o->dir[0] ? o->dir : ".";
	c->files.max_bytes = o->max_bytes;
	int r = selections_read(&c->selections, o, &selection_capture, e);
	if (r) {
		capture_close(&c->observer);
		return r;
	}
	if (c->selections.policy.steps.n)
		c->observer.needs |= OBSERVER_ALL;
	*out = &c->observer;
	return 0;
}
