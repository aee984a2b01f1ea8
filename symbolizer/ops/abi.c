#include "symbolizer/ops/ops.h"

#include <errno.h>
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/ops/internal.h"

enum { SLOT_NONE = 0xff, XMM_BASE = 0x80 };

/* Locations of the eightbytes of one parameter: locs of plan.h, or XMM_BASE + n. */
struct passed {
	uint8_t loc[3];
	bool ok;
};

/* Eightbytes of a parameter: 'I' an integer register, 'S' an SSE register; 'M': three words in
 * memory. */
static const char *classes_of(const struct cxx_param *p)
{
	if (p->by_ref || (!p->list && (p->base == CXX_SCALAR || p->base == CXX_TENSOR)))
		return "I";
	if (p->list == CXX_ARRAY_REF)
		/* c10's optional of an ArrayRef has no separate flag (c10/util/Optional.h,
		 * arrayref_optional_base, 1.13); OptionalArrayRef wraps whichever optional its
		 * version has. */
		return p->optional && p->std_optional ? "M" : "II";
	if (p->list)
		return "I";
	switch (p->base) {
	case CXX_SYMINT:
	case CXX_GENERATOR:
	case CXX_STORAGE:
		return "I"; /* by reference: the copy constructor is not trivial */
	case CXX_STRING_VIEW:
		/* c10::optional<c10::string_view> has a non-trivial copy constructor
		 * (c10/util/Optional.h, optional_base, 1.13) and is passed by reference. */
		return !p->optional ? "II" : p->std_optional ? "M" : "I";
	case CXX_DOUBLE:
		/* c10's optional has its value in a union with a char, so that eightbyte is of
		 * class INTEGER. */
		return !p->optional ? "S" : p->std_optional ? "SI" : "II";
	case CXX_INT64:
		return p->optional ? "II" : "I";
	case CXX_STREAM:
		return p->optional ? "M" : "II";
	default:
		return "I";
	}
}

static struct passed pass(struct abi_assign *s, const char *classes)
{
	struct passed p = {.loc = {LOC_NONE, LOC_NONE, LOC_NONE}, .ok = true};
	unsigned gprs = 0, xmms = 0, words = 0;
	bool memory = classes[0] == 'M';
	for (const char *c = classes; *c; c++, words++) {
		gprs += *c == 'I';
		xmms += *c == 'S';
	}
	if (memory)
		words = 3;
	if (s->gpr + gprs > ARCH_INT_ARGS || s->xmm + xmms > ARCH_FP_ARGS)
		memory = true;
	for (unsigned i = 0; i < words; i++) {
		if (memory) {
			if (LOC_STACK + s->stack >= LOC_MAX)
				p.ok = false;
			else
				p.loc[i] = (uint8_t)(LOC_STACK + s->stack);
			s->stack++;
		} else if (classes[i] == 'S') {
			p.loc[i] = (uint8_t)(XMM_BASE + s->xmm++);
		} else {
			p.loc[i] = (uint8_t)(LOC_REG + s->gpr++);
		}
	}
	return p;
}

static uint8_t add_entry(struct abi_builder *b, struct probe_read r)
{
	if (b->plan->nentry + b->nexit >= PLAN_READS)
		return ABI_NO_READ;
	b->plan->read[b->plan->nentry] = r;
	return b->plan->nentry++;
}

struct abi_value abi_unknown(const char *why)
{
	return (struct abi_value){.how = ABI_UNKNOWN, .read = ABI_NO_READ, .why = why};
}

struct abi_value abi_known(const struct cxx_param *p, uint8_t how, uint8_t read)
{
	if (read == ABI_NO_READ)
		return abi_unknown("too many arguments");
	return (struct abi_value){
	    .how = how,
	    .base = p->base,
	    .read = read,
	    .flag_read = ABI_NO_READ,
	    .has_flag = p->optional,
	    .std_optional = p->std_optional,
	    .count = p->array_len,
	};
}

/* Whether it is a std::array<bool, N> by value in one register. */
static bool is_bools(const struct cxx_param *p)
{
	return p->list == CXX_STD_ARRAY && p->base == CXX_BOOL && p->array_len <= 8 && !p->by_ref &&
	       !p->optional && !p->elem_optional;
}

/* Whether it is passed by value with unknown size, so that the locations of later arguments are
 * unknown, too. */
static bool of_unknown_size(const struct cxx_param *p)
{
	return !p->by_ref && (p->base == CXX_OTHER || (p->list == CXX_STD_ARRAY && !is_bools(p)));
}

/* Bytes of an element of an ArrayRef; 0: unknown. */
static uint8_t element_size(const struct cxx_param *p)
{
	if (p->elem_optional)
		return 0;
	switch (p->base) {
	case CXX_INT64:
	case CXX_SYMINT:
	case CXX_DOUBLE:
	case CXX_DIMNAME:
		return 8;
	case CXX_SCALAR:
		return 32;
	default:
		return 0;
	}
}

/* The spill slot of that SSE argument register; NULL: unknown. */
static const struct fp_slot *fp_slot_of(const struct abi_builder *b, unsigned xmm)
{
	const struct fp_slot *s = &b->facts->late.xmm[xmm];
	bool good = b->late && s->known && s->sp_off >= INT16_MIN && s->sp_off <= INT16_MAX;
	return good ? s : NULL;
}

/* Plan a double, which may be in an SSE register. */
static struct abi_value plan_double(struct abi_builder *b, const struct cxx_param *p,
				    const struct passed *at)
{
	unsigned vi = p->optional && !p->std_optional ? 1 : 0;
	uint8_t loc = at->loc[vi];
	struct probe_read r = {.kind = READ_WORD, .a = loc};
	if (loc >= XMM_BASE && b->facts->fp_known) {
		r.a = (uint8_t)(LOC_FP + loc - XMM_BASE);
	} else if (loc >= XMM_BASE) {
		const struct fp_slot *s = fp_slot_of(b, loc - XMM_BASE);
		if (!s)
			return abi_unknown(
			    "passed in an SSE register that the code does not spill to memory");
		r = (struct probe_read){.kind = READ_SLOT, .off = (int16_t)s->sp_off};
	}
	struct abi_value v = abi_known(p, p->optional ? ABI_WORDS : ABI_WORD, add_entry(b, r));
	if (p->optional && v.how != ABI_UNKNOWN) {
		v.flag_read =
		    add_entry(b, (struct probe_read){.kind = READ_WORD, .a = at->loc[!vi]});
		if (v.flag_read == ABI_NO_READ)
			return abi_unknown("too many arguments");
	}
	return v;
}

static struct abi_value plan_array(struct abi_builder *b, const struct cxx_param *p,
				   const struct passed *at)
{
	struct probe_read r = {.kind = READ_ARRAY,
			       .a = at->loc[0],
			       .b = at->loc[1],
			       .c = LOC_NONE,
			       .size = element_size(p)};
	if (p->base == CXX_TENSOR && !p->elem_optional) {
		if (p->optional)
			return abi_unknown("an optional list of tensors");
		r.kind = READ_TENSORS;
		return abi_known(p, ABI_TENSORS, add_entry(b, r));
	}
	if (!r.size)
		return abi_unknown("a list of a C++ type ditrace does not know");
	if (p->optional && p->std_optional)
		r.c = at->loc[2];
	return abi_known(p, ABI_ARRAY, add_entry(b, r));
}

/* std::string_view is {length, pointer} (libstdc++, string_view), c10's {pointer, length}; an
 * optional has its flag after (std) or before (c10) the value. */
static struct abi_value plan_string(struct abi_builder *b, const struct cxx_param *p,
				    const struct passed *at)
{
	struct probe_read r = {.kind = READ_ARRAY, .c = LOC_NONE, .size = 1};
	if (p->optional && !p->std_optional) {
		r.a = at->loc[0];
		r.deref = 1;
		return abi_known(p, ABI_STRING, add_entry(b, r));
	}
	r.a = at->loc[p->std_view ? 1 : 0];
	r.b = at->loc[p->std_view ? 0 : 1];
	if (p->optional)
		r.c = at->loc[2];
	return abi_known(p, ABI_STRING, add_entry(b, r));
}

static struct abi_value plan_memory(struct abi_builder *b, const struct cxx_param *p, uint8_t loc)
{
	struct probe_read r = {.kind = READ_MEM, .a = loc, .size = 8};
	if (p->base == CXX_SCALAR)
		/* c10::Scalar is 32 bytes, 16-byte aligned: tag, then a union (c10/core/Scalar.h).
		 */
		r.size = !p->optional ? 32 : p->std_optional ? 40 : 48;
	else if (p->optional)
		r.size = 16;
	return abi_known(p, ABI_BYTES, add_entry(b, r));
}

static struct abi_value plan_tensor(struct abi_builder *b, const struct cxx_param *p, uint8_t loc)
{
	struct probe_read r = {.kind = READ_TENSOR, .a = loc};
	if (p->optional) {
		r.kind = READ_OPT_TENSOR;
		r.off = p->std_optional ? 0 : 8;
		r.size = p->std_optional ? 8 : 0;
	}
	return abi_known(p, ABI_TENSOR, add_entry(b, r));
}

static struct abi_value plan_words(struct abi_builder *b, const struct cxx_param *p,
				   const struct passed *at)
{
	unsigned vi = p->std_optional ? 0 : 1;
	struct abi_value v = abi_known(
	    p, ABI_WORDS, add_entry(b, (struct probe_read){.kind = READ_WORD, .a = at->loc[vi]}));
	v.flag_read = add_entry(b, (struct probe_read){.kind = READ_WORD, .a = at->loc[!vi]});
	return v.flag_read == ABI_NO_READ ? abi_unknown("too many arguments") : v;
}

static struct abi_value plan_param(struct abi_builder *b, const struct cxx_param *p)
{
	struct passed at = pass(&b->at, classes_of(p));
	if (!at.ok)
		return abi_unknown("passed too far up the stack");
	if (p->list == CXX_ARRAY_REF)
		return plan_array(b, p, &at);
	if (p->list == CXX_STD_ARRAY && !is_bools(p))
		return abi_unknown("an array that is not one of up to eight bools");
	if (p->list == CXX_STD_ARRAY)
		return abi_known(
		    p, ABI_BOOLS,
		    add_entry(b, (struct probe_read){.kind = READ_WORD, .a = at.loc[0]}));
	if (p->list == CXX_C10_LIST)
		return abi_known(
		    p, ABI_LIST,
		    add_entry(b, (struct probe_read){.kind = READ_LIST, .a = at.loc[0]}));
	if (p->list == CXX_ILIST_REF)
		return abi_known(
		    p, ABI_TENSORS,
		    add_entry(b, (struct probe_read){.kind = READ_ILIST, .a = at.loc[0]}));
	switch (p->base) {
	case CXX_TENSOR:
		return plan_tensor(b, p, at.loc[0]);
	case CXX_SCALAR:
	case CXX_SYMINT:
	case CXX_GENERATOR:
		return plan_memory(b, p, at.loc[0]);
	case CXX_STRING_VIEW:
		return plan_string(b, p, &at);
	case CXX_DOUBLE:
		return plan_double(b, p, &at);
	case CXX_STORAGE:
		return abi_unknown("a storage, which is none of the kinds shown");
	case CXX_STREAM:
		return abi_unknown("a stream, which is none of the kinds shown");
	case CXX_OTHER:
		return abi_unknown("a C++ type ditrace does not know");
	case CXX_INT64:
		if (p->optional)
			return plan_words(b, p, &at);
		break;
	default:
		break;
	}
	return abi_known(p, ABI_WORD,
			 add_entry(b, (struct probe_read){.kind = READ_WORD, .a = at.loc[0]}));
}

/* Append the exit reads to the entry reads and renumber them. */
static void join_reads(struct abi_builder *b, struct op_abi *out)
{
	struct op_plan *p = b->plan;
	for (unsigned i = 0; i < b->nexit; i++)
		p->read[p->nentry + i] = b->exit[i];
	p->nexit = (uint8_t)b->nexit;
	for (unsigned i = 0; i < out->nresults; i++)
		if (out->results[i].read != ABI_NO_READ)
			out->results[i].read += p->nentry;
	unsigned stack = b->at.stack;
	p->nstack = (uint8_t)(stack > LOC_MAX - LOC_STACK ? LOC_MAX - LOC_STACK : stack);
}

/* Whether to probe at the deferred entry: some arguments are in SSE registers, and all integer
 * arguments are still in known registers there. */
static bool wants_late(const struct cxx_function *f, const struct deferred_entry *late, bool hidden,
		       unsigned *ngpr)
{
	struct abi_assign all = {.gpr = hidden ? 1 : 0};
	for (unsigned i = 0; i < f->nparams && !of_unknown_size(&f->params[i]); i++)
		pass(&all, classes_of(&f->params[i]));
	*ngpr = all.gpr;
	if (!all.xmm || !late->off || late->sp > UINT16_MAX)
		return false;
	for (unsigned n = 0; n < all.gpr; n++)
		if (late->arg[n] == ARCH_NOREG)
			return false;
	return true;
}

static void set_late(struct op_plan *plan, const struct deferred_entry *late, unsigned ngpr)
{
	plan->entry_sp = (uint16_t)late->sp;
	memcpy(plan->arg_reg, late->arg, sizeof(plan->arg_reg));
	if (memcmp(late->arg, arch_int_arg, ngpr))
		plan->flags |= PLAN_MOVED;
}

int abi_plan(const struct cxx_function *f, const struct schema *s, const struct func_facts *facts,
	     struct arena *a, struct op_plan *plan, struct op_abi *out)
{
	int hidden = abi_has_hidden(s, facts);
	if (f->nparams != s->nargs || hidden < 0)
		return -EPROTO;
	/* The code must agree: a function that returns a class returns its address in the result
	 * register. */
	if (facts->ret_is_hidden_ptr && !hidden)
		return -EPROTO;
	*plan = (struct op_plan){.flags = PLAN_PY | PLAN_FORWARD};
	*out = (struct op_abi){.nargs = s->nargs, .nresults = s->nreturns};
	out->args = arena_alloc(a, s->nargs * sizeof(*out->args) + 1);
	out->results = arena_alloc(a, s->nreturns * sizeof(*out->results) + 1);
	if (!out->args || !out->results)
		return -ENOMEM;
	struct abi_builder b = {.plan = plan, .facts = facts, .at.gpr = hidden ? 1 : 0};
	unsigned ngpr;
	b.late = out->late = wants_late(f, &facts->late, hidden, &ngpr);
	if (b.late)
		set_late(plan, &facts->late, ngpr);
	bool lost = false; /* the locations of further arguments are unknown */
	for (unsigned i = 0; i < s->nargs; i++) {
		out->args[i] = lost ? abi_unknown("passed after a type ditrace does not know")
				    : plan_param(&b, &f->params[i]);
		lost |= of_unknown_size(&f->params[i]);
	}
	abi_plan_results(&b, s, out);
	join_reads(&b, out);
	return 0;
}
