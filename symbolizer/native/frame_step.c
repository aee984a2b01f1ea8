#include "symbolizer/native/native_stack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/code/cfg.h"

struct frame_code {
	struct cfg_reader reader;
	uint64_t vaddr;
	struct cfg g;
	struct register_dataflow flow;
	struct slot_dataflow frame;
	uint32_t block, insn; /* the current instruction */
	struct reg_state at;  /* state before it */
};

static int read_table(void *arg, uint64_t addr, void *buf, size_t len)
{
	return mem_read(arg, addr, buf, len);
}

static bool find_insn(struct frame_code *s, uint64_t pc)
{
	for (uint32_t b = 0; b < s->g.nblock; b++)
		for (uint32_t k = s->g.block[b].first; k < s->g.block[b].first + s->g.block[b].n;
		     k++) {
			uint64_t from = s->vaddr + s->g.insn[k].off;
			if (pc < from || pc - from >= s->g.insn[k].len || !s->flow.in[b].seen)
				continue;
			s->block = b;
			s->insn = k;
			return true;
		}
	return false;
}

static int frame_analyse(struct frame_code *s, const struct frame_step_code *f)
{
	const struct reg_state entry = reg_state_entry();
	int r = cfg_build(&s->g, f->code, f->len, f->vaddr);
	if (!r)
		r = register_dataflow_run(&s->flow, &s->g, 0, 0, &entry);
	if (!r)
		r = slot_dataflow_build(&s->frame, &s->g, &s->flow);
	return !r || r == -ENOMEM ? r : -ENOTSUP;
}

static int frame_stand_at(struct frame_code *s, uint64_t pc)
{
	if (!find_insn(s, pc))
		return -ENOTSUP;
	s->at = s->flow.in[s->block];
	for (uint32_t k = s->g.block[s->block].first; k < s->insn; k++)
		reg_step(&s->at, &s->g.insn[k]);
	return 0;
}

/* The stack pointer at the entry, from any known register that holds a frame address. */
static bool frame_entry_sp(const struct frame_code *s, const uint64_t *regs, uint32_t known,
			   uint64_t *sp)
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

static bool store_is_before(const struct frame_code *s, const struct slot_dataflow_store *st)
{
	return st->block == s->block ? st->insn < s->insn
				     : cfg_dominates(&s->g, st->block, s->block);
}

/* The slot in which the caller's value of the register is saved on every path; false if not
 * certain. */
static bool register_saved_at(const struct frame_code *s, unsigned reg, int32_t *off)
{
	for (size_t i = 0; i < s->frame.nstore; i++) {
		const struct slot_dataflow_store *st = &s->frame.store[i];
		const struct reg_value slot = {.kind = REG_SLOT, .width = 8, .off = st->off};
		const struct reg_value v = slot_dataflow_resolve(&s->frame, slot);
		if (!is_entry_value(&st->value, reg) || !is_entry_value(&v, reg) ||
		    !store_is_before(s, st))
			continue;
		*off = st->off;
		return true;
	}
	return false;
}

static int frame_to_caller(const struct frame_code *s, const struct mem *stack, uint64_t *regs,
			   uint32_t *known)
{
	uint64_t sp, ret;
	uint32_t now = 0;
	int32_t off;
	if (!frame_entry_sp(s, regs, *known, &sp))
		return -ENOTSUP;
	if (mem_read_u64(stack, sp, &ret))
		return -EFAULT;
	for (unsigned r = 0; r < ARCH_IP; r++) {
		bool kept = is_entry_value(&s->at.r[r], r) && *known >> r & 1;
		if (arch_call_clobbers >> r & 1)
			continue;
		if (kept || (register_saved_at(s, r, &off) &&
			     !mem_read_u64(stack, sp + (uint64_t)(int64_t)off, &regs[r])))
			now |= 1U << r;
	}
	regs[ARCH_IP] = ret;
	regs[ARCH_SP] = sp + sizeof(ret);
	*known = now | 1U << ARCH_IP | 1U << ARCH_SP;
	return 0;
}

int frame_code_new(const struct frame_step_code *f, struct frame_code **out)
{
	struct frame_code *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->reader =
	    f->reader ? *f->reader : (struct cfg_reader){.read = read_table, .arg = (void *)f->mem};
	s->vaddr = f->vaddr;
	int r = cfg_init(&s->g, &s->reader);
	if (!r)
		r = frame_analyse(s, f);
	if (r)
		frame_code_free(s);
	else
		*out = s;
	return r;
}

int frame_code_step(struct frame_code *c, const struct mem *stack, uint64_t pc, uint64_t *regs,
		    uint32_t *known)
{
	int r = frame_stand_at(c, pc);
	return r ? r : frame_to_caller(c, stack, regs, known);
}

/* Whether a word of the stack argument area is unmodified by the function. */
static bool is_kept(const struct frame_code *s, int32_t off)
{
	for (size_t i = 0; i < s->frame.nstore; i++)
		if (slot_dataflow_overlaps(&s->frame.store[i], off, 8))
			return false;
	return slot_dataflow_private(&s->frame, off, 8);
}

static bool frame_argument(const struct frame_code *s, const struct mem *stack,
			   const uint64_t *regs, uint32_t known, uint64_t sp, unsigned n,
			   uint64_t *out)
{
	int32_t off;
	for (unsigned r = 0; r < ARCH_REGS; r++) {
		if (!(known >> r & 1) || !is_entry_value(&s->at.r[r], arch_int_arg[n]))
			continue;
		*out = regs[r];
		return true;
	}
	return register_saved_at(s, arch_int_arg[n], &off) &&
	       !mem_read_u64(stack, sp + (uint64_t)(int64_t)off, out);
}

int frame_code_args(struct frame_code *c, const struct mem *stack, uint64_t pc,
		    const uint64_t *regs, uint32_t known, struct frame_args *out)
{
	*out = (struct frame_args){0};
	int r = frame_stand_at(c, pc);
	if (r || !frame_entry_sp(c, regs, known, &out->sp))
		return -ENOTSUP;
	for (unsigned n = 0; n < ARCH_INT_ARGS; n++)
		if (frame_argument(c, stack, regs, known, out->sp, n, &out->reg[n]))
			out->known |= 1U << n;
	for (unsigned k = 0; k < FRAME_STACK_ARGS; k++) {
		const int32_t off = 8 + 8 * (int32_t)k;
		if (is_kept(c, off) &&
		    !mem_read_u64(stack, out->sp + (uint64_t)off, &out->stack[k]))
			out->stack_known |= 1U << k;
	}
	return 0;
}

void frame_code_free(struct frame_code *c)
{
	if (!c)
		return;
	slot_dataflow_free(&c->frame);
	register_dataflow_free(&c->flow);
	cfg_free(&c->g);
	free(c);
}

int frame_step(const struct frame_step_code *f, const struct mem *stack, uint64_t pc,
	       uint64_t *regs, uint32_t *known)
{
	struct frame_code *c;
	int r = frame_code_new(f, &c);
	if (r)
		return r;
	r = frame_code_step(c, stack, pc, regs, known);
	frame_code_free(c);
	return r;
}
