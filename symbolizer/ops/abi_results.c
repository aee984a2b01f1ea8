/* Where an op leaves its results (System V ABI for AMD64, 3.2.3; libstdc++). */
#include "symbolizer/ops/ops.h"

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/ops/internal.h"

static uint8_t add_exit(struct abi_builder *b, struct probe_read r)
{
	if (b->plan->nentry + b->nexit >= PLAN_READS)
		return ABI_NO_READ;
	b->exit[b->nexit] = r;
	return (uint8_t)b->nexit++;
}

/* The C++ type of a result, with its size in a std::tuple. */
struct result_type {
	uint8_t base; /* enum cxx_base, CXX_OTHER: unknown */
	uint8_t size;
	bool vector, in_register, reference;
};

static struct result_type result_type(const struct schema_arg *r)
{
	struct result_type t = {.base = CXX_OTHER};
	if (r->is_optional)
		return t;
	if (r->is_list) {
		if (r->base == SCHEMA_TENSOR && r->list_depth == 1)
			t = (struct result_type){.base = CXX_TENSOR, .size = 24, .vector = true};
		return t;
	}
	switch (r->base) {
	case SCHEMA_TENSOR:
		t = (struct result_type){.base = CXX_TENSOR, .size = 8, .reference = r->is_write};
		break;
	case SCHEMA_SCALAR:
		t = (struct result_type){.base = CXX_SCALAR, .size = 32};
		break;
	case SCHEMA_SYMINT:
		t = (struct result_type){.base = CXX_SYMINT, .size = 8};
		break;
	case SCHEMA_INT:
		t = (struct result_type){.base = CXX_INT64, .size = 8, .in_register = true};
		break;
	case SCHEMA_BOOL:
		t = (struct result_type){.base = CXX_BOOL, .size = 1, .in_register = true};
		break;
	case SCHEMA_DTYPE:
		t = (struct result_type){.base = CXX_SCALAR_TYPE, .size = 1, .in_register = true};
		break;
	case SCHEMA_QSCHEME: /* a one-byte enum: c10/core/QScheme.h */
		t = (struct result_type){.base = CXX_QSCHEME, .size = 1, .in_register = true};
		break;
	case SCHEMA_FLOAT:
		t = (struct result_type){.base = CXX_DOUBLE, .size = 8};
		break;
	default:
		break;
	}
	return t;
}

static bool sse_result(const struct schema *s)
{
	return s->nreturns == 1 && result_type(&s->returns[0]).base == CXX_DOUBLE;
}

int abi_has_hidden(const struct schema *s, const struct func_facts *facts)
{
	if (s->nreturns == 0 || sse_result(s))
		return 0;
	/* libstdc++'s tuple has a non-trivial move constructor, also for references (tuple,
	 * _Tuple_impl). */
	if (s->nreturns > 1)
		return 1;
	struct result_type t = result_type(&s->returns[0]);
	if (t.base == CXX_OTHER)
		return facts->ret_is_hidden_ptr ? 1 : -1;
	return !t.reference && !t.in_register;
}

/* Index of the argument that a reference result refers to, by their common alias set; -1 if none.
 */
static int aliased_arg(const struct schema *s, const struct schema_arg *r)
{
	for (unsigned i = 0; r->alias && i < s->nargs; i++) {
		const struct schema_arg *a = &s->args[i];
		if (a->is_write && a->alias && a->alias[0] == r->alias[0] &&
		    a->base == SCHEMA_TENSOR && !a->is_list)
			return (int)i;
	}
	return -1;
}

static struct abi_value plan_reference(struct abi_builder *b, const struct schema *s,
				       const struct op_abi *out, const struct schema_arg *r)
{
	int i = aliased_arg(s, r);
	struct cxx_param tensor = {.base = CXX_TENSOR};
	if (i < 0 || out->args[i].how != ABI_TENSOR || out->args[i].has_flag)
		return abi_unknown("a reference to an unknown argument");
	return abi_known(&tensor, ABI_TENSOR, add_exit(b, b->plan->read[out->args[i].read]));
}

static struct abi_value plan_register(struct abi_builder *b, const struct result_type *t)
{
	struct cxx_param p = {.base = t->base};
	struct probe_read r = {.kind = READ_WORD, .a = (uint8_t)(LOC_NOW | b->facts->ret_reg)};
	if (!b->facts->ret_known || b->facts->exit_kind == EXIT_NONE ||
	    b->facts->ret_width < t->size)
		return abi_unknown("the register that holds it at the exit is not known");
	if (b->facts->ret_reg == ARCH_NOREG &&
	    (b->facts->ret_sp_off < INT16_MIN || b->facts->ret_sp_off > INT16_MAX))
		return abi_unknown("too far down the stack");
	if (b->facts->ret_reg == ARCH_NOREG)
		r = (struct probe_read){.kind = READ_SLOT, .off = (int16_t)b->facts->ret_sp_off};
	return abi_known(&p, ABI_WORD, add_exit(b, r));
}

static struct abi_value plan_hidden(struct abi_builder *b, const struct result_type *t,
				    unsigned off)
{
	struct cxx_param p = {.base = t->base};
	struct probe_read r = {
	    .kind = READ_MEM, .a = LOC_REG, .size = t->size, .off = (int16_t)off};
	if (t->vector)
		r.kind = READ_VECTOR;
	else if (t->base == CXX_TENSOR)
		r.kind = READ_TENSOR;
	else if (t->size < 8)
		r.size = 8;
	uint8_t how = t->vector ? ABI_TENSORS : t->base == CXX_TENSOR ? ABI_TENSOR : ABI_BYTES;
	return abi_known(&p, how, add_exit(b, r));
}

/* libstdc++ stores a tuple's elements from the last to the first (tuple, _Tuple_impl). */
static void tuple_offsets(const struct schema *s, unsigned *off)
{
	unsigned at = 0;
	for (unsigned i = s->nreturns; i-- > 0;) {
		struct result_type t = result_type(&s->returns[i]);
		unsigned align = t.size == 32 ? 16 : t.size == 1 ? 1 : 8;
		at = (at + align - 1) & ~(align - 1);
		off[i] = at;
		at += t.size;
	}
}

static bool known_tuple(const struct schema *s)
{
	for (unsigned i = 0; i < s->nreturns; i++)
		if (result_type(&s->returns[i]).base == CXX_OTHER)
			return false;
	return true;
}

void abi_plan_results(struct abi_builder *b, const struct schema *s, struct op_abi *out)
{
	unsigned off[SCHEMA_MAX_ARGS] = {0};
	bool whole = known_tuple(s);
	if (s->nreturns > 1 && whole)
		tuple_offsets(s, off);
	for (unsigned i = 0; i < s->nreturns; i++) {
		struct result_type t = result_type(&s->returns[i]);
		struct abi_value *v = &out->results[i];
		if (t.reference)
			*v = plan_reference(b, s, out, &s->returns[i]);
		else if (!whole)
			*v = abi_unknown("a result of a type ditrace does not know");
		else if (t.base == CXX_QSCHEME)
			*v = abi_unknown("a quantization scheme, which is none of the kinds shown");
		else if (sse_result(s))
			*v = abi_unknown("returned in an SSE register");
		else if (t.in_register && s->nreturns == 1)
			*v = plan_register(b, &t);
		else
			*v = plan_hidden(b, &t, off[i]);
	}
}
