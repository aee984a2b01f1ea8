/* The values of registers and memory operands while a path is executed. */
#include "symbolizer/code/cfg.h"

#include <capstone/capstone.h>
#include <string.h>

#include "symbolizer/code/internal.h"

static const struct sym unknown;

static const uint16_t reg_names[PATH_REGS][4] = {
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
	for (int r = 0; r < PATH_REGS; r++)
		for (int s = 0; s < 4; s++)
			if (reg_names[r][s] == reg) {
				*size = 8u >> s;
				return r;
			}
	return -1;
}

bool path_is_whole(const struct sym *v)
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

struct sym path_add(struct sym v, int64_t n)
{
	int64_t sum = v.add + n;
	if (!path_is_whole(&v) || sum < INT32_MIN || sum > INT32_MAX)
		return unknown;
	v.add = (int32_t)sum;
	return v;
}

struct sym path_address(const struct path_state *s, const x86_op_mem *m)
{
	unsigned size;
	int r = reg_number(m->base, &size);
	if (r < 0 || size != 8 || m->index != X86_REG_INVALID || m->segment != X86_REG_INVALID)
		return unknown;
	return path_add(s->reg[r], m->disp);
}

struct sym path_load(struct path_walk *w, const cs_x86_op *op)
{
	struct sym v = path_address(&w->now, &op->mem);
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

struct sym path_operand(struct path_walk *w, const cs_x86_op *op)
{
	unsigned size;
	if (op->type == X86_OP_MEM)
		return path_load(w, op);
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

void path_set_reg(struct path_walk *w, const cs_x86_op *op, struct sym v, bool keeps_rest)
{
	unsigned size;
	int r = op->type == X86_OP_REG ? reg_number(op->reg, &size) : -1;
	if (r < 0)
		return;
	w->now.reg[r] = size >= 4 || keeps_rest ? v : unknown;
}

void path_forget_written(struct path_walk *w)
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
