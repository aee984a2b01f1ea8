#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/ops/internal.h"
#include "symbolizer/ops/schema.h"
#include "symbolizer/plan/plan.h"
#include "symbolizer/target/process.h"

/* A share of the ops, planned on a thread of its own with its own arena and disassembler. */
struct worker {
	pthread_t thread;
	struct build *b;
	struct arena arena;
	struct func_facts *facts; /* by op of the table */
	bool known;		  /* the facts are */
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

/* At the entry, a read that tells which op it is. */
static void add_identity(struct op_plan *p, struct probe_read r)
{
	p->identity |= 1U << p->nentry;
	add_read(p, r, false);
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
		/* {refcount, type} of the PyObject; its offset in the PyNode is found later. */
		add_identity(p,
			     (struct probe_read){.kind = READ_MEM, .a = 1, .deref = 1, .size = 16});
	if (w->b->accumulated && op_accumulates(o->desc.name))
		add_read(
		    p,
		    (struct probe_read){
			.kind = READ_MEM, .a = 1, .size = 8, .off = (int16_t)w->b->accumulated},
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

void plan_operator(struct op_plan *p, bool cow_strings)
{
	add_identity(p, (struct probe_read){.kind = READ_WORD, .a = 0});
	add_identity(p, (struct probe_read){.kind = READ_MEM, .a = 0, .size = 16});
	add_identity(p, (struct probe_read){.kind = READ_MEM, .a = 0, .deref = 1, .size = 16});
	add_identity(p, (struct probe_read){.kind = READ_STD_STRING, .a = 0});
	add_identity(p, (struct probe_read){.kind = READ_STD_STRING,
					    .a = 0,
					    .off = (int16_t)std_string_size(cow_strings)});
}

/* A kernel's std::function: (const std::_Any_data &, torch::jit::Stack &). */
static int plan_boxed(struct worker *w, struct op_probe *o, struct op_plan *p)
{
	*p = (struct op_plan){.flags = PLAN_PY | PLAN_FORWARD};
	o->desc.name = "boxed";
	plan_operator(p, w->b->t->cow_strings);
	add_read(p, (struct probe_read){.kind = READ_IVALUES, .a = 1}, false);
	add_read(p, (struct probe_read){.kind = READ_IVALUES, .a = 1}, true);
	return one_value(w, o, ABI_IVALUES, BOXED_STACK, BOXED_RESULTS);
}

/* Read the name, for ops that the shim reports. */
static void add_name(struct op_plan *p)
{
	add_identity(p, (struct probe_read){.kind = READ_ARRAY,
					    .a = SHIM_LOC_NAME,
					    .b = SHIM_LOC_NAME_LEN,
					    .c = LOC_NONE,
					    .size = 1});
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
				       .why = "PyTorch does not report it to observers"};
	return r;
}

/* THPFunction_apply(PyObject *cls, PyObject *inputs) (torch/csrc/autograd/python_function.cpp). */
static void plan_function(struct op_probe *o, struct op_plan *p, const struct func_facts *facts)
{
	*p = (struct op_plan){.flags = PLAN_PY | PLAN_FORWARD};
	o->desc.kind = OP_FUNCTION;
	o->desc.name = "autograd.Function";
	o->values_known = true;
	add_identity(p, (struct probe_read){.kind = READ_WORD, .a = 0});
	if (facts->ret_known && facts->ret_reg != ARCH_NOREG)
		add_read(p,
			 (struct probe_read){.kind = READ_PYTENSOR, .a = LOC_NOW | facts->ret_reg},
			 true);
}

static const char *node_name(struct worker *w, const struct cxx_function *f)
{
	/* Node::name() gives generated nodes the name of their class, others the full type name
	 * (torch/csrc/autograd/function.cpp). */
	static const char generated[] = "torch::autograd::generated::";
	size_t n = sizeof(generated) - 1;
	const char *name = strncmp(f->scope, generated, n) ? f->scope : f->scope + n;
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
	p->base = plan_base(o->desc.name);
	o->values_known = r == 0;
	o->why = "its code does not match its schema";
	if (r == -EPROTO)
		*p = (struct op_plan){.flags = PLAN_PY | PLAN_FORWARD, .base = p->base};
	return r == -ENOMEM ? r : 0;
}

/* WaitCounterHandle(std::string_view key), WaitGuard start(), void stop(const SmallVector<intptr_t>
 * &) (c10/util/WaitCounter.h). A handle is nothing but a reference to what it counts; a guard is
 * returned through a hidden pointer. */
static void plan_counter(struct op_probe *o, struct op_plan *p)
{
	struct probe_read what = {.kind = READ_MEM, .size = 8};
	*p = (struct op_plan){.flags = PLAN_ASIDE};
	o->desc.kind = OP_FUNCTION;
	o->values_known = true;
	o->desc.name = o->role == ROLE_COUNTER_START  ? "dynamo::compile_forward"
		       : o->role == ROLE_COUNTER_STOP ? "dynamo::compile_backward"
						      : "c10::monitor::WaitCounterHandle";
	if (o->role == ROLE_COUNTER) {
		add_identity(p, (struct probe_read){
				    .kind = READ_ARRAY, .a = 2, .b = 1, .c = LOC_NONE, .size = 1});
		add_read(p, what, true);
		return;
	}
	what.a = o->role == ROLE_COUNTER_START;
	p->flags |= o->role == ROLE_COUNTER_START ? PLAN_PY : 0;
	add_identity(p, what);
}

/* The object is the first argument, and a whole one at the exit. */
static void plan_slices(struct op_probe *o, struct op_plan *p)
{
	*p = (struct op_plan){.flags = PLAN_ASIDE};
	o->desc.kind = OP_FUNCTION;
	o->desc.name = "torch::autograd::CopySlices::CopySlices";
	add_read(p, (struct probe_read){.kind = READ_NODE, .a = 0}, true);
}

static void plan_engine(struct op_probe *o, struct op_plan *p)
{
	*p = (struct op_plan){.flags = PLAN_MARK | PLAN_BACKWARD};
	o->desc.name = "torch::autograd::Engine::evaluate_function";
}

static int plan_by_symbol(struct worker *w, const struct found *f, struct op_probe *o,
			  struct op_plan *p, const struct func_facts *facts, struct arena *scratch)
{
	struct cxx_function fn;
	arena_reset(scratch);
	int r = cxx_function_parse(f->symbol, scratch, &fn);
	if (r)
		return r == -ENOMEM ? r : 0;
	if (f->role == ROLE_CALL)
		return plan_call(w, o, p, &fn, facts);
	o->desc.name = node_name(w, &fn);
	return o->desc.name ? plan_node(w, o, p, facts) : -ENOMEM;
}

static int plan_by_role(struct worker *w, const struct found *f, struct op_probe *o,
			struct op_plan *p, const struct func_facts *facts, struct arena *scratch)
{
	switch (f->role) {
	case ROLE_BOXED:
		return plan_boxed(w, o, p);
	case ROLE_NAMED_NODE:
		return plan_named_node(w, o, p);
	case ROLE_NAMED:
		plan_named(o, p);
		return 0;
	case ROLE_FUNCTION:
		plan_function(o, p, facts);
		return 0;
	case ROLE_GRADS:
		return plan_grads(w, o, p);
	case ROLE_WAIT:
		return work_wait_plan(&w->arena, o, p);
	case ROLE_REDUCER:
		return reducer_plan(f->symbol, &w->arena, o, p);
	case ROLE_GLOO:
		return gloo_plan(f->symbol, &w->arena, o, p);
	case ROLE_DONE:
	case ROLE_WRITTEN:
		work_done_plan(o, p);
		return 0;
	case ROLE_COUNTER:
	case ROLE_COUNTER_START:
	case ROLE_COUNTER_STOP:
		plan_counter(o, p);
		return 0;
	case ROLE_SLICES:
		plan_slices(o, p);
		return 0;
	case ROLE_ENGINE:
		plan_engine(o, p);
		return 0;
	default:
		return plan_by_symbol(w, f, o, p, facts, scratch);
	}
}

static int plan_op(struct worker *w, size_t i, struct func_facts *facts, struct return_sites_ctx *x,
		   struct arena *scratch)
{
	const struct found *f = &w->b->found[i];
	struct op_probe *o = &w->b->t->ops[i];
	*o = (struct op_probe){
	    .role = f->role, .file = f->file, .vaddr = f->vaddr, .desc.schema = ""};
	int r = 0;
	if (!role_has_no_place(f->role)) {
		r = w->known ? 0 : ops_analyze(w->b, f, x, facts);
		o->exit_kind = facts->exit_kind;
	}
	return r ? r : plan_by_role(w, f, o, &w->b->t->plans[i], facts, scratch);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct return_sites_ctx *x[OPS_FILES] = {NULL};
	struct arena scratch = {0};
	for (unsigned i = 0; i < OPS_FILES && !w->r; i++) {
		if (!w->b->callees[i])
			continue;
		struct return_sites_ops ops = callees_ops(w->b->callees[i]);
		x[i] = return_sites_new(&ops);
		w->r = x[i] ? 0 : -ENOMEM;
	}
	for (size_t i = w->from; !w->r && i < w->to; i++)
		w->r = plan_op(w, i, &w->facts[i], x[w->b->found[i].file], &scratch);
	arena_free(&scratch);
	for (unsigned i = 0; i < OPS_FILES; i++)
		return_sites_free(x[i]);
	return NULL;
}

int ops_plan_one(struct build *b, uint32_t i, struct func_facts *facts)
{
	struct worker w = {.b = b, .arena = b->t->arena[0]};
	struct arena scratch = {0};
	struct callees *callees = b->callees[b->found[i].file];
	struct return_sites_ops ops = {0};
	if (callees)
		ops = callees_ops(callees);
	struct return_sites_ctx *x = return_sites_new(callees ? &ops : NULL);
	int r = x ? plan_op(&w, i, facts, x, &scratch) : -ENOMEM;
	return_sites_free(x);
	arena_free(&scratch);
	b->t->arena[0] = w.arena;
	return r;
}

enum { WORKERS = 2 };

int ops_plan_known(struct build *b, struct func_facts *facts, bool known)
{
	struct worker w[WORKERS] = {0};
	int r = 0;
	for (unsigned i = 0; i < WORKERS; i++) {
		w[i].b = b;
		w[i].known = known;
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
