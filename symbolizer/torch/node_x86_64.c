#include <string.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/torch/layout.h"

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
