/* Collectives that PyTorch 1.13 calls without asking the dispatcher: methods of
 * c10d::ProcessGroupGloo, which are exported (torch/csrc/distributed/c10d/ProcessGroupGloo.hpp).
 * From 2.0 on each is an operator, and here they have its name. */
#include <errno.h>
#include <string.h>

#include "symbolizer/ops/internal.h"

enum { GIVES_WORK, NO_RESULT };
enum { ARGS_MAX = 3 };
enum argument { NONE, TENSOR, TENSORS, NOT_READ, GROUP, REDUCTION, BOOL };

/* The Work is returned through a hidden pointer, which comes before `this`. The tag of recv and the
 * sizes of alltoall_base are left out. */
static const struct gloo_method {
	const char *symbol, *name;
	struct {
		const char *name;
		uint8_t is, loc; /* enum argument, and where it or its address is */
	} args[ARGS_MAX];
	uint8_t gives;
} methods[] = {
    {"_ZN4c10d16ProcessGroupGloo13alltoall_baseERN2at6TensorES3_RSt6vectorIlSaIlEES7_RKNS_"
     "15AllToAllOptionsE",
     "c10d::alltoall_base_",
     {{"output", TENSOR, 2}, {"input", TENSOR, 3}, {"process_group", GROUP, 1}},
     GIVES_WORK},
    {"_ZN4c10d16ProcessGroupGloo19allreduce_coalescedERSt6vectorIN2at6TensorESaIS3_EERKNS_"
     "25AllreduceCoalescedOptionsE",
     "c10d::allreduce_coalesced_",
     {{"tensors", TENSORS, 2}, {"process_group", GROUP, 1}, {"reduce_op", REDUCTION, 3}},
     GIVES_WORK},
    {"_ZN4c10d16ProcessGroupGloo19allgather_coalescedERSt6vectorIS1_IN2at6TensorESaIS3_EESaIS5_EE"
     "RS5_RKNS_16AllgatherOptionsE",
     "c10d::allgather_coalesced_",
     {{"output_lists", NOT_READ, 2}, {"input_list", TENSORS, 3}, {"process_group", GROUP, 1}},
     GIVES_WORK},
    {"_ZN4c10d16ProcessGroupGloo13recvAnysourceERSt6vectorIN2at6TensorESaIS3_EEi",
     "c10d::recv_any_source_",
     {{"tensors", TENSORS, 2}, {"process_group", GROUP, 1}},
     GIVES_WORK},
    {"_ZN4c10d16ProcessGroupGloo16monitoredBarrierERKNS_14BarrierOptionsEb",
     "c10d::monitored_barrier_",
     {{"process_group", GROUP, 0}, {"wait_all_ranks", BOOL, 2}},
     NO_RESULT},
};

static const struct gloo_method *method_of(const char *symbol)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (!strcmp(methods[i].symbol, symbol))
			return &methods[i];
	return NULL;
}

bool gloo_has_method(struct elf_file *cpu, const char *symbol)
{
	static const char dispatches[] = "_ZN4c10d12ProcessGroup10getBackendEN3c1010DeviceTypeE";
	return !strncmp(symbol, "_ZN4c10d16", 10) && method_of(symbol) &&
	       !elf_find_dynamic(cpu, dispatches, NULL);
}

static uint8_t add(struct op_plan *p, struct probe_read r)
{
	p->read[p->nentry] = r;
	return p->nentry++;
}

/* An object at the address in loc `a`: that, and what it begins with. */
static struct abi_value object(struct op_plan *p, uint8_t a, uint8_t size)
{
	uint8_t at = add(p, (struct probe_read){.kind = READ_WORD, .a = a});
	uint8_t bytes = add(p, (struct probe_read){.kind = READ_MEM, .a = a, .size = size});
	return (struct abi_value){.how = ABI_OBJECT, .read = bytes, .flag_read = at};
}

static struct abi_value plan_argument(struct op_plan *p, uint8_t is, uint8_t a, const char **type)
{
	static const char *const types[] = {
	    [TENSOR] = "Tensor",      [TENSORS] = "Tensor[]",	[NOT_READ] = "Tensor[][]",
	    [GROUP] = "ProcessGroup", [REDUCTION] = "ReduceOp", [BOOL] = "bool"};
	struct abi_value v = {.base = CXX_TENSOR, .flag_read = ABI_NO_READ};
	*type = types[is];
	switch (is) {
	case TENSOR:
		v.how = ABI_TENSOR;
		v.read = add(p, (struct probe_read){.kind = READ_TENSOR, .a = a});
		return v;
	case TENSORS:
		v.how = ABI_TENSORS;
		v.read = add(p, (struct probe_read){.kind = READ_VECTOR, .a = a});
		return v;
	case BOOL:
		v.how = ABI_WORD;
		v.base = CXX_BOOL;
		v.read = add(p, (struct probe_read){.kind = READ_WORD, .a = a});
		return v;
	case GROUP:
		return object(p, a, 64); /* rank and size are at the beginning */
	case REDUCTION:
		return object(p, a, 32);
	default:
		return (struct abi_value){
		    .how = ABI_UNKNOWN, .read = ABI_NO_READ, .why = "lists of lists are not read"};
	}
}

/* The Work, and the first word of it, which tells its class. */
static struct abi_value plan_work(struct op_plan *p)
{
	const uint8_t at = p->nentry;
	p->read[at] = (struct probe_read){.kind = READ_MEM, .a = 0, .size = 8};
	p->read[at + 1] = (struct probe_read){.kind = READ_MEM, .a = 0, .deref = 1, .size = 8};
	p->nexit = 2;
	return (struct abi_value){.how = ABI_OBJECT, .read = at + 1, .flag_read = at};
}

int gloo_plan(const char *symbol, struct arena *arena, struct op_probe *o, struct op_plan *p)
{
	const struct gloo_method *m = method_of(symbol);
	struct op_arg *a = arena_alloc(arena, (ARGS_MAX + 1) * sizeof(*a));
	struct abi_value *v = arena_alloc(arena, (ARGS_MAX + 1) * sizeof(*v));
	uint16_t n = 0;
	if (!a || !v)
		return -ENOMEM;
	*p = (struct op_plan){.flags = PLAN_PY};
	for (; n < ARGS_MAX && m->args[n].is != NONE; n++) {
		a[n].name = m->args[n].name;
		v[n] = plan_argument(p, m->args[n].is, m->args[n].loc, &a[n].type);
	}
	const bool gives = m->gives == GIVES_WORK;
	a[n] = (struct op_arg){"result", "Work"};
	v[n] = gives ? plan_work(p) : (struct abi_value){0};
	o->desc.kind = OP_FUNCTION;
	o->desc.name = m->name;
	o->desc.args = a;
	o->desc.results = a + n;
	o->desc.nargs = n;
	o->desc.nresults = gives;
	o->abi = (struct op_abi){.nargs = n, .nresults = gives, .args = v, .results = v + n};
	o->values_known = true;
	return 0;
}
