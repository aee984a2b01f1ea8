#include "symbolizer/code/cfg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SWEEPS = 64 };

static const struct reg_value unknown = {.kind = REG_UNKNOWN};

struct reg_state reg_state_entry(void)
{
	struct reg_state s = {.fp = 0xff, .seen = 1};

	for (unsigned i = 0; i < ARCH_REGS; i++)
		s.r[i] = (struct reg_value){.kind = REG_START, .reg = (uint8_t)i, .width = 8};
	s.r[ARCH_SP] = (struct reg_value){.kind = REG_FRAME, .width = 8};
	return s;
}

static struct reg_value narrowed(struct reg_value v, unsigned width)
{
	if (width >= v.width)
		return v;
	if (v.kind == REG_FRAME || !width)
		return unknown;
	v.width = (uint8_t)width;
	return v;
}

static struct reg_value moved(struct reg_value v, int32_t by)
{
	if (v.kind != REG_FRAME || __builtin_add_overflow(v.off, by, &v.off))
		return unknown;
	return v;
}

static struct reg_value of(const struct reg_state *s, unsigned reg)
{
	return reg < ARCH_REGS ? s->r[reg] : unknown;
}

static struct reg_value loaded(const struct reg_state *s, const struct arch_insn *i)
{
	struct reg_value v = moved(of(s, i->base), i->disp);

	if (v.kind != REG_FRAME || i->index || !i->width || i->width > 8)
		return unknown;
	for (int k = 0; k < REG_SAVED; k++)
		if (s->saved[k].value.kind && s->saved[k].off == v.off)
			return narrowed(s->saved[k].value, i->width);
	v.kind = REG_SLOT;
	v.width = (uint8_t)i->width;
	return v;
}

/* Record a store of `width` bytes of `value` at `at`; width 0: unknown. */
static void save(struct reg_state *s, struct reg_value at, unsigned width, struct reg_value value)
{
	int unused = -1;

	if (!s->frame || at.kind != REG_FRAME)
		return;
	const struct slot_dataflow_store here = {.off = at.off, .width = (uint16_t)width};
	for (int k = 0; k < REG_SAVED; k++) {
		struct reg_saved *o = &s->saved[k];
		if (o->value.kind &&
		    (!width || slot_dataflow_overlaps(&here, o->off, o->value.width)))
			o->value = unknown;
		if (!o->value.kind)
			unused = k;
	}
	value = narrowed(value, width);
	if (unused >= 0 && value.kind == REG_START &&
	    slot_dataflow_private(s->frame, at.off, value.width))
		s->saved[unused] = (struct reg_saved){at.off, value};
}

static struct reg_value pop(struct reg_state *s)
{
	struct reg_value v = s->r[ARCH_SP];

	if (v.kind == REG_FRAME)
		v.kind = REG_SLOT;
	s->r[ARCH_SP] = moved(s->r[ARCH_SP], 8);
	return v;
}

static void clobber(struct reg_state *s, uint32_t mask)
{
	while (mask) {
		s->r[__builtin_ctz(mask)] = unknown;
		mask &= mask - 1;
	}
}

void reg_step(struct reg_state *s, const struct arch_insn *i)
{
	struct reg_value v = unknown;

	if (i->flow == ARCH_FLOW_CALL || i->flow == ARCH_FLOW_CALL_IND) {
		clobber(s, arch_call_clobbers);
		s->fp = 0;
		return;
	}
	if (i->effect == ARCH_EFF_COPY)
		v = narrowed(of(s, i->src), i->width);
	else if (i->effect == ARCH_EFF_LEA)
		v = moved(of(s, i->base), i->disp);
	else if (i->effect == ARCH_EFF_LOAD)
		v = loaded(s, i);
	else if (i->effect == ARCH_EFF_STORE)
		save(s, moved(of(s, i->base), i->disp), i->index ? 0 : i->width, of(s, i->src));
	s->fp &= (uint8_t)~i->fp_writes;
	clobber(s, i->writes);
	switch (i->effect) {
	case ARCH_EFF_PUSH:
		save(s, moved(s->r[ARCH_SP], -8), 8, unknown);
		s->r[ARCH_SP] = i->width == 8 ? moved(s->r[ARCH_SP], -8) : unknown;
		return;
	case ARCH_EFF_LEAVE:
		s->r[ARCH_SP] = of(s, ARCH_BP);
		s->r[ARCH_BP] = pop(s);
		return;
	case ARCH_EFF_POP:
		v = pop(s);
		if (i->width != 8)
			s->r[ARCH_SP] = v = unknown;
		break;
	default:
		break;
	}
	if (i->dst < ARCH_REGS)
		s->r[i->dst] = v;
}

static bool same(const struct reg_value *a, const struct reg_value *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* Meet of two values. */
static struct reg_value common(const struct reg_value *a, const struct reg_value *b)
{
	if (a->kind == b->kind && a->reg == b->reg && a->off == b->off)
		return narrowed(*a, b->width);
	return unknown;
}

static bool merge_saved(struct reg_state *to, const struct reg_state *from)
{
	bool changed = false;

	for (int k = 0; k < REG_SAVED; k++) {
		bool kept = !to->saved[k].value.kind;
		for (int j = 0; j < REG_SAVED && !kept; j++)
			kept = from->saved[j].off == to->saved[k].off &&
			       same(&from->saved[j].value, &to->saved[k].value);
		changed |= !kept;
		if (!kept)
			to->saved[k].value = unknown;
	}
	return changed;
}

/* Meet `from` into `to`; returns whether `to` changed. */
static bool merge(struct reg_state *to, const struct reg_state *from)
{
	bool changed = false;

	if (!to->seen) {
		*to = *from;
		return true;
	}
	for (unsigned i = 0; i < ARCH_REGS; i++) {
		if (to->r[i].kind == REG_UNKNOWN || same(&to->r[i], &from->r[i]))
			continue;
		struct reg_value v = common(&to->r[i], &from->r[i]);
		changed |= !same(&v, &to->r[i]);
		to->r[i] = v;
	}
	if (to->frame)
		changed |= merge_saved(to, from);
	changed |= (to->fp & ~from->fp) != 0;
	to->fp &= from->fp;
	return changed;
}

static void flow_block(struct register_dataflow *f, const struct cfg *g, uint32_t block,
		       uint32_t insn, struct reg_state s)
{
	const struct cfg_block *b = &g->block[block];

	for (uint32_t i = insn; i < b->first + b->n; i++)
		reg_step(&s, &g->insn[i]);
	for (uint32_t k = 0; k < b->nsucc; k++) {
		struct reg_state *to = &f->in[g->succ[b->succ + k]];
		if (merge(to, &s))
			to->dirty = 1;
	}
}

static bool sweep(struct register_dataflow *f, const struct cfg *g)
{
	bool any = false;

	for (uint32_t i = 0; i < g->nblock; i++) {
		if (!f->in[i].dirty)
			continue;
		f->in[i].dirty = 0;
		flow_block(f, g, i, g->block[i].first, f->in[i]);
		any = true;
	}
	return any;
}

static int reserve(struct register_dataflow *f, uint32_t nblock)
{
	if (nblock <= f->cap)
		return 0;
	size_t cap = (size_t)nblock * 2;
	struct reg_state *in = realloc(f->in, cap * sizeof(*in));
	if (!in)
		return -ENOMEM;
	f->in = in;
	f->cap = cap;
	return 0;
}

int register_dataflow_run(struct register_dataflow *f, const struct cfg *g, uint32_t block,
			  uint32_t insn, const struct reg_state *start)
{
	if (reserve(f, g->nblock))
		return -ENOMEM;
	for (uint32_t i = 0; i < g->nblock; i++)
		f->in[i].seen = f->in[i].dirty = 0;
	if (insn == g->block[block].first) {
		f->in[block] = *start;
		f->in[block].seen = f->in[block].dirty = 1;
	} else {
		flow_block(f, g, block, insn, *start);
	}
	for (int n = 0; n < MAX_SWEEPS; n++)
		if (!sweep(f, g))
			return 0;
	return -ELOOP;
}

void register_dataflow_free(struct register_dataflow *f)
{
	free(f->in);
	memset(f, 0, sizeof(*f));
}
