#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/internal.h"

struct return_sites_ctx *return_sites_new(const struct return_sites_ops *ops)
{
	struct return_sites_ctx *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	if (ops)
		c->ops = *ops;
	c->reader = (struct cfg_reader){c->ops.read, c->ops.piece, c->ops.arg};
	if (cfg_init(&c->g, &c->reader)) {
		free(c);
		return NULL;
	}
	return c;
}

void return_sites_free(struct return_sites_ctx *c)
{
	if (!c)
		return;
	cfg_free(&c->g);
	register_dataflow_free(&c->flow);
	register_dataflow_free(&c->after);
	slot_dataflow_free(&c->frame);
	free(c->returns);
	free(c->mark);
	free(c->stack);
	free(c);
}

int return_sites_reserve(struct return_sites_ctx *c)
{
	if (c->g.nblock <= c->cap)
		return 0;
	size_t n = (size_t)c->g.nblock * 2;
	uint8_t *returns = realloc(c->returns, n);
	if (returns)
		c->returns = returns;
	uint8_t *mark = realloc(c->mark, n);
	if (mark)
		c->mark = mark;
	uint32_t *stack = realloc(c->stack, n * sizeof(*stack));
	if (stack)
		c->stack = stack;
	if (!returns || !mark || !stack)
		return -ENOMEM;
	c->cap = n;
	return 0;
}

uint32_t return_sites_last(const struct cfg *g, uint32_t block)
{
	return g->block[block].first + g->block[block].n - 1;
}

struct reg_state return_sites_state(const struct return_sites_ctx *c, struct exit_point p)
{
	struct reg_state s = c->flow.in[p.block];

	for (uint32_t i = c->g.block[p.block].first; i < p.insn; i++)
		reg_step(&s, &c->g.insn[i]);
	return s;
}

static void push_block(uint8_t *mark, uint32_t *stack, uint32_t *n, uint32_t block)
{
	if (mark[block])
		return;
	mark[block] = 1;
	stack[(*n)++] = block;
}

void return_sites_find_returning(struct return_sites_ctx *c)
{
	uint32_t n = 0;

	memset(c->returns, 0, c->g.nblock);
	for (uint32_t i = 0; i < c->nend; i++)
		push_block(c->returns, c->stack, &n, c->end[i].block);
	while (n) {
		const struct cfg_block *b = &c->g.block[c->stack[--n]];
		for (uint32_t k = 0; k < b->npred; k++)
			push_block(c->returns, c->stack, &n, c->g.pred[b->pred + k]);
	}
}

void return_sites_mark_after(struct return_sites_ctx *c, uint32_t block)
{
	uint32_t n = 0;

	memset(c->mark, 0, c->g.nblock);
	for (bool first = true; first || n; first = false) {
		const struct cfg_block *b = &c->g.block[first ? block : c->stack[--n]];
		for (uint32_t k = 0; k < b->nsucc; k++)
			if (c->returns[c->g.succ[b->succ + k]])
				push_block(c->mark, c->stack, &n, c->g.succ[b->succ + k]);
	}
}
