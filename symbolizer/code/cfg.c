#include "symbolizer/code/cfg.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/internal.h"

enum { MAX_CODE = 1 << 16 };

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

int cfg_resize(void *array, size_t count, size_t size)
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

int cfg_fit(void *array, size_t *cap, size_t count, size_t size)
{
	if (count <= *cap)
		return 0;
	size_t n = count * 2 > 256 ? count * 2 : 256;
	if (cfg_resize(array, n, size))
		return -ENOMEM;
	*cap = n;
	return 0;
}

uint32_t cfg_offset_of(const struct cfg *g, uint64_t addr)
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

uint32_t cfg_next_of(const struct cfg *g, const struct arch_insn *i)
{
	return cfg_offset_of(g, cfg_address(g, i) + i->len);
}

static int cfg_start(struct cfg *g)
{
	g->len = g->piece[0].len + g->piece[1].len;
	if (cfg_fit(&g->at, &g->at_cap, g->len, sizeof(*g->at)))
		return -ENOMEM;
	memset(g->at, 0, g->len * sizeof(*g->at));
	g->ninsn = g->nblock = g->nsucc = g->ntable = g->nentry = 0;
	g->nwork = 0;
	return 0;
}

static int push_work(struct cfg *g, uint32_t off)
{
	if (cfg_fit(&g->work, &g->work_cap, g->nwork + 1, sizeof(*g->work)))
		return -ENOMEM;
	g->work[g->nwork++] = off;
	return 0;
}

static int add_leader(struct cfg *g, uint32_t off)
{
	if (off >= g->len)
		return 0;
	bool known = g->at[off] & CFG_AT_LEADER;
	g->at[off] |= CFG_AT_LEADER;
	return known || (g->at[off] & CFG_AT_INDEX) ? 0 : push_work(g, off);
}

static struct arch_insn *new_insn(struct cfg *g)
{
	if (g->ninsn == g->insn_cap) {
		size_t cap = g->insn_cap ? g->insn_cap * 2 : 1024;
		if (cfg_resize(&g->insn, cap, sizeof(*g->insn)) ||
		    cfg_resize(&g->block_of, cap, sizeof(*g->block_of)))
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
	if (cfg_fit(&g->entry, &g->entry_cap, g->nentry + n, sizeof(*g->entry)) ||
	    cfg_fit(&g->table, &g->table_cap, g->ntable + 1, sizeof(*g->table)))
		return -ENOMEM;
	int32_t *entry = &g->entry[g->nentry];
	if (g->reader->read(g->reader->arg, at, entry, n * sizeof(*entry)))
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t off = cfg_offset_of(g, at + (uint64_t)(int64_t)entry[i]);
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
		if (g->at[off] & CFG_AT_INDEX) {
			g->at[off] |= CFG_AT_LEADER;
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
		off = cfg_next_of(g, i);
		bool leads = i->flow == ARCH_FLOW_COND || i->flow == ARCH_FLOW_JUMP;
		if (leads && add_leader(g, cfg_offset_of(g, i->target)))
			return -ENOMEM;
		if (i->flow == ARCH_FLOW_COND && off < g->len)
			g->at[off] |= CFG_AT_LEADER;
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
		if (!(g->at[off] & CFG_AT_INDEX))
			rc = decode_run(g, off);
	}
	if (!rc && !g->ninsn)
		rc = not_followed(g, "it does not begin with an instruction");
	return rc;
}

const struct arch_insn *cfg_insn_at(const struct cfg *g, uint32_t off)
{
	uint32_t i = off < g->len ? g->at[off] & CFG_AT_INDEX : 0;

	return i ? &g->insn[i - 1] : NULL;
}

bool cfg_emulated(const struct cfg *g, uint32_t off)
{
	const struct arch_insn *i = cfg_insn_at(g, off);

	return i && i->emulated;
}

/* Add the cold part: the piece that a conditional jump out of the function leads to, if known.
 * Unconditional jumps to it are from landing pads, in functions without another edge to it. */
static bool add_piece(struct cfg *g)
{
	struct cfg_piece *p = &g->piece[1];
	size_t len;

	for (uint32_t k = 0; k < g->ninsn; k++) {
		const struct arch_insn *i = &g->insn[k];
		if (i->flow != ARCH_FLOW_COND || cfg_offset_of(g, i->target) != UINT32_MAX)
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
	return rc ? rc : cfg_link(g);
}

/* Decoded instructions, to be found again by their bytes. */

enum { SLOTS = 1 << 16, ENTRIES = 1 << 15, KEY = 8, LONGEST = 15 };

struct cached_insn {
	uint8_t bytes[LONGEST];
	uint8_t fixed; /* bytes that must match; the rest is a displacement */
	struct arch_insn insn;
};

/* An open hash table, by the first KEY fixed bytes, or all of them if fewer. A slot has bits of the
 * hash above, so that entries of others, which lie all over memory, are seldom touched. */
struct insn_cache {
	/* By an instruction's first byte; bit n - 1: there are keys of n bytes. */
	uint8_t sizes[UINT8_MAX + 1];
	uint32_t n;
	uint32_t slot[SLOTS]; /* tag << 16 | index in entry + 1; 0: empty */
	struct cached_insn entry[ENTRIES];
};

struct insn_cache *insn_cache_new(void)
{
	struct insn_cache *c = malloc(sizeof(*c));
	if (c)
		memset(c, 0, offsetof(struct insn_cache, entry));
	return c;
}

void insn_cache_free(struct insn_cache *c)
{
	free(c);
}

static uint64_t insn_first(const uint8_t *code, size_t left)
{
	uint64_t first = 0;
	memcpy(&first, code, left < KEY ? left : KEY);
	return first;
}

static uint64_t insn_hash(uint64_t first, unsigned n)
{
	const uint64_t key = first & UINT64_MAX >> (64 - 8 * n);
	return (key + n) * UINT64_C(0x9e3779b97f4a7c15);
}

static uint32_t insn_slot(uint64_t hash)
{
	return (uint32_t)(hash >> 48);
}

static uint32_t insn_tag(uint64_t hash)
{
	return (uint32_t)(hash >> 16) & 0xffff0000;
}

static int32_t insn_displacement(const uint8_t *end, unsigned size)
{
	int32_t d;
	if (size == 1)
		return (int8_t)end[-1];
	memcpy(&d, end - sizeof(d), sizeof(d));
	return d;
}

static void insn_move(struct arch_insn *insn, const uint8_t *code, uint64_t at, unsigned relative)
{
	int32_t d = insn_displacement(code + insn->len, relative);
	if (insn->target)
		insn->target = at + insn->len + (uint64_t)(int64_t)d;
	if (insn->effect == ARCH_EFF_LEA || insn->effect == ARCH_EFF_INDEX ||
	    insn->effect == ARCH_EFF_LOAD || insn->effect == ARCH_EFF_STORE)
		insn->disp = d;
}

static const struct cached_insn *insn_find(const struct insn_cache *c, const uint8_t *code,
					   size_t left, uint64_t hash)
{
	uint32_t slot;
	for (uint32_t s = insn_slot(hash); (slot = c->slot[s]); s = (s + 1) % SLOTS) {
		if ((slot & 0xffff0000) != insn_tag(hash))
			continue;
		const struct cached_insn *e = &c->entry[(slot & UINT16_MAX) - 1];
		if (e->insn.len <= left && !memcmp(e->bytes, code, e->fixed))
			return e;
	}
	return NULL;
}

bool insn_cache_find(const struct insn_cache *c, const uint8_t *code, size_t left, uint64_t at,
		     struct arch_insn *out)
{
	const uint64_t first = insn_first(code, left);
	const struct cached_insn *e = NULL;
	for (unsigned sizes = c->sizes[*code]; sizes && !e; sizes &= sizes - 1)
		e = insn_find(c, code, left, insn_hash(first, (unsigned)__builtin_ctz(sizes) + 1));
	if (!e)
		return false;
	*out = e->insn;
	if (e->fixed != e->insn.len)
		insn_move(out, code, at, e->insn.len - e->fixed);
	return true;
}

void insn_cache_add(struct insn_cache *c, const uint8_t *code, uint64_t at, unsigned relative,
		    const struct arch_insn *insn)
{
	if (c->n == ENTRIES || insn->len > LONGEST || insn->len <= relative)
		return;
	struct cached_insn *e = &c->entry[c->n];
	*e = (struct cached_insn){.fixed = (uint8_t)(insn->len - relative), .insn = *insn};
	memcpy(e->bytes, code, e->fixed);
	if (relative) {
		/* Do not cache an instruction whose fields do not follow from its displacement. */
		insn_move(&e->insn, code, at, relative);
		if (e->insn.target != insn->target || e->insn.disp != insn->disp)
			return;
	}
	const unsigned size = e->fixed < KEY ? e->fixed : KEY;
	const uint64_t hash = insn_hash(insn_first(code, insn->len), size);
	uint32_t s = insn_slot(hash);
	while (c->slot[s])
		s = (s + 1) % SLOTS;
	c->slot[s] = insn_tag(hash) | ++c->n;
	c->sizes[*code] |= (uint8_t)(1 << size >> 1);
}
