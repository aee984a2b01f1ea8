/* What autograd's engine does with the results of a node (torch/csrc/autograd/engine.cpp). In
 * Engine::evaluate_function the node's apply is followed by validate_outputs, which sums gradients
 * of broadcast arguments (at::sum_to) and converts dtypes, devices and complex ones; by the test
 * for NaN of torch.autograd.detect_anomaly; and by the accumulation into the inputs of the next
 * nodes, which is not the node's: an addition. */
#include <string.h>

#include "symbolizer/decode/internal.h"

static const char *const ops[] = {"sum",  "view",  "view_copy", "to",		"_to_copy", "real",
				  "imag", "isnan", "any",	"_is_any_true", "item"};

static bool is_after_node(const char *name)
{
	static const char aten[] = "aten::";
	const char *base = name + sizeof(aten) - 1;
	bool is = false;
	if (strncmp(name, aten, sizeof(aten) - 1) != 0)
		return false;
	const size_t len = strcspn(base, ".");
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]) && !is; i++)
		is = len == strlen(ops[i]) && !memcmp(base, ops[i], len);
	return is;
}

void after_node_ended(struct after_node *a, const struct op_event *node)
{
	a->is = true;
	a->depth = node->depth;
	a->stack = node->stack;
	a->where_stack = node->where_stack;
	a->backward_of = node->backward_of;
	a->forward_id = node->forward_id;
}

void after_node_entry(struct after_node *a, uint64_t seq)
{
	a->is &= seq == a->next;
	a->next = seq + 1;
}

bool after_node_locate(const struct after_node *a, struct op_event *op)
{
	if (!a->is || a->depth != op->depth || a->stack != op->stack ||
	    !is_after_node(op->op->name))
		return false;
	op->where_stack = a->where_stack;
	op->backward_of = a->backward_of;
	op->forward_id = a->forward_id;
	return true;
}
