#include <string.h>

#include "symbolizer/code/internal.h"

/* The straight-line path from the entry. */
struct way {
	struct reg_state s;
	struct fp_slot xmm[ARCH_FP_ARGS];
};

/* Record a write of `width` bytes at frame offset `off`. False when it is outside the function's
 * own frame. */
static bool note_write(struct way *w, int32_t off, unsigned width)
{
	const struct slot_dataflow_store here = {.off = off, .width = (uint16_t)width};

	for (unsigned n = 0; n < ARCH_FP_ARGS; n++)
		if (w->xmm[n].known && slot_dataflow_overlaps(&here, w->xmm[n].sp_off, 8))
			w->xmm[n].known = false;
	return width && (int64_t)off + width <= 0;
}

static bool note_store(struct way *w, const struct arch_insn *i)
{
	struct reg_value at = {.kind = REG_UNKNOWN};
	int32_t off;

	if (i->base < ARCH_REGS)
		at = w->s.r[i->base];
	if (at.kind != REG_FRAME || i->index || __builtin_add_overflow(at.off, i->disp, &off) ||
	    !note_write(w, off, i->width))
		return false;
	if (i->fp_src < ARCH_FP_ARGS && (w->s.fp >> i->fp_src & 1) && i->width >= 8)
		w->xmm[i->fp_src] = (struct fp_slot){true, off};
	return true;
}

/* Step over one instruction; false when the entry cannot be deferred beyond it. */
static bool walk_on(struct way *w, const struct arch_insn *i)
{
	bool own = true;

	if (i->flow != ARCH_FLOW_NEXT)
		return false;
	if (i->effect == ARCH_EFF_STORE)
		own = note_store(w, i);
	reg_step(&w->s, i);
	if (w->s.r[ARCH_SP].kind != REG_FRAME)
		return false;
	if (i->effect == ARCH_EFF_PUSH)
		own = note_write(w, w->s.r[ARCH_SP].off, 8);
	return own;
}

/* Number of spill slots that only the function itself can write. */
static unsigned count_kept(const struct way *w)
{
	unsigned n = 0;

	for (unsigned k = 0; k < ARCH_FP_ARGS; k++)
		n += w->xmm[k].known && w->xmm[k].sp_off >= w->s.r[ARCH_SP].off - ARCH_RED_ZONE;
	return n;
}

static uint8_t register_of_arg(const struct way *w, unsigned n)
{
	uint8_t own = arch_int_arg[n], found = ARCH_NOREG;

	for (unsigned r = 0; r < ARCH_REGS; r++) {
		const struct reg_value *v = &w->s.r[r];
		if (v->kind != REG_START || v->reg != own || v->width != 8)
			continue;
		if (found == ARCH_NOREG || r == own)
			found = (uint8_t)r;
	}
	return found;
}

static void deferred_entry_fill(const struct way *w, uint32_t off, struct deferred_entry *out)
{
	*out = (struct deferred_entry){.off = off, .sp = 0U - (uint32_t)w->s.r[ARCH_SP].off};
	for (unsigned n = 0; n < ARCH_INT_ARGS; n++)
		out->arg[n] = register_of_arg(w, n);
	for (unsigned n = 0; n < ARCH_FP_ARGS; n++)
		if (w->xmm[n].known && w->xmm[n].sp_off >= w->s.r[ARCH_SP].off - ARCH_RED_ZONE)
			out->xmm[n] = w->xmm[n];
}

static bool has_exit_before(const struct exit_point *p, unsigned n, uint32_t insn)
{
	for (unsigned i = 0; i < n; i++)
		if (p[i].block == 0 && p[i].insn <= insn)
			return true;
	return false;
}

void return_sites_set_late(const struct return_sites_ctx *c, const struct exit_point *p,
			   struct func_facts *out)
{
	const struct cfg_block *b = &c->g.block[0];
	struct way w = {.s = reg_state_entry()};
	unsigned have = 0;

	for (uint32_t i = b->first; !b->npred && i < b->first + b->n; i++) {
		const struct arch_insn *insn = &c->g.insn[i];
		unsigned n = count_kept(&w);
		if (has_exit_before(p, out->nexits, i))
			return;
		if (insn->emulated && n > have) {
			deferred_entry_fill(&w, insn->off, &out->late);
			have = n;
		}
		if (!walk_on(&w, insn))
			return;
	}
}
