#include <errno.h>
#include <string.h>

#include "symbolizer/code/return_sites.h"
#include "symbolizer/ops/internal.h"
#include "symbolizer/ops/ops.h"

/* torch::autograd::Engine::thread_main */
static const char engine_main[] =
    "_ZN5torch8autograd6Engine11thread_mainERKSt10shared_ptrINS0_9GraphTaskEE";

bool ops_is_not_shared(void *arg, uint64_t start, size_t len)
{
	(void)arg, (void)start, (void)len;
	return false;
}

struct search {
	const char *prefix;
	uint64_t at;
};

static int has_prefix(const struct elf_symbol *s, void *arg)
{
	struct search *x = arg;
	x->at = strncmp(s->name, x->prefix, strlen(x->prefix)) ? 0 : s->vaddr;
	return x->at != 0;
}

/* A name that ends in E is that of a function whose parameters differ between versions. */
static uint64_t find_function(struct elf_file *f, const char *name)
{
	struct search x = {.prefix = name};
	uint64_t at = elf_find_dynamic(f, name, NULL);
	if (!at && name[strlen(name) - 1] == 'E')
		elf_each_symbol(f, false, has_prefix, &x);
	return at ? at : x.at;
}

/* The window at the entry of the function at `at` (0: there is none). 0 or -ENOMEM. */
static int find_entry(struct elf_file *f, uint64_t at, struct windows_ops ops,
		      struct return_sites_ctx *c, struct probe_site *out)
{
	uint64_t size = at ? elf_function_size(f, at) : 0;
	const uint8_t *code = size ? elf_bytes(f, at, size) : NULL;
	struct func_facts facts;
	struct func_windows w = {0};
	int r = code ? return_sites_analyze(c, code, size, at, &facts) : -EINVAL;
	ops.is_shared = ops_is_not_shared;
	r = r ? r : windows_find(c, &facts, &ops, &w);
	int64_t off = w.entry.len ? elf_offset(f, at + w.entry.off) : -1;
	if (off > 0) {
		out->offset = (uint64_t)off;
		out->len = w.entry.len;
		out->relative = w.entry.relative;
	}
	return r == -ENOMEM ? r : 0;
}

int ops_find_steps(struct build *b)
{
	static const char *const names[] = {
	    [SHIM_STEP_DISPATCH] = "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE",
	    [SHIM_STEP_RECORD] = "_ZN2at14RecordFunctionC1ENS_11RecordScopeE",
	    [SHIM_STEP_CALLBACK] = "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE",
	    [SHIM_STEP_PROFILER] = "_ZN5torch8autograd8profiler15prepareProfilerE",
	};
	const struct return_sites_ops sites = callees_ops(b->callees[OPS_CPU]);
	struct return_sites_ctx *c = return_sites_new(&sites);
	int r = c ? 0 : -ENOMEM;
	for (uint32_t i = 0; i < SHIM_STEPS && !r; i++) {
		b->t->step[i] = (struct probe_site){.op = i, .kind = SITE_DISPATCH};
		r = find_entry(b->elf[OPS_CPU], find_function(b->elf[OPS_CPU], names[i]),
			       b->windows[OPS_CPU], c, &b->t->step[i]);
	}
	return_sites_free(c);
	b->t->engine_main = elf_find_dynamic(b->elf[OPS_CPU], engine_main, &b->t->engine_main_size);
	return r;
}

int ops_find_memory(struct build *b)
{
	/* The types of two parameters are others since 2.0. */
	static const char *const names[SHIM_MEMORIES][2] = {
	    [SHIM_MEMORY_NEW] = {"_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm"},
	    [SHIM_MEMORY_DELETE] = {"_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv"},
	    [SHIM_MEMORY_REPORT] = {"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
				    "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE"},
	};
	struct elf_file *f = b->elf[OPS_C10];
	if (!f)
		return 0;
	struct windows_ops ops = b->windows[OPS_C10];
	const struct return_sites_ops sites = callees_ops(b->callees[OPS_C10]);
	struct return_sites_ctx *c = return_sites_new(&sites);
	int r = c ? 0 : -ENOMEM;
	ops.relative = true;
	for (uint32_t i = 0; i < SHIM_MEMORIES && !r; i++) {
		uint64_t at = elf_find_dynamic(f, names[i][0], NULL);
		if (!at && names[i][1])
			at = elf_find_dynamic(f, names[i][1], NULL);
		b->t->memory[i] = (struct probe_site){.op = i, .kind = SITE_MEMORY};
		r = find_entry(f, at, ops, c, &b->t->memory[i]);
	}
	return_sites_free(c);
	return r;
}

static int windows_of_op(struct op_table *t, const struct op_probe *o, struct return_sites_ctx *c,
			 const struct windows_ops *ops, struct func_windows *out)
{
	const bool here = o->file == OPS_CPU && !role_has_no_place(o->role);
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
	const struct windows_ops ops = callees_windows_ops(t->callees);
	const struct return_sites_ops sites = callees_ops(t->callees);
	struct return_sites_ctx *c = return_sites_new(&sites);
	int r = c ? 0 : -ENOMEM;
	for (uint32_t i = 0; i < t->n && !r; i++)
		r = windows_of_op(t, &t->ops[i], c, &ops, &out[i]);
	return_sites_free(c);
	elf_file_drop(t->elf[OPS_CPU]);
	return r;
}

static void add_site(const struct elf_file *f, uint64_t vaddr, struct probe_site site,
		     struct op_sites *out)
{
	int64_t offset = elf_offset(f, vaddr);
	if (offset < 0)
		return;
	site.offset = (uint64_t)offset;
	out->site[out->n++] = site;
}

static void add_windows(const struct elf_file *f, uint64_t at, uint32_t op,
			const struct func_windows *w, struct op_sites *out)
{
	for (int i = -1; w->entry.len && i < w->nexits; i++) {
		const struct code_window *x = i < 0 ? &w->entry : &w->exit[i];
		add_site(f, at + x->off,
			 (struct probe_site){.op = op,
					     .kind = i < 0 ? SITE_ENTRY : SITE_EXIT,
					     .len = x->len,
					     .relative = x->relative},
			 out);
	}
}

static void add_probes(const struct elf_file *f, uint64_t at, uint32_t op,
		       const struct func_facts *facts, struct op_sites *out)
{
	add_site(f, at + facts->entry, (struct probe_site){.op = op, .kind = SITE_ENTRY}, out);
	for (unsigned i = 0; i < facts->nexits; i++)
		add_site(f, at + facts->exits[i], (struct probe_site){.op = op, .kind = SITE_EXIT},
			 out);
}

int ops_sites_at(struct elf_file *f, struct callees *c, uint64_t at, uint64_t size, uint32_t op,
		 bool jumps, struct op_sites *out)
{
	const struct return_sites_ops sites = callees_ops(c);
	struct func_facts facts;
	struct func_windows w = {0};
	struct windows_ops ops = callees_windows_ops(c);
	const uint8_t *code = size ? elf_bytes(f, at, size) : NULL;
	struct return_sites_ctx *x = return_sites_new(&sites);
	int r = !x ? -ENOMEM : code ? 0 : -EINVAL;
	r = r ? r : return_sites_analyze(x, code, size, at, &facts);
	if (!r && jumps) {
		ops.relative = true;
		r = windows_find(x, &facts, &ops, &w);
	}
	if (!r && jumps && w.entry.len && w.nexits)
		add_windows(f, at, op, &w, out);
	else if (!r && !jumps && facts.exit_kind != EXIT_NONE)
		add_probes(f, at, op, &facts, out);
	return_sites_free(x);
	return r == -ENOMEM ? r : 0;
}

/* Of these only the entry is of use. */
static bool is_moment(const struct found *f)
{
	return f->role == ROLE_DONE || f->role == ROLE_WRITTEN ||
	       (f->role == ROLE_REDUCER && reducer_is_moment(f->symbol));
}

static bool may_jump(const struct build *b, const struct found *f)
{
	return b->jumps &&
	       (role_is_counter(f->role) ||
		(f->file == OPS_CPU &&
		 (f->role == ROLE_CALL || f->role == ROLE_NODE || f->role == ROLE_ENGINE ||
		  f->role == ROLE_SLICES || role_is_distributed(f->role) || is_moment(f))));
}

/* Change the facts about a function just analysed to those for jumps. What has no windows has no
 * exit. Work::finish ends with a call of another function. */
static int use_windows(const struct build *b, const struct found *f, struct return_sites_ctx *x,
		       struct func_facts *facts)
{
	struct func_windows w = {0};
	struct windows_ops ops = b->windows[f->file];
	if (f->role == ROLE_COUNTER || f->role == ROLE_SLICES)
		ops.is_shared = ops_is_not_shared;
	int r = may_jump(b, f) ? windows_find(x, facts, &ops, &w) : 0;
	if (r)
		return r;
	if (w.entry.len && w.nexits)
		*facts = w.facts;
	else if (w.entry.len && is_moment(f))
		*facts = (struct func_facts){.entry = w.entry.off,
					     .entry_len = w.entry.len,
					     .exit_kind = EXIT_JUMP,
					     .ret_reg = ARCH_NOREG};
	else
		*facts = (struct func_facts){.ret_reg = ARCH_NOREG,
					     .ret_is_hidden_ptr = facts->ret_is_hidden_ptr};
	return 0;
}

int ops_analyze(const struct build *b, const struct found *f, struct return_sites_ctx *x,
		struct func_facts *facts)
{
	const uint8_t *code = elf_bytes(b->elf[f->file], f->vaddr, f->size);
	int r = code ? return_sites_analyze(x, code, f->size, f->vaddr, facts) : -EINVAL;
	if (r && r != -ENOMEM)
		*facts = (struct func_facts){.exit_kind = EXIT_NONE};
	if (!r && b->jumps)
		r = use_windows(b, f, x, facts);
	return r == -ENOMEM ? r : 0;
}
