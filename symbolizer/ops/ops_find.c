#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/ops/internal.h"
#include "symbolizer/ops/ops.h"

/* Symbols looked up by full name, in libtorch_cpu, libtorch_python and libc10. Mangled by the
 * Itanium C++ ABI, section 5.1. */
static const struct wanted {
	const char *name;
	uint8_t role, file;
} wanted[] = {
    {"_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_"
     "11InputBufferE"
     "RKS2_INS0_10ReadyQueueEE",
     ROLE_ENGINE, OPS_CPU},
    {"_ZN5torch8autograd6PyNode5applyEOSt6vectorIN2at6TensorESaIS4_EE", ROLE_PY_NODE, OPS_PYTHON},
    /* 1.13: exported; later in an unnamed namespace, with a keyword-argument parameter. */
    {"_Z17THPFunction_applyP7_objectS0_", ROLE_FUNCTION, OPS_PYTHON},
    {"_ZN12_GLOBAL__N_117THPFunction_applyEP7_objectS1_S1_", ROLE_FUNCTION, OPS_PYTHON},
    {"_ZN12_GLOBAL__N_117THPFunction_applyEP7_objectS1_", ROLE_FUNCTION, OPS_PYTHON},
    /* Those of other libraries, as ProcessGroupNCCL::WorkNCCL::wait, only have a stream wait. */
    {"_ZN4c10d4Work4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE", ROLE_WAIT, OPS_CPU},
    {"_ZN4c10d16ProcessGroupGloo8SendWork4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE",
     ROLE_WAIT, OPS_CPU},
    {"_ZN4c10d16ProcessGroupGloo8RecvWork4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE",
     ROLE_WAIT, OPS_CPU},
    {"_ZN4c10d4Work6finishENSt15__exception_ptr13exception_ptrE", ROLE_DONE, OPS_CPU},
    {"_ZN4c10d16ProcessGroupGloo9AsyncWork14finishWorkGlooEv", ROLE_WRITTEN, OPS_CPU},
    /* c10/util/WaitCounter.h, with std::string_view: 2.11 and 2.13. */
    {"_ZN3c107monitor17WaitCounterHandleC1ESt17basic_string_viewIcSt11char_traitsIcEE",
     ROLE_COUNTER, OPS_C10},
    {"_ZN3c107monitor17WaitCounterHandle5startEv", ROLE_COUNTER_START, OPS_C10},
    {"_ZN3c107monitor17WaitCounterHandle4stopERKNS_11SmallVectorIlLj6EEE", ROLE_COUNTER_STOP,
     OPS_C10},
};

static bool has_prefix(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static bool has_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);
	return n >= m && !strcmp(s + n - m, suffix);
}

/* at::_ops::NAME::call(...) */
static bool is_op_call(const char *s)
{
	if (!has_prefix(s, "_ZN2at4_ops"))
		return false;
	char *end;
	unsigned long len = strtoul(s + 11, &end, 10);
	return len > 0 && len < strlen(end) && has_prefix(end + len, "4callE");
}

/* CLASS::apply(std::vector<at::Tensor>&&) of a node class. The substitution depends on the class's
 * nesting: S_, S0_ ... */
static bool is_node_apply(const char *s)
{
	if (!has_prefix(s, "_ZN") || !strstr(s, "autograd"))
		return false;
	const char *at = strstr(s, "5applyEOSt6vectorIN2at6TensorESaIS");
	return at && has_suffix(at, "_EE") && !has_prefix(s, "_ZN5torch8autograd6PyNode");
}

/* CopySlices(const Variable &base, ...), of which the other parameters differ between versions. */
static bool makes_slices(const char *s)
{
	return has_prefix(s, "_ZN5torch8autograd10CopySlicesC1E");
}

static int add_found(struct build *b, uint8_t role, const struct elf_symbol *s)
{
	if (b->nfound == b->room) {
		size_t room = b->room ? 2 * b->room : 4096;
		struct found *f = reallocarray(b->found, room, sizeof(*f));
		if (!f)
			return -ENOMEM;
		b->found = f;
		b->room = room;
	}
	b->found[b->nfound++] = (struct found){s->name, s->vaddr, s->size, role, b->file};
	return 0;
}

static int on_symbol(const struct elf_symbol *s, void *arg)
{
	struct build *b = arg;
	int role = -1;
	if (!s->is_function || !s->size || strchr(s->name, '.'))
		return 0;
	if (!s->from_symtab && b->file == OPS_CPU && is_op_call(s->name)) {
		role = ROLE_CALL;
		b->std_optional |= strstr(s->name, "St8optional") != NULL;
	} else if (!s->from_symtab && is_node_apply(s->name)) {
		role = ROLE_NODE;
	} else if (!s->from_symtab && b->file == OPS_CPU && makes_slices(s->name)) {
		role = ROLE_SLICES;
	}
	if (!s->from_symtab && b->file == OPS_CPU && reducer_has_method(s->name))
		role = ROLE_REDUCER;
	if (!s->from_symtab && b->file == OPS_CPU && gloo_has_method(b->elf[OPS_CPU], s->name))
		role = ROLE_GLOO;
	for (size_t i = 0; role < 0 && i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (wanted[i].file == b->file && !strcmp(s->name, wanted[i].name))
			role = wanted[i].role;
	for (size_t i = 0; role >= 0 && s->from_symtab && i < b->nfound; i++)
		if (b->found[i].file == b->file && b->found[i].vaddr == s->vaddr)
			role = -1;
	return role < 0 ? 0 : add_found(b, (uint8_t)role, s);
}

/* void c10::Dispatcher::callBoxed(const OperatorHandle &, Stack *) const
 * (ATen/core/dispatch/Dispatcher.h). */
static const char call_boxed[] =
    "_ZNK3c1010Dispatcher9callBoxedERKNS_14OperatorHandleEPSt6vectorINS_6IValueESaIS5_EE";

uint64_t ops_call_boxed(struct elf_file *f)
{
	return elf_find_dynamic(f, call_boxed, NULL);
}

/* Add the ops without a symbol. The boxed call is found later, in the live process, but has its
 * index from the start. */
static int add_placeless(struct build *b)
{
	static const uint8_t roles[] = {ROLE_BOXED, ROLE_NAMED, ROLE_NAMED_NODE};
	struct elf_symbol s = {.name = ""};
	int r = 0;
	b->file = OPS_CPU;
	for (size_t i = 0; !r && i < sizeof(roles); i++)
		r = add_found(b, roles[i], &s);
	return r;
}

/* Separate, since it has no symbol in some builds. */
static int add_grads(struct build *b)
{
	struct elf_symbol s = {.name = "torch::autograd::validate_outputs"};
	b->file = OPS_CPU;
	if (!grads_function_find(b->elf[OPS_CPU], b->callees[OPS_CPU], &s.vaddr, &s.size))
		return 0;
	return add_found(b, ROLE_GRADS, &s);
}

/* Of what ProcessGroupGloo makes of other collectives, as reduce_scatter from 2.x on, which has its
 * output after the wait. It is in the symbol table alone, whose half a million names take time. */
static int add_local_wait(struct build *b)
{
	struct elf_symbol s = {
	    .name = "_ZN4c10d12_GLOBAL__N_"
		    "110LambdaWork4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE"};
	b->file = OPS_CPU;
	s.vaddr = elf_find(b->elf[OPS_CPU], s.name, &s.size);
	return s.vaddr ? add_found(b, ROLE_WAIT, &s) : 0;
}

int ops_find(struct build *b)
{
	int r = 0;
	for (b->file = 0; !r && b->file < OPS_FILES; b->file++)
		if (b->elf[b->file])
			r = elf_each_symbol(b->elf[b->file], b->file == OPS_PYTHON, on_symbol, b);
	r = r ? r : add_grads(b);
	r = r || !b->local_waits ? r : add_local_wait(b);
	return r ? r : add_placeless(b);
}

uint64_t ops_tail_target(struct elf_file *f, uint64_t vaddr)
{
	const uint64_t size = elf_function_size(f, vaddr);
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

static size_t find_sites(struct elf_file *f, struct callees *c, uint64_t vaddr, uint32_t op,
			 bool jumps, struct probe_site *out)
{
	struct op_sites s = {0};
	if (ops_sites_at(f, c, vaddr, elf_function_size(f, vaddr), op, jumps, &s))
		return 0;
	memcpy(out, s.site, s.n * sizeof(*out));
	return s.n;
}

static uint32_t boxed_op(const struct op_table *t)
{
	uint32_t op = 0;
	while (op < t->n && t->ops[op].role != ROLE_BOXED)
		op++;
	return op;
}

size_t op_table_boxed_sites(struct op_table *t, uint64_t vaddr, bool jumps, struct probe_site *out)
{
	struct elf_file *f = t->elf[OPS_CPU];
	uint32_t op = boxed_op(t);
	size_t n = op < t->n ? find_sites(f, t->callees, vaddr, op, jumps, out) : 0;
	/* It may only be a tail call with the same arguments. */
	uint64_t target = n || op == t->n ? 0 : ops_tail_target(f, vaddr);
	if (target)
		n = find_sites(f, t->callees, target, op, jumps, out);
	elf_file_drop(f);
	return n;
}

/* The handle and the stack are one register later than for the std::function, because of `this`. */
static void pass_this(struct op_plan *p)
{
	p->flags |= PLAN_MOVED;
	for (unsigned i = 0; i < ARCH_INT_ARGS - 1; i++)
		p->arg_reg[i] = arch_int_arg[i + 1];
}

int op_table_call_boxed(struct op_table *t, uint64_t vaddr)
{
	struct elf_file *f = t->elf[OPS_CPU];
	uint64_t target = ops_tail_target(f, vaddr);
	target = target ? callees_of_stub(t->callees, target) : 0;
	uint32_t op = boxed_op(t);
	if (op == t->n || !target || target != ops_call_boxed(f))
		return -1;
	pass_this(&t->plans[op]);
	return (int)op;
}

bool op_table_call_boxed_is_in(const struct op_table *t, unsigned file)
{
	return t->elf[file] && ops_call_boxed(t->elf[file]);
}

size_t op_table_call_boxed_sites(struct op_table *t, unsigned file, bool jumps,
				 struct probe_site *out)
{
	struct callees *c;
	struct elf_file *f = t->elf[file];
	uint64_t at = f ? ops_call_boxed(f) : 0;
	if (!at || callees_open(f, &c))
		return 0;
	size_t n = find_sites(f, c, at, boxed_op(t), jumps, out);
	callees_close(c);
	elf_file_drop(f);
	return n;
}

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
