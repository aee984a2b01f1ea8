#include "symbolizer/code/cfg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CODE = 1 << 16 };

/* g->at, one word per byte of code: 1 + the index of the instruction that starts there, and whether
 * a block starts there */
#define AT_LEADER UINT32_C(0x80000000)
#define AT_INDEX UINT32_C(0x7fffffff)

/* Targets of the indirect jump that is instruction `insn`: g->entry[first .. first + n - 1]. */
struct cfg_table {
	uint32_t insn, first, n;
};

int cfg_init(struct cfg *g, const struct cfg_reader *reader)
{
	memset(g, 0, sizeof(*g));
	g->reader = reader;
	g->decoder = arch_decoder_new();
	return g->decoder ? 0 : -ENOMEM;
}

void cfg_free(struct cfg *g)
{
	arch_decoder_free(g->decoder);
	free(g->insn);
	free(g->block);
	free(g->unordered);
	free(g->succ);
	free(g->pred);
	free(g->table);
	free(g->entry);
	free(g->at);
	free(g->work);
	free(g->block_of);
	free(g->order);
	free(g->number);
	memset(g, 0, sizeof(*g));
}

static int resize(void *array, size_t count, size_t size)
{
	void *p = realloc(*(void **)array, count * size);
	if (!p)
		return -ENOMEM;
	*(void **)array = p;
	return 0;
}

static int not_followed(struct cfg *g, const char *reason)
{
	g->reason = reason;
	return -ENOTSUP;
}

/* Grow the array of capacity *cap to at least `count` elements. */
static int fit(void *array, size_t *cap, size_t count, size_t size)
{
	if (count <= *cap)
		return 0;
	size_t n = count * 2 > 256 ? count * 2 : 256;
	if (resize(array, n, size))
		return -ENOMEM;
	*cap = n;
	return 0;
}

/* Offset of an address in the pieces; UINT32_MAX if it is in neither. */
static uint32_t offset_of(const struct cfg *g, uint64_t addr)
{
	const struct cfg_piece *p = g->piece;

	if (addr - p[0].vaddr < p[0].len)
		return (uint32_t)(addr - p[0].vaddr);
	if (addr - p[1].vaddr < p[1].len)
		return p[0].len + (uint32_t)(addr - p[1].vaddr);
	return UINT32_MAX;
}

uint64_t cfg_address(const struct cfg *g, const struct arch_insn *i)
{
	return i->off < g->piece[0].len ? g->piece[0].vaddr + i->off
					: g->piece[1].vaddr + (i->off - g->piece[0].len);
}

/* Offset of the byte after an instruction. */
static uint32_t next_of(const struct cfg *g, const struct arch_insn *i)
{
	return offset_of(g, cfg_address(g, i) + i->len);
}

static int cfg_start(struct cfg *g)
{
	g->len = g->piece[0].len + g->piece[1].len;
	if (fit(&g->at, &g->at_cap, g->len, sizeof(*g->at)))
		return -ENOMEM;
	memset(g->at, 0, g->len * sizeof(*g->at));
	g->ninsn = g->nblock = g->nsucc = g->ntable = g->nentry = 0;
	g->nwork = 0;
	return 0;
}

static int push_work(struct cfg *g, uint32_t off)
{
	if (fit(&g->work, &g->work_cap, g->nwork + 1, sizeof(*g->work)))
		return -ENOMEM;
	g->work[g->nwork++] = off;
	return 0;
}

static int add_leader(struct cfg *g, uint32_t off)
{
	if (off >= g->len)
		return 0;
	bool known = g->at[off] & AT_LEADER;
	g->at[off] |= AT_LEADER;
	return known || (g->at[off] & AT_INDEX) ? 0 : push_work(g, off);
}

static struct arch_insn *new_insn(struct cfg *g)
{
	if (g->ninsn == g->insn_cap) {
		size_t cap = g->insn_cap ? g->insn_cap * 2 : 1024;
		if (resize(&g->insn, cap, sizeof(*g->insn)) ||
		    resize(&g->block_of, cap, sizeof(*g->block_of)))
			return NULL;
		g->insn_cap = cap;
	}
	return &g->insn[g->ninsn++];
}

/* Record the targets of the indirect jump just decoded, if it uses a jump table. */
static int follow_table(struct cfg *g, uint32_t run)
{
	uint64_t at;
	uint32_t n = arch_jump_table(&g->insn[run], g->ninsn - run, &at);

	if (!n || !g->reader || !g->reader->read)
		return 0;
	if (fit(&g->entry, &g->entry_cap, g->nentry + n, sizeof(*g->entry)) ||
	    fit(&g->table, &g->table_cap, g->ntable + 1, sizeof(*g->table)))
		return -ENOMEM;
	int32_t *entry = &g->entry[g->nentry];
	if (g->reader->read(g->reader->arg, at, entry, n * sizeof(*entry)))
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t off = offset_of(g, at + (uint64_t)(int64_t)entry[i]);
		if (off >= g->len)
			return 0;
		entry[i] = (int32_t)off;
	}
	g->table[g->ntable++] = (struct cfg_table){g->ninsn - 1, g->nentry, n};
	g->nentry += n;
	for (uint32_t i = 0; i < n; i++)
		if (add_leader(g, (uint32_t)entry[i]))
			return -ENOMEM;
	return 0;
}

static int decode(struct cfg *g, uint32_t off, struct arch_insn *i)
{
	uint32_t base = off < g->piece[0].len ? 0 : g->piece[0].len;
	const struct cfg_piece *p = &g->piece[base ? 1 : 0];
	int rc = arch_decode(g->decoder, p->code, p->len, p->vaddr, off - base, i);

	i->off = off;
	return rc;
}

/* Decode from `off` until flow ends or reaches an instruction already decoded. */
static int decode_run(struct cfg *g, uint32_t off)
{
	uint32_t run = g->ninsn;

	while (off < g->len) {
		if (g->at[off] & AT_INDEX) {
			g->at[off] |= AT_LEADER;
			return 0;
		}
		struct arch_insn *i = new_insn(g);
		if (!i)
			return -ENOMEM;
		if (decode(g, off, i)) {
			g->ninsn--;
			return 0;
		}
		g->at[off] |= g->ninsn;
		off = next_of(g, i);
		bool leads = i->flow == ARCH_FLOW_COND || i->flow == ARCH_FLOW_JUMP;
		if (leads && add_leader(g, offset_of(g, i->target)))
			return -ENOMEM;
		if (i->flow == ARCH_FLOW_COND && off < g->len)
			g->at[off] |= AT_LEADER;
		if (i->flow == ARCH_FLOW_JUMP_IND && follow_table(g, run))
			return -ENOMEM;
		if (i->flow != ARCH_FLOW_NEXT && i->flow != ARCH_FLOW_COND &&
		    i->flow != ARCH_FLOW_CALL && i->flow != ARCH_FLOW_CALL_IND)
			return 0;
	}
	return 0;
}

static int decode_all(struct cfg *g)
{
	int rc = add_leader(g, 0);
	while (!rc && g->nwork) {
		uint32_t off = g->work[--g->nwork];
		if (!(g->at[off] & AT_INDEX))
			rc = decode_run(g, off);
	}
	if (!rc && !g->ninsn)
		rc = not_followed(g, "it does not begin with an instruction");
	return rc;
}

static bool is_leader(const struct cfg *g, uint32_t off)
{
	return off < g->len && (g->at[off] & AT_LEADER);
}

/* Index of the block at `off`; CFG_NONE if no decoded instruction starts there. */
static uint32_t block_at(const struct cfg *g, uint32_t off)
{
	if (off >= g->len || !(g->at[off] & AT_INDEX))
		return CFG_NONE;
	return g->block_of[(g->at[off] & AT_INDEX) - 1];
}

static int size_blocks(struct cfg *g)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < g->ninsn; i++)
		n += is_leader(g, g->insn[i].off);
	if (n <= g->block_cap)
		return 0;
	size_t cap = (size_t)n * 2;
	if (resize(&g->block, cap, sizeof(*g->block)) ||
	    resize(&g->unordered, cap, sizeof(*g->block)) ||
	    resize(&g->order, cap, sizeof(*g->order)) ||
	    resize(&g->number, cap, sizeof(*g->number)))
		return -ENOMEM;
	g->block_cap = cap;
	return 0;
}

static int size_edges(struct cfg *g)
{
	size_t n = (size_t)g->nblock * 2 + g->nentry, cap = g->succ_cap;

	if (n <= cap)
		return 0;
	if (fit(&g->succ, &cap, n, sizeof(*g->succ)) || resize(&g->pred, cap, sizeof(*g->pred)))
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
	if (!add_succ(g, b, next_of(g, last)) && last->flow != ARCH_FLOW_CALL &&
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
		set_target(g, b, offset_of(g, last->target));
		break;
	case ARCH_FLOW_COND:
		set_next(g, b, last);
		if (b->end == CFG_END_NEXT)
			set_target(g, b, offset_of(g, last->target));
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

const struct arch_insn *cfg_insn_at(const struct cfg *g, uint32_t off)
{
	uint32_t i = off < g->len ? g->at[off] & AT_INDEX : 0;

	return i ? &g->insn[i - 1] : NULL;
}

bool cfg_emulated(const struct cfg *g, uint32_t off)
{
	const struct arch_insn *i = cfg_insn_at(g, off);

	return i && i->emulated;
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

/* Add the cold part: the piece that a conditional jump out of the function leads to, if known.
 * Unconditional jumps to it are from landing pads, in functions without another edge to it. */
static bool add_piece(struct cfg *g)
{
	struct cfg_piece *p = &g->piece[1];
	size_t len;

	for (uint32_t k = 0; k < g->ninsn; k++) {
		const struct arch_insn *i = &g->insn[k];
		if (i->flow != ARCH_FLOW_COND || offset_of(g, i->target) != UINT32_MAX)
			continue;
		p->code = g->reader->piece(g->reader->arg, i->target, &p->vaddr, &len);
		if (!p->code || len > MAX_CODE || p->vaddr + len < p->vaddr ||
		    (p->vaddr < g->piece[0].vaddr + g->piece[0].len &&
		     g->piece[0].vaddr < p->vaddr + len))
			return false;
		p->len = (uint32_t)len;
		return true;
	}
	return false;
}

static int decode_pieces(struct cfg *g)
{
	int rc = cfg_start(g);

	if (!rc)
		rc = decode_all(g);
	if (rc || !g->reader || !g->reader->piece || !add_piece(g))
		return rc;
	rc = cfg_start(g);
	return rc ? rc : decode_all(g);
}

int cfg_build(struct cfg *g, const uint8_t *code, size_t len, uint64_t vaddr)
{
	g->reason = NULL;
	if (!len || len > MAX_CODE)
		return not_followed(g, len ? "the function is too large" : "the function is empty");
	memset(g->piece, 0, sizeof(g->piece));
	g->piece[0] = (struct cfg_piece){code, vaddr, (uint32_t)len};
	int rc = decode_pieces(g);
	if (!rc)
		rc = cut_blocks(g);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < g->nblock; i++)
		link_block(g, &g->unordered[i]);
	uint32_t nunordered = g->nblock;
	number_blocks(g);
	reorder(g, nunordered);
	list_preds(g);
	find_dominators(g);
	return 0;
}
