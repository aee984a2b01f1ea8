/* Methods of torch.distributed that are traced without being operators, by their exported names:
 * what DistributedDataParallel does with the gradients, collectives of ProcessGroupGloo, and what
 * is done with a Work. */
#include <errno.h>
#include <string.h>

#include "symbolizer/ops/internal.h"

/* c10d::Reducer (torch/csrc/distributed/c10d/reducer.cpp, 1.13 to 2.13). */

enum { NO_BUCKET = LOC_NONE };

/* A bucket is marked when the gradients of all its parameters are there. In their order, buckets
 * are then sent: of each its parameters are asked for first. finalize_backward waits until all were
 * received. Its end and that of mark_bucket_ready leave no room for jumps in some builds, so that
 * of both only the entry is traced: they are moments. */
static const struct reducer_method {
	const char *symbol, *name;
	uint8_t self, bucket; /* locs */
	bool gives_variables; /* std::vector<at::Tensor>, by a hidden pointer */
} reducer_methods[] = {
    {"_ZN4c10d7Reducer17mark_bucket_readyEm", "c10d::Reducer::mark_bucket_ready", 0, 1, false},
    {"_ZNK4c10d7Reducer24get_variables_for_bucketEmRKNS0_6BucketE",
     "c10d::Reducer::get_variables_for_bucket", 1, 2, true},
    {"_ZN4c10d7Reducer17finalize_backwardEv", "c10d::Reducer::finalize_backward", 0, NO_BUCKET,
     false},
};

static const struct reducer_method *reducer_method_of(const char *symbol)
{
	for (size_t i = 0; i < sizeof(reducer_methods) / sizeof(reducer_methods[0]); i++)
		if (!strcmp(reducer_methods[i].symbol, symbol))
			return &reducer_methods[i];
	return NULL;
}

bool reducer_is_moment(const char *symbol)
{
	return !reducer_method_of(symbol)->gives_variables;
}

bool reducer_has_method(const char *symbol)
{
	return !strncmp(symbol, "_ZN", 3) && reducer_method_of(symbol);
}

static void reducer_describe(const struct reducer_method *m, struct op_desc *d, struct op_arg *a)
{
	a[0] = (struct op_arg){"self", "Reducer"};
	a[1] = (struct op_arg){"bucket", "int"};
	a[2] = (struct op_arg){"parameters", "Tensor[]"};
	a[3] = (struct op_arg){"names", "str?[]"};
	d->kind = OP_FUNCTION;
	d->name = m->name;
	d->args = a;
	d->nargs = m->bucket == NO_BUCKET ? 1 : 2;
	d->results = a + 2;
	d->nresults = m->gives_variables ? 2 : 0;
}

static struct abi_value value_word(uint8_t base, uint8_t read)
{
	return (struct abi_value){
	    .how = ABI_WORD, .base = base, .read = read, .flag_read = ABI_NO_READ};
}

int reducer_plan(const char *symbol, struct arena *arena, struct op_probe *o, struct op_plan *p)
{
	const struct reducer_method *m = reducer_method_of(symbol);
	struct op_arg *a = arena_alloc(arena, 4 * sizeof(*a));
	struct abi_value *v = arena_alloc(arena, 4 * sizeof(*v));
	if (!a || !v)
		return -ENOMEM;
	reducer_describe(m, &o->desc, a);
	*p = (struct op_plan){.flags = m->gives_variables ? PLAN_PY : PLAN_PY | PLAN_ASIDE,
			      .nentry = (uint8_t)o->desc.nargs};
	p->read[0] = (struct probe_read){.kind = READ_WORD, .a = m->self};
	p->read[1] = (struct probe_read){.kind = READ_WORD, .a = m->bucket};
	if (m->gives_variables)
		p->read[p->nentry + p->nexit++] = (struct probe_read){.kind = READ_VECTOR, .a = 0};
	v[0] = value_word(CXX_INT64, 0);
	v[1] = value_word(CXX_INT64, 1);
	v[2] = (struct abi_value){
	    .how = ABI_TENSORS, .base = CXX_TENSOR, .read = p->nentry, .flag_read = ABI_NO_READ};
	v[3] = (struct abi_value){.how = ABI_UNKNOWN,
				  .read = ABI_NO_READ,
				  .why = "which parameters these are is not known"};
	o->abi = (struct op_abi){
	    .nargs = o->desc.nargs, .nresults = o->desc.nresults, .args = v, .results = v + 2};
	o->values_known = true;
	return 0;
}

/* Collectives that PyTorch 1.13 calls without asking the dispatcher: methods of
 * c10d::ProcessGroupGloo (torch/csrc/distributed/c10d/ProcessGroupGloo.hpp). From 2.0 on each is an
 * operator, and here they have its name. */

enum { GIVES_WORK, NO_RESULT };
enum { GLOO_ARGS = 3 };
enum argument { NONE, TENSOR, TENSORS, NOT_READ, GROUP, REDUCTION, BOOL };

/* The Work is returned through a hidden pointer, which comes before `this`. The tag of recv and the
 * sizes of alltoall_base are left out. */
static const struct gloo_method {
	const char *symbol, *name;
	struct {
		const char *name;
		uint8_t is, loc; /* enum argument, and where it or its address is */
	} args[GLOO_ARGS];
	uint8_t gives;
} gloo_methods[] = {
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

static const struct gloo_method *gloo_method_of(const char *symbol)
{
	for (size_t i = 0; i < sizeof(gloo_methods) / sizeof(gloo_methods[0]); i++)
		if (!strcmp(gloo_methods[i].symbol, symbol))
			return &gloo_methods[i];
	return NULL;
}

bool gloo_has_method(struct elf_file *cpu, const char *symbol)
{
	static const char dispatches[] = "_ZN4c10d12ProcessGroup10getBackendEN3c1010DeviceTypeE";
	return !strncmp(symbol, "_ZN4c10d16", 10) && gloo_method_of(symbol) &&
	       !elf_find_dynamic(cpu, dispatches, NULL);
}

static uint8_t plan_read(struct op_plan *p, struct probe_read r)
{
	p->read[p->nentry] = r;
	return p->nentry++;
}

/* An object at the address in loc `a`: that, and what it begins with. */
static struct abi_value plan_object(struct op_plan *p, uint8_t a, uint8_t size)
{
	uint8_t at = plan_read(p, (struct probe_read){.kind = READ_WORD, .a = a});
	uint8_t bytes = plan_read(p, (struct probe_read){.kind = READ_MEM, .a = a, .size = size});
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
		v.read = plan_read(p, (struct probe_read){.kind = READ_TENSOR, .a = a});
		return v;
	case TENSORS:
		v.how = ABI_TENSORS;
		v.read = plan_read(p, (struct probe_read){.kind = READ_VECTOR, .a = a});
		return v;
	case BOOL:
		v.how = ABI_WORD;
		v.base = CXX_BOOL;
		v.read = plan_read(p, (struct probe_read){.kind = READ_WORD, .a = a});
		return v;
	case GROUP:
		return plan_object(p, a, 64); /* rank and size are at the beginning */
	case REDUCTION:
		return plan_object(p, a, 32);
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
	const struct gloo_method *m = gloo_method_of(symbol);
	struct op_arg *a = arena_alloc(arena, (GLOO_ARGS + 1) * sizeof(*a));
	struct abi_value *v = arena_alloc(arena, (GLOO_ARGS + 1) * sizeof(*v));
	uint16_t n = 0;
	if (!a || !v)
		return -ENOMEM;
	*p = (struct op_plan){.flags = PLAN_PY};
	for (; n < GLOO_ARGS && m->args[n].is != NONE; n++) {
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

static void work_argument(struct abi_value *v, struct op_probe *o)
{
	*v = (struct abi_value){
	    .how = ABI_WORD, .base = CXX_WORK, .read = 0, .flag_read = ABI_NO_READ};
	o->abi = (struct op_abi){.nargs = 1, .args = v};
	o->values_known = true;
}

/* bool Work::wait(std::chrono::milliseconds) (torch/csrc/distributed/c10d/Work.hpp). */
int work_wait_plan(struct arena *arena, struct op_probe *o, struct op_plan *p)
{
	struct op_arg *a = arena_alloc(arena, sizeof(*a));
	struct abi_value *v = arena_alloc(arena, sizeof(*v));
	if (!a || !v)
		return -ENOMEM;
	*a = (struct op_arg){"self", "Work"};
	*p = (struct op_plan){.flags = PLAN_PY};
	o->desc.kind = OP_FUNCTION;
	o->desc.name = "c10d::Work::wait";
	o->desc.args = a;
	o->desc.nargs = 1;
	plan_read(p, (struct probe_read){.kind = READ_WORD, .a = 0});
	work_argument(v, o);
	return 0;
}

/* void Work::finish(std::exception_ptr), which is passed by reference (Itanium C++ ABI, 3.1.2.3)
 * and holds the address of the exception; void AsyncWork::finishWorkGloo(). */
void work_done_plan(struct op_probe *o, struct op_plan *p)
{
	*p = (struct op_plan){.flags = PLAN_ASIDE};
	o->desc.name = o->role == ROLE_DONE ? "c10d::Work::finish" : "c10d::Work::written";
	plan_read(p, (struct probe_read){.kind = READ_WORD, .a = 0});
	if (o->role == ROLE_WRITTEN)
		return;
	plan_read(p, (struct probe_read){.kind = READ_MEM, .a = 1, .size = 8});
}
