#include "tracer/capture/grad_edge.h"

#include <errno.h>

#include "symbolizer/target/mem.h"

/* {pointer to the Node, uint32_t}: the pointer is an intrusive one in 2.13.0, a std::shared_ptr in
 * 1.13.1 (torch/csrc/autograd/edge.h). */
enum { EDGE_INTRUSIVE = 16, EDGE_SHARED = 24 };

static int with_seq(struct target *t, uint64_t node, struct grad_edge *out)
{
	out->node = node;
	return !node || target_node_seq(t, node, &out->seq) ? 0 : -ENODATA;
}

/* Behind the pointer to grad_fn_ AutogradMeta has a weak one to grad_accumulator_
 * (torch/csrc/autograd/variable.h): std::shared_ptr and std::weak_ptr in 1.13.1, intrusive ones of
 * one word in 2.13.0. What it points to tells its class. */
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
