#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "symbolizer/target/mem.h"
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
