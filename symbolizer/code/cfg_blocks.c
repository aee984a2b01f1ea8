/* The blocks of a control-flow graph: cut from its instructions, linked, ordered, and which of them
 * dominates which. */
#include "symbolizer/code/cfg.h"

#include <errno.h>

#include "symbolizer/code/internal.h"

static bool is_leader(const struct cfg *g, uint32_t off)
{
	return off < g->len && (g->at[off] & CFG_AT_LEADER);
}

/* Index of the block at `off`; CFG_NONE if no decoded instruction starts there. */
static uint32_t block_at(const struct cfg *g, uint32_t off)
{
	if (off >= g->len || !(g->at[off] & CFG_AT_INDEX))
		return CFG_NONE;
	return g->block_of[(g->at[off] & CFG_AT_INDEX) - 1];
}

static int size_blocks(struct cfg *g)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < g->ninsn; i++)
		n += is_leader(g, g->insn[i].off);
	if (n <= g->block_cap)
		return 0;
	size_t cap = (size_t)n * 2;
	if (cfg_resize(&g->block, cap, sizeof(*g->block)) ||
	    cfg_resize(&g->unordered, cap, sizeof(*g->block)) ||
	    cfg_resize(&g->order, cap, sizeof(*g->order)) ||
	    cfg_resize(&g->number, cap, sizeof(*g->number)))
		return -ENOMEM;
	g->block_cap = cap;
	return 0;
}

static int size_edges(struct cfg *g)
{
	size_t n = (size_t)g->nblock * 2 + g->nentry, cap = g->succ_cap;

	if (n <= cap)
		return 0;
	if (cfg_fit(&g->succ, &cap, n, sizeof(*g->succ)) ||
	    cfg_resize(&g->pred, cap, sizeof(*g->pred)))
		return -ENOMEM;
	g->succ_cap = cap;
	return 0;
}

static int cut_blocks(struct cfg *g)
{
	if (size_blocks(g))
		return -ENOMEM;
	struct cfg_block *b = NULL;
	for (uint32_t i = 0; i < g->ninsn; i++) {
		if (is_leader(g, g->insn[i].off)) {
			b = &g->unordered[g->nblock++];
			*b = (struct cfg_block){.first = i};
		}
		b->n++;
		g->block_of[i] = g->nblock - 1;
	}
	return size_edges(g);
}

static bool add_succ(struct cfg *g, struct cfg_block *b, uint32_t off)
{
	uint32_t to = block_at(g, off);

	if (to == CFG_NONE)
		return false;
	for (uint32_t i = 0; i < b->nsucc; i++)
		if (g->succ[b->succ + i] == to)
			return true;
	g->succ[b->succ + b->nsucc++] = to;
	return true;
}

static void set_target(struct cfg *g, struct cfg_block *b, uint32_t off)
{
	if (off >= g->len)
		b->end = CFG_END_LEAVES;
	else if (!add_succ(g, b, off))
		b->end = CFG_END_UNKNOWN;
}

/* A call at the end of the code is taken for one that does not return. */
static void set_next(struct cfg *g, struct cfg_block *b, const struct arch_insn *last)
{
	if (!add_succ(g, b, cfg_next_of(g, last)) && last->flow != ARCH_FLOW_CALL &&
	    last->flow != ARCH_FLOW_CALL_IND)
		b->end = CFG_END_UNKNOWN;
}

static void set_table(struct cfg *g, struct cfg_block *b)
{
	b->end = CFG_END_UNKNOWN;
	for (uint32_t i = 0; i < g->ntable; i++) {
		if (g->table[i].insn != b->first + b->n - 1)
			continue;
		b->end = CFG_END_NEXT;
		for (uint32_t k = 0; k < g->table[i].n; k++)
			if (!add_succ(g, b, (uint32_t)g->entry[g->table[i].first + k]))
				b->end = CFG_END_UNKNOWN;
	}
}

static void link_block(struct cfg *g, struct cfg_block *b)
{
	const struct arch_insn *last = &g->insn[b->first + b->n - 1];

	b->end = CFG_END_NEXT;
	b->succ = g->nsucc;
	switch (last->flow) {
	case ARCH_FLOW_RET:
		b->end = CFG_END_RET;
		break;
	case ARCH_FLOW_STOP:
		break;
	case ARCH_FLOW_JUMP_IND:
		set_table(g, b);
		break;
	case ARCH_FLOW_JUMP:
		set_target(g, b, cfg_offset_of(g, last->target));
		break;
	case ARCH_FLOW_COND:
		set_next(g, b, last);
		if (b->end == CFG_END_NEXT)
			set_target(g, b, cfg_offset_of(g, last->target));
		break;
	default:
		set_next(g, b, last);
	}
	g->nsucc += b->nsucc;
}

/* Depth-first walk with an explicit stack; numbers blocks from nblock - 1 downwards in post-order,
 * which gives reverse post-order. */
static void number_blocks(struct cfg *g)
{
	uint32_t *stack = g->order, depth = 0, left = g->nblock;

	for (uint32_t i = 0; i < g->nblock; i++) {
		g->number[i] = CFG_NONE;
		g->unordered[i].npred = 0; /* reused: successors visited so far */
	}
	stack[depth++] = 0;
	g->number[0] = 0;
	while (depth) {
		uint32_t b = stack[depth - 1];
		if (g->unordered[b].npred == g->unordered[b].nsucc) {
			g->number[b] = --left;
			depth--;
			continue;
		}
		uint32_t s = g->succ[g->unordered[b].succ + g->unordered[b].npred++];
		if (g->number[s] == CFG_NONE) {
			g->number[s] = 0;
			stack[depth++] = s;
		}
	}
	for (uint32_t i = 0; i < g->nblock; i++)
		if (g->number[i] != CFG_NONE)
			g->number[i] -= left;
	g->nblock -= left;
}

static void reorder(struct cfg *g, uint32_t nunordered)
{
	for (uint32_t i = 0; i < nunordered; i++) {
		if (g->number[i] == CFG_NONE)
			continue;
		struct cfg_block *b = &g->block[g->number[i]];
		*b = g->unordered[i];
		for (uint32_t k = 0; k < b->nsucc; k++)
			g->succ[b->succ + k] = g->number[g->succ[b->succ + k]];
		b->npred = 0;
	}
}

static void list_preds(struct cfg *g)
{
	uint32_t sum = 0;
	for (uint32_t i = 0; i < g->nblock; i++)
		for (uint32_t k = 0; k < g->block[i].nsucc; k++)
			g->block[g->succ[g->block[i].succ + k]].npred++;
	for (uint32_t i = 0; i < g->nblock; i++) {
		g->block[i].pred = sum;
		sum += g->block[i].npred;
		g->block[i].npred = 0;
	}
	for (uint32_t i = 0; i < g->nblock; i++) {
		for (uint32_t k = 0; k < g->block[i].nsucc; k++) {
			struct cfg_block *s = &g->block[g->succ[g->block[i].succ + k]];
			g->pred[s->pred + s->npred++] = i;
		}
	}
}

uint32_t cfg_common(const struct cfg *g, uint32_t a, uint32_t b)
{
	while (a != b) {
		if (a > b)
			a = g->block[a].idom;
		else
			b = g->block[b].idom;
	}
	return a;
}

bool cfg_dominates(const struct cfg *g, uint32_t a, uint32_t b)
{
	while (b > a)
		b = g->block[b].idom;
	return a == b;
}

/* Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm, 2001. */
static void find_dominators(struct cfg *g)
{
	bool changed = true;

	for (uint32_t i = 0; i < g->nblock; i++)
		g->block[i].idom = CFG_NONE;
	g->block[0].idom = 0;
	while (changed) {
		changed = false;
		for (uint32_t i = 1; i < g->nblock; i++) {
			struct cfg_block *b = &g->block[i];
			uint32_t idom = CFG_NONE;
			for (uint32_t k = 0; k < b->npred; k++) {
				uint32_t p = g->pred[b->pred + k];
				if (g->block[p].idom == CFG_NONE)
					continue;
				idom = idom == CFG_NONE ? p : cfg_common(g, p, idom);
			}
			changed |= b->idom != idom;
			b->idom = idom;
		}
	}
	g->block[0].idom = CFG_NONE;
}

int cfg_link(struct cfg *g)
{
	if (cut_blocks(g))
		return -ENOMEM;
	for (uint32_t i = 0; i < g->nblock; i++)
		link_block(g, &g->unordered[i]);
	uint32_t nunordered = g->nblock;
	number_blocks(g);
	reorder(g, nunordered);
	list_preds(g);
	find_dominators(g);
	return 0;
}
