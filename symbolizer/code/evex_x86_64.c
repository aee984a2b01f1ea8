/* Instructions with an EVEX prefix, as AVX-512 has them (Intel SDM volume 2, 2.7), many of which
 * libcapstone 4 does not know. None branches. */
#include "symbolizer/code/internal.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum { ESCAPE = 0x62, PREFIX = 4, MAP_0F = 1, MAP_0F38, MAP_0F3A, MAP_5 = 5, MAP_6 };
enum { NO_PREFIX, PREFIX_66, PREFIX_F3 };

struct evex {
	uint8_t map, pp, opcode;
	uint8_t mod, reg, rm; /* numbers of general registers, 0 to 15 */
	uint8_t base;	      /* of a memory operand; ARCH_NOREG: none */
	uint8_t len;	      /* bytes without the immediate */
	bool relative;
};

static bool is_any(uint8_t opcode, const char *of, size_t n)
{
	return memchr(of, opcode, n);
}

#define ANY(opcode, bytes) is_any(opcode, bytes, sizeof(bytes) - 1)

/* The operands, behind the opcode. */
static bool parse_operands(const uint8_t *code, size_t left, struct evex *x)
{
	const uint8_t modrm = code[PREFIX + 1], sib = left > PREFIX + 2 ? code[PREFIX + 2] : 0;
	const bool has_sib = modrm >> 6 != 3 && (modrm & 7) == 4;
	/* inverted, as all bits of it that extend numbers */
	const uint8_t r = code[1] & 0x80 ? 0 : 8, b = code[1] & 0x20 ? 0 : 8;
	x->mod = modrm >> 6;
	x->reg = (uint8_t)((modrm >> 3 & 7) | r);
	x->rm = (uint8_t)((modrm & 7) | b);
	x->base = ARCH_NOREG;
	x->len = PREFIX + 2 + has_sib;
	if (x->mod == 3)
		return true;
	const uint8_t at = has_sib ? sib & 7 : modrm & 7;
	const bool none = !x->mod && at == 5;
	x->relative = none && !has_sib;
	if (!none)
		x->base = arch_numbered_reg[at | b];
	x->len = (uint8_t)(x->len + (x->mod == 1 ? 1 : x->mod == 2 || none ? 4 : 0));
	return true;
}

static bool parse(const uint8_t *code, size_t left, struct evex *x)
{
	if (left < PREFIX + 2 || code[0] != ESCAPE || code[1] & 0x08 || !(code[2] & 0x04))
		return false;
	*x = (struct evex){.map = code[1] & 7, .pp = code[2] & 3, .opcode = code[PREFIX]};
	return x->map && x->map != 4 && x->map <= MAP_6 && parse_operands(code, left, x);
}

static bool has_immediate(const struct evex *x)
{
	return x->map == MAP_0F3A ||
	       (x->map == MAP_0F && ANY(x->opcode, "\x70\x71\x72\x73\xc2\xc4\xc5\xc6"));
}

/* Whether its r/m operand, rather than its reg operand, is what it writes. */
static bool writes_rm(const struct evex *x)
{
	switch (x->map) {
	case MAP_0F:
		return ANY(x->opcode, "\x11\x13\x17\x29\x2b\x7f\xd6\xe7") ||
		       (x->opcode == 0x7e && x->pp == PREFIX_66);
	case MAP_0F38:
		return ANY(x->opcode, "\x63\x8a\x8b\xa0\xa1\xa2\xa3") ||
		       (x->pp == PREFIX_F3 && x->opcode < 0x40 && (x->opcode & 0xf) < 6);
	case MAP_0F3A:
		return ANY(x->opcode, "\x14\x15\x16\x17\x19\x1b\x1d\x39\x3b");
	default:
		return x->map == MAP_5 && ANY(x->opcode, "\x11\x7e");
	}
}

/* Whether what it writes, if that is a register, may be a general one: moves and extractions to
 * r/m, conversions and vpextrw to reg. Where it is a vector of that number no harm is done. */
static bool may_write_general(const struct evex *x)
{
	if (x->map == MAP_0F3A)
		return x->opcode >= 0x14 && x->opcode <= 0x17;
	return (x->map == MAP_0F || x->map == MAP_5) && ANY(x->opcode, "\x2c\x2d\x78\x79\x7e\xc5");
}

int evex_decode(const uint8_t *code, size_t left, struct arch_insn *out)
{
	struct evex x;
	if (!parse(code, left, &x) || (size_t)x.len + has_immediate(&x) > left)
		return -EILSEQ;
	out->len = (uint8_t)(x.len + has_immediate(&x));
	out->fp_writes = 0xff;
	out->flags = ARCH_FLAGS_UNREAD;
	out->movable = !x.relative;
	out->relative = x.relative && !has_immediate(&x);
	if (x.mod != 3 && writes_rm(&x)) {
		/* How far from the base depends on the size of the elements. */
		out->effect = ARCH_EFF_STORE;
		out->base = x.base;
		out->index = ARCH_NOREG;
	} else if (may_write_general(&x)) {
		out->writes = UINT32_C(1) << arch_numbered_reg[writes_rm(&x) ? x.rm : x.reg];
	}
	return 0;
}
