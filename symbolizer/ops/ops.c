#define _GNU_SOURCE
#include "symbolizer/ops/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/ops/internal.h"
#include "symbolizer/torch/layout.h"

/* parseSchema(const std::string &), in later versions with a bool parameter
 * (torch/csrc/jit/frontend/function_schema_parser.h); the last two with the pre-C++11 std::string.
 */
static const char *const parse_schema[] = {
    "_ZN5torch3jit11parseSchemaERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEb",
    "_ZN5torch3jit11parseSchemaERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    "_ZN5torch3jit11parseSchemaERKSsb",
    "_ZN5torch3jit11parseSchemaERKSs",
};
enum { FIRST_COW = 2 };
const char ops_dispatched[] = "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE";

static uint64_t build_find(struct build *b, unsigned file, const char *name)
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

/* libc10 contains the names of all device types (c10/core/DeviceType.cpp); since "mtia" was
 * inserted before PrivateUse1 there are 21. */
static uint8_t count_device_types(struct build *b)
{
	uint64_t at;
	size_t size = 0;
	const uint8_t *ro =
	    b->elf[OPS_C10] ? elf_section(b->elf[OPS_C10], ".rodata", &at, &size) : NULL;
	return !ro || memmem(ro, size, "mtia", 5) ? 21 : 20;
}

/* Find parseSchema and, from its mangled name, the ABI of strings. Must precede the planning. */
static void ops_find_parse_schema(struct build *b)
{
	unsigned i = 0, n = sizeof(parse_schema) / sizeof(parse_schema[0]);
	uint64_t at = 0;
	while (i < n && !(at = build_find(b, OPS_CPU, parse_schema[i])))
		i++;
	int64_t off = at ? elf_offset(b->elf[OPS_CPU], at) : -1;
	b->t->schema_off = off > 0 ? (uint64_t)off : 0;
	b->t->cow_strings = at && i >= FIRST_COW;
}

/* Read the remaining facts of the files into the table. */
static void ops_read_facts(struct build *b)
{
	struct op_table *t = b->t;
	struct code_source src = {code_of, b};
	accessors_read(&src, &t->facts);
	t->ndevice_types = count_device_types(b);
	t->scalar_complex_tag = complex_tag(b);
	t->node_seq = node_seq_offset(b->elf[OPS_CPU]);
	t->undefined = build_find(b, OPS_C10, "_ZN3c1019UndefinedTensorImpl10_singletonE");
	t->vt_meta[0] = build_find(b, OPS_CPU, "_ZTVN5torch8autograd12AutogradMetaE");
	t->vt_meta[1] = build_find(b, OPS_CPU, "_ZTVN5torch8autograd22DifferentiableViewMetaE");
	t->vt_impl = build_find(b, OPS_C10, "_ZTVN3c1010TensorImplE");
	for (unsigned i = 0; i < OPS_FILES; i++)
		t->vt_storage[i] = build_find(b, i, "_ZTVN3c1011StorageImplE");
	uint64_t cb = build_find(b, OPS_CPU, ops_dispatched);
	int64_t off = cb ? elf_offset(b->elf[OPS_CPU], cb) : -1;
	t->dispatch_off = off > 0 ? (uint64_t)off : 0;
	interned_places(b->elf[OPS_CPU], t->interned);
	t->pynode_vtable = b->elf[OPS_PYTHON]
			       ? elf_find(b->elf[OPS_PYTHON], "_ZTVN5torch8autograd6PyNodeE", NULL)
			       : 0;
	op_table_set_pynode(t, 0);
}

const struct mapping *ops_mapping(const struct libraries *l, unsigned file)
{
	return file == OPS_CPU ? l->torch : file == OPS_PYTHON ? l->torch_python : l->c10;
}

static int add_site(struct op_table *t, size_t *room, int64_t offset, struct probe_site site)
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
	site.offset = (uint64_t)offset;
	t->sites[t->nsites++] = site;
	return 0;
}

static void count(struct op_table *t, const struct op_probe *o)
{
	bool safe = o->exit_kind == EXIT_EMULATED || o->exit_kind == EXIT_JUMP;
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
		if (role_has_no_place(o->role))
			continue;
		count(t, o);
		struct elf_file *f = b->elf[o->file];
		uint32_t entry = o->abi.late ? facts[i].late.off : facts[i].entry;
		struct probe_site site = {.op = i, .kind = SITE_ENTRY, .len = facts[i].entry_len};
		if (!b->jumps || site.len)
			r = add_site(t, &room, elf_offset(f, o->vaddr + entry), site);
		for (unsigned k = 0; !r && k < facts[i].nexits; k++) {
			site.kind = SITE_EXIT;
			site.len = facts[i].exit_len[k];
			r = add_site(t, &room, elf_offset(f, o->vaddr + facts[i].exits[k]), site);
		}
		o->nsites = (uint32_t)t->nsites - o->first_site;
	}
	return r;
}

static int plan_all(struct build *b)
{
	struct func_facts *facts = calloc(b->nfound + 1, sizeof(*facts));
	int r = facts ? ops_plan_all(b, facts) : -ENOMEM;
	r = r ? r : make_sites(b, facts);
	free(facts);
	return r;
}

/* List the ops without analysing their code. */
static int list_all(struct build *b)
{
	struct op_table *t = b->t;
	b->planned = calloc(b->nfound + 1, sizeof(*b->planned));
	for (uint32_t i = 0; i < t->n; i++) {
		const struct found *f = &b->found[i];
		t->ops[i] = (struct op_probe){.role = f->role,
					      .file = f->file,
					      .vaddr = f->vaddr,
					      .desc = {.id = i, .name = "", .schema = ""}};
		t->ncalls += f->role == ROLE_CALL;
	}
	return b->planned ? 0 : -ENOMEM;
}

static int build_table(struct build *b, bool lazy, struct err *e)
{
	struct op_table *t = b->t;
	uint64_t at;
	size_t size;
	const uint8_t *ro = elf_section(b->elf[OPS_CPU], ".rodata", &at, &size);
	if (!ro) {
		err_set(e, -ENOENT, "%s is not a libtorch: it has no read-only data",
			t->path[OPS_CPU]);
		return err_hint(e, "ditrace doctor shows which libraries the process has loaded");
	}
	int r = schema_index_add(&b->schemas, (const char *)ro, size);
	r = r ? r : ops_find(b);
	elf_file_drop(b->elf[OPS_CPU]);
	t->n = t->nplans = (uint32_t)b->nfound;
	t->ops = calloc(b->nfound + INLINED_MAX + KERNELS_MAX, sizeof(*t->ops));
	t->plans = calloc(b->nfound + INLINED_MAX + KERNELS_MAX, sizeof(*t->plans));
	if (!t->ops || !t->plans)
		r = -ENOMEM;
	ops_find_parse_schema(b);
	b->accumulated = node_variable_offset(b->elf[OPS_CPU]);
	r = r ? r : lazy ? list_all(b) : plan_all(b);
	if (!r && b->jumps)
		r = ops_find_steps(b);
	if (!r && b->jumps)
		r = ops_find_memory(b);
	if (r)
		return err_set(e, r, "cannot read the ops of %s: %s", t->path[OPS_CPU],
			       strerror(-r));
	if (!t->ncalls) {
		err_set(e, -ENOENT, "%s has no at::_ops symbols", t->path[OPS_CPU]);
		return err_hint(
		    e, "it is stripped of its dynamic symbols, or older than PyTorch 1.10");
	}
	ops_read_facts(b);
	return 0;
}

static int open_files(struct build *b, const struct ops_file *files, struct err *e)
{
	int r = 0;
	for (unsigned i = 0; i < OPS_FILES && !r; i++) {
		if (!files[i].path)
			continue;
		b->t->path[i] = strdup(files[i].path);
		r = b->t->path[i] ? 0 : err_set(e, -ENOMEM, "out of memory");
		if (!r && fstat(files[i].fd, &b->file_stat[i]))
			r = err_set(e, -errno, "cannot read %s: %s", files[i].path,
				    strerror(errno));
		r = r ? r : elf_file_open_fd(files[i].fd, files[i].path, &b->elf[i], e);
		if (!r && callees_open(b->elf[i], &b->callees[i]))
			r = err_set(e, -ENOMEM, "out of memory");
		if (!r)
			elf_file_drop(b->elf[i]);
	}
	return r;
}

/* Free what the table does not own. */
static void build_free(struct build *b)
{
	schema_index_free(&b->schemas);
	for (unsigned i = 0; i < OPS_FILES; i++)
		if (i != OPS_CPU)
			callees_close(b->callees[i]);
	free(b->found);
	free(b->planned);
}

int op_table_load(const struct ops_file files[OPS_FILES], enum ops_kind kind, int cache,
		  struct op_table **out, struct err *e)
{
	const bool lazy = kind == OPS_LAZY;
	struct op_table *t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(e, -ENOMEM, "out of memory");
	struct build b = {.t = t,
			  .jumps = kind == OPS_JUMPS || kind == OPS_COLLECTIVES,
			  .local_waits = kind == OPS_COLLECTIVES,
			  .cache = cache};
	int r = open_files(&b, files, e);
	for (unsigned i = 0; i < OPS_FILES && !r && b.jumps; i++)
		if (b.callees[i])
			b.windows[i] = callees_windows_ops(b.callees[i]);
	r = r ? r : build_table(&b, lazy, e);
	for (unsigned i = 0; i < OPS_FILES; i++) {
		t->elf[i] = b.elf[i];
		if (b.elf[i])
			elf_file_drop(b.elf[i]);
	}
	t->callees = b.callees[OPS_CPU];
	t->lazy = lazy && !r ? malloc(sizeof(b)) : NULL;
	if (t->lazy)
		*t->lazy = b;
	else
		build_free(&b);
	if (lazy && !r && !t->lazy)
		r = err_set(e, -ENOMEM, "out of memory");
	if (r) {
		op_table_free(t);
		return r;
	}
	*out = t;
	return 0;
}

int op_table_plan(struct op_table *t, uint32_t i)
{
	struct func_facts facts = {0};
	if (!t->lazy || t->lazy->planned[i])
		return 0;
	int r = ops_plan_one(t->lazy, i, &facts);
	t->ops[i].desc.id = i;
	t->lazy->planned[i] = !r;
	return r;
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

void op_table_free(struct op_table *t)
{
	if (!t)
		return;
	if (t->lazy)
		build_free(t->lazy);
	free(t->lazy);
	callees_close(t->callees);
	free(t->ops);
	free(t->plans);
	free(t->sites);
	free(t->asked);
	free(t->inlined.sites);
	for (unsigned i = 0; i < OPS_FILES; i++) {
		elf_file_close(t->elf[i]);
		free(t->path[i]);
	}
	for (unsigned i = 0; i < sizeof(t->arena) / sizeof(t->arena[0]); i++)
		arena_free(&t->arena[i]);
	free(t);
}
