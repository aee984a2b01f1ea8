#include "symbolizer/code/cfg.h"

#include <capstone/capstone.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/internal.h"

enum { RAX = 0, RDX = 2, RSI = 6, RDI = 7, R11 = 11, STEPS = 4000 };

static const struct sym unknown;

static void set_flags(struct path_state *s, struct sym v, uint64_t imm)
{
	s->flags_known = v.known && v.derefs && !v.add && !v.indexed;
	s->flags_v = v;
	s->flags_imm = imm;
}

static void step_compare(struct path_walk *w, const cs_x86 *x, bool is_test)
{
	const cs_x86_op *a = &x->operands[0], *b = &x->operands[1];
	struct sym v = path_operand(w, a);
	w->now.flags_known = false;
	if (a->type == X86_OP_IMM) { /* capstone may swap the operands of test */
		v = path_operand(w, b);
		b = a;
	}
	if (b->type == X86_OP_IMM && is_test) {
		v.mask &= (uint64_t)b->imm;
		set_flags(&w->now, v, 0);
	} else if (b->type == X86_OP_IMM) {
		set_flags(&w->now, v, (uint64_t)b->imm);
	} else if (is_test && a->type == X86_OP_REG && b->type == X86_OP_REG && a->reg == b->reg) {
		set_flags(&w->now, v, 0);
	} else {
		path_operand(w, b);
	}
}

/* shr and and with an immediate: tracks a bit-field, and flags set by its value. */
static void step_bits(struct path_walk *w, const cs_x86 *x, bool is_shift)
{
	struct sym v = path_operand(w, &x->operands[0]);
	uint64_t imm = (uint64_t)x->operands[1].imm;
	if (!v.derefs || v.add || v.indexed || (is_shift && imm > 63u - v.shift)) {
		v = unknown;
	} else if (is_shift) {
		v.mask >>= imm;
		v.shift += (uint8_t)imm;
	} else {
		v.mask &= imm;
	}
	path_set_reg(w, &x->operands[0], v, v.known && v.size <= x->operands[0].size);
	set_flags(&w->now, v, 0);
}

static void step_move(struct path_walk *w, const cs_x86 *x)
{
	struct sym v = path_operand(w, &x->operands[1]);
	path_set_reg(w, &x->operands[0], v, false);
}

static void step_other(struct path_walk *w, const cs_x86 *x)
{
	for (unsigned i = 0; i < x->op_count; i++)
		if (x->operands[i].type == X86_OP_MEM && (x->operands[i].access & CS_AC_READ))
			path_load(w, &x->operands[i]);
	path_forget_written(w);
	w->now.flags_known = false;
}

static struct sym element_of(struct sym array)
{
	if (!path_is_whole(&array))
		return unknown;
	array.indexed = true;
	return array;
}

static void step_lea(struct path_walk *w, const cs_x86 *x)
{
	x86_op_mem m = x->operands[1].mem;
	bool indexed = m.index != X86_REG_INVALID;
	m.index = X86_REG_INVALID;
	struct sym v = path_address(&w->now, &m);
	path_set_reg(w, &x->operands[0], indexed ? element_of(v) : v, false);
}

/* A pointer plus an unknown value. */
static void step_add_reg(struct path_walk *w, const cs_x86 *x)
{
	struct sym a = path_operand(w, &x->operands[0]), b = path_operand(w, &x->operands[1]);
	struct sym v = !b.known ? element_of(a) : !a.known ? element_of(b) : unknown;
	path_set_reg(w, &x->operands[0], v, false);
	w->now.flags_known = false;
}

static void step_add(struct path_walk *w, const cs_x86 *x, int sign)
{
	if (sign > 0 && x->operands[0].type == X86_OP_REG && x->operands[1].type == X86_OP_REG) {
		step_add_reg(w, x);
		return;
	}
	if (x->operands[1].type != X86_OP_IMM || x->operands[0].type != X86_OP_REG) {
		step_other(w, x);
		return;
	}
	struct sym v = path_add(path_operand(w, &x->operands[0]), sign * x->operands[1].imm);
	path_set_reg(w, &x->operands[0], v, false);
	w->now.flags_known = false;
}

static void note_call(struct path_walk *w)
{
	const struct sym *arg = &w->now.reg[RDI];
	if (arg->known && w->out->ncalls < PATHS_CALLS)
		w->out->calls[w->out->ncalls++] = *arg;
}

static void step_call(struct path_walk *w, const cs_x86 *x)
{
	if (x->operands[0].type != X86_OP_IMM)
		path_operand(w, &x->operands[0]);
	note_call(w);
	for (int r = 0; r <= R11; r++)
		if (r <= RDX || r >= RSI)
			w->now.reg[r] = unknown;
	w->now.flags_known = false;
}

static void end_path(struct path_walk *w, bool is_return, struct sym target)
{
	struct paths *out = w->out;
	if (!is_return)
		note_call(w);
	if (out->nends == PATHS_ENDS) {
		out->cut = true;
		return;
	}
	struct path_end *e = &out->ends[out->nends++];
	*e = (struct path_end){.is_return = is_return,
			       .result = w->now.reg[RAX],
			       .result2 = w->now.reg[RDX],
			       .target = target,
			       .nconds = w->now.nconds};
	memcpy(e->conds, w->now.conds, sizeof(e->conds));
}

static enum sym_cc condition_of(unsigned id)
{
	switch (id) {
	case X86_INS_JE:
		return SYM_EQ;
	case X86_INS_JNE:
		return SYM_NE;
	case X86_INS_JB:
		return SYM_ULT;
	case X86_INS_JBE:
		return SYM_ULE;
	case X86_INS_JA:
		return SYM_UGT;
	case X86_INS_JAE:
		return SYM_UGE;
	case X86_INS_JS:
		return SYM_NEG;
	case X86_INS_JNS:
		return SYM_NONNEG;
	default:
		return SYM_OTHER;
	}
}

static enum sym_cc opposite(enum sym_cc cc)
{
	static const uint8_t of[] = {
	    [SYM_OTHER] = SYM_OTHER, [SYM_EQ] = SYM_NE,	     [SYM_NE] = SYM_EQ,
	    [SYM_ULT] = SYM_UGE,     [SYM_UGE] = SYM_ULT,    [SYM_ULE] = SYM_UGT,
	    [SYM_UGT] = SYM_ULE,     [SYM_NEG] = SYM_NONNEG, [SYM_NONNEG] = SYM_NEG,
	};
	return of[cc];
}

static void add_cond(struct path_state *s, enum sym_cc cc)
{
	if (s->flags_known && cc != SYM_OTHER && s->nconds < PATH_CONDS)
		s->conds[s->nconds++] = (struct sym_cond){s->flags_v, s->flags_imm, (uint8_t)cc};
}

/* Both ways of a conditional jump: queue the taken one, continue with the other. */
static void step_branch(struct path_walk *w, const cs_x86 *x)
{
	enum sym_cc cc = condition_of(w->insn->id);
	uint64_t to = (uint64_t)x->operands[0].imm;
	if (w->npending == PATHS_PENDING) {
		w->out->cut = true;
	} else if (to < w->len) {
		struct path_state *s = &w->pending[w->npending++];
		*s = w->now;
		s->pc = (uint32_t)to;
		add_cond(s, cc);
	}
	add_cond(&w->now, opposite(cc));
}

/* Returns false when the path ends here. */
static bool step_jump(struct path_walk *w, const cs_x86 *x)
{
	const cs_x86_op *to = &x->operands[0];
	if (to->type == X86_OP_IMM && (uint64_t)to->imm < w->len) {
		w->now.pc = (uint32_t)to->imm;
		return true;
	}
	end_path(w, false, path_operand(w, to));
	return false;
}

static void step_plain(struct path_walk *w, const cs_x86 *x)
{
	bool two_ops = x->op_count == 2;
	bool imm2 = two_ops && x->operands[1].type == X86_OP_IMM;
	switch (w->insn->id) {
	case X86_INS_MOV:
	case X86_INS_MOVABS:
	case X86_INS_MOVZX:
	case X86_INS_MOVSX:
	case X86_INS_MOVSXD:
		if (two_ops)
			step_move(w, x);
		return;
	case X86_INS_LEA:
		step_lea(w, x);
		return;
	case X86_INS_ADD:
		step_add(w, x, 1);
		return;
	case X86_INS_SUB:
		step_add(w, x, -1);
		return;
	case X86_INS_CMP:
	case X86_INS_TEST:
		step_compare(w, x, w->insn->id == X86_INS_TEST);
		return;
	case X86_INS_SHR:
	case X86_INS_AND:
		if (imm2 && x->operands[0].type == X86_OP_REG) {
			step_bits(w, x, w->insn->id == X86_INS_SHR);
			return;
		}
		break;
	case X86_INS_PUSH:
	case X86_INS_NOP:
		return;
	case X86_INS_POP:
		path_set_reg(w, &x->operands[0], unknown, false);
		return;
	}
	step_other(w, x);
}

/* Whether a call returns. Compilers pad only where nothing falls through (except before loop
 * heads), so a call followed by padding does not. */
static bool comes_back(struct path_walk *w)
{
	const uint8_t *p = w->code + w->now.pc;
	size_t left = w->len - w->now.pc;
	uint64_t at = w->now.pc;
	return left && cs_disasm_iter(w->cs, &p, &left, &at, w->insn) &&
	       w->insn->id != X86_INS_NOP && w->insn->id != X86_INS_INT3;
}

static void walk_path(struct path_walk *w, unsigned *steps)
{
	for (; *steps < STEPS; ++*steps) {
		const uint8_t *p = w->code + w->now.pc;
		size_t left = w->len - w->now.pc;
		uint64_t at = w->now.pc;
		if (!left || !cs_disasm_iter(w->cs, &p, &left, &at, w->insn))
			return;
		const cs_x86 *x = &w->insn->detail->x86;
		w->now.pc = (uint32_t)at;
		if (cs_insn_group(w->cs, w->insn, CS_GRP_RET)) {
			end_path(w, true, unknown);
			return;
		} else if (w->insn->id == X86_INS_UD2 || w->insn->id == X86_INS_INT3 ||
			   w->insn->id == X86_INS_HLT) {
			return;
		} else if (w->insn->id == X86_INS_JMP) {
			if (!step_jump(w, x))
				return;
		} else if (cs_insn_group(w->cs, w->insn, CS_GRP_CALL)) {
			step_call(w, x);
			if (!comes_back(w))
				return;
		} else if (cs_insn_group(w->cs, w->insn, CS_GRP_JUMP)) {
			step_branch(w, x);
		} else {
			step_plain(w, x);
		}
	}
	w->out->cut = true;
}

int paths_walk(const uint8_t *code, size_t len, unsigned self, struct paths *out)
{
	memset(out, 0, sizeof(*out));
	struct path_walk *w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	if (len > UINT32_MAX)
		len = UINT32_MAX;
	*w = (struct path_walk){.code = code, .len = len, .out = out};
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &w->cs)) {
		free(w);
		return -ENOMEM;
	}
	cs_option(w->cs, CS_OPT_DETAIL, CS_OPT_ON);
	w->insn = cs_malloc(w->cs);
	unsigned steps = 0;
	w->pending[w->npending++].reg[self ? RSI : RDI] =
	    (struct sym){.known = true, .mask = ~0ULL};
	while (w->insn && w->npending) {
		w->now = w->pending[--w->npending];
		walk_path(w, &steps);
	}
	int rc = !w->insn ? -ENOMEM : out->nends || out->nloads || steps ? 0 : -ENOEXEC;
	if (w->insn)
		cs_free(w->insn, 1);
	cs_close(&w->cs);
	free(w);
	return rc;
}
