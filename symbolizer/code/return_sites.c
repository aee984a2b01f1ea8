#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/internal.h"
#include "symbolizer/code/return_sites.h"

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

/* Make room for the blocks of c->g. 0 or -ENOMEM. */
static int return_sites_reserve(struct return_sites_ctx *c)
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

/* Set c->returns for the blocks from which an end is reachable. */
static void return_sites_find_returning(struct return_sites_ctx *c)
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

/* Maximum candidates inside loops to skip while climbing the dominator tree. */
enum { MAX_LOOPS = 32 };

static bool is_cleanup(const struct return_sites_ctx *c, const struct arch_insn *i)
{
	return (i->flow == ARCH_FLOW_CALL || i->flow == ARCH_FLOW_JUMP) && c->ops.is_cleanup &&
	       c->ops.is_cleanup(c->ops.arg, i->target);
}

bool return_sites_frame_is_gone(const struct return_sites_ctx *c, struct exit_point p)
{
	struct reg_state s = return_sites_state(c, p);

	return s.r[ARCH_SP].kind == REG_FRAME && !s.r[ARCH_SP].off;
}

/* Whether the block contains a call or is entered only by falling through from one. If it ends with
 * a jump out of the function, it is then an exception landing pad after a call that never returns:
 * compilers leave such jumps in the hot part, while real edges to the cold part are conditional
 * jumps. */
static bool is_behind_call(const struct cfg *g, uint32_t block)
{
	const struct cfg_block *b = &g->block[block];

	for (uint32_t i = b->first; i < b->first + b->n; i++)
		if (g->insn[i].flow == ARCH_FLOW_CALL || g->insn[i].flow == ARCH_FLOW_CALL_IND)
			return true;
	if (b->npred != 1)
		return false;
	uint32_t before = return_sites_last(g, g->pred[b->pred]);
	return g->insn[before].flow == ARCH_FLOW_CALL || g->insn[before].flow == ARCH_FLOW_CALL_IND;
}

static int add_end(struct return_sites_ctx *c, uint32_t block, bool is_ret)
{
	if (c->g.insn[return_sites_last(&c->g, block)].off >= c->g.piece[0].len) {
		c->reason = "it returns from a part that lies elsewhere";
		return -ENOTSUP;
	}
	if (c->nend == EXITS_MAX) {
		c->reason = "it returns in too many places";
		return -ENOTSUP;
	}
	c->end[c->nend++] = (struct end){block, is_ret};
	return 0;
}

static int judge_way_out(struct return_sites_ctx *c, uint32_t block)
{
	struct exit_point p = {block, return_sites_last(&c->g, block)};
	const struct arch_insn *i = &c->g.insn[p.insn];

	if (i->flow == ARCH_FLOW_JUMP && return_sites_frame_is_gone(c, p)) {
		if (is_cleanup(c, i))
			return add_end(c, block, false);
		c->reason = "it ends in a jump to another function";
		return -ENOTSUP;
	}
	if (i->flow == ARCH_FLOW_JUMP && is_behind_call(&c->g, block))
		return 0;
	c->reason = "part of it lies elsewhere";
	return -ENOTSUP;
}

/* Collect the ends of the function in c->end. 0, or -ENOTSUP with c->reason when not all are known.
 */
static int find_ends(struct return_sites_ctx *c)
{
	int rc = 0;

	c->nend = 0;
	for (uint32_t b = 0; b < c->g.nblock && !rc; b++) {
		switch (c->g.block[b].end) {
		case CFG_END_RET:
			rc = add_end(c, b, true);
			break;
		case CFG_END_LEAVES:
			rc = judge_way_out(c, b);
			break;
		case CFG_END_UNKNOWN:
			c->reason = "it jumps to an address that it computes";
			rc = -ENOTSUP;
			break;
		default:
			break;
		}
	}
	if (!rc && !c->nend) {
		c->reason = "it never returns";
		rc = -ENOTSUP;
	}
	return rc;
}

/* Whether the instruction is more than clean-up: a call of something else, or a store outside the
 * frame, which may be part of the result. Refcount decrements (lock prefix) are clean-up. */
static bool works(const struct return_sites_ctx *c, const struct reg_state *s,
		  const struct arch_insn *i)
{
	if (i->flow == ARCH_FLOW_CALL_IND || (i->flow == ARCH_FLOW_CALL && !is_cleanup(c, i)))
		return true;
	return i->effect == ARCH_EFF_STORE && !i->atomic &&
	       (i->base >= ARCH_REGS || s->r[i->base].kind != REG_FRAME);
}

/* Whether any instruction of the block from index `from` on is more than clean-up. */
static bool block_works(const struct return_sites_ctx *c, uint32_t block, uint32_t from)
{
	struct reg_state s = return_sites_state(c, (struct exit_point){block, from});

	for (uint32_t i = from; i <= return_sites_last(&c->g, block); i++) {
		if (works(c, &s, &c->g.insn[i]))
			return true;
		reg_step(&s, &c->g.insn[i]);
	}
	return false;
}

/* Whether only clean-up runs from `p` on; c->mark holds the blocks after its own. */
static bool only_cleanup_after(const struct return_sites_ctx *c, struct exit_point p)
{
	if (block_works(c, p.block, p.insn))
		return false;
	for (uint32_t b = 0; b < c->g.nblock; b++)
		if (c->mark[b] && block_works(c, b, c->g.block[b].first))
			return false;
	return true;
}

static bool last_emulated(const struct cfg *g, uint32_t block, uint32_t *insn)
{
	for (uint32_t i = return_sites_last(g, block) + 1; i-- > g->block[block].first;) {
		if (!g->insn[i].emulated || g->insn[i].off >= g->piece[0].len)
			continue;
		*insn = i;
		return true;
	}
	return false;
}

/* Find the last emulated instruction, outside loops, that dominates the end of `block`; only
 * clean-up may follow it. */
static int find_point(struct return_sites_ctx *c, void *arg, uint32_t block, struct exit_point *p)
{
	int loops = 0;

	(void)arg;
	for (; block != CFG_NONE && loops < MAX_LOOPS; block = c->g.block[block].idom) {
		p->block = block;
		if (!last_emulated(&c->g, block, &p->insn))
			continue;
		return_sites_mark_after(c, block);
		if (c->mark[block]) {
			loops++;
			continue;
		}
		if (only_cleanup_after(c, *p))
			return 0;
		c->reason = "it does more than clean up after the last instruction that can be "
			    "probed cheaply";
		return -ENOENT;
	}
	c->reason = "no instruction that can be probed cheaply is on all paths out";
	return -ENOENT;
}

static int one_point(struct return_sites_ctx *c, return_sites_find_fn *find, void *arg,
		     struct exit_point *p)
{
	uint32_t block = c->end[0].block;

	for (uint32_t i = 1; i < c->nend; i++)
		block = cfg_common(&c->g, block, c->end[i].block);
	return find(c, arg, block, p);
}

static bool is_listed(const struct exit_point *p, uint32_t n, uint32_t insn)
{
	for (uint32_t i = 0; i < n; i++)
		if (p[i].insn == insn)
			return true;
	return false;
}

/* One instruction for each return, no two of them on one path. */
static int point_per_end(struct return_sites_ctx *c, return_sites_find_fn *find, void *arg,
			 struct exit_point p[EXITS_MAX], uint32_t *n)
{
	*n = 0;
	for (uint32_t i = 0; i < c->nend; i++) {
		struct exit_point q;
		if (find(c, arg, c->end[i].block, &q))
			return -ENOENT;
		if (!is_listed(p, *n, q.insn))
			p[(*n)++] = q;
	}
	for (uint32_t i = 0; i < *n; i++) {
		return_sites_mark_after(c, p[i].block);
		for (uint32_t k = 0; k < *n; k++)
			if (k != i && (c->mark[p[k].block] || p[k].block == p[i].block))
				return -ENOENT;
	}
	return 0;
}

int return_sites_choose(struct return_sites_ctx *c, return_sites_find_fn *find, void *arg,
			struct exit_point p[EXITS_MAX], uint32_t *n)
{
	*n = 1;
	if (one_point(c, find, arg, &p[0]) && (c->nend < 2 || point_per_end(c, find, arg, p, n)))
		return -ENOENT;
	return 0;
}

static int choose_points(struct return_sites_ctx *c, struct exit_point p[EXITS_MAX],
			 struct func_facts *out)
{
	uint32_t n;

	if (return_sites_choose(c, find_point, NULL, p, &n))
		return -ENOENT;
	out->exit_kind = EXIT_EMULATED;
	out->nexits = (uint8_t)n;
	return 0;
}

static void use_ends(const struct return_sites_ctx *c, struct exit_point p[EXITS_MAX],
		     struct func_facts *out)
{
	out->exit_kind = EXIT_RET;
	out->nexits = (uint8_t)c->nend;
	for (uint32_t i = 0; i < c->nend; i++)
		p[i] =
		    (struct exit_point){c->end[i].block, return_sites_last(&c->g, c->end[i].block)};
}

static int find_exits(struct return_sites_ctx *c, struct exit_point p[EXITS_MAX],
		      struct func_facts *out)
{
	struct reg_state entry = reg_state_entry();
	int rc = register_dataflow_run(&c->flow, &c->g, 0, 0, &entry);

	if (rc == -ELOOP)
		c->reason = "its flow is too complex";
	c->flow_known = !rc;
	if (!rc)
		rc = find_ends(c);
	if (rc)
		return rc;
	return_sites_find_returning(c);
	if (choose_points(c, p, out))
		use_ends(c, p, out);
	return 0;
}

int return_sites_analyze(struct return_sites_ctx *c, const uint8_t *code, size_t len,
			 uint64_t vaddr, struct func_facts *out)
{
	struct exit_point p[EXITS_MAX];

	memset(out, 0, sizeof(*out));
	out->ret_reg = ARCH_NOREG;
	c->reason = NULL;
	c->flow_known = false;
	if (!len)
		return -EINVAL;
	out->entry = (uint32_t)arch_landing_pad(code, len);
	int rc = cfg_build(&c->g, code, len, vaddr);
	if (rc == -ENOTSUP)
		c->reason = c->g.reason;
	if (!rc)
		rc = return_sites_reserve(c);
	if (!rc) {
		out->entry_emulated = cfg_emulated(&c->g, out->entry);
		rc = find_exits(c, p, out);
		return_sites_set_late(c, p, out);
	}
	if (!rc)
		rc = slot_dataflow_build(&c->frame, &c->g, &c->flow);
	out->reason = out->exit_kind == EXIT_EMULATED ? NULL : c->reason;
	if (rc)
		return rc == -ENOMEM ? rc : 0;
	for (uint32_t i = 0; i < out->nexits; i++)
		out->exits[i] = c->g.insn[p[i].insn].off;
	return_sites_set_frame(c, p, out);
	return return_sites_set_result(c, p, out);
}
