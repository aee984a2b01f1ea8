#include "perf/report/internal.h"

#include <string.h>

/* The shape of a tensor; NULL: not known. */
static const struct tensor_meta *shape_of(const struct value *values, uint16_t n, unsigned at)
{
	const struct tensor_meta *m =
	    at < n && values[at].kind == VALUE_TENSOR ? &values[at].tensor->meta : NULL;
	return m && !(m->unknown & TENSOR_NO_SHAPE) ? m : NULL;
}

static const struct tensor_meta *arg(const struct op_event *ev, unsigned at)
{
	return shape_of(ev->args, ev->nargs, at);
}

static const struct tensor_meta *result(const struct op_event *ev, unsigned at)
{
	return shape_of(ev->results, ev->nresults, at);
}

static double product(const struct tensor_meta *m, unsigned from)
{
	double p = 1;
	for (unsigned i = from; i < m->ndim; i++)
		p *= (double)m->shape[i];
	return p;
}

/* (..., m, k) times (..., k, n). */
static bool matmul(const struct tensor_meta *a, const struct tensor_meta *b, unsigned ndim,
		   double *out)
{
	if (!a || !b || a->ndim != ndim || b->ndim != ndim)
		return false;
	*out = 2 * product(a, 0) * (double)b->shape[ndim - 1];
	return true;
}

static bool flops_mm(const struct op_event *ev, double *out)
{
	return matmul(arg(ev, 0), arg(ev, 1), 2, out);
}

static bool flops_addmm(const struct op_event *ev, double *out)
{
	return matmul(arg(ev, 1), arg(ev, 2), 2, out);
}

static bool flops_bmm(const struct op_event *ev, double *out)
{
	return matmul(arg(ev, 0), arg(ev, 1), 3, out);
}

static bool flops_baddbmm(const struct op_event *ev, double *out)
{
	return matmul(arg(ev, 1), arg(ev, 2), 3, out);
}

/* For each place of the filter, and each sample of the batch, all products of its elements. */
static double convolution(const struct tensor_meta *x, const struct tensor_meta *weight,
			  const struct tensor_meta *out, bool transposed)
{
	return 2 * product(transposed ? x : out, 2) * (double)x->shape[0] * product(weight, 0);
}

static bool are_spatial(const struct tensor_meta *a, const struct tensor_meta *b,
			const struct tensor_meta *c)
{
	return a && b && c && a->ndim > 2 && b->ndim > 2 && c->ndim > 2;
}

static bool flops_convolution(const struct op_event *ev, double *out)
{
	enum { INPUT, WEIGHT, TRANSPOSED = 6 };
	const struct tensor_meta *x = arg(ev, INPUT), *w = arg(ev, WEIGHT), *y = result(ev, 0);
	if (!are_spatial(x, w, y) || ev->nargs <= TRANSPOSED ||
	    ev->args[TRANSPOSED].kind != VALUE_BOOL)
		return false;
	*out = convolution(x, w, y, ev->args[TRANSPOSED].i);
	return true;
}

/* That of the input is a convolution of the gradient with the weight, that of the weight one of the
 * input with the gradient: each with batch and channels exchanged, and only if it is asked for. */
static bool flops_convolution_backward(const struct op_event *ev, double *out)
{
	enum { GRAD, INPUT, WEIGHT, TRANSPOSED = 7, RESULTS = 3 };
	const struct tensor_meta *g = arg(ev, GRAD), *x = arg(ev, INPUT), *w = arg(ev, WEIGHT);
	if (!are_spatial(g, x, w) || ev->nargs <= TRANSPOSED || ev->nresults != RESULTS ||
	    ev->args[TRANSPOSED].kind != VALUE_BOOL)
		return false;
	bool transposed = ev->args[TRANSPOSED].i;
	for (unsigned i = 0; i < 2; i++)
		if (ev->results[i].kind != VALUE_TENSOR && ev->results[i].kind != VALUE_NONE)
			return false;
	*out = ev->results[0].kind == VALUE_TENSOR ? convolution(g, w, x, !transposed) : 0;
	if (ev->results[1].kind == VALUE_TENSOR)
		*out += 2 * product(w, 2) *
			(transposed ? product(x, 0) * (double)g->shape[1]
				    : product(g, 0) * (double)x->shape[1]);
	return true;
}

/* Query (batch, heads, length, width), key and value: the scores, and their product with value. */
static bool attention(const struct op_event *ev, unsigned query, double of_keys, double of_values,
		      double *out)
{
	const struct tensor_meta *q = arg(ev, query), *k = arg(ev, query + 1),
				 *v = arg(ev, query + 2);
	if (!q || !k || !v || q->ndim != 4 || k->ndim != 4 || v->ndim != 4)
		return false;
	double scores =
	    (double)q->shape[0] * (double)q->shape[1] * (double)q->shape[2] * (double)k->shape[2];
	*out = 2 * scores * (of_keys * (double)q->shape[3] + of_values * (double)v->shape[3]);
	return true;
}

static bool flops_attention(const struct op_event *ev, double *out)
{
	return attention(ev, 0, 1, 1, out);
}

/* The scores anew, and gradients of query and key; those of scores and value. */
static bool flops_attention_backward(const struct op_event *ev, double *out)
{
	return attention(ev, 1, 3, 2, out);
}

#define NAMED(op) op, sizeof(op) - 1

/* The formulas of torch/utils/flop_counter.py (PyTorch 2.13), for all overloads of an op; also for
 * the attention of the CPU, which it lacks. */
static const struct {
	const char *op;
	size_t len;
	bool (*flops)(const struct op_event *ev, double *out);
} formulas[] = {
    {NAMED("mm"), flops_mm},
    {NAMED("addmm"), flops_addmm},
    {NAMED("bmm"), flops_bmm},
    {NAMED("baddbmm"), flops_baddbmm},
    {NAMED("_scaled_mm"), flops_mm},
    {NAMED("convolution"), flops_convolution},
    {NAMED("_convolution"), flops_convolution},
    {NAMED("convolution_overrideable"), flops_convolution},
    {NAMED("convolution_backward"), flops_convolution_backward},
    {NAMED("_scaled_dot_product_efficient_attention"), flops_attention},
    {NAMED("_scaled_dot_product_flash_attention"), flops_attention},
    {NAMED("_scaled_dot_product_cudnn_attention"), flops_attention},
    {NAMED("_scaled_dot_product_flash_attention_for_cpu"), flops_attention},
    {NAMED("_scaled_dot_product_efficient_attention_backward"), flops_attention_backward},
    {NAMED("_scaled_dot_product_flash_attention_backward"), flops_attention_backward},
    {NAMED("_scaled_dot_product_cudnn_attention_backward"), flops_attention_backward},
    {NAMED("_scaled_dot_product_flash_attention_for_cpu_backward"), flops_attention_backward},
};

enum flops flops_of(const struct op_event *ev, double *out)
{
	static const char domain[] = "aten::";
	const char *name = ev->op->name + sizeof(domain) - 1;
	*out = 0;
	if (ev->thrown || ev->op->kind != OP_DISPATCHED ||
	    strncmp(ev->op->name, domain, sizeof(domain) - 1))
		return FLOPS_NONE;
	size_t len = strcspn(name, ".");
	for (size_t i = 0; i < sizeof(formulas) / sizeof(formulas[0]); i++)
		if (formulas[i].len == len && !memcmp(formulas[i].op, name, len))
			return formulas[i].flops(ev, out) ? FLOPS_KNOWN : FLOPS_UNKNOWN;
	return FLOPS_NONE;
}

double flops_own(struct flops_nest *n, uint16_t depth, double flops)
{
	double inside = 0;
	unsigned at = depth < FLOPS_DEPTH ? depth : FLOPS_DEPTH - 1;
	for (unsigned i = at + 1; i < FLOPS_DEPTH; i++) {
		inside += n->inside[i];
		n->inside[i] = 0;
	}
	n->inside[at] = at ? n->inside[at] + (flops > inside ? flops : inside) : 0;
	return flops > inside ? flops - inside : 0;
}
