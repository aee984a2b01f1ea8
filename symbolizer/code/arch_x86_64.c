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
	struct effect_regs *regs;
};

struct arch_decoder *arch_decoder_new(void)
{
	struct arch_decoder *d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->regs = effect_regs_new();
	d->cache = insn_cache_new();
	if (!d->regs || !d->cache)
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
	free(d->regs);
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
	free(d->regs);
	free(d);
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
		return effect_is_fp_store(id) ? ARCH_FLAGS_UNREAD : ARCH_FLAGS_UNKNOWN;
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
	effect_set(d->regs, d->insn, out);
	if (out->flow == ARCH_FLOW_NEXT)
		set_movable(d->insn, out);
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
