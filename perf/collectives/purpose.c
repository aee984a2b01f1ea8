/* For which module a collective of fully_shard, or of a DTensor, is. */
#include <string.h>

#include "perf/collectives/internal.h"

/* Whether a DTensor calls it (torch/distributed/tensor, 2.5 to 2.13; before that _tensor). */
static bool is_of_dtensor(const struct py_stack *s)
{
	for (uint16_t i = 0; s && i < s->depth; i++)
		if (strstr(s->frames[i]->file, "/torch/distributed/tensor/") ||
		    strstr(s->frames[i]->file, "/torch/distributed/_tensor/"))
			return true;
	return false;
}

const char *collective_purpose_of(const struct collectives *c, const struct op_event *ev)
{
	const struct block_pairs *p = &c->blocks;
	const struct code_block *found = NULL;
	const char *module = py_stack_module(ev->stack);
	for (size_t i = 0; i < p->nnow; i++) {
		const struct code_block *b = &p->open[p->now[i]];
		if (b->pid == ev->pid && b->tid == ev->tid && b->rank1 == ev->rank1 &&
		    b->start_ns <= ev->start_ns)
			found = b;
	}
	if (found && !strncmp(found->name, "FSDP::", 6))
		return found->name;
	return is_of_dtensor(ev->stack) ? module ? module : py_stack_module(ev->backward_of) : NULL;
}
