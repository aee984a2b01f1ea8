/* Plans for every op of the real libraries: which arguments and results cannot be decoded. */

#include "symbolizer/ops/ops.h"
#include "tests/unit/libtorch.h"

static const char storage[] = "a storage, which is none of the kinds shown";

/* Everything of at::_ops that is not decoded, in any version. */
static const struct exception {
	const char *op, *type, *why;
} exceptions[] = {
    {"aten::set_.source_Storage", "Storage", storage},
    {"aten::set_.source_Storage_storage_offset", "Storage", storage},
    {"aten::set.source_Storage", "Storage", storage},
    {"aten::set.source_Storage_out", "Storage", storage},
    {"aten::set.source_Storage_storage_offset", "Storage", storage},
    {"aten::set.source_Storage_storage_offset_out", "Storage", storage},
    {"aten::record_stream", "Stream", "a stream, which is none of the kinds shown"},
    {"aten::qscheme", "QScheme", "a quantization scheme, which is none of the kinds shown"},
    /* the only function that returns a double, in a register that probes cannot read */
    {"aten::q_scale", "float", "returned in an SSE register"},
    /* the functions that return a std::vector<int64_t> and a c10::SymBool */
    {"aten::_nested_tensor_offsets", "int[]", "a result of a type ditrace does not know"},
    {"aten::sym_is_contiguous", "SymBool", "a result of a type ditrace does not know"},
    /* 30 arguments, and seven results that must be read again at the exit */
    {"aten::mkldnn_rnn_layer_backward.out", "Tensor(", "too many arguments"},
};

enum { EXCEPTIONS = sizeof(exceptions) / sizeof(exceptions[0]) };

struct census {
	unsigned args, results, undecoded, doubles, late;
	bool ops[EXCEPTIONS], met[EXCEPTIONS];
};

static int exception_of(const char *op)
{
	for (int i = 0; i < EXCEPTIONS; i++)
		if (!strcmp(exceptions[i].op, op))
			return i;
	return -1;
}

static void check_value(struct census *c, const struct op_desc *d, const struct op_arg *a,
			const struct abi_value *v)
{
	int e = exception_of(d->name);

	c->doubles += !strcmp(a->type, "float");
	if (v->how != ABI_UNKNOWN)
		return;
	c->undecoded++;
	if (e < 0 || strncmp(a->type, exceptions[e].type, strlen(exceptions[e].type)) != 0)
		fail_msg("%s: %s %s is not decoded: %s", d->name, a->type, a->name, v->why);
	assert_string_equal(v->why, exceptions[e].why);
	c->met[e] = true;
}

static void check_op(struct census *c, const struct op_probe *o)
{
	int e = exception_of(o->desc.name);

	if (!o->values_known)
		fail_msg("%s: nothing is decoded: %s", o->desc.name, o->why);
	assert_int_equal(o->abi.nargs, o->desc.nargs);
	assert_int_equal(o->abi.nresults, o->desc.nresults);
	if (e >= 0)
		c->ops[e] = true;
	for (unsigned i = 0; i < o->abi.nargs; i++)
		check_value(c, &o->desc, &o->desc.args[i], &o->abi.args[i]);
	for (unsigned i = 0; i < o->abi.nresults; i++)
		check_value(c, &o->desc, &o->desc.results[i], &o->abi.results[i]);
	c->args += o->abi.nargs;
	c->results += o->abi.nresults;
	c->late += o->abi.late;
}

/* Entry probes are deferred only where doubles need it. */
static void check_sites(const struct op_table *t, const struct op_probe *o, uint32_t op)
{
	uint64_t at = (uint64_t)elf_offset(t->elf[o->file], o->vaddr);
	const struct probe_site *s = &t->sites[o->first_site];

	assert_int_equal(s->kind, SITE_ENTRY);
	assert_int_equal(s->op, op);
	uint64_t landing = at + 4; /* endbr64 takes 4 bytes */
	assert_true(o->abi.late ? s->offset > landing : s->offset == at || s->offset == landing);
	assert_int_equal(t->plans[op].entry_sp != 0, o->abi.late);
	for (uint32_t i = 1; i < o->nsites; i++)
		assert_true(s[i].offset != s->offset);
}

static void check_library(const struct libtorch *l)
{
	struct ops_file files[OPS_FILES] = {{regular_open(l->path), l->path}};
	struct census c = {0};
	struct op_table *t;
	struct err e = {0};

	assert_int_equal(op_table_load(files, OPS_PROBES, -1, &t, &e), 0);
	close(files[0].fd);
	assert_true(t->ncalls > 1000);
	for (uint32_t i = 0; i < t->n; i++) {
		if (t->ops[i].role != ROLE_CALL)
			continue;
		check_op(&c, &t->ops[i]);
		check_sites(t, &t->ops[i], i);
	}
	for (unsigned i = 0; i < EXCEPTIONS; i++)
		if (c.ops[i] && !c.met[i])
			fail_msg("%s is decoded after all", exceptions[i].op);
	assert_true(c.doubles > 200);
	assert_true(c.late > 100);
	print_message("# %s: %u ops, %u arguments and %u results, %u of them not decoded; "
		      "%u doubles, %u late entries\n",
		      l->path, t->ncalls, c.args, c.results, c.undecoded, c.doubles, c.late);
	op_table_free(t);
}

/* An op planned on its own has the same plan as among all others. */
static void check_lazy(const struct libtorch *l)
{
	enum { EACH = 37 };
	struct ops_file files[OPS_FILES] = {{regular_open(l->path), l->path}};
	struct op_table *all, *lazy;
	struct err e = {0};

	assert_int_equal(op_table_load(files, OPS_PROBES, -1, &all, &e), 0);
	assert_int_equal(op_table_load(files, OPS_LAZY, -1, &lazy, &e), 0);
	close(files[0].fd);
	assert_int_equal(lazy->n, all->n);
	assert_int_equal(lazy->ncalls, all->ncalls);
	assert_int_equal(lazy->nsites, 0);
	for (uint32_t i = 0; i < all->n; i += EACH) {
		const struct op_probe *a = &all->ops[i], *b = &lazy->ops[i];
		assert_int_equal(op_table_plan(lazy, i), 0);
		assert_int_equal(op_table_plan(lazy, i), 0);
		assert_memory_equal(&lazy->plans[i], &all->plans[i], sizeof(all->plans[i]));
		assert_int_equal(b->role, a->role);
		assert_int_equal(b->vaddr, a->vaddr);
		assert_int_equal(b->desc.id, a->desc.id);
		assert_int_equal(b->desc.nargs, a->desc.nargs);
		assert_string_equal(b->desc.name ? b->desc.name : "",
				    a->desc.name ? a->desc.name : "");
		assert_string_equal(b->desc.schema, a->desc.schema);
		assert_int_equal(b->values_known, a->values_known);
	}
	assert_memory_equal(&lazy->facts, &all->facts, sizeof(all->facts));
	op_table_free(all);
	op_table_free(lazy);
}

/* The copies of callBoxed that one of them leads to: all that a file's symbols name, where it has
 * them. */
struct named {
	uint64_t at[2 * BOXED_COPIES_MAX];
	size_t n;
};

static int on_copy(const struct elf_symbol *s, void *arg)
{
	static const char name[] = "_ZNK3c1010Dispatcher9callBoxedE";
	struct named *named = arg;
	if (s->is_function && !strncmp(s->name, name, sizeof(name) - 1) &&
	    !strstr(s->name, ".cold")) {
		assert_true(named->n < 2 * BOXED_COPIES_MAX);
		named->at[named->n++] = s->vaddr;
	}
	return 0;
}

static void check_copies(const struct libtorch *l)
{
	struct ops_file files[OPS_FILES] = {{regular_open(l->path), l->path}};
	struct op_table *t;
	struct err e = {0};
	struct named named = {0};
	struct probe_site sites[1 + EXITS_MAX];
	size_t n;

	assert_int_equal(op_table_load(files, OPS_LAZY, -1, &t, &e), 0);
	close(files[0].fd);
	assert_int_equal(elf_each_symbol(t->elf[OPS_CPU], true, on_copy, &named), 0);
	if (!named.n)
		print_message("# %s names no copy of callBoxed\n", l->path);
	for (size_t i = 0; i < named.n; i += 6) {
		const uint64_t *copies = op_table_boxed_copies(t, named.at[i], &n);
		assert_int_equal(n, named.n - 1);
		for (size_t k = 0; k < n; k++) {
			size_t j = 0;
			while (j < named.n && named.at[j] != copies[k])
				j++;
			assert_true(j < named.n && j != i);
			assert_true(op_table_boxed_sites(t, copies[k], false, sites) >= 2);
		}
	}
	op_table_boxed_copies(t, t->ops[0].vaddr, &n); /* an op's own call is none */
	assert_int_equal(n, 0);
	op_table_free(t);
}

/* Each is a call, in no function of an operator, with an end, and it is known what leads to its
 * operator. */
static void check_inlined(const struct libtorch *l)
{
	struct ops_file files[OPS_FILES] = {{regular_open(l->path), l->path}};
	struct op_table *t;
	struct err e = {0};
	unsigned fixed = 0, ends = 0;

	assert_int_equal(op_table_load(files, OPS_PROBES, -1, &t, &e), 0);
	close(files[0].fd);
	const uint32_t before = t->n;
	const struct op_inlined *in = op_table_inlined(t);
	assert_int_equal(in->first, before);
	assert_int_equal(t->n, before + in->nops);
	assert_int_equal(in->cpu, in->n);
	assert_true(in->nops >= 11); /* c10d's alone */
	for (uint32_t i = 0; i < in->nops; i++)
		fixed += t->plans[before + i].near != 0;
	assert_true(fixed >= 11);
	for (size_t i = 0; i < in->n; i++) {
		const struct probe_site *s = &in->sites[i];
		const struct op_probe *o = &t->ops[s->op];
		const uint8_t *code = elf_bytes(t->elf[OPS_CPU], o->vaddr, 5);
		uint64_t start;
		assert_int_equal(o->role, ROLE_INLINED);
		ends += s->kind == SITE_EXIT;
		assert_true(s->kind == SITE_EXIT || code[0] == 0xe8);
		assert_true(elf_piece_at(t->elf[OPS_CPU], o->vaddr, &start));
		for (uint32_t k = 0; k < before; k++)
			assert_false(t->ops[k].role == ROLE_CALL && t->ops[k].vaddr == start);
	}
	assert_true(ends >= in->nops);
	print_message("# %s: %u dispatches are inlined elsewhere, %u with a handle of their own\n",
		      l->path, in->nops, fixed);
	assert_ptr_equal(op_table_inlined(t), in);
	assert_int_equal(t->n, before + in->nops);
	op_table_free(t);
}

static void test_inlined(void **state)
{
	(void)state;
	libtorch_each(check_inlined);
}

static void test_copies(void **state)
{
	(void)state;
	libtorch_each(check_copies);
}

static void test_lazy(void **state)
{
	(void)state;
	libtorch_each(check_lazy);
}

static void test_libraries(void **state)
{
	(void)state;
	libtorch_each(check_library);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_libraries), cmocka_unit_test(test_lazy),
	    cmocka_unit_test(test_copies), cmocka_unit_test(test_inlined)};
	return unit_run(tests, NULL, NULL);
}
