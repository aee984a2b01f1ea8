#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "symbolizer/code/internal.h"

enum { PIECE_MOST = 1 << 16 };

static int unknown(struct branches *b, const char *reason)
{
	b->reason = reason;
	return -ENOTSUP;
}

static bool is_in(const struct code_piece *p, uint64_t addr)
{
	return addr - p->vaddr < p->len;
}

static struct code_piece *piece_of(struct branches *b, uint64_t addr)
{
	for (uint32_t i = 0; i < b->npiece; i++)
		if (is_in(&b->piece[i], addr))
			return &b->piece[i];
	return NULL;
}

static void add_target(struct branches *b, uint64_t addr)
{
	const struct code_piece *p = piece_of(b, addr);

	if (p)
		p->map[addr - p->vaddr] |= BRANCH_TARGET;
}

bool branches_lead_into(const struct branches *b, uint32_t off, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (b->piece[0].map[off + i] & BRANCH_TARGET)
			return true;
	return false;
}

static int new_piece(struct branches *b, const uint8_t *code, uint64_t start, uint32_t len)
{
	struct code_piece *p = &b->piece[b->npiece];

	*p = (struct code_piece){code, start, len, b->len, calloc(1, len)};
	if (!p->map)
		return -ENOMEM;
	b->npiece++;
	b->len += len;
	return 0;
}

/* Add the piece that a jump to `addr` leads to. A stub of the linker and what cleans up are
 * functions of their own, which do not branch into this one. */
static int add_piece(struct branches *b, uint64_t addr)
{
	const struct cfg_reader *r = b->c->g.reader;
	uint64_t start;
	size_t len;

	if (piece_of(b, addr) ||
	    (b->c->ops.is_cleanup && b->c->ops.is_cleanup(b->c->ops.arg, addr)))
		return 0;
	const uint8_t *code = r && r->piece ? r->piece(r->arg, addr, &start, &len) : NULL;
	if (!code || addr - start >= len)
		return unknown(b, "it jumps to code of which nothing is known");
	if (arch_stub_slot(code + (addr - start), len - (addr - start), addr))
		return 0;
	if (len > PIECE_MOST || b->npiece == sizeof(b->piece) / sizeof(b->piece[0]))
		return unknown(b, "it jumps to too much code elsewhere");
	return new_piece(b, code, start, (uint32_t)len);
}

static int decode(const struct branches *b, const struct code_piece *p, uint32_t off,
		  struct arch_insn *i)
{
	const struct arch_insn *known = p == b->piece ? cfg_insn_at(&b->c->g, off) : NULL;

	if (!known)
		return arch_decode(b->c->g.decoder, p->code, p->len, p->vaddr, off, i);
	*i = *known;
	return 0;
}

/* Record where an instruction of piece p leads. */
static int add_branch(struct branches *b, const struct code_piece *p, const struct arch_insn *i)
{
	bool inside = p == b->piece;
	int rc;

	switch (i->flow) {
	case ARCH_FLOW_CALL:
		if (is_in(&b->piece[0], i->target) && i->target != b->piece[0].vaddr)
			return unknown(b, "it calls a part of itself");
		return 0;
	case ARCH_FLOW_JUMP_IND:
		/* those that the graph has are judged by it */
		return inside && cfg_insn_at(&b->c->g, i->off)
			   ? 0
			   : unknown(b, "part of it jumps to an address that it computes");
	case ARCH_FLOW_COND:
	case ARCH_FLOW_JUMP:
		rc = inside ? add_piece(b, i->target) : 0;
		add_target(b, i->target);
		return rc;
	default:
		return 0;
	}
}

/* Go over all instructions of the piece, reachable or not. */
static int sweep(struct branches *b, uint32_t piece)
{
	const struct code_piece *p = &b->piece[piece];
	struct arch_insn i;
	int rc = 0;

	for (uint32_t off = 0; off < p->len && !rc; off += i.len) {
		if (decode(b, p, off, &i))
			return unknown(b, "part of it cannot be decoded");
		p->map[off] |= BRANCH_INSN;
		rc = add_branch(b, p, &i);
	}
	return rc;
}

static bool leaves_by_pointer(const struct return_sites_ctx *c, uint32_t block)
{
	const struct exit_point p = {block, return_sites_last(&c->g, block)};

	return c->flow_known && c->g.insn[p.insn].flow == ARCH_FLOW_JUMP_IND &&
	       return_sites_frame_is_gone(c, p);
}

static int add_tables(struct branches *b)
{
	const struct cfg *g = &b->c->g;

	for (uint32_t k = 0; k < g->nblock; k++) {
		if (g->block[k].end != CFG_END_UNKNOWN)
			continue;
		if (!leaves_by_pointer(b->c, k))
			return unknown(b, "it jumps to an address that it computes");
		b->leaves_by_pointer = true;
	}
	for (uint32_t k = 0; k < g->nentry; k++)
		if ((uint32_t)g->entry[k] < b->piece[0].len)
			b->piece[0].map[g->entry[k]] |= BRANCH_TARGET;
	return 0;
}

/* Whether every branch leads to an instruction of the sweeps: all code that can be reached has then
 * been seen by them. */
static int check_sweeps(struct branches *b)
{
	for (uint32_t k = 0; k < b->npiece; k++)
		for (uint32_t i = 0; i < b->piece[k].len; i++)
			if (b->piece[k].map[i] == BRANCH_TARGET)
				return unknown(b, "a branch leads into one of its instructions");
	return 0;
}

static int add_pad(uint64_t vaddr, void *arg)
{
	struct branches *b = arg;

	int rc = array_grow(&b->pad, &b->pad_cap, b->npad + 1, sizeof(*b->pad));
	if (rc)
		return rc;
	b->pad[b->npad++] = vaddr;
	rc = add_piece(b, vaddr);
	add_target(b, vaddr);
	return rc;
}

static int add_pads(struct branches *b, uint32_t piece)
{
	int rc =
	    b->ops->pads ? b->ops->pads(b->ops->arg, b->piece[piece].vaddr, add_pad, b) : -ENOENT;

	return !rc || rc == -ENOMEM || b->reason
		   ? rc
		   : unknown(b, "where exceptions enter it is not known");
}

int branches_find(struct branches *b, struct return_sites_ctx *c, const struct windows_ops *ops)
{
	const struct cfg *g = &c->g;

	*b = (struct branches){.c = c, .ops = ops};
	int rc = new_piece(b, g->piece[0].code, g->piece[0].vaddr, g->piece[0].len);
	if (!rc)
		rc = add_tables(b);
	for (uint32_t i = 0; i < b->npiece && !rc; i++) {
		rc = sweep(b, i);
		if (!rc)
			rc = add_pads(b, i);
	}
	return rc ? rc : check_sweeps(b);
}

void branches_free(struct branches *b)
{
	for (uint32_t i = 0; i < b->npiece; i++)
		free(b->piece[i].map);
	free(b->pad);
}

/* The way from the landing pads. */
struct handler_walk {
	struct branches *b;
	const struct code_window *window;
	unsigned nwindow;
	uint32_t *stack; /* offsets in all pieces, one after the other */
	uint32_t depth;
};

static int visit(struct handler_walk *w, uint64_t addr)
{
	const struct code_piece *p = piece_of(w->b, addr);

	if (!p)
		return unknown(w->b, "an exception handler jumps out of it");
	uint32_t off = (uint32_t)(addr - p->vaddr);
	if (!(p->map[off] & BRANCH_SEEN))
		w->stack[w->depth++] = p->base + off;
	p->map[off] |= BRANCH_SEEN;
	return 0;
}

static int visit_table(struct handler_walk *w, const struct code_piece *p,
		       const struct arch_insn *i)
{
	const struct cfg *g = &w->b->c->g;
	uint32_t block = CFG_NONE;
	int rc = 0;

	for (uint32_t k = 0; p == w->b->piece && k < g->nblock; k++)
		if (g->insn[return_sites_last(g, k)].off == i->off)
			block = k;
	if (block == CFG_NONE)
		return unknown(w->b, "an exception handler jumps to an address that it computes");
	for (uint32_t k = 0; k < g->block[block].nsucc && !rc; k++) {
		const struct cfg_block *to = &g->block[g->succ[g->block[block].succ + k]];
		rc = visit(w, cfg_address(g, &g->insn[to->first]));
	}
	return rc;
}

static int expand(struct handler_walk *w, const struct code_piece *p, uint32_t off)
{
	struct arch_insn i;

	for (unsigned k = 0; p == w->b->piece && k < w->nwindow; k++)
		if (w->window[k].off == off)
			return 0;
	if (decode(w->b, p, off, &i))
		return unknown(w->b, "an exception handler cannot be decoded");
	uint64_t next = p->vaddr + off + i.len;
	int rc = 0;
	switch (i.flow) {
	case ARCH_FLOW_RET:
		return unknown(w->b, "an exception handler returns by a way of its own");
	case ARCH_FLOW_STOP:
		return 0;
	case ARCH_FLOW_JUMP_IND:
		return visit_table(w, p, &i);
	case ARCH_FLOW_COND:
	case ARCH_FLOW_JUMP:
		rc = visit(w, i.target);
		return rc || i.flow == ARCH_FLOW_JUMP ? rc : visit(w, next);
	case ARCH_FLOW_CALL:
	case ARCH_FLOW_CALL_IND:
		/* at the end of the code it does not return */
		return is_in(p, next) ? visit(w, next) : 0;
	default:
		return visit(w, next);
	}
}

static int walk_handlers(struct handler_walk *w)
{
	int rc = 0;

	for (size_t i = 0; i < w->b->npad && !rc; i++)
		rc = visit(w, w->b->pad[i]);
	while (w->depth && !rc) {
		uint32_t at = w->stack[--w->depth];
		const struct code_piece *p = w->b->piece;
		while (at - p->base >= p->len)
			p++;
		rc = expand(w, p, at - p->base);
	}
	return rc;
}

int branches_check_handlers(struct branches *b, const struct code_window *window, unsigned n)
{
	struct handler_walk w = {.b = b, .window = window, .nwindow = n};

	w.stack = malloc(b->len * sizeof(*w.stack));
	int rc = w.stack ? walk_handlers(&w) : -ENOMEM;
	free(w.stack);
	return rc;
}
