#include "symbolizer/code/paths.h"

#include <capstone/capstone.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	NREGS = 16,
	RAX = 0,
	RCX = 1,
	RDX = 2,
	RSI = 6,
	RDI = 7,
	R11 = 11,
	PENDING = 32,
	STEPS = 4000
};

struct path_state {
	uint32_t pc;
	uint8_t nconds;
	bool flags_known; /* the flags result from comparing flags_v with flags_imm */
	uint64_t flags_imm;
	struct sym flags_v;
	struct sym reg[NREGS];
	struct sym_cond conds[PATH_CONDS];
};

struct path_walk {
	csh cs;
	cs_insn *insn;
	const uint8_t *code;
	size_t len;
	struct paths *out;
	struct path_state now;
	struct path_state pending[PENDING];
	unsigned npending;
};

static const struct sym unknown;

static const uint16_t reg_names[NREGS][4] = {
    {X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AL},
    {X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL},
    {X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL},
    {X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BL},
    {X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL},
    {X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL},
    {X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL},
    {X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL},
    {X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B},
    {X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B},
    {X86_REG_R10, X86_REG_R10D, X86_REG_R10W, X86_REG_R10B},
    {X86_REG_R11, X86_REG_R11D, X86_REG_R11W, X86_REG_R11B},
    {X86_REG_R12, X86_REG_R12D, X86_REG_R12W, X86_REG_R12B},
    {X86_REG_R13, X86_REG_R13D, X86_REG_R13W, X86_REG_R13B},
    {X86_REG_R14, X86_REG_R14D, X86_REG_R14W, X86_REG_R14B},
    {X86_REG_R15, X86_REG_R15D, X86_REG_R15W, X86_REG_R15B},
};

/* Number 0..15 of the register that capstone's `reg` is (part of), -1 if none; *size: its bytes. */
static int reg_number(unsigned reg, unsigned *size)
{
	if (reg == X86_REG_AH || reg == X86_REG_CH || reg == X86_REG_DH || reg == X86_REG_BH) {
		*size = 0; /* not representable in a sym */
		return reg == X86_REG_AH ? 0 : reg == X86_REG_CH ? 1 : reg == X86_REG_DH ? 2 : 3;
	}
	for (int r = 0; r < NREGS; r++)
		for (int s = 0; s < 4; s++)
			if (reg_names[r][s] == reg) {
				*size = 8u >> s;
				return r;
			}
	return -1;
}

static bool is_whole(const struct sym *v)
{
	return v->known && !v->indexed &&
	       (!v->derefs || (v->size == 8 && !v->shift && v->mask == ~0ULL));
}

static bool same_place(const struct sym *a, const struct sym *b)
{
	return a->derefs == b->derefs && a->size == b->size && a->add == b->add &&
	       a->indexed == b->indexed && !memcmp(a->off, b->off, sizeof(a->off));
}

static void note_load(struct paths *out, const struct sym *v)
{
	for (unsigned i = 0; i < out->nloads; i++)
		if (same_place(&out->loads[i], v))
			return;
	if (out->nloads < PATHS_LOADS)
		out->loads[out->nloads++] = *v;
	else
		out->cut = true;
}

static struct sym pointer_add(struct sym v, int64_t n)
{
	int64_t sum = v.add + n;
	if (!is_whole(&v) || sum < INT32_MIN || sum > INT32_MAX)
		return unknown;
	v.add = (int32_t)sum;
	return v;
}

/* The address of a memory operand, if derived from the object. */
static struct sym address_of(const struct path_state *s, const x86_op_mem *m)
{
	unsigned size;
	int r = reg_number(m->base, &size);
	if (r < 0 || size != 8 || m->index != X86_REG_INVALID || m->segment != X86_REG_INVALID)
		return unknown;
	return pointer_add(s->reg[r], m->disp);
}

static struct sym load(struct path_walk *w, const cs_x86_op *op)
{
	struct sym v = address_of(&w->now, &op->mem);
	if (!v.known || v.derefs == SYM_DEREFS)
		return unknown;
	v.off[v.derefs++] = v.add;
	v.add = 0;
	v.size = op->size;
	v.shift = 0;
	v.mask = ~0ULL;
	note_load(w->out, &v);
	return v;
}

/* The value of a register or memory operand, truncated to the operand's size. */
static struct sym operand(struct path_walk *w, const cs_x86_op *op)
{
	unsigned size;
	if (op->type == X86_OP_MEM)
		return load(w, op);
	if (op->type != X86_OP_REG)
		return unknown;
	int r = reg_number(op->reg, &size);
	if (r < 0 || !size)
		return unknown;
	struct sym v = w->now.reg[r];
	if (!v.known || size == 8)
		return v;
	if (!v.derefs || v.add || v.indexed)
		return unknown;
	if (v.size > size && (v.shift || v.mask != ~0ULL))
		v.mask &= (1ULL << 8 * size) - 1;
	else if (v.size > size)
		v.size = (uint8_t)size;
	return v;
}

/* Set the register operand `op`. A write of 1 or 2 bytes preserves the upper bits, so the value is
 * known only if they are zero, as `keeps_rest` says. */
static void set_reg(struct path_walk *w, const cs_x86_op *op, struct sym v, bool keeps_rest)
{
	unsigned size;
	int r = op->type == X86_OP_REG ? reg_number(op->reg, &size) : -1;
	if (r < 0)
		return;
	w->now.reg[r] = size >= 4 || keeps_rest ? v : unknown;
}

static void forget_written(struct path_walk *w)
{
	cs_regs rd, wr;
	uint8_t nrd, nwr;
	unsigned size;
	if (cs_regs_access(w->cs, w->insn, rd, &nrd, wr, &nwr)) {
		memset(w->now.reg, 0, sizeof(w->now.reg));
		return;
	}
	for (unsigned i = 0; i < nwr; i++) {
		int r = reg_number(wr[i], &size);
		if (r >= 0)
			w->now.reg[r] = unknown;
	}
}

static void set_flags(struct path_state *s, struct sym v, uint64_t imm)
{
	s->flags_known = v.known && v.derefs && !v.add && !v.indexed;
	s->flags_v = v;
	s->flags_imm = imm;
}

static void step_compare(struct path_walk *w, const cs_x86 *x, bool is_test)
{
	const cs_x86_op *a = &x->operands[0], *b = &x->operands[1];
	struct sym v = operand(w, a);
	w->now.flags_known = false;
	if (a->type == X86_OP_IMM) { /* capstone may swap the operands of test */
		v = operand(w, b);
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
		operand(w, b);
	}
}

/* shr and and with an immediate: tracks a bit-field, and flags set by its value. */
static void step_bits(struct path_walk *w, const cs_x86 *x, bool is_shift)
{
	struct sym v = operand(w, &x->operands[0]);
	uint64_t imm = (uint64_t)x->operands[1].imm;
	if (!v.derefs || v.add || v.indexed || (is_shift && imm > 63u - v.shift)) {
		v = unknown;
	} else if (is_shift) {
		v.mask >>= imm;
		v.shift += (uint8_t)imm;
	} else {
		v.mask &= imm;
	}
	set_reg(w, &x->operands[0], v, v.known && v.size <= x->operands[0].size);
	set_flags(&w->now, v, 0);
}

static void step_move(struct path_walk *w, const cs_x86 *x)
{
	struct sym v = operand(w, &x->operands[1]);
	set_reg(w, &x->operands[0], v, false);
}

static void step_other(struct path_walk *w, const cs_x86 *x)
{
	for (unsigned i = 0; i < x->op_count; i++)
		if (x->operands[i].type == X86_OP_MEM && (x->operands[i].access & CS_AC_READ))
			load(w, &x->operands[i]);
	forget_written(w);
	w->now.flags_known = false;
}

static struct sym element_of(struct sym array)
{
	if (!is_whole(&array))
		return unknown;
	array.indexed = true;
	return array;
}

static void step_lea(struct path_walk *w, const cs_x86 *x)
{
	x86_op_mem m = x->operands[1].mem;
	bool indexed = m.index != X86_REG_INVALID;
	m.index = X86_REG_INVALID;
	struct sym v = address_of(&w->now, &m);
	set_reg(w, &x->operands[0], indexed ? element_of(v) : v, false);
}

/* A pointer plus an unknown value. */
static void step_add_reg(struct path_walk *w, const cs_x86 *x)
{
	struct sym a = operand(w, &x->operands[0]), b = operand(w, &x->operands[1]);
	struct sym v = !b.known ? element_of(a) : !a.known ? element_of(b) : unknown;
	set_reg(w, &x->operands[0], v, false);
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
	struct sym v = pointer_add(operand(w, &x->operands[0]), sign * x->operands[1].imm);
	set_reg(w, &x->operands[0], v, false);
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
		operand(w, &x->operands[0]);
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
	if (w->npending == PENDING) {
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
	end_path(w, false, operand(w, to));
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
		set_reg(w, &x->operands[0], unknown, false);
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
