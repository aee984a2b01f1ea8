#define _GNU_SOURCE
#include "symbolizer/ops/internal.h"

#include <string.h>

#include "symbolizer/code/arch_x86_64.h"

static const char evaluate[] =
    "_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_"
    "11InputBufferERKS2_INS0_10ReadyQueueEE";
/* Mangled name up to the second parameter; another overload takes
 * std::vector<std::optional<InputMetadata>> instead of the edges. */
static const char symbol[] =
    "_ZN5torch8autograd16validate_outputsERKSt6vectorINS0_4EdgeESaIS2_EERS1_IN2at6TensorE";
static const char message[] = "invalid number of gradients - expected ";

struct named {
	uint64_t vaddr, size;
};

static int is_it(const struct elf_symbol *s, void *arg)
{
	struct named *n = arg;
	if (!s->is_function || strncmp(s->name, symbol, sizeof(symbol) - 1) != 0 ||
	    strchr(s->name, '.'))
		return 0;
	*n = (struct named){s->vaddr, s->size};
	return 1;
}

/* The address of the message, 0 when it is missing or not unique. */
static uint64_t message_at(struct elf_file *cpu)
{
	uint64_t at = 0;
	size_t size = 0;
	const char *ro = (const char *)elf_section(cpu, ".rodata", &at, &size);
	const char *s = ro ? memmem(ro, size, message, sizeof(message)) : NULL;
	if (!s || memmem(s + 1, size - (size_t)(s + 1 - ro), message, sizeof(message)))
		return 0;
	return at + (uint64_t)(s - ro);
}

/* lea r64, [rip + disp32]: REX.W or REX.WR, 8d, ModRM with mod 0 and rm 5 (Intel SDM volume 2,
 * 2.2.1.6). */
static bool takes_address(const uint8_t *p, uint64_t vaddr, uint64_t target)
{
	enum { LEN = 7 };
	int32_t disp;
	if ((p[0] & 0xfb) != 0x48 || p[1] != 0x8d || (p[2] & 0xc7) != 0x05)
		return false;
	memcpy(&disp, p + 3, sizeof(disp));
	return vaddr + LEN + (uint64_t)(int64_t)disp == target;
}

/* The only function around `near` that takes the address `target`. */
static bool user_of(struct elf_file *cpu, struct callees *c, uint64_t near, uint64_t target,
		    struct named *out)
{
	enum { AROUND = 1 << 18 };
	const struct return_sites_ops ops = callees_ops(c);
	uint64_t start = 0;
	size_t size = 0;
	const uint8_t *text = elf_section(cpu, ".text", &start, &size);
	if (!text || near < start || near - start >= size)
		return false;
	uint64_t from = near - start > AROUND ? near - start - AROUND : 0;
	uint64_t to = size - (near - start) > AROUND + 7 ? near - start + AROUND : size - 7;
	*out = (struct named){0};
	for (uint64_t i = from; i < to; i++) {
		struct named f;
		size_t len = 0;
		if (!takes_address(text + i, start + i, target))
			continue;
		if (!ops.piece(ops.arg, start + i, &f.vaddr, &len))
			return false;
		f.size = len;
		if (out->vaddr && out->vaddr != f.vaddr)
			return false;
		*out = f;
	}
	return out->vaddr != 0;
}

/* It may be a stub that jumps to a function with the same arguments. */
static void follow_jump(struct elf_file *cpu, struct named *f)
{
	const uint8_t *code = f->size ? elf_bytes(cpu, f->vaddr, f->size) : NULL;
	struct arch_decoder *d = code ? arch_decoder_new() : NULL;
	struct arch_insn i = {0};
	if (d && !arch_decode(d, code, f->size, f->vaddr, 0, &i) && i.flow == ARCH_FLOW_JUMP)
		*f = (struct named){i.target, elf_function_size(cpu, i.target)};
	arch_decoder_free(d);
}

bool grads_function_find(struct elf_file *cpu, struct callees *c, uint64_t *vaddr, uint64_t *size)
{
	struct named f = {0};
	uint64_t near = elf_find_dynamic(cpu, evaluate, NULL), text;
	if (!elf_each_symbol(cpu, false, is_it, &f)) {
		text = near ? message_at(cpu) : 0;
		if (!text || !user_of(cpu, c, near, text, &f))
			return false;
	}
	follow_jump(cpu, &f);
	*vaddr = f.vaddr;
	*size = f.size;
	return f.size != 0;
}
