#include <errno.h>

#include "symbolizer/code/windows.h"
#include "symbolizer/ops/internal.h"
#include "symbolizer/ops/ops.h"

static int windows_of_op(struct op_table *t, const struct op_probe *o, struct return_sites_ctx *c,
			 const struct windows_ops *ops, struct func_windows *out)
{
	const bool here = o->file == OPS_CPU && !ops_has_no_place(o->role);
	uint64_t size = here ? elf_function_size(t->elf[OPS_CPU], o->vaddr) : 0;
	const uint8_t *code = size ? elf_bytes(t->elf[OPS_CPU], o->vaddr, size) : NULL;
	struct func_facts facts;

	*out = (struct func_windows){0};
	if (!code) {
		out->entry_reason = out->exit_reason = "its code is not in libtorch_cpu";
		return 0;
	}
	int r = return_sites_analyze(c, code, size, o->vaddr, &facts);
	return r ? r : windows_find(c, &facts, ops, out);
}

int op_table_windows(struct op_table *t, struct func_windows *out)
{
	struct windows_ops ops;
	int r = callees_windows_ops(t->callees, &ops);
	if (r)
		return r;
	const struct return_sites_ops sites = callees_ops(t->callees);
	struct return_sites_ctx *c = return_sites_new(&sites);
	if (!c)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->n && !r; i++)
		r = windows_of_op(t, &t->ops[i], c, &ops, &out[i]);
	return_sites_free(c);
	elf_file_drop(t->elf[OPS_CPU]);
	return r;
}
