#include "tracer/frame_step.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "tracer/arch_x86_64.h"
#include "tracer/cfg.h"
#include "tracer/frame.h"
#include "tracer/regflow.h"

struct step {
	struct cfg g;
	struct regflow flow;
	struct frame frame;
	uint32_t block, insn; /* where the frame stands */
	struct reg_state at;  /* before that instruction */
};

static int read_table(void *arg, uint64_t addr, void *buf, size_t len)
{
	return mem_read(arg, addr, buf, len);
}

static bool find_insn(struct step *s, const struct frame_step_code *f, uint64_t pc)
{
	for (uint32_t b = 0; b < s->g.nblock; b++)
		for (uint32_t k = s->g.block[b].first; k < s->g.block[b].first + s->g.block[b].n;
		     k++) {
			uint64_t from = f->vaddr + s->g.insn[k].off;
			if (pc < from || pc - from >= s->g.insn[k].len || !s->flow.in[b].seen)
				continue;
			s->block = b;
			s->insn = k;
			return true;
		}
	return false;
}

static int analyse(struct step *s, const struct frame_step_code *f, uint64_t pc)
{
	const struct reg_state entry = reg_state_entry();
	int r = cfg_build(&s->g, f->code, f->len, f->vaddr);
	if (!r)
		r = regflow_run(&s->flow, &s->g, 0, 0, &entry);
	if (!r)
		r = frame_build(&s->frame, &s->g, &s->flow);
	if (r)
		return r == -ENOMEM ? r : -ENOTSUP;
	if (!find_insn(s, f, pc))
		return -ENOTSUP;
	s->at = s->flow.in[s->block];
	for (uint32_t k = s->g.block[s->block].first; k < s->insn; k++)
		reg_step(&s->at, &s->g.insn[k]);
	return 0;
}

/* The stack pointer at the entry, from any register that holds a place in the frame. */
static bool entry_sp(const struct step *s, const uint64_t *regs, uint32_t known, uint64_t *sp)
{
	for (unsigned r = 0; r < ARCH_REGS; r++) {
		if (s->at.r[r].kind != REG_FRAME || !(known >> r & 1))
			continue;
		*sp = regs[r] - (uint64_t)(int64_t)s->at.r[r].off;
		return true;
	}
	return false;
}

static bool is_entry_value(const struct reg_value *v, unsigned reg)
{
	return v->kind == REG_START && v->reg == reg && v->width == 8;
}

static bool before(const struct step *s, const struct frame_store *st)
{
	return st->block == s->block ? st->insn < s->insn
				     : cfg_dominates(&s->g, st->block, s->block);
}

/* Where the caller's value of the register was saved, on every path; false: nowhere for certain. */
static bool saved_at(const struct step *s, unsigned reg, int32_t *off)
{
	for (size_t i = 0; i < s->frame.nstore; i++) {
		const struct frame_store *st = &s->frame.store[i];
		const struct reg_value slot = {.kind = REG_SLOT, .width = 8, .off = st->off};
		const struct reg_value v = frame_resolve(&s->frame, slot);
		if (!is_entry_value(&st->value, reg) || !is_entry_value(&v, reg) || !before(s, st))
			continue;
		*off = st->off;
		return true;
	}
	return false;
}

static int to_caller(const struct step *s, const struct mem *stack, uint64_t *regs, uint32_t *known)
{
	uint64_t sp, ret;
	uint32_t now = 0;
	int32_t off;
	if (!entry_sp(s, regs, *known, &sp))
		return -ENOTSUP;
	if (mem_read_u64(stack, sp, &ret))
		return -EFAULT;
	for (unsigned r = 0; r < ARCH_IP; r++) {
		bool kept = is_entry_value(&s->at.r[r], r) && *known >> r & 1;
		if (arch_call_clobbers >> r & 1)
			continue;
		if (kept || (saved_at(s, r, &off) &&
			     !mem_read_u64(stack, sp + (uint64_t)(int64_t)off, &regs[r])))
			now |= 1U << r;
	}
	regs[ARCH_IP] = ret;
	regs[ARCH_SP] = sp + sizeof(ret);
	*known = now | 1U << ARCH_IP | 1U << ARCH_SP;
	return 0;
}

int frame_step(const struct frame_step_code *f, const struct mem *stack, uint64_t pc,
	       uint64_t *regs, uint32_t *known)
{
	const struct cfg_reader reader = {.read = read_table, .arg = (void *)f->mem};
	struct step s = {0};
	int r = cfg_init(&s.g, &reader);
	if (!r)
		r = analyse(&s, f, pc);
	if (!r)
		r = to_caller(&s, stack, regs, known);
	frame_free(&s.frame);
	regflow_free(&s.flow);
	cfg_free(&s.g);
	return r;
}
