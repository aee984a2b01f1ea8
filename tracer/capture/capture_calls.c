#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/target/process.h"
#include "tracer/capture/internal.h"

/* Sizes of an Edge, {pointer to the Node, uint32_t}: the pointer is intrusive in 2.13.0, a
 * std::shared_ptr in 1.13.1 (torch/csrc/autograd/edge.h). */
enum { EDGE_INTRUSIVE = 16, EDGE_SHARED = 24 };

static int with_seq(struct target *t, uint64_t node, struct grad_edge *out)
{
	out->node = node;
	return !node || target_node_seq(t, node, &out->seq) ? 0 : -ENODATA;
}

/* In AutogradMeta the weak pointer grad_accumulator_ follows grad_fn_
 * (torch/csrc/autograd/variable.h). They are std::weak_ptr and std::shared_ptr in 1.13.1, intrusive
 * pointers of one word in 2.13.0, so it is at the first or the second word after grad_fn_'s
 * pointer. The class of the object tells which. */
static int leaf_edge(struct target *t, uint64_t meta, struct grad_edge *out)
{
	static const char accumulate[] = "N5torch8autograd14AccumulateGradE";
	uint64_t words[2];
	int r = mem_read(&t->mem, meta + t->layout.meta_grad_fn + 8, words, sizeof(words));
	for (unsigned i = 0; !r && i < 2; i++) {
		if (!words[i] || !rtti_is_a(rtti_of_object(t->rtti, words[i]), accumulate))
			continue;
		r = with_seq(t, words[i], out);
		return r || out->seq == GRAD_LEAF ? r : -ENODATA;
	}
	return r;
}

int grad_edge_of(struct target *t, const struct tensor *x, struct grad_edge *out)
{
	const struct tensor_layout *l = &t->layout;
	uint64_t meta = 0, node = 0;
	*out = (struct grad_edge){0};
	if (l->unknown & (LAYOUT_AUTOGRAD | LAYOUT_META) ||
	    x->meta.unknown & TENSOR_NO_REQUIRES_GRAD)
		return -ENODATA;
	if (!x->meta.requires_grad)
		return 0;
	int r = mem_read_u64(&t->mem, x->impl + l->autograd_meta, &meta);
	if (r || !meta)
		return r ? r : -ENODATA;
	r = mem_read_u64(&t->mem, meta + l->meta_grad_fn, &node);
	if (r)
		return r;
	return node ? with_seq(t, node, out) : leaf_edge(t, meta, out);
}

int grad_edges_read(struct target *t, uint64_t edges, struct grad_edge *out, size_t n)
{
	uint64_t vec[2], node; /* begin, end */
	int r = edges ? mem_read(&t->mem, edges, vec, sizeof(vec)) : -ENODATA;
	uint64_t bytes = r ? 0 : vec[1] - vec[0];
	if (!r && bytes != n * EDGE_INTRUSIVE && bytes != n * EDGE_SHARED)
		r = -EPROTO;
	for (size_t i = 0; !r && i < n; i++) {
		out[i] = (struct grad_edge){0};
		r = mem_read_u64(&t->mem, vec[0] + i * (bytes / n), &node);
		r = r ? r : with_seq(t, node, &out[i]);
	}
	return r;
}

const char *grads_trouble_text(enum grads_trouble t)
{
	static const char *const texts[GRADS_TROUBLES] = {
	    [GRADS_FINE] = "nothing",
	    [GRADS_UNKNOWN] = "where its gradients flow is not known",
	    [GRADS_SHARED] = "arguments that come out of one op have gradients that cannot be told "
			     "apart",
	    [GRADS_SUMMED] = "the gradient of an argument is summed up of several",
	    [GRADS_LOST] = "a gradient could not be kept until all were there",
	};
	return texts[t < GRADS_TROUBLES ? t : GRADS_UNKNOWN];
}

static void trouble(struct call_inputs *in, enum grads_trouble t)
{
	if (!in->trouble)
		in->trouble = t;
}

static unsigned count_tensors(const struct value *v, unsigned n)
{
	unsigned sum = 0;
	for (unsigned i = 0; i < n; i++)
		sum += v[i].kind == VALUE_TENSOR ? 1
		       : v[i].kind == VALUE_LIST ? count_tensors(v[i].items, v[i].count)
						 : 0;
	return sum;
}

static void add_tensor(struct call_inputs *in, struct target *t, const struct tensor *x,
		       const char *name)
{
	struct call_input *i = &in->list[in->n++];
	struct tensor *copy = arena_alloc(&in->arena, sizeof(*copy));
	i->name = arena_strndup(&in->arena, name, strlen(name));
	i->tensor = copy;
	if (!copy || !i->name || grad_edge_of(t, x, &i->edge)) {
		trouble(in, GRADS_UNKNOWN);
		return;
	}
	*copy = *x;
	copy->meta.shape = copy->meta.stride = NULL;
	i->was_leaf = !i->edge.node || i->edge.seq == GRAD_LEAF;
}

static void add_value(struct call_inputs *in, struct target *t, const struct value *v,
		      const char *name)
{
	char item[128];
	if (v->kind == VALUE_TENSOR)
		add_tensor(in, t, v->tensor, name);
	for (unsigned i = 0; v->kind == VALUE_LIST && i < v->count; i++) {
		snprintf(item, sizeof(item), "%.100s[%u]", name, i);
		add_value(in, t, &v->items[i], item);
	}
}

static bool is_decoded(const struct value *v)
{
	for (unsigned i = 0; v->kind == VALUE_LIST && i < v->count; i++)
		if (!is_decoded(&v->items[i]))
			return false;
	return v->kind != VALUE_NOT_DECODED;
}

/* The name of argument `i` in input.pth. */
static const char *name_of(const struct pth_content *args, const struct op_event *ev, unsigned i,
			   char *place, size_t size)
{
	for (unsigned k = 0; k < args->nkwargs; k++)
		if (args->kwargs[k].value == &ev->args[i])
			return args->kwargs[k].name;
	snprintf(place, size, "%u", i);
	return place;
}

void call_inputs_begin(struct call_inputs *in, struct target *t, const struct op_event *ev)
{
	char place[16];
	struct pth_content args = {0};
	unsigned n = count_tensors(ev->args, ev->nargs);
	in->list = arena_alloc(&in->arena, (n + 1) * sizeof(*in->list));
	if (!in->list || pth_choose_input(ev, &in->arena, &args)) {
		trouble(in, GRADS_UNKNOWN);
		return;
	}
	for (unsigned i = 0; i < ev->nargs; i++) {
		if (strstr(ev->op->args[i].type, "Tensor") && !is_decoded(&ev->args[i]))
			trouble(in, GRADS_UNKNOWN);
		add_value(in, t, &ev->args[i], name_of(&args, ev, i, place, sizeof(place)));
	}
}

static void settle(struct call_inputs *in, struct target *t, struct call_input *i, bool in_place)
{
	struct grad_edge now;
	if (!i->tensor->meta.requires_grad)
		return;
	if (grad_edge_of(t, i->tensor, &now))
		trouble(in, GRADS_UNKNOWN);
	else if (i->was_leaf && now.seq == GRAD_LEAF)
		i->edge = now;
	else if (i->was_leaf ? now.node != 0 : !in_place && !grad_edge_same(&now, &i->edge))
		trouble(in, GRADS_UNKNOWN);
}

void call_inputs_end(struct call_inputs *in, struct target *t, const struct op_event *ev)
{
	bool in_place = ev->op->flags & (OP_INPLACE | OP_OUT);
	for (unsigned i = 0; i < in->n && !in->trouble; i++)
		settle(in, t, &in->list[i], in_place);
}

unsigned call_inputs_at(const struct call_inputs *in, const struct grad_edge *edge,
			struct call_input **input)
{
	unsigned n = 0;
	for (unsigned i = 0; i < in->n; i++) {
		if (!grad_edge_same(&in->list[i].edge, edge))
			continue;
		*input = &in->list[i];
		n++;
	}
	return n;
}

void call_inputs_keep(struct call_inputs *in, struct call_input *input, const struct tensor *grad,
		      const struct source *live, size_t max)
{
	struct tensor *copy;
	if (input->grad) {
		trouble(in, GRADS_SUMMED);
		return;
	}
	if (kept_add(&in->grads, grad, live, max, &copy))
		trouble(in, GRADS_LOST);
	else
		input->grad = copy;
}

bool call_inputs_grads(struct call_inputs *in, struct value **grads, const char *const **names)
{
	const char **name = arena_alloc(&in->arena, (in->n + 1) * sizeof(*name));
	struct value *v = arena_alloc(&in->arena, (in->n + 1) * sizeof(*v));
	bool any = false;
	for (unsigned i = 0; v && name && i < in->n; i++) {
		const struct call_input *x = &in->list[i];
		name[i] = x->name;
		v[i].kind = x->grad ? VALUE_TENSOR : VALUE_NONE;
		v[i].tensor = (struct tensor *)x->grad;
		any |= x->grad != NULL;
	}
	*grads = v;
	*names = name;
	return any;
}

void call_inputs_free(struct call_inputs *in)
{
	kept_free(&in->grads);
	arena_free(&in->arena);
}

static struct captured_call **call_slot(struct capture_calls *c, uint64_t id)
{
	return &c->slot[id % CAPTURE_CALLS_MAX];
}

struct captured_call *capture_calls_add(struct capture_calls *c, uint64_t id)
{
	if (c->n >= CAPTURE_CALLS_MAX)
		capture_calls_drop(c, c->oldest);
	struct captured_call *x = calloc(1, sizeof(*x)), **slot = call_slot(c, id);
	if (!x)
		return NULL;
	x->call.id = id;
	x->next = *slot;
	*slot = x;
	x->older = c->youngest;
	*(c->youngest ? &c->youngest->younger : &c->oldest) = x;
	c->youngest = x;
	c->n++;
	return x;
}

struct captured_call *capture_calls_find(const struct capture_calls *c, uint64_t id)
{
	struct captured_call *x = id ? c->slot[id % CAPTURE_CALLS_MAX] : NULL;
	while (x && x->call.id != id)
		x = x->next;
	return x;
}

static size_t node_slot(const struct grad_edge *at)
{
	return (at->node >> 4) % CAPTURE_CALLS_MAX;
}

int capture_calls_await(struct capture_calls *c, struct captured_call *call,
			const struct grad_edge *at, bool gave_result)
{
	for (const struct call_node *n = call->nodes; n; n = n->of_call)
		if (grad_edge_same(&n->at, at))
			return 0;
	if (call->nnodes >= CAPTURE_NODES_MAX)
		return -E2BIG;
	struct call_node *n = calloc(1, sizeof(*n)), **slot = &c->nodes[node_slot(at)];
	if (!n)
		return -ENOMEM;
	*n = (struct call_node){.at = *at,
				.call = call,
				.gave_result = gave_result,
				.in_slot = *slot,
				.of_call = call->nodes};
	*slot = call->nodes = n;
	call->nnodes++;
	return 0;
}

struct call_node *capture_calls_awaiting(const struct capture_calls *c, int32_t pid,
					 const struct grad_edge *at, const struct call_node *after)
{
	struct call_node *n = after ? after->in_slot : at->node ? c->nodes[node_slot(at)] : NULL;
	while (n && !(grad_edge_same(&n->at, at) && n->call->call.pid == pid))
		n = n->in_slot;
	return n;
}

void capture_calls_ran(struct capture_calls *c, struct call_node *node)
{
	struct call_node **slot = &c->nodes[node_slot(&node->at)], **of = &node->call->nodes;
	while (*slot != node)
		slot = &(*slot)->in_slot;
	while (*of != node)
		of = &(*of)->of_call;
	*slot = node->in_slot;
	*of = node->of_call;
	node->call->began = true;
	node->call->nnodes--;
	free(node);
}

void capture_calls_drop(struct capture_calls *c, struct captured_call *call)
{
	if (!call)
		return;
	c->unfinished += call->began && call->nodes && !call->inputs.trouble;
	while (call->nodes)
		capture_calls_ran(c, call->nodes);
	call_inputs_free(&call->inputs);
	struct captured_call **at = call_slot(c, call->call.id);
	while (*at != call)
		at = &(*at)->next;
	*at = call->next;
	*(call->older ? &call->older->younger : &c->oldest) = call->younger;
	*(call->younger ? &call->younger->older : &c->youngest) = call->older;
	c->n--;
	free(call);
}

/* The letters and digits of `s` up to `end`, in lower case, so that "NativeLayerNorm" equals
 * "native_layer_norm". */
static size_t plain(const char *s, const char *end, char *out, size_t size)
{
	size_t n = 0;
	for (; s < end && n + 1 < size; s++)
		if (isalnum((unsigned char)*s))
			out[n++] = (char)tolower((unsigned char)*s);
	out[n] = '\0';
	return n;
}

bool capture_node_is_of(const char *node, const char *op)
{
	char a[CAPTURE_NAME_SIZE], b[CAPTURE_NAME_SIZE];
	const char *end = strstr(node, "Backward"), *base = strrchr(op, '.');
	/* "torch.ops.aten._to_copy.default": the overload is not part of the name. */
	const char *last = op + strlen(op);
	if (!strncmp(op, "torch.ops.", 10) && base) {
		last = base;
		while (base > op && *--base != '.')
			;
	}
	if (!end)
		return false;
	plain(node, end, a, sizeof(a));
	plain(base ? base + 1 : op, last, b, sizeof(b));
	return !strcmp(a, b);
}

void capture_calls_free(struct capture_calls *c)
{
	while (c->oldest)
		capture_calls_drop(c, c->oldest);
}
