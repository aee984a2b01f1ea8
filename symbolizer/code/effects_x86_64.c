/* What an instruction does to registers and memory. */
#include "symbolizer/code/arch_x86_64.h"

#include <capstone/capstone.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/cfg.h"
#include "symbolizer/code/internal.h"

#define BIT(n) (UINT32_C(1) << (n))

/* What capstone's registers are. */
struct effect_regs {
	struct reg_info {
		uint8_t reg;   /* enum arch_reg, ARCH_NOREG for others */
		uint8_t width; /* bytes; 0: a high byte such as ah */
		uint8_t fp;    /* number of an SSE register 0..7, else ARCH_NOREG */
	} reg[X86_REG_ENDING];
};

static void name_gpr(struct effect_regs *r, unsigned reg, const x86_reg names[4])
{
	static const uint8_t width[4] = {8, 4, 2, 1};
	for (int i = 0; i < 4; i++) {
		r->reg[names[i]].reg = reg;
		r->reg[names[i]].width = width[i];
	}
}

static void name_regs(struct effect_regs *r)
{
	static const struct {
		enum arch_reg reg;
		x86_reg names[4];
	} gpr[] = {
	    {ARCH_AX, {X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AL}},
	    {ARCH_BX, {X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BL}},
	    {ARCH_CX, {X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL}},
	    {ARCH_DX, {X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL}},
	    {ARCH_SI, {X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL}},
	    {ARCH_DI, {X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL}},
	    {ARCH_BP, {X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL}},
	    {ARCH_SP, {X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL}},
	    {ARCH_R8, {X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B}},
	    {ARCH_R9, {X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B}},
	    {ARCH_R10, {X86_REG_R10, X86_REG_R10D, X86_REG_R10W, X86_REG_R10B}},
	    {ARCH_R11, {X86_REG_R11, X86_REG_R11D, X86_REG_R11W, X86_REG_R11B}},
	    {ARCH_R12, {X86_REG_R12, X86_REG_R12D, X86_REG_R12W, X86_REG_R12B}},
	    {ARCH_R13, {X86_REG_R13, X86_REG_R13D, X86_REG_R13W, X86_REG_R13B}},
	    {ARCH_R14, {X86_REG_R14, X86_REG_R14D, X86_REG_R14W, X86_REG_R14B}},
	    {ARCH_R15, {X86_REG_R15, X86_REG_R15D, X86_REG_R15W, X86_REG_R15B}},
	};
	static const uint8_t high[4][2] = {{X86_REG_AH, ARCH_AX},
					   {X86_REG_BH, ARCH_BX},
					   {X86_REG_CH, ARCH_CX},
					   {X86_REG_DH, ARCH_DX}};

	memset(r->reg, ARCH_NOREG, sizeof(r->reg));
	for (size_t i = 0; i < sizeof(gpr) / sizeof(gpr[0]); i++)
		name_gpr(r, gpr[i].reg, gpr[i].names);
	for (size_t i = 0; i < 4; i++)
		r->reg[high[i][0]] = (struct reg_info){high[i][1], 0, ARCH_NOREG};
	for (uint8_t i = 0; i < ARCH_FP_ARGS; i++) {
		r->reg[X86_REG_XMM0 + i].fp = i;
		r->reg[X86_REG_YMM0 + i].fp = i;
		r->reg[X86_REG_ZMM0 + i].fp = i;
	}
}

struct effect_regs *effect_regs_new(void)
{
	struct effect_regs *r = malloc(sizeof(*r));
	if (r)
		name_regs(r);
	return r;
}

static bool is_gpr(const struct effect_regs *r, const cs_x86_op *op)
{
	return op->type == X86_OP_REG && r->reg[op->reg].reg != ARCH_NOREG;
}

/* Whether the operand is a whole general register or its low part. */
static bool is_low_gpr(const struct effect_regs *r, const cs_x86_op *op)
{
	return is_gpr(r, op) && r->reg[op->reg].width;
}

/* Instructions that write none of their operands. An allowlist, since the access flags of
 * libcapstone 4 are wrong for some instructions. */
static bool only_reads(unsigned id)
{
	switch (id) {
	case X86_INS_CMP:
	case X86_INS_TEST:
	case X86_INS_BT:
	case X86_INS_NOP:
	case X86_INS_MUL:
	case X86_INS_DIV:
	case X86_INS_IDIV:
	case X86_INS_FLD:
	case X86_INS_FILD:
	case X86_INS_PREFETCHT0:
	case X86_INS_PREFETCHT1:
	case X86_INS_PREFETCHT2:
	case X86_INS_PREFETCHNTA:
	case X86_INS_PREFETCHW:
	case X86_INS_COMISS:
	case X86_INS_COMISD:
	case X86_INS_UCOMISS:
	case X86_INS_UCOMISD:
	case X86_INS_VCOMISS:
	case X86_INS_VCOMISD:
	case X86_INS_VUCOMISS:
	case X86_INS_VUCOMISD:
	case X86_INS_PTEST:
	case X86_INS_VPTEST:
		return true;
	default:
		return false;
	}
}

static void add_write(const struct effect_regs *r, unsigned reg, struct arch_insn *o)
{
	if (reg >= X86_REG_ENDING)
		return;
	if (r->reg[reg].reg != ARCH_NOREG)
		o->writes |= BIT(r->reg[reg].reg);
	if (r->reg[reg].fp != ARCH_NOREG)
		o->fp_writes |= (uint8_t)(1U << r->reg[reg].fp);
}

static void set_writes(const struct effect_regs *r, const cs_insn *c, struct arch_insn *o)
{
	const cs_x86 *x = &c->detail->x86;

	for (int i = 0; i < c->detail->regs_write_count; i++)
		add_write(r, c->detail->regs_write[i], o);
	if (c->id == X86_INS_SYSCALL)
		o->writes |= BIT(ARCH_AX);
	if (only_reads(c->id) || o->flow != ARCH_FLOW_NEXT)
		return;
	for (int i = 0; i < x->op_count; i++)
		if (x->operands[i].type == X86_OP_REG &&
		    (i == 0 || (x->operands[i].access & CS_AC_WRITE)))
			add_write(r, x->operands[i].reg, o);
}

static void set_mem(const struct effect_regs *r, const cs_x86_op *op, struct arch_insn *o)
{
	const struct reg_info *b = &r->reg[op->mem.base];

	o->base = ARCH_NOREG;
	if (op->mem.segment == X86_REG_INVALID && b->reg != ARCH_NOREG && b->width == 8)
		o->base = b->reg;
	if (op->mem.index != X86_REG_INVALID) {
		uint8_t reg = r->reg[op->mem.index].reg;
		o->index = reg == ARCH_NOREG ? ARCH_NOREG : (uint8_t)(reg + 1);
	}
	o->disp = (int32_t)op->mem.disp;
	o->width = op->size;
}

/* Stores of the low part of an SSE register. */
bool effect_is_fp_store(unsigned id)
{
	switch (id) {
	case X86_INS_MOVSD:
	case X86_INS_MOVSS:
	case X86_INS_MOVAPS:
	case X86_INS_MOVAPD:
	case X86_INS_MOVUPS:
	case X86_INS_MOVUPD:
	case X86_INS_MOVLPS:
	case X86_INS_MOVLPD:
	case X86_INS_MOVQ:
	case X86_INS_MOVD:
	case X86_INS_MOVDQA:
	case X86_INS_MOVDQU:
	case X86_INS_VMOVSD:
	case X86_INS_VMOVSS:
	case X86_INS_VMOVAPS:
	case X86_INS_VMOVAPD:
	case X86_INS_VMOVUPS:
	case X86_INS_VMOVUPD:
	case X86_INS_VMOVLPS:
	case X86_INS_VMOVLPD:
	case X86_INS_VMOVQ:
	case X86_INS_VMOVD:
	case X86_INS_VMOVDQA:
	case X86_INS_VMOVDQU:
		return true;
	default:
		return false;
	}
}

static bool is_string_store(unsigned id)
{
	switch (id) {
	case X86_INS_STOSB:
	case X86_INS_STOSW:
	case X86_INS_STOSD:
	case X86_INS_STOSQ:
	case X86_INS_MOVSB:
	case X86_INS_MOVSW:
	case X86_INS_MOVSQ:
		return true;
	default:
		return false;
	}
}

static void set_store(const struct effect_regs *r, const cs_insn *c, const cs_x86_op *to,
		      struct arch_insn *o)
{
	const cs_x86 *x = &c->detail->x86;
	const cs_x86_op *from = x->op_count == 2 ? &x->operands[1] : NULL;

	o->effect = ARCH_EFF_STORE;
	o->atomic = x->prefix[0] == X86_PREFIX_LOCK;
	set_mem(r, to, o);
	if (is_string_store(c->id))
		o->width = 0;
	if (!from || from->type != X86_OP_REG)
		return;
	if (c->id == X86_INS_MOV && is_low_gpr(r, from))
		o->src = r->reg[from->reg].reg;
	else if (effect_is_fp_store(c->id))
		o->fp_src = r->reg[from->reg].fp;
}

static void set_move(const struct effect_regs *r, const cs_x86 *x, struct arch_insn *o)
{
	const cs_x86_op *to = &x->operands[0], *from = &x->operands[1];

	if (x->op_count != 2 || !is_low_gpr(r, to))
		return;
	if (is_low_gpr(r, from)) {
		o->effect = ARCH_EFF_COPY;
		o->src = r->reg[from->reg].reg;
		o->width = from->size;
	} else if (from->type == X86_OP_MEM) {
		o->effect = ARCH_EFF_LOAD;
		set_mem(r, from, o);
	} else {
		return;
	}
	o->dst = r->reg[to->reg].reg;
}

static void set_lea(const struct effect_regs *r, const cs_x86 *x, uint64_t at, struct arch_insn *o)
{
	if (x->op_count != 2 || !is_low_gpr(r, &x->operands[0]))
		return;
	set_mem(r, &x->operands[1], o);
	if (x->operands[1].mem.base == X86_REG_RIP)
		o->target = at + o->len + (uint64_t)x->operands[1].mem.disp;
	o->effect =
	    o->index || r->reg[x->operands[0].reg].width != 8 ? ARCH_EFF_INDEX : ARCH_EFF_LEA;
	o->dst = r->reg[x->operands[0].reg].reg;
}

/* add or sub of a constant to a 64-bit register */
static bool set_add(const struct effect_regs *r, const cs_x86 *x, bool negative,
		    struct arch_insn *o)
{
	if (x->op_count != 2 || !is_gpr(r, &x->operands[0]) || x->operands[0].size != 8 ||
	    x->operands[1].type != X86_OP_IMM)
		return false;
	int64_t by = negative ? -x->operands[1].imm : x->operands[1].imm;
	if (by != (int32_t)by)
		return false;
	o->effect = ARCH_EFF_LEA;
	o->dst = o->base = r->reg[x->operands[0].reg].reg;
	o->disp = (int32_t)by;
	return true;
}

static void set_compare(const struct effect_regs *r, const cs_x86 *x, struct arch_insn *o)
{
	if (x->op_count != 2 || !is_low_gpr(r, &x->operands[0]) ||
	    x->operands[1].type != X86_OP_IMM || x->operands[1].imm < 0 ||
	    x->operands[1].imm > INT32_MAX)
		return;
	o->effect = ARCH_EFF_COMPARE;
	o->src = r->reg[x->operands[0].reg].reg;
	o->disp = (int32_t)x->operands[1].imm;
}

static void set_push(const struct effect_regs *r, const cs_x86 *x, struct arch_insn *o)
{
	o->effect = ARCH_EFF_PUSH;
	o->width = 8;
	o->writes &= ~BIT(ARCH_SP);
	if (x->op_count != 1)
		return;
	if (x->operands[0].type != X86_OP_IMM && x->operands[0].size != 8)
		o->width = 0;
	if (is_low_gpr(r, &x->operands[0]))
		o->src = r->reg[x->operands[0].reg].reg;
}

static void set_pop(const struct effect_regs *r, const cs_x86 *x, struct arch_insn *o)
{
	o->effect = ARCH_EFF_POP;
	o->width = 8;
	o->writes &= ~BIT(ARCH_SP);
	if (x->op_count != 1)
		return;
	if (x->operands[0].size != 8)
		o->width = 0;
	if (is_low_gpr(r, &x->operands[0]))
		o->dst = r->reg[x->operands[0].reg].reg;
}

static void set_other(const struct effect_regs *r, const cs_insn *c, struct arch_insn *o)
{
	const cs_x86 *x = &c->detail->x86;

	if (only_reads(c->id))
		return;
	for (int i = 0; i < x->op_count; i++) {
		const cs_x86_op *op = &x->operands[i];
		if (op->type == X86_OP_MEM && (i == 0 || (op->access & CS_AC_WRITE)))
			set_store(r, c, op, o);
	}
}

static void set_effect(const struct effect_regs *r, const cs_insn *c, struct arch_insn *o)
{
	const cs_x86 *x = &c->detail->x86;

	switch (c->id) {
	case X86_INS_LEA:
		set_lea(r, x, c->address, o);
		return;
	case X86_INS_ADD:
	case X86_INS_SUB:
		if (set_add(r, x, c->id == X86_INS_SUB, o))
			return;
		break;
	case X86_INS_CMP:
		set_compare(r, x, o);
		return;
	case X86_INS_PUSH:
	case X86_INS_PUSHFQ:
		set_push(r, x, o);
		return;
	case X86_INS_POP:
	case X86_INS_POPFQ:
		set_pop(r, x, o);
		return;
	case X86_INS_LEAVE:
		o->effect = ARCH_EFF_LEAVE;
		o->writes = 0;
		return;
	case X86_INS_MOV:
	case X86_INS_MOVZX:
	case X86_INS_MOVSX:
	case X86_INS_MOVSXD:
		set_move(r, x, o);
		if (o->effect != ARCH_EFF_OTHER)
			return;
		break;
	default:
		break;
	}
	set_other(r, c, o);
}

void effect_set(const struct effect_regs *r, const cs_insn *c, struct arch_insn *o)
{
	set_writes(r, c, o);
	if (o->flow == ARCH_FLOW_NEXT)
		set_effect(r, c, o);
}
