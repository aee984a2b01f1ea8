#define _GNU_SOURCE
#include "symbolizer/ops.h"
#include "symbolizer/registry.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/callees.h"
#include "symbolizer/cxxparams.h"
#include "symbolizer/elf.h"
#include "symbolizer/grads_function.h"
#include "symbolizer/node_offset.h"
#include "symbolizer/schema_index.h"
#include "tracer/arch_x86_64.h"
#include "tracer/shim_share.h"

/* Symbols that are looked for by their whole name, in libtorch_cpu and in libtorch_python. Mangled
 * by the Itanium C++ ABI, section 5.1. */
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
};

static const char *const parse_schema[] = {
    "_ZN5torch3jit11parseSchemaERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEb",
    "_ZN5torch3jit11parseSchemaERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
};
static const char step_callbacks[] = "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE";

const struct mapping *ops_mapping(const struct libraries *l, unsigned file)
{
	return file == OPS_CPU ? l->torch : file == OPS_PYTHON ? l->torch_python : l->c10;
}

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

/* SOMETHING::apply(std::vector<at::Tensor>&&): the backward of a node class. Substitutions differ
 * with the class's nesting: S_, S0_ ... */
static bool is_node_apply(const char *s)
{
	if (!has_prefix(s, "_ZN") || !strstr(s, "autograd"))
		return false;
	const char *at = strstr(s, "5applyEOSt6vectorIN2at6TensorESaIS");
	return at && has_suffix(at, "_EE") && !has_prefix(s, "_ZN5torch8autograd6PyNode");
}

/* A function to probe, as found in the symbols. */
struct found {
	const char *symbol;
	uint64_t vaddr, size;
	uint8_t role, file;
};

struct build {
	struct op_table *t;
	struct elf_file *elf[OPS_FILES];
	struct callees *callees[OPS_FILES];
	struct schema_index schemas;
	bool std_optional; /* optionals are std:: in this build, OptionalArrayRef's own too */
	struct found *found;
	size_t nfound, room;
	uint8_t file; /* being read */
};

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
	}
	for (size_t i = 0; role < 0 && i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (wanted[i].file == b->file && !strcmp(s->name, wanted[i].name))
			role = wanted[i].role;
	for (size_t i = 0; role >= 0 && s->from_symtab && i < b->nfound; i++)
		if (b->found[i].file == b->file && b->found[i].vaddr == s->vaddr)
			role = -1;
	return role < 0 ? 0 : add_found(b, (uint8_t)role, s);
}

static bool has_no_place(uint8_t role)
{
	return role == ROLE_BOXED || role == ROLE_NAMED || role == ROLE_NAMED_NODE;
}

/* The boxed call is found later, in the live process; it has its place from the beginning. */
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

/* Has no symbol in some builds. */
static int add_grads(struct build *b)
{
	struct elf_symbol s = {.name = "torch::autograd::validate_outputs"};
	b->file = OPS_CPU;
	if (!grads_function_find(b->elf[OPS_CPU], b->callees[OPS_CPU], &s.vaddr, &s.size))
		return 0;
	return add_found(b, ROLE_GRADS, &s);
}

static int read_symbols(struct build *b)
{
	int r = 0;
	for (b->file = 0; !r && b->file < OPS_FILES; b->file++)
		if (b->elf[b->file] && b->file != OPS_C10)
			r = elf_each_symbol(b->elf[b->file], b->file == OPS_PYTHON, on_symbol, b);
	r = r ? r : add_grads(b);
	return r ? r : add_placeless(b);
}

/* Half of the ops, on a thread of its own: an arena and a disassembler each. */
struct worker {
	pthread_t thread;
	struct build *b;
	struct arena arena;
	struct func_facts *facts; /* one for each op of the table */
	size_t from, to;
	int r;
};

static const char *names_grad_outputs = "grad_outputs", *names_grad_inputs = "grad_inputs";

static int named_values(struct worker *w, struct op_desc *d)
{
	struct op_arg *a = arena_alloc(&w->arena, 2 * sizeof(*a));
	if (!a)
		return -ENOMEM;
	a[0] = (struct op_arg){names_grad_outputs, "Tensor?[]"};
	a[1] = (struct op_arg){names_grad_inputs, "Tensor?[]"};
	d->args = &a[0];
	d->results = &a[1];
	d->nargs = d->nresults = 1;
	return 0;
}

static struct probe_read *add_read(struct op_plan *p, struct probe_read r, bool exit)
{
	struct probe_read *at = &p->read[p->nentry + p->nexit];
	*at = r;
	if (exit)
		p->nexit++;
	else
		p->nentry++;
	return at;
}

static int one_value(struct worker *w, struct op_probe *o, uint8_t how, uint8_t entry, uint8_t exit)
{
	struct abi_value *v = arena_alloc(&w->arena, 2 * sizeof(*v));
	if (!v)
		return -ENOMEM;
	v[0] = (struct abi_value){
	    .how = how, .base = CXX_TENSOR, .read = entry, .flag_read = ABI_NO_READ};
	v[1] = v[0];
	v[1].read = exit;
	o->abi = (struct op_abi){.nargs = 1, .nresults = 1, .args = &v[0], .results = &v[1]};
	o->values_known = true;
	return 0;
}

/* variable_list Node::apply(variable_list &&grads) (torch/csrc/autograd/function.h): hidden
 * pointer, this, grads. */
static int plan_node(struct worker *w, struct op_probe *o, struct op_plan *p,
		     const struct func_facts *facts)
{
	*p = (struct op_plan){.flags = PLAN_PY | PLAN_BACKWARD};
	o->desc.kind = OP_BACKWARD;
	add_read(p, (struct probe_read){.kind = READ_NODE, .a = 1}, false);
	add_read(p, (struct probe_read){.kind = READ_VECTOR, .a = 2}, false);
	if (o->role == ROLE_PY_NODE)
		/* {reference count, type} of the PyObject; where the PyNode keeps it is found out
		 * later. */
		add_read(p, (struct probe_read){.kind = READ_MEM, .a = 1, .deref = 1, .size = 16},
			 false);
	if (facts->exit_kind != EXIT_NONE)
		add_read(p, (struct probe_read){.kind = READ_VECTOR, .a = 0}, true);
	int r = named_values(w, &o->desc);
	return r ? r : one_value(w, o, ABI_TENSORS, 1, p->nentry);
}

/* void validate_outputs(const edge_list &edges, variable_list &grads, ...)
 * (torch/csrc/autograd/engine.h). */
static int plan_grads(struct worker *w, struct op_probe *o, struct op_plan *p)
{
	*p = (struct op_plan){.flags = PLAN_BACKWARD | PLAN_ASIDE};
	o->desc.kind = OP_BACKWARD;
	o->desc.name = "torch::autograd::validate_outputs";
	add_read(p, (struct probe_read){.kind = READ_VECTOR, .a = 1}, false);
	add_read(p, (struct probe_read){.kind = READ_WORD, .a = 0}, false);
	add_read(p, (struct probe_read){.kind = READ_VECTOR, .a = 1}, true);
	return one_value(w, o, ABI_TENSORS, GRADS_RETURNED_READ, GRADS_FLOWING_READ);
}

/* A kernel's std::function: (const std::_Any_data &, torch::jit::Stack &). */
static int plan_boxed(struct worker *w, struct op_probe *o, struct op_plan *p)
{
	*p = (struct op_plan){.flags = PLAN_PY | PLAN_FORWARD};
	o->desc.name = "boxed";
	add_read(p, (struct probe_read){.kind = READ_WORD, .a = 0}, false);
	add_read(p, (struct probe_read){.kind = READ_MEM, .a = 0, .size = 16}, false);
	add_read(p, (struct probe_read){.kind = READ_MEM, .a = 0, .deref = 1, .size = 16}, false);
	add_read(p, (struct probe_read){.kind = READ_STD_STRING, .a = 0}, false);
	add_read(p, (struct probe_read){.kind = READ_STD_STRING, .a = 0, .off = STD_STRING_SIZE},
		 false);
	add_read(p, (struct probe_read){.kind = READ_IVALUES, .a = 1}, false);
	add_read(p, (struct probe_read){.kind = READ_IVALUES, .a = 1}, true);
	return one_value(w, o, ABI_IVALUES, BOXED_STACK, BOXED_RESULTS);
}

/* The name, of what is told of by the library inside. */
static void add_name(struct op_plan *p)
{
	add_read(p,
		 (struct probe_read){.kind = READ_ARRAY,
				     .a = SHIM_LOC_NAME,
				     .b = SHIM_LOC_NAME_LEN,
				     .c = LOC_NONE,
				     .size = 1},
		 false);
}

static void plan_named(struct op_probe *o, struct op_plan *p)
{
	*p = (struct op_plan){.flags = PLAN_PY | PLAN_FORWARD};
	o->desc.kind = OP_FUNCTION;
	o->desc.name = "autograd.Function";
	o->values_known = true;
	add_name(p);
	add_read(p, (struct probe_read){.kind = READ_MEM, .a = SHIM_LOC_DATA, .size = 16}, true);
}

static int plan_named_node(struct worker *w, struct op_probe *o, struct op_plan *p)
{
	*p = (struct op_plan){.flags = PLAN_PY | PLAN_BACKWARD};
	o->desc.kind = OP_BACKWARD;
	o->desc.name = "torch::autograd::Node";
	add_read(p, (struct probe_read){.kind = READ_MEM, .a = SHIM_LOC_DATA, .size = 16}, false);
	add_read(
	    p, (struct probe_read){.kind = READ_TENSORS, .a = SHIM_LOC_VALUES, .b = SHIM_LOC_COUNT},
	    false);
	add_name(p);
	int r = named_values(w, &o->desc);
	r = r ? r : one_value(w, o, ABI_TENSORS, 1, ABI_NO_READ);
	if (!r)
		o->abi.results[0] =
		    (struct abi_value){.how = ABI_UNKNOWN,
				       .read = ABI_NO_READ,
				       .why = "PyTorch does not tell observers of it"};
	return r;
}

/* THPFunction_apply(PyObject *cls, PyObject *inputs) (torch/csrc/autograd/python_function.cpp). */
static void plan_function(struct op_probe *o, struct op_plan *p, const struct func_facts *facts)
{
	*p = (struct op_plan){.flags = PLAN_PY | PLAN_FORWARD};
	o->desc.kind = OP_FUNCTION;
	o->desc.name = "autograd.Function";
	o->values_known = true;
	add_read(p, (struct probe_read){.kind = READ_WORD, .a = 0}, false);
	if (facts->ret_known && facts->ret_reg != ARCH_NOREG)
		add_read(p,
			 (struct probe_read){.kind = READ_PYTENSOR, .a = LOC_NOW | facts->ret_reg},
			 true);
}

static const char *node_name(struct worker *w, const struct cxx_function *f)
{
	/* Node::name(): generated nodes have their class's name, others the whole type's
	 * (torch/csrc/autograd/function.cpp). */
	const char *generated = "torch::autograd::generated::";
	const char *name =
	    has_prefix(f->scope, generated) ? f->scope + strlen(generated) : f->scope;
	return arena_strndup(&w->arena, name, strlen(name));
}

static int plan_call(struct worker *w, struct op_probe *o, struct op_plan *p,
		     struct cxx_function *f, const struct func_facts *facts)
{
	struct schema s;
	*p = (struct op_plan){.flags = PLAN_PY | PLAN_FORWARD};
	for (unsigned i = 0; i < f->nparams; i++)
		if (f->params[i].opt_array_ref_class)
			((struct cxx_param *)f->params)[i].std_optional = w->b->std_optional;
	int r = schema_index_find(&w->b->schemas, f, &w->arena, &s);
	if (r == -ENOMEM)
		return r;
	if (r) {
		char name[256];
		snprintf(name, sizeof(name), "aten::%s", f->owner);
		o->desc = (struct op_desc){.kind = OP_DISPATCHED,
					   .schema = "",
					   .name = arena_strndup(&w->arena, name, strlen(name))};
		o->why = "its schema is not in the library";
		return 0;
	}
	r = schema_to_desc(&s, &w->arena, &o->desc);
	if (r)
		return r;
	r = abi_plan(f, &s, facts, &w->arena, p, &o->abi);
	o->values_known = r == 0;
	o->why = "its code does not fit its schema";
	if (r == -EPROTO)
		*p = (struct op_plan){.flags = PLAN_PY | PLAN_FORWARD};
	return r == -ENOMEM ? r : 0;
}

static int plan_op(struct worker *w, size_t i, struct exits_ctx *x, struct arena *scratch)
{
	struct build *b = w->b;
	const struct found *f = &b->found[i];
	struct op_probe *o = &b->t->ops[i];
	struct op_plan *p = &b->t->plans[i];
	struct func_facts *facts = &w->facts[i];
	*o = (struct op_probe){
	    .role = f->role, .file = f->file, .vaddr = f->vaddr, .desc.schema = ""};
	if (f->role == ROLE_BOXED)
		return plan_boxed(w, o, p);
	if (f->role == ROLE_NAMED_NODE)
		return plan_named_node(w, o, p);
	if (f->role == ROLE_NAMED) {
		plan_named(o, p);
		return 0;
	}
	const uint8_t *code = elf_bytes(b->elf[f->file], f->vaddr, f->size);
	int r = code ? exits_analyze(x, code, f->size, f->vaddr, facts) : -EINVAL;
	if (r == -ENOMEM)
		return r;
	if (r)
		*facts = (struct func_facts){.exit_kind = EXIT_NONE};
	o->exit_kind = facts->exit_kind;
	if (f->role == ROLE_FUNCTION) {
		plan_function(o, p, facts);
		return 0;
	}
	if (f->role == ROLE_GRADS)
		return plan_grads(w, o, p);
	if (f->role == ROLE_ENGINE) {
		*p = (struct op_plan){.flags = PLAN_MARK | PLAN_BACKWARD};
		o->desc.name = "torch::autograd::Engine::evaluate_function";
		return 0;
	}
	struct cxx_function fn;
	arena_reset(scratch);
	r = cxx_function_parse(f->symbol, scratch, &fn);
	if (r)
		return r == -ENOMEM ? r : 0;
	if (f->role == ROLE_CALL)
		return plan_call(w, o, p, &fn, facts);
	o->desc.name = node_name(w, &fn);
	return o->desc.name ? plan_node(w, o, p, facts) : -ENOMEM;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct exits_ctx *x[OPS_FILES] = {NULL};
	struct arena scratch = {0};
	for (unsigned i = 0; i < OPS_FILES && !w->r; i++) {
		if (!w->b->callees[i])
			continue;
		struct exits_ops ops = callees_ops(w->b->callees[i]);
		x[i] = exits_new(&ops);
		w->r = x[i] ? 0 : -ENOMEM;
	}
	for (size_t i = w->from; !w->r && i < w->to; i++)
		w->r = plan_op(w, i, x[w->b->found[i].file], &scratch);
	arena_free(&scratch);
	for (unsigned i = 0; i < OPS_FILES; i++)
		exits_free(x[i]);
	return NULL;
}

enum { WORKERS = 2 };

/* Plan all ops, on as many threads as there are workers. */
static int plan_all(struct build *b, struct func_facts *facts)
{
	struct worker w[WORKERS] = {0};
	int r = 0;
	for (unsigned i = 0; i < WORKERS; i++) {
		w[i].b = b;
		w[i].facts = facts;
		w[i].from = b->nfound * i / WORKERS;
		w[i].to = b->nfound * (i + 1) / WORKERS;
		if (i == 0 || pthread_create(&w[i].thread, NULL, work, &w[i]))
			w[i].thread = 0;
	}
	for (unsigned i = 0; i < WORKERS; i++)
		if (!w[i].thread)
			work(&w[i]);
	for (unsigned i = 0; i < WORKERS; i++) {
		if (w[i].thread)
			pthread_join(w[i].thread, NULL);
		r = r ? r : w[i].r;
		b->t->arena[i] = w[i].arena;
	}
	return r;
}

static int add_site(struct op_table *t, size_t *room, int64_t offset, uint32_t op, uint32_t kind)
{
	if (offset < 0)
		return 0;
	if (t->nsites == *room) {
		*room = *room ? 2 * *room : 8192;
		struct probe_site *s = reallocarray(t->sites, *room, sizeof(*s));
		if (!s)
			return -ENOMEM;
		t->sites = s;
	}
	t->sites[t->nsites++] = (struct probe_site){(uint64_t)offset, op, kind};
	return 0;
}

static void count(struct op_table *t, const struct op_probe *o)
{
	bool safe = o->exit_kind == EXIT_EMULATED;
	t->ncalls += o->role == ROLE_CALL;
	t->safe_calls += o->role == ROLE_CALL && safe;
	t->nnodes += o->role == ROLE_NODE;
	t->safe_nodes += o->role == ROLE_NODE && safe;
	t->has_grads |= o->role == ROLE_GRADS && o->exit_kind != EXIT_NONE;
	t->ret_exits += o->exit_kind == EXIT_RET && o->role != ROLE_GRADS;
	t->no_values += o->role == ROLE_CALL && !o->values_known;
}

static int make_sites(struct build *b, const struct func_facts *facts)
{
	struct op_table *t = b->t;
	size_t room = 0;
	int r = 0;
	for (uint32_t i = 0; !r && i < t->n; i++) {
		struct op_probe *o = &t->ops[i];
		o->first_site = (uint32_t)t->nsites;
		o->desc.id = i;
		if (has_no_place(o->role))
			continue;
		count(t, o);
		struct elf_file *f = b->elf[o->file];
		uint32_t entry = o->abi.late ? facts[i].late.off : facts[i].entry;
		r = add_site(t, &room, elf_offset(f, o->vaddr + entry), i, SITE_ENTRY);
		for (unsigned k = 0; !r && k < facts[i].nexits; k++)
			r = add_site(t, &room, elf_offset(f, o->vaddr + facts[i].exits[k]), i,
				     SITE_EXIT);
		o->nsites = (uint32_t)t->nsites - o->first_site;
	}
	return r;
}

static uint64_t find(struct build *b, unsigned file, const char *name)
{
	return b->elf[file] ? elf_find_dynamic(b->elf[file], name, NULL) : 0;
}

static const uint8_t *code_of(void *ctx, const char *mangled, size_t *len)
{
	struct build *b = ctx;
	for (unsigned i = 0; i < OPS_FILES; i++) {
		uint64_t size = 0, at = b->elf[i] ? elf_find_dynamic(b->elf[i], mangled, &size) : 0;
		if (!at || !size)
			continue;
		*len = size;
		return elf_bytes(b->elf[i], at, size);
	}
	return NULL;
}

/* c10::Scalar::conj() first compares the tag with HAS_z (c10/core/Scalar.cpp): cmp r32, imm. */
static uint8_t complex_tag(struct build *b)
{
	size_t len = 0;
	const uint8_t *code = code_of(b, "_ZNK3c106Scalar4conjEv", &len);
	struct arch_decoder *d = code ? arch_decoder_new() : NULL;
	struct arch_insn i = {0};
	uint8_t tag = 0;
	for (uint32_t off = 0; d && off < len && !arch_decode(d, code, len, 0, off, &i);
	     off += i.len) {
		if (i.flow != ARCH_FLOW_NEXT)
			break;
		if (i.effect != ARCH_EFF_COMPARE)
			continue;
		tag = i.disp == 2 || i.disp == 3 ? (uint8_t)i.disp : 0;
		break;
	}
	arch_decoder_free(d);
	return tag;
}

/* libc10 names all device types (c10/core/DeviceType.cpp); "mtia" came in before PrivateUse1, which
 * made 21. */
static uint8_t count_device_types(struct build *b)
{
	uint64_t at;
	size_t size = 0;
	const uint8_t *ro =
	    b->elf[OPS_C10] ? elf_section(b->elf[OPS_C10], ".rodata", &at, &size) : NULL;
	return !ro || memmem(ro, size, "mtia", 5) ? 21 : 20;
}

/* parseSchema(const std::string &), in later versions with a bool behind it
 * (torch/csrc/jit/frontend/function_schema_parser.h). */
static uint64_t schema_offset(struct build *b)
{
	uint64_t at = find(b, OPS_CPU, parse_schema[0]);
	at = at ? at : find(b, OPS_CPU, parse_schema[1]);
	int64_t off = at ? elf_offset(b->elf[OPS_CPU], at) : -1;
	return off > 0 ? (uint64_t)off : 0;
}

static void read_facts(struct build *b)
{
	struct op_table *t = b->t;
	struct code_source src = {code_of, b};
	accessors_read(&src, &t->facts);
	t->ndevice_types = count_device_types(b);
	t->scalar_complex_tag = complex_tag(b);
	t->node_seq = node_seq_offset(b->elf[OPS_CPU]);
	t->undefined = find(b, OPS_C10, "_ZN3c1019UndefinedTensorImpl10_singletonE");
	t->vt_meta[0] = find(b, OPS_CPU, "_ZTVN5torch8autograd12AutogradMetaE");
	t->vt_meta[1] = find(b, OPS_CPU, "_ZTVN5torch8autograd22DifferentiableViewMetaE");
	t->vt_impl = find(b, OPS_C10, "_ZTVN3c1010TensorImplE");
	uint64_t cb = find(b, OPS_CPU, step_callbacks);
	int64_t off = cb ? elf_offset(b->elf[OPS_CPU], cb) : -1;
	t->dispatch_off = off > 0 ? (uint64_t)off : 0;
	t->schema_off = schema_offset(b);
	interned_places(b->elf[OPS_CPU], t->interned);
	t->pynode_vtable = b->elf[OPS_PYTHON]
			       ? elf_find(b->elf[OPS_PYTHON], "_ZTVN5torch8autograd6PyNodeE", NULL)
			       : 0;
	op_table_set_pynode(t, 0);
}

static int build_table(struct build *b, struct err *e)
{
	struct op_table *t = b->t;
	uint64_t at;
	size_t size;
	const uint8_t *ro = elf_section(b->elf[OPS_CPU], ".rodata", &at, &size);
	if (!ro) {
		err_set(e, -ENOENT, "%s is no libtorch: it has no read-only data",
			t->path[OPS_CPU]);
		return err_hint(e, "ditrace doctor shows which libraries the process has loaded");
	}
	int r = schema_index_add(&b->schemas, (const char *)ro, size);
	r = r ? r : read_symbols(b);
	elf_file_drop(b->elf[OPS_CPU]);
	t->n = t->nplans = (uint32_t)b->nfound;
	t->ops = calloc(b->nfound + 1, sizeof(*t->ops));
	t->plans = calloc(b->nfound + 1, sizeof(*t->plans));
	struct func_facts *facts = calloc(b->nfound + 1, sizeof(*facts));
	if (!t->ops || !t->plans || !facts)
		r = -ENOMEM;
	r = r ? r : plan_all(b, facts);
	r = r ? r : make_sites(b, facts);
	free(facts);
	if (r)
		return err_set(e, r, "cannot read the ops of %s: %s", t->path[OPS_CPU],
			       strerror(-r));
	if (!t->ncalls) {
		err_set(e, -ENOENT, "%s has no at::_ops symbols", t->path[OPS_CPU]);
		return err_hint(
		    e, "it is stripped of its dynamic symbols, or older than PyTorch 1.10");
	}
	read_facts(b);
	return 0;
}

int op_table_load(const char *const paths[OPS_FILES], struct op_table **out, struct err *e)
{
	struct op_table *t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(e, -ENOMEM, "no memory");
	struct build b = {.t = t};
	int r = 0;
	for (unsigned i = 0; i < OPS_FILES && !r; i++) {
		if (!paths[i])
			continue;
		t->path[i] = strdup(paths[i]);
		r = elf_file_open(paths[i], &b.elf[i], e);
		if (!r && i != OPS_C10 && callees_open(b.elf[i], &b.callees[i]))
			r = err_set(e, -ENOMEM, "no memory");
		if (!r)
			elf_file_drop(b.elf[i]);
	}
	r = r ? r : build_table(&b, e);
	schema_index_free(&b.schemas);
	for (unsigned i = 0; i < OPS_FILES; i++) {
		t->elf[i] = b.elf[i];
		if (i == OPS_CPU)
			t->callees = b.callees[i];
		else
			callees_close(b.callees[i]);
		if (b.elf[i])
			elf_file_drop(b.elf[i]);
	}
	free(b.found);
	if (r) {
		op_table_free(t);
		return r;
	}
	*out = t;
	return 0;
}

int op_table_set_pynode(struct op_table *t, uint16_t off)
{
	for (uint32_t i = 0; i < t->n; i++) {
		if (t->ops[i].role != ROLE_PY_NODE)
			continue;
		t->plans[i].read[PY_NODE_READ].kind = off ? READ_MEM : READ_END;
		t->plans[i].read[PY_NODE_READ].off = (int16_t)off;
		return (int)i;
	}
	return -1;
}

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

void op_table_free(struct op_table *t)
{
	if (!t)
		return;
	callees_close(t->callees);
	free(t->ops);
	free(t->plans);
	free(t->sites);
	for (unsigned i = 0; i < OPS_FILES; i++) {
		elf_file_close(t->elf[i]);
		free(t->path[i]);
	}
	for (unsigned i = 0; i < sizeof(t->arena) / sizeof(t->arena[0]); i++)
		arena_free(&t->arena[i]);
	free(t);
}
