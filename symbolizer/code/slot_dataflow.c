#include "symbolizer/code/cfg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum { SLOT = 8 };

static int add_taken(struct slot_dataflow *fr, int32_t off)
{
	if (array_grow(&fr->taken, &fr->taken_cap, fr->ntaken + 1, sizeof(*fr->taken)))
		return -ENOMEM;
	fr->taken[fr->ntaken++] = off;
	return 0;
}

static int add_store(struct slot_dataflow *fr, const struct slot_dataflow_store *s)
{
	if (array_grow(&fr->store, &fr->store_cap, fr->nstore + 1, sizeof(*fr->store)))
		return -ENOMEM;
	fr->store[fr->nstore++] = *s;
	return 0;
}

/* State of the walk over the instructions. */
struct slot_walk {
	struct slot_dataflow *fr;
	const struct reg_state *s;
	const struct arch_insn *i;
	struct slot_dataflow_store st; /* block and insn are set */
	bool bp_is_frame, bp_lost;
};

static int push_at(struct slot_walk *w, struct reg_value value)
{
	const struct reg_value *sp = &w->s->r[ARCH_SP];

	if (sp->kind != REG_FRAME || w->i->width != 8) {
		w->fr->lost = true;
		return 0;
	}
	if (value.kind == REG_FRAME && add_taken(w->fr, value.off))
		return -ENOMEM;
	if (__builtin_sub_overflow(sp->off, 8, &w->st.off))
		return 0;
	w->st.width = 8;
	w->st.value = value;
	return add_store(w->fr, &w->st);
}

static int note_store(struct slot_walk *w)
{
	const struct arch_insn *i = w->i;
	struct reg_value at = {0};

	if (i->base < ARCH_REGS)
		at = w->s->r[i->base];
	if (at.kind != REG_FRAME || __builtin_add_overflow(at.off, i->disp, &w->st.off)) {
		w->fr->lost |= i->base == ARCH_SP;
		w->bp_lost |= i->base == ARCH_BP;
		return 0;
	}
	if (i->index || !i->width)
		return add_taken(w->fr, w->st.off);
	w->st.width = i->width;
	if (i->src < ARCH_REGS)
		w->st.value = w->s->r[i->src];
	return add_store(w->fr, &w->st);
}

/* Note a frame address that reaches a register other than the stack or frame pointer. */
static int note_address(struct slot_walk *w)
{
	const struct arch_insn *i = w->i;
	unsigned from = i->effect == ARCH_EFF_COPY ? i->src : i->base;
	int32_t off;

	if (i->dst == ARCH_SP || from >= ARCH_REGS || w->s->r[from].kind != REG_FRAME)
		return 0;
	if (i->effect == ARCH_EFF_COPY && i->dst == ARCH_BP && from == ARCH_SP) {
		w->bp_is_frame = true;
		return 0;
	}
	off = w->s->r[from].off;
	if (i->effect != ARCH_EFF_COPY && __builtin_add_overflow(off, i->disp, &off))
		return 0;
	return add_taken(w->fr, off);
}

static int note_insn(struct slot_walk *w)
{
	const struct reg_value *sp = &w->s->r[ARCH_SP];

	if (w->i->flow == ARCH_FLOW_CALL || w->i->flow == ARCH_FLOW_CALL_IND) {
		if (sp->kind != REG_FRAME)
			w->fr->lost = true;
		else if (sp->off > w->fr->call_sp)
			w->fr->call_sp = sp->off;
		return 0;
	}
	switch (w->i->effect) {
	case ARCH_EFF_PUSH:
		return push_at(w,
			       w->i->src < ARCH_REGS ? w->s->r[w->i->src] : (struct reg_value){0});
	case ARCH_EFF_STORE:
		return note_store(w);
	case ARCH_EFF_COPY:
	case ARCH_EFF_LEA:
	case ARCH_EFF_INDEX:
		return note_address(w);
	default:
		return 0;
	}
}

static int walk_block(struct slot_walk *w, const struct cfg *g, struct reg_state s, uint32_t block)
{
	const struct cfg_block *b = &g->block[block];

	w->s = &s;
	for (uint32_t k = b->first; k < b->first + b->n; k++) {
		w->i = &g->insn[k];
		w->st = (struct slot_dataflow_store){.block = block, .insn = k};
		if (note_insn(w))
			return -ENOMEM;
		reg_step(&s, w->i);
	}
	return 0;
}

int slot_dataflow_build(struct slot_dataflow *fr, const struct cfg *g,
			const struct register_dataflow *f)
{
	struct slot_walk w = {.fr = fr};

	fr->nstore = fr->ntaken = 0;
	fr->call_sp = INT32_MIN;
	fr->lost = false;
	for (uint32_t b = 0; b < g->nblock; b++)
		if (f->in[b].seen && walk_block(&w, g, f->in[b], b))
			return -ENOMEM;
	fr->lost |= w.bp_is_frame && w.bp_lost;
	return 0;
}

void slot_dataflow_free(struct slot_dataflow *fr)
{
	free(fr->store);
	free(fr->taken);
	memset(fr, 0, sizeof(*fr));
}

struct reg_value slot_dataflow_resolve(const struct slot_dataflow *fr, struct reg_value v)
{
	const struct slot_dataflow_store *found = NULL;

	if (v.kind != REG_SLOT || !slot_dataflow_private(fr, v.off, SLOT))
		return v;
	for (size_t i = 0; i < fr->nstore; i++) {
		const struct slot_dataflow_store *s = &fr->store[i];
		if (!slot_dataflow_overlaps(s, v.off, SLOT))
			continue;
		if (s->off != v.off || s->width != SLOT || s->value.kind != REG_START ||
		    s->value.width != SLOT || (found && found->value.reg != s->value.reg))
			return v;
		found = s;
	}
	if (!found)
		return v;
	return (struct reg_value){.kind = REG_START, .reg = found->value.reg, .width = v.width};
}
