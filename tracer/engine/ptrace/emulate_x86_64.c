#include "tracer/engine/ptrace/internal.h"

#include <capstone/capstone.h>
#include <errno.h>
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"

/* Flags: Intel SDM volume 1, 3.4.3. */
enum { CF = 1, PF = 1 << 2, AF = 1 << 4, ZF = 1 << 6, SF = 1 << 7, OF = 1 << 11 };

static int32_t imm32(const uint8_t *p)
{
	int32_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

/* Sign-extended. */
static int32_t imm8(const uint8_t *p)
{
	return p[0] < 0x80 ? p[0] : p[0] - 0x100;
}

static int done(struct emulated *out, uint8_t kind, size_t len)
{
	out->kind = kind;
	out->len = (uint8_t)len;
	return 0;
}

/* push and pop of a register, with or without REX.B. */
static int decode_stack(const uint8_t *p, size_t n, struct emulated *out)
{
	size_t at = n > 1 && p[0] == 0x41;
	if (at >= n || p[at] < 0x50 || p[at] > 0x5f)
		return -ENOTSUP;
	out->reg = arch_numbered_reg[(p[at] & 7) + 8 * at];
	return done(out, p[at] < 0x58 ? EMULATE_PUSH : EMULATE_POP, at + 1);
}

/* nop of one or more bytes (0f 1f /0, with any 66 and cs prefixes), pause, endbr64. */
static int decode_nop(const uint8_t *p, size_t n, struct emulated *out)
{
	static const uint8_t disp_len[4] = {0, 1, 4, 0};
	size_t at = 0;
	if (arch_landing_pad(p, n))
		return done(out, EMULATE_NOP, arch_landing_pad(p, n));
	if (n >= 2 && p[0] == 0xf3 && p[1] == 0x90)
		return done(out, EMULATE_NOP, 2);
	while (at < n && (p[at] == 0x66 || p[at] == 0x2e))
		at++;
	if (at < n && p[at] == 0x90)
		return done(out, EMULATE_NOP, at + 1);
	if (at + 3 > n || p[at] != 0x0f || p[at + 1] != 0x1f)
		return -ENOTSUP;
	uint8_t modrm = p[at + 2], mod = modrm >> 6, rm = modrm & 7;
	size_t len = at + 3 + (mod != 3 && rm == 4) + disp_len[mod];
	/* No base register: a 32-bit displacement follows. */
	if (mod == 0 && (rm == 5 || (rm == 4 && at + 3 < n && (p[at + 3] & 7) == 5)))
		len += 4;
	return len <= n && len <= EMULATE_INSN_MAX ? done(out, EMULATE_NOP, len) : -ENOTSUP;
}

static int decode_flow(const uint8_t *p, size_t n, struct emulated *out)
{
	size_t bnd = n > 1 && p[0] == 0xf2; /* prefix of MPX, which has no effect any more */
	p += bnd;
	n -= bnd;
	out->cond = 0;
	if (n >= 2 && (p[0] == 0xeb || (p[0] >= 0x70 && p[0] <= 0x7f))) {
		out->value = imm8(p + 1);
		out->cond = p[0] & 15;
		return done(out, p[0] == 0xeb ? EMULATE_JUMP : EMULATE_COND, 2 + bnd);
	}
	if (n >= 5 && (p[0] == 0xe8 || p[0] == 0xe9)) {
		out->value = imm32(p + 1);
		return done(out, p[0] == 0xe8 ? EMULATE_CALL : EMULATE_JUMP, 5 + bnd);
	}
	if (n >= 6 && p[0] == 0x0f && p[1] >= 0x80 && p[1] <= 0x8f) {
		out->value = imm32(p + 2);
		out->cond = p[1] & 15;
		return done(out, EMULATE_COND, 6 + bnd);
	}
	size_t ret = arch_ret_len(p, n);
	if (!ret)
		return -ENOTSUP;
	out->value = ret == 3 ? p[1] | p[2] << 8 : 0;
	return done(out, EMULATE_RET, ret + bnd);
}

/* sub and add of a constant to rsp (48 83 /5 ib, 48 81 /5 id, /0 for add), and mov between 64-bit
 * registers (REX.W 89 /r, 8b /r). */
static int decode_wide(const uint8_t *p, size_t n, struct emulated *out)
{
	if (n < 3 || (p[0] & 0xf8) != 0x48 || (p[2] & 0xc0) != 0xc0)
		return -ENOTSUP;
	uint8_t b = p[0] & 1, r = p[0] >> 2 & 1, first = p[2] & 7, second = p[2] >> 3 & 7;
	if (p[0] == 0x48 && (p[1] == 0x83 || p[1] == 0x81) && first == 4 &&
	    (second == 5 || second == 0)) {
		size_t len = p[1] == 0x83 ? 4 : 7;
		if (n < len)
			return -ENOTSUP;
		out->value = p[1] == 0x83 ? imm8(p + 3) : imm32(p + 3);
		out->cond = second == 0; /* add */
		return done(out, EMULATE_SUB_SP, len);
	}
	if ((p[1] != 0x89 && p[1] != 0x8b) || p[0] & 2)
		return -ENOTSUP;
	uint8_t rm = arch_numbered_reg[first + 8 * b], reg = arch_numbered_reg[second + 8 * r];
	out->reg = p[1] == 0x89 ? rm : reg;
	out->src = p[1] == 0x89 ? reg : rm;
	return done(out, EMULATE_MOVE, 3);
}

int emulate_decode(const uint8_t *code, size_t n, struct emulated *out)
{
	*out = (struct emulated){0};
	if (!n)
		return -ENOTSUP;
	if (!decode_stack(code, n, out) || !decode_nop(code, n, out) ||
	    !decode_flow(code, n, out) || !decode_wide(code, n, out))
		return 0;
	*out = (struct emulated){0};
	return -ENOTSUP;
}

/* Whether a jump on condition `cond` is taken; Intel SDM volume 1, appendix B. */
static bool holds(uint8_t cond, uint64_t flags)
{
	bool below = flags & CF, zero = flags & ZF, sign = flags & SF, over = flags & OF, yes;
	switch (cond >> 1) {
	case 0:
		yes = over;
		break;
	case 1:
		yes = below;
		break;
	case 2:
		yes = zero;
		break;
	case 3:
		yes = below || zero;
		break;
	case 4:
		yes = sign;
		break;
	case 5:
		yes = flags & PF;
		break;
	case 6:
		yes = sign != over;
		break;
	default:
		yes = zero || sign != over;
		break;
	}
	return yes != (cond & 1);
}

/* rsp += or -= value, setting the flags as the instruction does. */
static void add_to_sp(const struct emulated *i, uint64_t *regs)
{
	uint64_t a = regs[ARCH_SP], b = (uint64_t)(int64_t)i->value;
	uint64_t v = i->cond ? a + b : a - b, flags = 0;
	uint64_t over = i->cond ? ~(a ^ b) & (a ^ v) : (a ^ b) & (a ^ v);
	flags |= (i->cond ? v < a : a < b) ? CF : 0;
	flags |= __builtin_parityll(v & 0xff) ? 0 : PF;
	flags |= (a ^ b ^ v) & 0x10 ? AF : 0;
	flags |= v ? 0 : ZF;
	flags |= v >> 63 ? SF : 0;
	flags |= over >> 63 ? OF : 0;
	regs[ARCH_FLAGS] = (regs[ARCH_FLAGS] & ~(uint64_t)(CF | PF | AF | ZF | SF | OF)) | flags;
	regs[ARCH_SP] = v;
}

static int push(uint64_t value, uint64_t *regs, const struct emulate_memory *m)
{
	int r = m->write(m->arg, regs[ARCH_SP] - 8, value);
	if (!r)
		regs[ARCH_SP] -= 8;
	return r;
}

static int pop(uint64_t *value, uint64_t *regs, const struct emulate_memory *m)
{
	int r = m->read(m->arg, regs[ARCH_SP], value);
	if (!r)
		regs[ARCH_SP] += 8;
	return r;
}

int emulate_run(const struct emulated *i, uint64_t addr, uint64_t *regs,
		const struct emulate_memory *m)
{
	uint64_t next = addr + i->len, to = next + (uint64_t)(int64_t)i->value, value;
	int r = 0;
	switch (i->kind) {
	case EMULATE_NOP:
		break;
	case EMULATE_PUSH:
		r = push(regs[i->reg], regs, m);
		break;
	case EMULATE_POP:
		r = pop(&value, regs, m);
		if (!r)
			regs[i->reg] = value;
		break;
	case EMULATE_JUMP:
		next = to;
		break;
	case EMULATE_COND:
		next = holds(i->cond, regs[ARCH_FLAGS]) ? to : next;
		break;
	case EMULATE_CALL:
		r = push(next, regs, m);
		next = to;
		break;
	case EMULATE_RET:
		r = pop(&next, regs, m);
		if (!r)
			regs[ARCH_SP] += (uint16_t)i->value;
		break;
	case EMULATE_SUB_SP:
		add_to_sp(i, regs);
		break;
	case EMULATE_MOVE:
		regs[i->reg] = regs[i->src];
		break;
	default:
		return -ENOTSUP;
	}
	if (!r)
		regs[ARCH_IP] = next;
	return r;
}

static bool goes_elsewhere(csh cs, const cs_insn *i)
{
	return cs_insn_group(cs, i, CS_GRP_JUMP) || cs_insn_group(cs, i, CS_GRP_CALL) ||
	       cs_insn_group(cs, i, CS_GRP_RET) || cs_insn_group(cs, i, CS_GRP_INT) ||
	       cs_insn_group(cs, i, CS_GRP_IRET) || i->id == X86_INS_SYSCALL ||
	       i->id == X86_INS_SYSENTER || i->id == X86_INS_HLT || i->id == X86_INS_UD2;
}

/* Whether an operand is RIP-relative. */
static bool is_relative(const cs_x86 *x)
{
	for (unsigned k = 0; k < x->op_count; k++)
		if (x->operands[k].type == X86_OP_MEM && x->operands[k].mem.base == X86_REG_RIP)
			return true;
	return false;
}

static int relocate(csh cs, const cs_insn *i, uint64_t from, uint64_t to, uint8_t *out)
{
	const cs_x86 *x = &i->detail->x86;
	if (goes_elsewhere(cs, i))
		return -ENOTSUP;
	memcpy(out, i->bytes, i->size);
	if (!is_relative(x))
		return i->size;
	int64_t disp = imm32(i->bytes + x->encoding.disp_offset) + (int64_t)(from - to);
	int32_t fits = (int32_t)disp;
	if (x->encoding.disp_size != 4 || fits != disp)
		return -ENOTSUP;
	memcpy(out + x->encoding.disp_offset, &fits, sizeof(fits));
	return i->size;
}

int emulate_relocate(const uint8_t *code, size_t n, uint64_t from, uint64_t to,
		     uint8_t out[EMULATE_INSN_MAX])
{
	csh cs;
	cs_insn *insn;
	int r = -EILSEQ;
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &cs) != CS_ERR_OK)
		return -ENOMEM;
	cs_option(cs, CS_OPT_DETAIL, CS_OPT_ON);
	if (cs_disasm(cs, code, n, from, 1, &insn) == 1) {
		r = relocate(cs, insn, from, to, out);
		cs_free(insn, 1);
	}
	cs_close(&cs);
	return r;
}

size_t emulate_jump(uint8_t *out, uint64_t to)
{
	static const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0}; /* to the address behind it */
	memcpy(out, jump, sizeof(jump));
	memcpy(out + sizeof(jump), &to, sizeof(to));
	return sizeof(jump) + sizeof(to);
}

size_t emulate_touch(uint8_t out[EMULATE_MOVED_MAX], uint64_t to, size_t *len)
{
	/* push %rax; lea 8(%rsp), %rsp */
	static const uint8_t touch[] = {0x50, 0x48, 0x8d, 0x64, 0x24, 0x08};
	*len = 1;
	memcpy(out, touch, sizeof(touch));
	return sizeof(touch) + emulate_jump(out + sizeof(touch), to);
}
