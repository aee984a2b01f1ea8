#include "symbolizer/ops.h"
#include "tracer/arch_x86_64.h"

/* Where the function at `vaddr` jumps out of itself to, 0 when it does not. */
static uint64_t tail_target(struct elf_file *f, uint64_t vaddr, uint64_t size)
{
	const uint8_t *code = size ? elf_bytes(f, vaddr, size) : NULL;
	struct arch_decoder *d = code ? arch_decoder_new() : NULL;
	uint64_t target = 0;
	struct arch_insn i;
	for (uint32_t off = 0;
	     d && off < size && !target && !arch_decode(d, code, size, vaddr, off, &i);
	     off += i.len)
		if (i.flow == ARCH_FLOW_JUMP && (i.target < vaddr || i.target >= vaddr + size))
			target = i.target;
	arch_decoder_free(d);
	return target;
}

static size_t sites_of(struct op_table *t, uint64_t vaddr, uint32_t op, struct exits_ctx *x,
		       struct probe_site *out)
{
	struct func_facts facts;
	uint64_t size = elf_function_size(t->elf[OPS_CPU], vaddr);
	const uint8_t *code = size ? elf_bytes(t->elf[OPS_CPU], vaddr, size) : NULL;
	int64_t at = elf_offset(t->elf[OPS_CPU], vaddr);
	size_t n = 0;
	if (!code || exits_analyze(x, code, size, vaddr, &facts) || facts.exit_kind == EXIT_NONE)
		return 0;
	out[n++] = (struct probe_site){(uint64_t)at + facts.entry, op, SITE_ENTRY};
	for (unsigned i = 0; i < facts.nexits; i++)
		out[n++] = (struct probe_site){(uint64_t)at + facts.exits[i], op, SITE_EXIT};
	return n;
}

size_t op_table_boxed_sites(struct op_table *t, uint64_t vaddr, struct probe_site *out)
{
	uint32_t op = 0;
	while (op < t->n && t->ops[op].role != ROLE_BOXED)
		op++;
	if (op == t->n)
		return 0;
	struct exits_ops ops = callees_ops(t->callees);
	struct exits_ctx *x = exits_new(&ops);
	size_t n = x ? sites_of(t, vaddr, op, x, out) : 0;
	/* It may do no more than jump on, with the same arguments. */
	uint64_t target =
	    n ? 0 : tail_target(t->elf[OPS_CPU], vaddr, elf_function_size(t->elf[OPS_CPU], vaddr));
	if (x && target)
		n = sites_of(t, target, op, x, out);
	exits_free(x);
	elf_file_drop(t->elf[OPS_CPU]);
	return n;
}
