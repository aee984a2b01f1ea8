/* What DistributedDataParallel does with the gradients: methods of its c10d::Reducer
 * (torch/csrc/distributed/c10d/reducer.cpp, 1.13 to 2.13), which are exported. */
#include <errno.h>
#include <string.h>

#include "symbolizer/ops/internal.h"

enum { NO_BUCKET = LOC_NONE };

/* A bucket is marked when the gradients of all its parameters are there. In their order, buckets
 * are then sent: of each its parameters are asked for first. finalize_backward waits until all were
 * received. Its end and that of mark_bucket_ready leave no room for jumps in some builds, so that
 * of both only the entry is traced: they are moments. */
static const struct reducer_method {
	const char *symbol, *name;
	uint8_t self, bucket; /* locs */
	bool gives_variables; /* std::vector<at::Tensor>, by a hidden pointer */
} methods[] = {
    {"_ZN4c10d7Reducer17mark_bucket_readyEm", "c10d::Reducer::mark_bucket_ready", 0, 1, false},
    {"_ZNK4c10d7Reducer24get_variables_for_bucketEmRKNS0_6BucketE",
     "c10d::Reducer::get_variables_for_bucket", 1, 2, true},
    {"_ZN4c10d7Reducer17finalize_backwardEv", "c10d::Reducer::finalize_backward", 0, NO_BUCKET,
     false},
};

static const struct reducer_method *method_of(const char *symbol)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (!strcmp(methods[i].symbol, symbol))
			return &methods[i];
	return NULL;
}

bool reducer_is_moment(const char *symbol)
{
	return !method_of(symbol)->gives_variables;
}

bool reducer_has_method(const char *symbol)
{
	return !strncmp(symbol, "_ZN", 3) && method_of(symbol);
}

static void describe(const struct reducer_method *m, struct op_desc *d, struct op_arg *a)
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

static struct abi_value word(uint8_t base, uint8_t read)
{
	return (struct abi_value){
	    .how = ABI_WORD, .base = base, .read = read, .flag_read = ABI_NO_READ};
}

int reducer_plan(const char *symbol, struct arena *arena, struct op_probe *o, struct op_plan *p)
{
	const struct reducer_method *m = method_of(symbol);
	struct op_arg *a = arena_alloc(arena, 4 * sizeof(*a));
	struct abi_value *v = arena_alloc(arena, 4 * sizeof(*v));
	if (!a || !v)
		return -ENOMEM;
	describe(m, &o->desc, a);
	*p = (struct op_plan){.flags = m->gives_variables ? PLAN_PY : PLAN_PY | PLAN_ASIDE,
			      .nentry = (uint8_t)o->desc.nargs};
	p->read[0] = (struct probe_read){.kind = READ_WORD, .a = m->self};
	p->read[1] = (struct probe_read){.kind = READ_WORD, .a = m->bucket};
	if (m->gives_variables)
		p->read[p->nentry + p->nexit++] = (struct probe_read){.kind = READ_VECTOR, .a = 0};
	v[0] = word(CXX_INT64, 0);
	v[1] = word(CXX_INT64, 1);
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
