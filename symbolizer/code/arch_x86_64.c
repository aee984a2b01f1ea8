#include "symbolizer/code/arch_x86_64.h"

#include <capstone/capstone.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/cfg.h"
#include "symbolizer/code/internal.h"

#define BIT(r) (UINT32_C(1) << (r))

bool arch_emulated(const uint8_t *insn, size_t len)
{
	switch (len) {
	case 1:
		return (insn[0] >= 0x50 && insn[0] <= 0x57) || insn[0] == 0x90;
	case 2:
		return (insn[0] == 0x41 && insn[1] >= 0x50 && insn[1] <= 0x57) || insn[0] == 0xeb ||
		       (insn[0] >= 0x70 && insn[0] <= 0x7f);
	case 5:
		return insn[0] == 0xe8 || insn[0] == 0xe9;
	case 6:
		return insn[0] == 0x0f && insn[1] >= 0x80 && insn[1] <= 0x8f;
	default:
		return false;
	}
}

size_t arch_landing_pad(const uint8_t *code, size_t len)
{
	static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
	return len >= sizeof(endbr64) && !memcmp(code, endbr64, sizeof(endbr64)) ? sizeof(endbr64)
										 : 0;
}

size_t arch_ret_len(const uint8_t *code, size_t len)
{
	if (len >= 1 && code[0] == 0xc3)
		return 1;
	if (len >= 2 && code[0] == 0xf3 && code[1] == 0xc3)
		return 2;
	return len >= 3 && code[0] == 0xc2 ? 3 : 0;
}

uint64_t arch_stub_slot(const uint8_t *code, size_t len, uint64_t vaddr)
{
	size_t at = arch_landing_pad(code, len);
	int32_t disp;

	if (at < len && code[at] == 0xf2)
		at++;
	if (len < at + 6 || code[at] != 0xff || code[at + 1] != 0x25)
		return 0;
	memcpy(&disp, code + at + 2, sizeof(disp));
	return vaddr + at + 6 + (uint64_t)(int64_t)disp;
}

struct arch_decoder {
	csh handle;
	cs_insn *insn;
	struct insn_cache *cache;
	struct reg_info {
		uint8_t reg;   /* enum arch_reg, ARCH_NOREG for others */
		uint8_t width; /* bytes; 0: a high byte such as ah */
		uint8_t fp;    /* number of an SSE register 0..7, else ARCH_NOREG */
	} reg[X86_REG_ENDING];
};

static void name_gpr(struct arch_decoder *d, unsigned reg, const x86_reg names[4])
{
	static const uint8_t width[4] = {8, 4, 2, 1};
	for (int i = 0; i < 4; i++) {
		d->reg[names[i]].reg = reg;
		d->reg[names[i]].width = width[i];
	}
}

static void name_regs(struct arch_decoder *d)
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

	memset(d->reg, ARCH_NOREG, sizeof(d->reg));
	for (size_t i = 0; i < sizeof(gpr) / sizeof(gpr[0]); i++)
		name_gpr(d, gpr[i].reg, gpr[i].names);
	for (size_t i = 0; i < 4; i++)
		d->reg[high[i][0]] = (struct reg_info){high[i][1], 0, ARCH_NOREG};
	for (uint8_t i = 0; i < ARCH_FP_ARGS; i++) {
		d->reg[X86_REG_XMM0 + i].fp = i;
		d->reg[X86_REG_YMM0 + i].fp = i;
		d->reg[X86_REG_ZMM0 + i].fp = i;
	}
}

struct arch_decoder *arch_decoder_new(void)
{
	struct arch_decoder *d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	name_regs(d);
	d->cache = insn_cache_new();
	if (!d->cache)
		goto fail;
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &d->handle))
		goto fail;
	if (cs_option(d->handle, CS_OPT_DETAIL, CS_OPT_ON))
		goto fail_open;
	d->insn = cs_malloc(d->handle);
	if (d->insn)
		return d;
fail_open:
	cs_close(&d->handle);
fail:
	insn_cache_free(d->cache);
	free(d);
	return NULL;
}

void arch_decoder_free(struct arch_decoder *d)
{
	if (!d)
		return;
	cs_free(d->insn, 1);
	cs_close(&d->handle);
	insn_cache_free(d->cache);
	free(d);
}

static bool is_gpr(const struct arch_decoder *d, const cs_x86_op *op)
{
	return op->type == X86_OP_REG && d->reg[op->reg].reg != ARCH_NOREG;
}

/* Whether the operand is a whole general register or its low part. */
static bool is_low_gpr(const struct arch_decoder *d, const cs_x86_op *op)
{
	return is_gpr(d, op) && d->reg[op->reg].width;
}

static void set_flow(const cs_insn *c, struct arch_insn *o)
{
	const cs_x86 *x = &c->detail->x86;
	bool direct = x->op_count && x->operands[0].type == X86_OP_IMM;

	switch (c->id) {
	case X86_INS_RET:
	case X86_INS_RETF:
	case X86_INS_RETFQ:
	case X86_INS_IRETQ:
		o->flow = ARCH_FLOW_RET;
		return;
	case X86_INS_CALL:
	case X86_INS_LCALL:
		o->flow = direct ? ARCH_FLOW_CALL : ARCH_FLOW_CALL_IND;
		break;
	case X86_INS_JMP:
	case X86_INS_LJMP:
		o->flow = direct ? ARCH_FLOW_JUMP : ARCH_FLOW_JUMP_IND;
		break;
	case X86_INS_UD0:
	case X86_INS_UD2:
	case X86_INS_UD2B:
	case X86_INS_HLT:
	case X86_INS_INT3:
		o->flow = ARCH_FLOW_STOP;
		return;
	case X86_INS_JA:
		o->above = 1;
		/* fall through */
	default:
		for (int i = 0; i < c->detail->groups_count; i++)
			if (c->detail->groups[i] == X86_GRP_JUMP)
				o->flow = direct ? ARCH_FLOW_COND : ARCH_FLOW_JUMP_IND;
		if (c->id == X86_INS_XBEGIN)
			o->flow = direct ? ARCH_FLOW_COND : ARCH_FLOW_JUMP_IND;
	}
	if (direct && o->flow != ARCH_FLOW_NEXT)
		o->target = (uint64_t)x->operands[0].imm;
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

static void add_write(const struct arch_decoder *d, unsigned reg, struct arch_insn *o)
{
	if (reg >= X86_REG_ENDING)
		return;
	if (d->reg[reg].reg != ARCH_NOREG)
		o->writes |= BIT(d->reg[reg].reg);
	if (d->reg[reg].fp != ARCH_NOREG)
		o->fp_writes |= (uint8_t)(1U << d->reg[reg].fp);
}

static void set_writes(const struct arch_decoder *d, const cs_insn *c, struct arch_insn *o)
{
	const cs_x86 *x = &c->detail->x86;

	for (int i = 0; i < c->detail->regs_write_count; i++)
		add_write(d, c->detail->regs_write[i], o);
	if (c->id == X86_INS_SYSCALL)
		o->writes |= BIT(ARCH_AX);
	if (only_reads(c->id) || o->flow != ARCH_FLOW_NEXT)
		return;
	for (int i = 0; i < x->op_count; i++)
		if (x->operands[i].type == X86_OP_REG &&
		    (i == 0 || (x->operands[i].access & CS_AC_WRITE)))
			add_write(d, x->operands[i].reg, o);
}

static void set_mem(const struct arch_decoder *d, const cs_x86_op *op, struct arch_insn *o)
{
	const struct reg_info *b = &d->reg[op->mem.base];

	o->base = ARCH_NOREG;
	if (op->mem.segment == X86_REG_INVALID && b->reg != ARCH_NOREG && b->width == 8)
		o->base = b->reg;
	if (op->mem.index != X86_REG_INVALID) {
		uint8_t reg = d->reg[op->mem.index].reg;
		o->index = reg == ARCH_NOREG ? ARCH_NOREG : (uint8_t)(reg + 1);
	}
	o->disp = (int32_t)op->mem.disp;
	o->width = op->size;
}

/* Stores of the low part of an SSE register. */
static bool is_fp_store(unsigned id)
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

static void set_store(const struct arch_decoder *d, const cs_insn *c, const cs_x86_op *to,
		      struct arch_insn *o)
{
	const cs_x86 *x = &c->detail->x86;
	const cs_x86_op *from = x->op_count == 2 ? &x->operands[1] : NULL;

	o->effect = ARCH_EFF_STORE;
	o->atomic = x->prefix[0] == X86_PREFIX_LOCK;
	set_mem(d, to, o);
	if (is_string_store(c->id))
		o->width = 0;
	if (!from || from->type != X86_OP_REG)
		return;
	if (c->id == X86_INS_MOV && is_low_gpr(d, from))
		o->src = d->reg[from->reg].reg;
	else if (is_fp_store(c->id))
		o->fp_src = d->reg[from->reg].fp;
}

static void set_move(const struct arch_decoder *d, const cs_x86 *x, struct arch_insn *o)
{
	const cs_x86_op *to = &x->operands[0], *from = &x->operands[1];

	if (x->op_count != 2 || !is_low_gpr(d, to))
		return;
	if (is_low_gpr(d, from)) {
		o->effect = ARCH_EFF_COPY;
		o->src = d->reg[from->reg].reg;
		o->width = from->size;
	} else if (from->type == X86_OP_MEM) {
		o->effect = ARCH_EFF_LOAD;
		set_mem(d, from, o);
	} else {
		return;
	}
	o->dst = d->reg[to->reg].reg;
}

static void set_lea(const struct arch_decoder *d, const cs_x86 *x, uint64_t at, struct arch_insn *o)
{
	if (x->op_count != 2 || !is_low_gpr(d, &x->operands[0]))
		return;
	set_mem(d, &x->operands[1], o);
	if (x->operands[1].mem.base == X86_REG_RIP)
		o->target = at + o->len + (uint64_t)x->operands[1].mem.disp;
	o->effect =
	    o->index || d->reg[x->operands[0].reg].width != 8 ? ARCH_EFF_INDEX : ARCH_EFF_LEA;
	o->dst = d->reg[x->operands[0].reg].reg;
}

/* add or sub of a constant to a 64-bit register */
static bool set_add(const struct arch_decoder *d, const cs_x86 *x, bool negative,
		    struct arch_insn *o)
{
	if (x->op_count != 2 || !is_gpr(d, &x->operands[0]) || x->operands[0].size != 8 ||
	    x->operands[1].type != X86_OP_IMM)
		return false;
	int64_t by = negative ? -x->operands[1].imm : x->operands[1].imm;
	if (by != (int32_t)by)
		return false;
	o->effect = ARCH_EFF_LEA;
	o->dst = o->base = d->reg[x->operands[0].reg].reg;
	o->disp = (int32_t)by;
	return true;
}

static void set_compare(const struct arch_decoder *d, const cs_x86 *x, struct arch_insn *o)
{
	if (x->op_count != 2 || !is_low_gpr(d, &x->operands[0]) ||
	    x->operands[1].type != X86_OP_IMM || x->operands[1].imm < 0 ||
	    x->operands[1].imm > INT32_MAX)
		return;
	o->effect = ARCH_EFF_COMPARE;
	o->src = d->reg[x->operands[0].reg].reg;
	o->disp = (int32_t)x->operands[1].imm;
}

static void set_push(const struct arch_decoder *d, const cs_x86 *x, struct arch_insn *o)
{
	o->effect = ARCH_EFF_PUSH;
	o->width = 8;
	o->writes &= ~BIT(ARCH_SP);
	if (x->op_count != 1)
		return;
	if (x->operands[0].type != X86_OP_IMM && x->operands[0].size != 8)
		o->width = 0;
	if (is_low_gpr(d, &x->operands[0]))
		o->src = d->reg[x->operands[0].reg].reg;
}

static void set_pop(const struct arch_decoder *d, const cs_x86 *x, struct arch_insn *o)
{
	o->effect = ARCH_EFF_POP;
	o->width = 8;
	o->writes &= ~BIT(ARCH_SP);
	if (x->op_count != 1)
		return;
	if (x->operands[0].size != 8)
		o->width = 0;
	if (is_low_gpr(d, &x->operands[0]))
		o->dst = d->reg[x->operands[0].reg].reg;
}

static void set_other(const struct arch_decoder *d, const cs_insn *c, struct arch_insn *o)
{
	const cs_x86 *x = &c->detail->x86;

	if (only_reads(c->id))
		return;
	for (int i = 0; i < x->op_count; i++) {
		const cs_x86_op *op = &x->operands[i];
		if (op->type == X86_OP_MEM && (i == 0 || (op->access & CS_AC_WRITE)))
			set_store(d, c, op, o);
	}
}

static void set_effect(const struct arch_decoder *d, const cs_insn *c, struct arch_insn *o)
{
	const cs_x86 *x = &c->detail->x86;

	switch (c->id) {
	case X86_INS_LEA:
		set_lea(d, x, c->address, o);
		return;
	case X86_INS_ADD:
	case X86_INS_SUB:
		if (set_add(d, x, c->id == X86_INS_SUB, o))
			return;
		break;
	case X86_INS_CMP:
		set_compare(d, x, o);
		return;
	case X86_INS_PUSH:
	case X86_INS_PUSHFQ:
		set_push(d, x, o);
		return;
	case X86_INS_POP:
	case X86_INS_POPFQ:
		set_pop(d, x, o);
		return;
	case X86_INS_LEAVE:
		o->effect = ARCH_EFF_LEAVE;
		o->writes = 0;
		return;
	case X86_INS_MOV:
	case X86_INS_MOVZX:
	case X86_INS_MOVSX:
	case X86_INS_MOVSXD:
		set_move(d, x, o);
		if (o->effect != ARCH_EFF_OTHER)
			return;
		break;
	default:
		break;
	}
	set_other(d, c, o);
}

/* Intel SDM volume 1, appendix A. Shifts by 0 write no flags. A list of those that compilers use at
 * the ends of functions, as the access flags of libcapstone 4 are wrong for some instructions. */
static uint8_t flags_of(unsigned id)
{
	switch (id) {
	case X86_INS_ADD:
	case X86_INS_AND:
	case X86_INS_CMP:
	case X86_INS_NEG:
	case X86_INS_OR:
	case X86_INS_SUB:
	case X86_INS_TEST:
	case X86_INS_XADD:
	case X86_INS_XOR:
		return ARCH_FLAGS_SET;
	case X86_INS_CDQ:
	case X86_INS_CDQE:
	case X86_INS_CQO:
	case X86_INS_CWDE:
	case X86_INS_DEC:
	case X86_INS_INC:
	case X86_INS_LEA:
	case X86_INS_LEAVE:
	case X86_INS_MOV:
	case X86_INS_MOVABS:
	case X86_INS_MOVSX:
	case X86_INS_MOVSXD:
	case X86_INS_MOVZX:
	case X86_INS_NOP:
	case X86_INS_NOT:
	case X86_INS_POP:
	case X86_INS_PUSH:
	case X86_INS_SAR:
	case X86_INS_SHL:
	case X86_INS_SHR:
	case X86_INS_XCHG:
	case X86_INS_MOVHPS:
	case X86_INS_PINSRQ:
	case X86_INS_PUNPCKLQDQ:
	case X86_INS_PXOR:
	case X86_INS_XORPS:
	case X86_INS_VPXOR:
	case X86_INS_VZEROUPPER:
		return ARCH_FLAGS_UNREAD;
	default:
		return is_fp_store(id) ? ARCH_FLAGS_UNREAD : ARCH_FLAGS_UNKNOWN;
	}
}

/* Whether the instruction, one that falls through, uses an address relative to its own. */
static bool is_relative(const cs_x86 *x)
{
	for (int i = 0; i < x->op_count; i++)
		if (x->operands[i].type == X86_OP_MEM && (x->operands[i].mem.base == X86_REG_RIP ||
							  x->operands[i].mem.base == X86_REG_EIP))
			return true;
	return false;
}

/* Number of trailing bytes that are a displacement from the end of the instruction: of a direct
 * branch (of two bytes or more), or of a rip-relative memory operand. */
static unsigned relative_bytes(const cs_insn *c, const struct arch_insn *o)
{
	const cs_x86 *x = &c->detail->x86;
	bool relative = false;

	if (o->target && o->flow != ARCH_FLOW_NEXT)
		return o->len == 2 ? 1 : 4;
	for (int i = 0; i < x->op_count; i++) {
		if (x->operands[i].type == X86_OP_IMM)
			return 0;
		relative |=
		    x->operands[i].type == X86_OP_MEM && x->operands[i].mem.base == X86_REG_RIP;
	}
	return relative ? 4 : 0;
}

/* With a VEX or EVEX prefix (Intel SDM volume 2, 2.3 and 2.7), of which none reads the flags. */
static bool has_vector_prefix(const cs_insn *c)
{
	return c->bytes[0] == 0xc4 || c->bytes[0] == 0xc5 || c->bytes[0] == 0x62;
}

static void set_movable(const cs_insn *c, struct arch_insn *o)
{
	const bool relative = is_relative(&c->detail->x86);

	o->flags = has_vector_prefix(c) ? ARCH_FLAGS_UNREAD : flags_of(c->id);
	o->movable = o->flags != ARCH_FLAGS_UNKNOWN && !relative;
	o->relative = o->flags != ARCH_FLAGS_UNKNOWN && relative && relative_bytes(c, o) == 4;
}

/* Fills all of *out except `off`. */
static int decode(struct arch_decoder *d, const uint8_t *code, size_t left, uint64_t at,
		  struct arch_insn *out)
{
	const uint8_t *p = code;
	uint64_t next = at;

	*out = (struct arch_insn){
	    .dst = ARCH_NOREG, .src = ARCH_NOREG, .base = ARCH_NOREG, .fp_src = ARCH_NOREG};
	out->len = (uint8_t)arch_landing_pad(code, left);
	if (out->len) {
		out->flags = ARCH_FLAGS_UNREAD;
		return 0;
	}
	if (!cs_disasm_iter(d->handle, &p, &left, &next, d->insn))
		return evex_decode(code, left, out);
	out->len = (uint8_t)d->insn->size;
	out->emulated = arch_emulated(code, out->len);
	set_flow(d->insn, out);
	set_writes(d, d->insn, out);
	if (out->flow == ARCH_FLOW_NEXT) {
		set_effect(d, d->insn, out);
		set_movable(d->insn, out);
	}
	insn_cache_add(d->cache, code, at, relative_bytes(d->insn, out), out);
	return 0;
}

int arch_decode(struct arch_decoder *d, const uint8_t *code, size_t len, uint64_t vaddr,
		uint32_t off, struct arch_insn *out)
{
	if (off >= len)
		return -EILSEQ;
	if (!insn_cache_find(d->cache, code + off, len - off, vaddr + off, out)) {
		int r = decode(d, code + off, len - off, vaddr + off, out);
		if (r)
			return r;
	}
	out->off = off;
	return 0;
}

static uint32_t entries(const struct arch_insn *compare, const struct arch_insn *jump,
			unsigned index)
{
	enum { MAX_ENTRIES = 1024 };

	if (!jump->above || compare->effect != ARCH_EFF_COMPARE || compare->src != index ||
	    compare->disp >= MAX_ENTRIES)
		return 0;
	return (uint32_t)compare->disp + 1;
}

uint32_t arch_jump_table(const struct arch_insn *insn, uint32_t n, uint64_t *table)
{
	enum { WINDOW = 10 };
	unsigned index = ARCH_NOREG;

	*table = 0;
	for (uint32_t k = n - 1; k > 0 && n - k < WINDOW; k--) {
		const struct arch_insn *i = &insn[k - 1];
		if (i->flow == ARCH_FLOW_COND)
			return *table && index < ARCH_REGS && k > 1 ? entries(i - 1, i, index) : 0;
		if (i->flow != ARCH_FLOW_NEXT)
			return 0;
		if (i->effect == ARCH_EFF_LOAD && i->index && i->width == 4)
			index = i->index - 1U;
		else if (i->effect == ARCH_EFF_COPY && i->dst == index)
			index = i->src;
		else if (index < ARCH_REGS && (i->writes & BIT(index)))
			return 0;
		if (i->effect == ARCH_EFF_LEA && i->base == ARCH_NOREG && i->target)
			*table = i->target;
	}
	return 0;
}
