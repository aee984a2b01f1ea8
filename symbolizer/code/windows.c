#include "symbolizer/code/return_sites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/internal.h"

/* Why a jump does not fit at an instruction; the higher, the nearer it was. */
enum misfit {
	FITS,
	MISFIT_UNMOVABLE,
	MISFIT_BRANCH,
	MISFIT_SHORT,
	MISFIT_SPLIT,
	MISFIT_FLAGS,
};

struct window_search {
	struct return_sites_ctx *c;
	struct branches branches;
	struct func_windows *out;
	bool relative; /* as in struct windows_ops */
	uint8_t *seen; /* by block */
	uint32_t *stack;
	enum misfit most; /* how near the best of the misfits for an exit was */
};

/* Whether the jump would lie in two pages, which no write changes at once. */
static bool is_split(const struct window_search *w, uint32_t off)
{
	enum { PAGE = 4096 };
	return (w->c->g.piece[0].vaddr + off) % PAGE > PAGE - ARCH_JUMP_LEN;
}

/* FITS when a jump fits at instruction `insn` of the block, with *out the window. */
static enum misfit window_at(const struct window_search *w, uint32_t block, uint32_t insn,
			     struct code_window *out)
{
	const struct cfg *g = &w->c->g;
	const struct cfg_block *b = &g->block[block];

	*out = (struct code_window){.off = g->insn[insn].off};
	for (uint32_t i = insn; out->len < ARCH_JUMP_LEN; i++) {
		if (i == b->first + b->n)
			return MISFIT_BRANCH;
		out->relative = w->relative && g->insn[i].relative;
		if ((!g->insn[i].movable && !out->relative) || g->insn[i].off >= g->piece[0].len)
			return MISFIT_UNMOVABLE;
		out->len = (uint8_t)(out->len + g->insn[i].len);
	}
	if (branches_lead_into(&w->branches, out->off + 1, out->len - 1U))
		return MISFIT_BRANCH;
	return is_split(w, out->off) ? MISFIT_SPLIT : FITS;
}

static bool is_end(const struct return_sites_ctx *c, uint32_t block)
{
	for (uint32_t i = 0; i < c->nend; i++)
		if (c->end[i].block == block)
			return true;
	return false;
}

static void push_successors(struct window_search *w, uint32_t block, uint32_t *n)
{
	const struct cfg *g = &w->c->g;
	const struct cfg_block *b = &g->block[block];

	for (uint32_t k = 0; k < b->nsucc; k++) {
		uint32_t to = g->succ[b->succ + k];
		if (w->seen[to])
			continue;
		w->seen[to] = 1;
		w->stack[(*n)++] = to;
	}
}

enum flags_fate { FLAGS_LIVE, FLAGS_DEAD, FLAGS_PASSED };

/* What becomes of the flags from instruction `insn` of the block on. They are dead at calls and
 * returns (System V ABI for AMD64, 3.2.1). */
static enum flags_fate flags_in_block(const struct window_search *w, uint32_t block, uint32_t insn)
{
	const struct cfg *g = &w->c->g;

	for (uint32_t k = insn; k <= return_sites_last(g, block); k++) {
		const struct arch_insn *i = &g->insn[k];
		if (i->flow == ARCH_FLOW_COND)
			return FLAGS_LIVE;
		if (i->flow == ARCH_FLOW_JUMP || i->flow == ARCH_FLOW_JUMP_IND)
			break;
		if (i->flow != ARCH_FLOW_NEXT || i->flags == ARCH_FLAGS_SET)
			return FLAGS_DEAD;
		if (i->flags == ARCH_FLAGS_UNKNOWN)
			return FLAGS_LIVE;
	}
	if (g->block[block].end == CFG_END_NEXT)
		return FLAGS_PASSED;
	return is_end(w->c, block) ? FLAGS_DEAD : FLAGS_LIVE;
}

static bool flags_dead(struct window_search *w, uint32_t block, uint32_t insn)
{
	uint32_t n = 0;

	memset(w->seen, 0, w->c->g.nblock);
	enum flags_fate fate = flags_in_block(w, block, insn);
	if (fate == FLAGS_PASSED)
		push_successors(w, block, &n);
	while (n && fate != FLAGS_LIVE) {
		block = w->stack[--n];
		fate = flags_in_block(w, block, w->c->g.block[block].first);
		if (fate == FLAGS_PASSED)
			push_successors(w, block, &n);
	}
	return fate != FLAGS_LIVE;
}

static bool is_call(const struct arch_insn *i)
{
	return i->flow == ARCH_FLOW_CALL || i->flow == ARCH_FLOW_CALL_IND;
}

/* Whether the block calls anything; where no return follows, clean-up such as __stack_chk_fail does
 * not count. */
static bool block_calls(const struct return_sites_ctx *c, uint32_t block)
{
	for (uint32_t k = c->g.block[block].first; k <= return_sites_last(&c->g, block); k++) {
		const struct arch_insn *i = &c->g.insn[k];
		if (is_call(i) && (c->returns[block] || i->flow == ARCH_FLOW_CALL_IND ||
				   !c->ops.is_cleanup || !c->ops.is_cleanup(c->ops.arg, i->target)))
			return true;
	}
	return false;
}

/* Whether anything is called behind the block; *loops: whether it may follow itself. */
static bool calls_behind(struct window_search *w, uint32_t block, bool *loops)
{
	uint32_t n = 0;
	bool calls = false;

	memset(w->seen, 0, w->c->g.nblock);
	push_successors(w, block, &n);
	while (n && !calls) {
		uint32_t b = w->stack[--n];
		calls = block_calls(w->c, b);
		push_successors(w, b, &n);
	}
	*loops = w->seen[block];
	return calls;
}

static bool overlaps_entry(const struct window_search *w, const struct code_window *x)
{
	const struct code_window *e = &w->out->entry;

	return e->len && x->off < e->off + e->len && e->off < x->off + x->len;
}

static enum misfit exit_at(struct window_search *w, uint32_t block, uint32_t insn)
{
	struct code_window x;
	enum misfit misfit = window_at(w, block, insn, &x);

	if (!misfit && overlaps_entry(w, &x))
		misfit = MISFIT_SHORT;
	if (!misfit && !flags_dead(w, block, insn))
		misfit = MISFIT_FLAGS;
	return misfit;
}

/* Find the last window of the block, behind its calls: 0 with *p; -ENOENT when there is a call
 * behind all of them, -EAGAIN when none is there. */
static int find_in_block(struct window_search *w, uint32_t block, struct exit_point *p)
{
	const struct cfg *g = &w->c->g;

	for (uint32_t i = return_sites_last(g, block) + 1; i-- > g->block[block].first;) {
		if (is_call(&g->insn[i]))
			return -ENOENT;
		enum misfit misfit = exit_at(w, block, i);
		if (!misfit) {
			*p = (struct exit_point){block, i};
			return 0;
		}
		w->most = misfit > w->most ? misfit : w->most;
	}
	return -EAGAIN;
}

static int find_window(struct return_sites_ctx *c, void *arg, uint32_t block, struct exit_point *p)
{
	struct window_search *w = arg;
	bool loops;

	for (; block != CFG_NONE; block = c->g.block[block].idom) {
		if (calls_behind(w, block, &loops))
			break;
		if (loops)
			continue;
		int rc = find_in_block(w, block, p);
		if (rc != -EAGAIN)
			return rc;
	}
	return -ENOENT;
}

/* Whether the stack pointer is another than at the entry before each instruction of the entry's
 * window but the first. An instruction has one depth of the stack, which the unwinding tables say,
 * so that no jump leads there from where the frame is gone. */
static bool is_framed(const struct window_search *w, const struct code_window *e, uint32_t insn)
{
	for (uint32_t len = w->c->g.insn[insn].len; len < e->len; len += w->c->g.insn[insn].len) {
		struct reg_state s = return_sites_state(w->c, (struct exit_point){0, ++insn});
		if (s.r[ARCH_SP].kind != REG_FRAME || !s.r[ARCH_SP].off)
			return false;
	}
	return true;
}

static void set_entry(struct window_search *w, const struct func_facts *facts)
{
	static const char *const why[] = {
	    [MISFIT_UNMOVABLE] = "its first five bytes cannot all be moved",
	    [MISFIT_BRANCH] = "a branch leads into its first five bytes",
	    [MISFIT_SPLIT] = "its first five bytes lie in two pages",
	    [MISFIT_FLAGS] = "it needs the flags that its caller left",
	};
	const struct cfg *g = &w->c->g;
	const struct cfg_block *b = &g->block[0];
	uint32_t insn = b->first + (facts->entry ? 1 : 0);
	struct code_window e = {0};
	enum misfit misfit = MISFIT_BRANCH;

	if (branches_lead_into(&w->branches, 0, facts->entry + 1)) {
		w->out->entry_reason = "it branches back to its entry";
		return;
	}
	if (insn < b->first + b->n)
		misfit = window_at(w, 0, insn, &e);
	if (!misfit && !flags_dead(w, 0, insn))
		misfit = MISFIT_FLAGS;
	if (!misfit && w->branches.leaves_by_pointer && !is_framed(w, &e, insn)) {
		w->out->entry_reason = "it jumps to an address that it computes";
		return;
	}
	w->out->entry_reason = why[misfit];
	if (!misfit)
		w->out->entry = e;
}

static const char *why_no_exit(const struct window_search *w)
{
	static const char *const why[] = {
	    [MISFIT_UNMOVABLE] =
		"no five bytes that can be moved are on all ways out, behind all calls",
	    [MISFIT_BRANCH] = "a branch leads into what lies on all ways out, behind all calls",
	    [MISFIT_SHORT] = "its entry and its return lie in the same bytes",
	    [MISFIT_SPLIT] = "what lies on all ways out, behind all calls, lies in two pages",
	    [MISFIT_FLAGS] = "it needs the flags that it has before its return",
	};

	return why[w->most];
}

/* The facts for jumps. */
static int set_facts(struct window_search *w, const struct func_facts *facts,
		     const struct exit_point *p)
{
	struct func_facts *out = &w->out->facts;

	*out = *facts;
	out->late = (struct deferred_entry){0};
	out->fp_known = 1;
	out->exit_kind = EXIT_JUMP;
	out->entry_len = w->out->entry.len;
	out->nexits = w->out->nexits;
	for (uint32_t i = 0; i < out->nexits; i++) {
		out->exits[i] = w->out->exit[i].off;
		out->exit_len[i] = w->out->exit[i].len;
	}
	return_sites_set_frame(w->c, p, out);
	return return_sites_set_result(w->c, p, out);
}

static int set_exits(struct window_search *w, const struct func_facts *facts)
{
	struct func_windows *out = w->out;
	struct exit_point p[EXITS_MAX];
	uint32_t n;

	if (facts->exit_kind == EXIT_NONE) {
		out->exit_reason = facts->reason;
		return 0;
	}
	if (return_sites_choose(w->c, find_window, w, p, &n)) {
		out->exit_reason = why_no_exit(w);
		return 0;
	}
	for (uint32_t i = 0; i < n; i++)
		window_at(w, p[i].block, p[i].insn, &out->exit[i]);
	int rc = branches_check_handlers(&w->branches, out->exit, n);
	if (!rc)
		out->nexits = (uint8_t)n;
	else
		memset(out->exit, 0, sizeof(out->exit));
	out->exit_reason = rc ? w->branches.reason : NULL;
	rc = rc ? rc : set_facts(w, facts, p);
	return rc == -ENOMEM ? rc : 0;
}

static int search(struct window_search *w, const struct func_facts *facts,
		  const struct windows_ops *ops)
{
	int rc = branches_find(&w->branches, w->c, ops);

	if (rc == -ENOTSUP) {
		w->out->entry_reason = w->branches.reason;
		w->out->exit_reason =
		    facts->exit_kind == EXIT_NONE ? facts->reason : w->branches.reason;
	}
	if (rc)
		return rc == -ENOTSUP ? 0 : rc;
	w->seen = malloc(w->c->g.nblock);
	w->stack = malloc(w->c->g.nblock * sizeof(*w->stack));
	if (!w->seen || !w->stack)
		return -ENOMEM;
	set_entry(w, facts);
	return set_exits(w, facts);
}

int windows_find(struct return_sites_ctx *c, const struct func_facts *facts,
		 const struct windows_ops *ops, struct func_windows *out)
{
	struct window_search w = {
	    .c = c, .out = out, .relative = ops->relative, .most = MISFIT_UNMOVABLE};

	memset(out, 0, sizeof(*out));
	if (c->g.reason) {
		out->entry_reason = out->exit_reason = c->g.reason;
		return 0;
	}
	if (!ops->is_shared || ops->is_shared(ops->arg, c->g.piece[0].vaddr, c->g.piece[0].len)) {
		out->entry_reason = out->exit_reason = "another function has the same code";
		return 0;
	}
	int rc = search(&w, facts, ops);
	branches_free(&w.branches);
	free(w.seen);
	free(w.stack);
	return rc;
}
