#include "tracer/capture/internal.h"

#include <errno.h>
#include <stdlib.h>

#include "base/text.h"
#include "symbolizer/event/names.h"

/* Limit on copies of gradients of calls that still wait for others. */
static const size_t KEPT_MAX = (size_t)1 << 30;

void capture_grads_enter(struct captured_call *call, struct target *t, const struct op_event *ev)
{
	call->where = ev->where_stack;
	call_inputs_begin(&call->inputs, t, ev);
}

/* Wait for the nodes of the results, except those that are also an argument's. */
static int await_results(struct capture *c, struct captured_call *call, struct target *t,
			 const struct value *v, unsigned n)
{
	struct call_input *input;
	struct grad_edge at;
	int r = 0;
	for (unsigned i = 0; !r && i < n; i++) {
		if (v[i].kind == VALUE_LIST)
			r = await_results(c, call, t, v[i].items, v[i].count);
		if (v[i].kind != VALUE_TENSOR)
			continue;
		r = grad_edge_of(t, v[i].tensor, &at);
		if (!r && at.node && at.seq != GRAD_LEAF &&
		    !call_inputs_at(&call->inputs, &at, &input))
			r = capture_calls_await(&c->calls, call, &at, true);
	}
	return r;
}

bool capture_grads_leave(struct capture *c, struct captured_call *call, struct target *t,
			 const struct op_event *ev)
{
	call->one_result = ev->nresults == 1 && ev->results->kind == VALUE_TENSOR;
	call_inputs_end(&call->inputs, t, ev);
	if (await_results(c, call, t, ev->results, ev->nresults)) {
		c->grads.troubles[GRADS_UNKNOWN]++;
		return false;
	}
	return call->nodes != NULL;
}

static bool is_own(const struct call_node *n, const char *node_name)
{
	return n->gave_result && capture_node_is_of(node_name, n->call->call.op);
}

/* The only gradient given to the node; NULL if there are none or several. */
static const struct value *only_gradient(const struct op_event *ev)
{
	const struct value *v = ev->args, *only = NULL;
	unsigned n = ev->nargs;
	if (n == 1 && v->kind == VALUE_LIST) {
		n = v->count;
		v = v->items;
	}
	for (unsigned i = 0; i < n; i++) {
		if (v[i].kind == VALUE_NONE)
			continue;
		if (only)
			return NULL;
		only = &v[i];
	}
	return only;
}

static void save_grad_outputs(struct capture *c, struct target *t, const struct call_node *n,
			      const struct op_event *ev)
{
	struct op_event of_call = *ev;
	of_call.where_stack = n->call->where;
	if (!is_own(n, ev->op->name)) {
		of_call.args = n->call->one_result ? only_gradient(ev) : NULL;
		of_call.nargs = 1;
	}
	if (of_call.args)
		capture_save_live(c, t, n->call, CAPTURE_GRAD_OUTPUTS, &of_call);
}

void capture_grads_node_starts(struct capture *c, struct target *t, const struct op_event *ev)
{
	const struct grad_edge at = {ev->node, ev->node_seq};
	for (struct call_node *n = NULL; (n = capture_calls_awaiting(&c->calls, ev->pid, &at, n));)
		if (n->gave_result)
			save_grad_outputs(c, t, n, ev);
}

/* `node`: the name of the node to whose edges they belong; NULL: they belong to the arguments. */
static void save_grad_inputs(struct capture *c, struct captured_call *call, const char *node,
			     const struct value *grads, unsigned n, const struct source *src)
{
	const struct op_desc op = {
	    .name = node ? node : "", .schema = "", .kind = node ? OP_BACKWARD : OP_DISPATCHED};
	const struct op_event ev = {.op = &op,
				    .results = grads,
				    .nresults = (uint16_t)n,
				    .pid = call->call.pid,
				    .where_stack = call->where};
	capture_save(c, call, CAPTURE_GRAD_INPUTS, &ev, src);
}

/* All nodes of the call have run, or its gradients cannot be determined. */
static void finish(struct capture *c, struct captured_call *call)
{
	const struct source kept = kept_source(&call->inputs.grads);
	struct value *grads;
	if (call->inputs.trouble)
		c->grads.troubles[call->inputs.trouble]++;
	else if (call_inputs_grads(&call->inputs, &grads, &call->call.of))
		save_grad_inputs(c, call, NULL, grads, call->inputs.n, &kept);
	capture_calls_drop(&c->calls, call);
}

static size_t kept_bytes(const struct capture_calls *c)
{
	size_t sum = 0;
	for (const struct captured_call *x = c->oldest; x; x = x->younger)
		sum += x->inputs.grads.bytes;
	return sum;
}

/* Where a gradient goes on from the cast of a parameter, of which autocast makes one for all calls
 * (at::autocast::cached_cast, aten/src/ATen/autocast_mode.cpp, 1.13.1 and 2.13.0): what leaves the
 * cast is the sum of the gradients of them all. `vector`: offset of a node's edges. */
static void pass_parameter_cast(struct target *t, const struct value *grad, uint64_t vector,
				struct grad_edge *edge)
{
	static const char cast[] = "N5torch8autograd9generated15ToCopyBackward0E";
	struct grad_edge next;
	if (edge->node && edge->seq != GRAD_LEAF && grad->kind == VALUE_TENSOR &&
	    names_itemsize(grad->tensor->meta.dtype) == 2 &&
	    rtti_is_a(rtti_of_object(t->rtti, edge->node), cast) &&
	    !grad_edges_read(t, edge->node + vector, &next, 1) && next.seq == GRAD_LEAF)
		*edge = next;
}

/* A result of a node of the call flows to `edge`. */
static enum grads_trouble flow(struct capture *c, struct captured_call *call,
			       const struct value *grad, const struct grad_edge *edge,
			       const struct source *live)
{
	struct call_input *input;
	if (grad->kind == VALUE_NONE || !edge->node)
		return GRADS_FINE;
	unsigned n = call_inputs_at(&call->inputs, edge, &input);
	if (n > 1)
		return GRADS_SHARED;
	if (n == 1 && grad->kind != VALUE_TENSOR)
		return GRADS_LOST;
	if (n == 1) {
		size_t kept = kept_bytes(&c->calls);
		call_inputs_keep(&call->inputs, input, grad->tensor, live,
				 kept < KEPT_MAX ? KEPT_MAX - kept : 0);
		return GRADS_FINE;
	}
	/* A node inside the op; a leaf's would be outside. */
	if (edge->seq == GRAD_LEAF || capture_calls_await(&c->calls, call, edge, false))
		return GRADS_UNKNOWN;
	return GRADS_FINE;
}

static void take_flows(struct capture *c, struct target *t, const struct call_node *from,
		       const struct decoder_grads *g, const struct source *live)
{
	struct captured_call *call = from->call;
	const uint64_t vector = g->edges - from->at.node;
	struct call_input *input;
	unsigned n = g->flowing.count;
	struct grad_edge *edges = calloc(n + 1, sizeof(*edges));
	enum grads_trouble trouble = GRADS_FINE;
	if (!edges || grad_edges_read(t, g->edges, edges, n))
		trouble = GRADS_UNKNOWN;
	for (unsigned i = 0; i < n && !trouble && !call->inputs.trouble; i++) {
		if (!call_inputs_at(&call->inputs, &edges[i], &input))
			pass_parameter_cast(t, &g->flowing.items[i], vector, &edges[i]);
		trouble = flow(c, call, &g->flowing.items[i], &edges[i], live);
	}
	if (!call->inputs.trouble)
		call->inputs.trouble = trouble;
	free(edges);
}

static void flow_of_node(struct capture *c, struct target *t, struct call_node *n, const char *name,
			 const struct decoder_grads *g)
{
	struct capture_source place = {.target = t, .keys = &c->keys};
	const struct source live = capture_source(&place);
	struct captured_call *call = n->call;
	bool own = is_own(n, name);
	if (own)
		save_grad_inputs(c, call, name, &g->flowing, 1, &live);
	else if (!call->inputs.trouble)
		take_flows(c, t, n, g, &live);
	capture_calls_ran(&c->calls, n);
	call->began &= !own;
	if (own)
		capture_calls_drop(&c->calls, call);
	else if (!call->nodes || call->inputs.trouble)
		finish(c, call);
}

static uint64_t impl_of(const struct value *v)
{
	return v->kind == VALUE_TENSOR ? v->tensor->impl : 0;
}

static bool is_same(const struct ended_node *e, const struct value *list)
{
	if (list->kind != VALUE_LIST || list->count != e->n)
		return false;
	for (unsigned i = 0; i < e->n; i++)
		if (impl_of(&list->items[i]) != e->results[i])
			return false;
	return true;
}

static struct ended_node *ended_on(struct capture_grads *g, int32_t tid)
{
	for (unsigned i = 0; i < GRADS_THREADS; i++)
		if (g->ended[i].at.node && g->ended[i].tid == tid)
			return &g->ended[i];
	return NULL;
}

static void forget(struct ended_node *e)
{
	free(e->results);
	*e = (struct ended_node){0};
}

/* Drop all calls that wait for the node. */
static void give_up(struct capture *c, int32_t pid, const struct grad_edge *at, uint64_t *count)
{
	struct call_node *n;
	while ((n = capture_calls_awaiting(&c->calls, pid, at, NULL))) {
		*count += 1;
		n->call->inputs.trouble = GRADS_UNKNOWN;
		capture_calls_drop(&c->calls, n->call);
	}
}

void capture_grads_flow(struct capture *c, struct target *t, const struct decoder_grads *g)
{
	struct ended_node *e = ended_on(&c->grads, g->tid);
	struct call_node *n;
	if (!e)
		return;
	if (!is_same(e, &g->returned) || g->flowing.kind != VALUE_LIST || g->flowing.count != e->n)
		give_up(c, g->pid, &e->at, &c->grads.unseen);
	while ((n = capture_calls_awaiting(&c->calls, g->pid, &e->at, NULL)))
		flow_of_node(c, t, n, e->name, g);
	forget(e);
}

static void remember(struct capture *c, const struct op_event *ev)
{
	const struct value *v = ev->results;
	struct ended_node *e = NULL;
	for (unsigned i = 0; i < GRADS_THREADS && !e; i++)
		if (!c->grads.ended[i].at.node)
			e = &c->grads.ended[i];
	bool good = e && ev->nresults == 1 && v->kind == VALUE_LIST &&
		    v->count <= GRADS_RESULTS_MAX &&
		    (e->results = calloc(v->count + 1, sizeof(*e->results)));
	const struct grad_edge at = {ev->node, ev->node_seq};
	if (!good) {
		give_up(c, ev->pid, &at, &c->grads.unseen);
		return;
	}
	e->tid = ev->tid;
	e->at = at;
	e->name = ev->op->name;
	e->n = v->count;
	for (unsigned i = 0; i < e->n; i++)
		e->results[i] = impl_of(&v->items[i]);
}

/* Without a probe where gradients get their final form: take them as the node returned them. */
static void take_returned(struct capture *c, struct target *t, const struct op_event *ev)
{
	struct capture_source place = {.target = t, .keys = &c->keys};
	const struct source live = capture_source(&place);
	const struct grad_edge at = {ev->node, ev->node_seq};
	struct call_node *n;
	while ((n = capture_calls_awaiting(&c->calls, ev->pid, &at, NULL))) {
		struct captured_call *call = n->call;
		if (is_own(n, ev->op->name)) {
			c->grads.as_returned++;
			save_grad_inputs(c, call, ev->op->name, ev->results, ev->nresults, &live);
		} else {
			c->grads.unseen++;
		}
		call->inputs.trouble = GRADS_UNKNOWN;
		capture_calls_drop(&c->calls, call);
	}
}

void capture_grads_node_ends(struct capture *c, struct target *t, const struct op_event *ev)
{
	uint64_t nobody = 0;
	const struct grad_edge at = {ev->node, ev->node_seq};
	struct ended_node *last = ended_on(&c->grads, ev->tid);
	if (last) {
		const struct grad_edge missed = last->at;
		forget(last);
		give_up(c, ev->pid, &missed, &c->grads.unseen);
	}
	if (!capture_calls_awaiting(&c->calls, ev->pid, &at, NULL))
		return;
	if (ev->thrown || !ev->end_ns)
		give_up(c, ev->pid, &at, &nobody);
	else if (t->ops->has_grads)
		remember(c, ev);
	else
		take_returned(c, t, ev);
}

static void print_skipped(FILE *f, uint64_t n, const char *what, const char *why)
{
	char count[32];
	if (n)
		fprintf(f, "  %s of %s call%s: %s\n", what, text_count(count, sizeof(count), n),
			n == 1 ? "" : "s", why);
}

void capture_grads_summary(const struct capture *c, FILE *f)
{
	const struct capture_grads *g = &c->grads;
	uint64_t unfinished = c->calls.unfinished;
	for (const struct captured_call *x = c->calls.oldest; x; x = x->younger)
		unfinished += x->began;
	for (unsigned i = 1; i < GRADS_TROUBLES; i++)
		print_skipped(f, g->troubles[i], "skipped grad_inputs", grads_trouble_text(i));
	print_skipped(f, unfinished, "skipped grad_inputs", "not all of their backward ran");
	print_skipped(
	    f, g->unseen, "skipped grad_inputs",
	    "what autograd makes of them in the end could not be seen; capture the ops that the "
	    "op is made of");
	print_skipped(
	    f, g->as_returned, "saved grad_inputs",
	    "as the backward node returned them; those of broadcast arguments are not summed yet");
}

void capture_grads_free(struct capture_grads *g)
{
	for (unsigned i = 0; i < GRADS_THREADS; i++)
		forget(&g->ended[i]);
}
