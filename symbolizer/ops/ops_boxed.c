#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/ops/ops.h"

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

static size_t sites_of(struct elf_file *f, uint64_t vaddr, uint32_t op, struct return_sites_ctx *x,
		       struct probe_site *out)
{
	struct func_facts facts;
	uint64_t size = elf_function_size(f, vaddr);
	const uint8_t *code = size ? elf_bytes(f, vaddr, size) : NULL;
	int64_t at = elf_offset(f, vaddr);
	size_t n = 0;
	if (!code || return_sites_analyze(x, code, size, vaddr, &facts) ||
	    facts.exit_kind == EXIT_NONE)
		return 0;
	out[n++] = (struct probe_site){(uint64_t)at + facts.entry, op, SITE_ENTRY};
	for (unsigned i = 0; i < facts.nexits; i++)
		out[n++] = (struct probe_site){(uint64_t)at + facts.exits[i], op, SITE_EXIT};
	return n;
}

static size_t find_sites(struct elf_file *f, struct callees *c, uint64_t vaddr, uint32_t op,
			 struct probe_site *out)
{
	struct return_sites_ops ops = callees_ops(c);
	struct return_sites_ctx *x = return_sites_new(&ops);
	size_t n = x ? sites_of(f, vaddr, op, x, out) : 0;
	return_sites_free(x);
	return n;
}

static uint32_t boxed_op(const struct op_table *t)
{
	uint32_t op = 0;
	while (op < t->n && t->ops[op].role != ROLE_BOXED)
		op++;
	return op;
}

size_t op_table_boxed_sites(struct op_table *t, uint64_t vaddr, struct probe_site *out)
{
	struct elf_file *f = t->elf[OPS_CPU];
	uint32_t op = boxed_op(t);
	size_t n = op < t->n ? find_sites(f, t->callees, vaddr, op, out) : 0;
	/* It may do no more than jump on, with the same arguments. */
	uint64_t target = n || op == t->n ? 0 : tail_target(f, vaddr, elf_function_size(f, vaddr));
	if (target)
		n = find_sites(f, t->callees, target, op, out);
	elf_file_drop(f);
	return n;
}

/* void c10::Dispatcher::callBoxed(const OperatorHandle &, Stack *) const
 * (ATen/core/dispatch/Dispatcher.h). */
static const char call_boxed[] =
    "_ZNK3c1010Dispatcher9callBoxedERKNS_14OperatorHandleEPSt6vectorINS_6IValueESaIS5_EE";

/* The handle and the stack come one register later than in the std::function. */
static void shift_arguments(struct op_plan *p)
{
	if (p->read[BOXED_DATA].a)
		return; /* for another process of the same library */
	for (unsigned i = 0; i < p->nentry + p->nexit; i++)
		p->read[i].a++;
}

int op_table_call_boxed(struct op_table *t, uint64_t vaddr)
{
	struct elf_file *f = t->elf[OPS_CPU];
	uint64_t target = tail_target(f, vaddr, elf_function_size(f, vaddr));
	target = target ? callees_of_stub(t->callees, target) : 0;
	uint32_t op = boxed_op(t);
	if (op == t->n || !target || target != elf_find_dynamic(f, call_boxed, NULL))
		return -1;
	shift_arguments(&t->plans[op]);
	return (int)op;
}

size_t op_table_call_boxed_sites(struct op_table *t, unsigned file, struct probe_site *out)
{
	struct callees *c;
	struct elf_file *f = t->elf[file];
	uint64_t at = f ? elf_find_dynamic(f, call_boxed, NULL) : 0;
	if (!at || callees_open(f, &c))
		return 0;
	size_t n = find_sites(f, c, at, boxed_op(t), out);
	callees_close(c);
	elf_file_drop(f);
	return n;
}
