/* Which member of its object a small function returns, by its code. */
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/torch/layout.h"

enum { RDI_DISP8 = 0x47, RDI_DISP32 = 0x87, RET = 0xc3 };

/* What is still to be read of a function. */
struct code_rest {
	const uint8_t *at;
	size_t n;
};

static bool takes(struct code_rest *c, const char *bytes, size_t n)
{
	if (c->n < n || memcmp(c->at, bytes, n) != 0)
		return false;
	c->at += n;
	c->n -= n;
	return true;
}

/* A ModRM byte of `disp8`, or of `disp32` and a longer displacement: from rdi. */
static int32_t displacement(struct code_rest *c, uint8_t disp8, uint8_t disp32)
{
	int32_t at = MEMBER_NOT_KNOWN;
	size_t n = c->n && c->at[0] == disp32 ? 1 + sizeof(at) : 2;
	if (c->n < n || (n == 2 && c->at[0] != disp8))
		return MEMBER_NOT_KNOWN;
	if (n > 2)
		memcpy(&at, c->at + 1, sizeof(at));
	else if (c->at[1] <= INT8_MAX) /* signed */
		at = c->at[1];
	c->at += n;
	c->n -= n;
	return at < 0 ? MEMBER_NOT_KNOWN : at;
}

static struct code_rest begin(const uint8_t *code, size_t len)
{
	struct code_rest c = {code, code ? len : 0};
	takes(&c, "\xf3\x0f\x1e\xfa", 4); /* endbr64 */
	return c;
}

static bool returns(const struct code_rest *c)
{
	return c->n && c->at[0] == RET;
}

int32_t member_returned(const uint8_t *code, size_t len)
{
	struct code_rest c = begin(code, len);
	if (!takes(&c, "\x48\x8b", 2)) /* mov (rdi), rax */
		return MEMBER_NOT_KNOWN;
	int32_t at = displacement(&c, RDI_DISP8, RDI_DISP32);
	return returns(&c) ? at : MEMBER_NOT_KNOWN;
}

int32_t member_counted_up(const uint8_t *code, size_t len)
{
	enum { FROM_EDX_DISP8 = 0x57, FROM_EDX_DISP32 = 0x97 };
	struct code_rest c = begin(code, len);
	if (!takes(&c, "\x8b", 1)) /* mov (rdi), eax */
		return MEMBER_NOT_KNOWN;
	int32_t at = displacement(&c, RDI_DISP8, RDI_DISP32);
	if (!takes(&c, "\x8d\x50\x01\x89", 4)) /* lea 1(rax), edx; mov edx, (rdi) */
		return MEMBER_NOT_KNOWN;
	int32_t to = displacement(&c, FROM_EDX_DISP8, FROM_EDX_DISP32);
	return to == at && returns(&c) ? at : MEMBER_NOT_KNOWN;
}

static const char constructor[] = "_ZN5torch8autograd14AccumulateGradC1EN2at6TensorE";

/* Displacement of a memory operand based on rdi, the object: ModRM mod 1 or 2, rm 7 (Intel SDM
 * volume 2, 2.1.5). -1 for any other operand. */
static int32_t object_disp(const uint8_t *modrm)
{
	int32_t d;
	if ((modrm[0] & 7) != 7)
		return -1;
	if (modrm[0] >> 6 == 1)
		return (int8_t)modrm[1];
	if (modrm[0] >> 6 != 2)
		return -1;
	memcpy(&d, modrm + 1, sizeof(d));
	return d;
}

/* The constants that SSE registers hold, loaded from rip-relative memory. */
struct constants {
	const uint8_t *reg[8];
};

/* movdqa or movaps xmm, [rip + disp32] */
static void note_load(struct elf_file *f, struct constants *c, const uint8_t *i, size_t len,
		      uint64_t next)
{
	size_t op = i[0] == 0x66 ? 1 : 0;
	int32_t disp;
	if (len < op + 7 || i[op] != 0x0f || (i[op + 1] != 0x6f && i[op + 1] != 0x28))
		return;
	uint8_t modrm = i[op + 2];
	if ((modrm & 0xc7) != 5)
		return;
	memcpy(&disp, i + op + 3, sizeof(disp));
	c->reg[modrm >> 3 & 7] = elf_bytes(f, next + (uint64_t)(int64_t)disp, 16);
}

/* The offset at which instruction `i` stores eight 0xff bytes into the object, or -1. */
static int32_t ones_stored(const struct constants *c, const uint8_t *i, size_t len)
{
	static const uint8_t ones[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	/* mov qword [rdi + disp], imm32 */
	if (len >= 8 && i[0] == 0x48 && i[1] == 0xc7 && !memcmp(i + len - 4, ones, 4))
		return object_disp(i + 2);
	/* movups [rdi + disp], xmm */
	if (len < 4 || i[0] != 0x0f || i[1] != 0x11)
		return -1;
	const uint8_t *value = c->reg[i[2] >> 3 & 7];
	int32_t disp = object_disp(i + 2);
	if (!value || disp < 0)
		return -1;
	return !memcmp(value, ones, 8) ? disp : !memcmp(value + 8, ones, 8) ? disp + 8 : -1;
}

uint16_t node_seq_offset(struct elf_file *cpu)
{
	enum { LARGEST = 0x200 };
	uint64_t size = 0, at = elf_find_dynamic(cpu, constructor, &size);
	const uint8_t *code = at ? elf_bytes(cpu, at, size) : NULL;
	struct arch_decoder *d = code ? arch_decoder_new() : NULL;
	struct constants c = {{NULL}};
	struct arch_insn i;
	int32_t found = 0;
	/* The object is in rdi up to the first call. */
	for (uint32_t off = 0; d && off < size && !arch_decode(d, code, size, at, off, &i);
	     off += i.len) {
		if (i.flow == ARCH_FLOW_CALL || i.flow == ARCH_FLOW_RET)
			break;
		int32_t disp = ones_stored(&c, code + off, i.len);
		if (disp > 0 && disp < LARGEST)
			found = found ? -1 : disp;
		for (unsigned r = 0; r < 8; r++)
			if (i.fp_writes >> r & 1)
				c.reg[r] = NULL;
		note_load(cpu, &c, code + off, i.len, at + off + i.len);
	}
	arch_decoder_free(d);
	return found > 0 ? (uint16_t)found : 0;
}

/* Which registers hold the object, the address of the constructor's argument, and the tensor that
 * is moved out of that. */
struct moved {
	uint32_t object, argument, tensor;
};

static bool holds(uint32_t registers, uint8_t reg)
{
	return reg < ARCH_REGS && registers >> reg & 1;
}

static void set_held(uint32_t *registers, uint8_t reg, bool is)
{
	*registers = is ? *registers | 1U << reg : *registers;
}

/* Follow one instruction; the offset in the object at which it stores the tensor, or -1. */
static int32_t moved_step(struct moved *m, const struct arch_insn *i)
{
	const struct moved was = *m;
	uint32_t written = i->writes;
	if (i->flow == ARCH_FLOW_CALL || i->flow == ARCH_FLOW_CALL_IND)
		written |= arch_call_clobbers;
	m->object &= ~written;
	m->argument &= ~written;
	m->tensor &= ~written;
	if (i->effect == ARCH_EFF_COPY && i->width == 8 && i->dst < ARCH_REGS) {
		set_held(&m->object, i->dst, holds(was.object, i->src));
		set_held(&m->argument, i->dst, holds(was.argument, i->src));
		set_held(&m->tensor, i->dst, holds(was.tensor, i->src));
	}
	if (i->effect == ARCH_EFF_LOAD && i->width == 8 && !i->index && !i->disp &&
	    i->dst < ARCH_REGS)
		set_held(&m->tensor, i->dst, holds(was.argument, i->base));
	if (i->effect == ARCH_EFF_STORE && i->width == 8 && !i->index &&
	    holds(was.object, i->base) && holds(was.tensor, i->src))
		return i->disp;
	return -1;
}

uint16_t node_variable_offset(struct elf_file *cpu)
{
	enum { LARGEST = 0x400 };
	uint64_t size = 0, at = elf_find_dynamic(cpu, constructor, &size);
	const uint8_t *code = at ? elf_bytes(cpu, at, size) : NULL;
	struct arch_decoder *d = code ? arch_decoder_new() : NULL;
	struct moved m = {.object = 1U << ARCH_DI, .argument = 1U << ARCH_SI};
	struct arch_insn i;
	int32_t found = 0;
	for (uint32_t off = 0; d && off < size && !arch_decode(d, code, size, at, off, &i);
	     off += i.len) {
		int32_t disp = moved_step(&m, &i);
		if (disp > 0 && disp < LARGEST)
			found = found && found != disp ? -1 : disp;
		if (i.flow == ARCH_FLOW_RET)
			break;
	}
	arch_decoder_free(d);
	return found > 0 ? (uint16_t)found : 0;
}
