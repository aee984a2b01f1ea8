#include "tests/unit/libtorch.h"

#include <errno.h>

#include "symbolizer/event/event.h"
#include "symbolizer/ops/schema.h"

static struct arena arena;

static int teardown(void **state)
{
	(void)state;
	arena_free(&arena);
	return 0;
}

static struct schema parse(const char *text)
{
	struct schema s;
	int rc = schema_parse(text, strlen(text), "aten", &arena, &s);
	if (rc)
		fail_msg("%s: %d", text, rc);
	return s;
}

static void test_names(void **state)
{
	(void)state;
	struct schema s =
	    parse("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
	assert_string_equal(s.ns, "aten");
	assert_string_equal(s.name, "add");
	assert_string_equal(s.overload, "Tensor");
	assert_string_equal(s.full_name, "aten::add.Tensor");
	assert_string_equal(
	    s.text, "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
	assert_int_equal(s.nargs, 3);
	assert_string_equal(s.args[1].name, "other");
	assert_false(s.args[1].kwarg_only);
	assert_true(s.args[2].kwarg_only);
	assert_int_equal(s.args[2].base, SCHEMA_SCALAR);
	assert_string_equal(s.args[2].default_text, "1");
	assert_null(s.args[1].default_text);
	assert_int_equal(s.nreturns, 1);
	assert_string_equal(s.returns[0].name, "");

	s = parse("quantized::linear(Tensor X, "
		  "__torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack, "
		  "float Y_scale_i, int Y_zero_point_i) -> Tensor Y");
	assert_string_equal(s.full_name, "quantized::linear");
	assert_string_equal(s.overload, "");
	assert_int_equal(s.args[1].base, SCHEMA_OTHER);
	assert_string_equal(s.args[1].name, "W_prepack");
	assert_string_equal(s.returns[0].name, "Y");
}

static void test_alias(void **state)
{
	(void)state;
	struct schema s =
	    parse("aten::max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, "
		  "Tensor(b!) max_values) -> (Tensor(a!) values, Tensor(b!) indices)");
	assert_int_equal(s.nargs, 5);
	assert_true(s.args[3].is_write && s.args[3].kwarg_only);
	assert_string_equal(s.args[3].alias, "a!");
	assert_string_equal(s.args[3].type, "Tensor(a!)");
	assert_int_equal(s.nreturns, 2);
	assert_string_equal(s.returns[1].name, "indices");
	assert_int_equal(schema_flags(&s), OP_OUT);

	s = parse("chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]");
	assert_string_equal(s.args[0].alias, "a -> *");
	assert_true(s.returns[0].is_list && !s.returns[0].is_write);
	assert_string_equal(s.returns[0].type, "Tensor(a)[]");
	assert_int_equal(schema_flags(&s), OP_VIEW);

	s = parse("_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()");
	assert_true(s.args[0].is_list && s.args[0].is_write);
	assert_int_equal(s.nreturns, 0);
	assert_int_equal(schema_flags(&s), OP_INPLACE);

	s = parse("aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)");
	assert_true(s.args[0].is_list && s.args[0].is_write);
	assert_string_equal(s.args[0].type, "t[](a!)");
}

static void test_types(void **state)
{
	(void)state;
	struct schema s = parse(
	    "f(int[2]? x, Tensor?[] indices, Dimname[1] dim, SymInt[]? s, str? m, bool[3] mask, "
	    "int[][] n, DeviceIndex d, float?[2]? q) -> (Tensor, int[])");
	assert_true(s.args[0].is_list && s.args[0].is_optional && !s.args[0].elem_is_optional);
	assert_int_equal(s.args[0].list_len, 2);
	assert_string_equal(s.args[0].type, "int[2]?");
	assert_true(s.args[1].is_list && !s.args[1].is_optional && s.args[1].elem_is_optional);
	assert_int_equal(s.args[1].base, SCHEMA_TENSOR);
	assert_int_equal(s.args[2].base, SCHEMA_DIMNAME);
	assert_int_equal(s.args[3].base, SCHEMA_SYMINT);
	assert_true(s.args[4].is_optional && !s.args[4].is_list);
	assert_int_equal(s.args[5].list_len, 3);
	assert_int_equal(s.args[6].list_depth, 2);
	assert_int_equal(s.args[7].base, SCHEMA_DEVICE_INDEX);
	assert_true(s.args[8].is_optional && s.args[8].elem_is_optional);
	assert_int_equal(s.nreturns, 2);

	s = parse("aten::items.str(Dict(str, t) self) -> ((str, t)[])");
	assert_int_equal(s.args[0].base, SCHEMA_OTHER);
	assert_string_equal(s.args[0].type, "Dict(str, t)");
	assert_int_equal(s.nreturns, 1);
	assert_string_equal(s.returns[0].type, "(str, t)[]");
	s = parse("prim::Print(...) -> ()");
	assert_true(s.vararg);
	assert_int_equal(s.nargs, 0);
	s = parse("prim::TupleUnpack(Any tup) -> ...");
	assert_true(s.varret);
}

static void test_defaults(void **state)
{
	static const char *const defaults[] = {"[True, True, False]",
					       "'none'",
					       "\"a, b) \\\" c\"",
					       "None",
					       "1e-05",
					       "-100",
					       "Mean",
					       "contiguous_format",
					       "[]",
					       "0.5",
					       "inf",
					       "(1, 2)",
					       "[[1, 2], [3]]"};
	(void)state;
	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
		char text[256];
		snprintf(text, sizeof(text), "f(int a, T x=%s, int b=1) -> Tensor", defaults[i]);
		struct schema s = parse(text);
		assert_int_equal(s.nargs, 3);
		assert_string_equal(s.args[1].default_text, defaults[i]);
		assert_string_equal(s.args[2].default_text, "1");
	}
}

static void test_random(void **state)
{
	(void)state;
	struct schema s = parse("bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? "
				"generator=None) -> Tensor(a!)");
	assert_int_equal(schema_flags(&s), OP_INPLACE | OP_RANDOM);
	s = parse("dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)");
	assert_int_equal(schema_flags(&s), OP_INPLACE | OP_RANDOM);
	s = parse("mylib::dropout(Tensor self) -> Tensor");
	assert_int_equal(schema_flags(&s), 0);
	s = parse("relu(Tensor self) -> Tensor");
	assert_int_equal(schema_flags(&s), 0);
}

static void test_bad(void **state)
{
	static const char *const texts[] = {
	    "",
	    "add",
	    "add(",
	    "add()",
	    "add() ->",
	    "add(Tensor) -> Tensor",
	    "add(Tensor self -> Tensor",
	    "add(Tensor self,) -> Tensor",
	    "add(Tensor self) -> Tensor x y",
	    "add(Tensor self) -> (Tensor",
	    "add(Tensor self, *, *, int a) -> Tensor",
	    "add(Tensor[ self) -> Tensor",
	    "add(Tensor[99999999999] self) -> Tensor",
	    "add(Tensor(a! self) -> Tensor",
	    "add(str a=\"x) -> Tensor",
	    "add(str a=) -> Tensor",
	    "add(int a=[1) -> Tensor",
	    "add.(Tensor self) -> Tensor",
	    "::add(Tensor self) -> Tensor",
	    "%x : Tensor = aten::add(%a, %b)",
	    "((((((((((((((((((((((((((((((((((((((((",
	    "f((((((((((((((((((((((((((((((((((((((((((((",
	};
	struct schema s;
	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!schema_parse(texts[i], strlen(texts[i]), "aten", &arena, &s))
			fail_msg("taken: %s", texts[i]);
	assert_int_equal(schema_parse("f() -> ()\0", 10, "aten", &arena, &s), -EINVAL);
	assert_int_equal(schema_parse("f() -> ()", SCHEMA_MAX_TEXT + 1, "aten", &arena, &s),
			 -E2BIG);
}

static void test_desc(void **state)
{
	struct op_desc d = {.id = 7};
	(void)state;
	struct schema s = parse("sort(Tensor self, int dim=-1) -> (Tensor values, Tensor indices)");
	assert_int_equal(schema_to_desc(&s, &arena, &d), 0);
	assert_int_equal(d.id, 7);
	assert_int_equal(d.kind, OP_DISPATCHED);
	assert_string_equal(d.name, "aten::sort");
	assert_string_equal(d.args[1].name, "dim");
	assert_string_equal(d.args[1].type, "int");
	assert_int_equal(d.nresults, 2);
	assert_string_equal(d.results[1].name, "indices");
}

struct found_schema {
	size_t n;
	const char *text[8];
};

static int note(const char *text, size_t len, void *arg)
{
	struct found_schema *f = arg;
	assert_int_equal(strlen(text), len);
	if (f->n == 8)
		return 1;
	f->text[f->n++] = text;
	return 0;
}

static void test_scan(void **state)
{
	static const char image[] =
	    "junk\0\x01\x02?add.Tensor(Tensor self) -> Tensor\0) -> \0\ndef f(a) -> x\n  g\0"
	    "ns::g(int[] a) -> ()\0cut(Tensor self) -> Tens";
	struct found_schema f = {0};
	(void)state;
	assert_int_equal(schema_scan(image, sizeof(image) - 1, note, &f), 0);
	assert_int_equal(f.n, 3);
	assert_string_equal(f.text[0], "add.Tensor(Tensor self) -> Tensor");
	assert_string_equal(f.text[2], "ns::g(int[] a) -> ()");
	for (size_t n = 0; n < sizeof(image); n++) {
		char *cut = malloc(n + 1); /* exactly n bytes if n > 0: ASan sees reads beyond */
		memcpy(cut, image, n);
		f.n = 0;
		assert_int_equal(schema_scan(cut, n, note, &f), 0);
		free(cut);
	}
}

static int find(const char *rodata, size_t len, const char *symbol, struct schema *s)
{
	struct schema_index x = {0};
	struct cxx_function fn;
	assert_int_equal(cxx_function_parse(symbol, &arena, &fn), 0);
	assert_int_equal(schema_index_add(&x, rodata, len), 0);
	int rc = schema_index_find(&x, &fn, &arena, s);
	schema_index_free(&x);
	return rc;
}

static void test_index(void **state)
{
	static const char erf[] =
	    "special_erf(Tensor self) -> Tensor\0erf(Tensor self, int dim) -> Tensor\0"
	    "aten::erf(Tensor x, Tensor y) -> Tensor";
	static const char two[] = "a_erf(Tensor self) -> Tensor\0b_erf(Tensor input) -> Tensor";
	static const char inplace[] =
	    "erf(Tensor(a!) self) -> Tensor(a!)\0quantized::erf(Tensor self) -> Tensor";
	static const char alias[] =
	    "a_erf(Tensor(a) self) -> Tensor(a)\0b_erf(Tensor self) -> Tensor";
	static const char saila[] =
	    "b_erf(Tensor self) -> Tensor\0a_erf(Tensor(a) self) -> Tensor(a)";
	static const char symbol[] = "_ZN2at4_ops3erf4callERKNS_6TensorE";
	struct schema s;
	(void)state;

	assert_int_equal(find(erf, sizeof(erf), symbol, &s), 0);
	assert_string_equal(s.text, "aten::erf(Tensor self) -> Tensor");
	assert_int_equal(find(two, sizeof(two), symbol, &s), -ENOTUNIQ);
	assert_int_equal(find(inplace, sizeof(inplace), "_ZN2at4_ops3erf4callERNS_6TensorE", &s),
			 0);
	assert_int_equal(find("", 1, symbol, &s), -ENOENT);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(i ? find(alias, sizeof(alias), symbol, &s)
				   : find(saila, sizeof(saila), symbol, &s),
				 0);
		assert_string_equal(s.text, "");
		assert_string_equal(s.args[0].name, "self");
		assert_non_null(s.args[0].alias);
	}
}

/* The name of this operator's struct in at::_ops. */
static void struct_name(char *out, size_t size, const struct schema *s)
{
	snprintf(out, size, "%s%s%s", s->name, *s->overload ? "_" : "", s->overload);
}

static void library(const struct libtorch *l)
{
	struct schema_index x = {0};
	size_t unknown = 0;

	assert_int_equal(schema_index_add(&x, l->rodata, l->rodata_len), 0);
	for (size_t i = 0; i < l->ncalls; i++) {
		struct cxx_function fn;
		struct schema s;
		char name[512];
		assert_int_equal(cxx_function_parse(l->calls[i], &arena, &fn), 0);
		int rc = schema_index_find(&x, &fn, &arena, &s);
		if (rc) {
			print_message("# %s: %s: %s\n", l->path, fn.owner, strerror(-rc));
			unknown++;
			continue;
		}
		struct_name(name, sizeof(name), &s);
		assert_string_equal(name, fn.owner);
	}
	print_message("# %s: %zu texts, %zu operators, %zu unknown\n", l->path, x.ntexts, l->ncalls,
		      unknown);
	assert_int_equal(unknown, 0);
	schema_index_free(&x);
}

static void test_libraries(void **state)
{
	(void)state;
	libtorch_each(library);
}

/* Prints the path of the libtorch_cpu that the interpreter loads, then each schema of the
 * dispatcher. */
static const char oracle[] = "import torch\n"
			     "print(next(l.split(None, 5)[5].strip() for l in "
			     "open('/proc/self/maps') if 'libtorch_cpu.so' in l))\n"
			     "for s in torch._C._jit_get_all_schemas():\n"
			     "    if s.name.startswith('aten::'): print(s)\n";

/* PyTorch prints JIT types, in which these are the same type. */
static bool same_type(const struct schema_arg *a, const struct schema_arg *torch)
{
	return a->base == torch->base || (a->base == SCHEMA_DIMNAME && torch->base == SCHEMA_STR) ||
	       (a->base == SCHEMA_DEVICE_INDEX && torch->base == SCHEMA_INT);
}

static bool same_arg(const struct schema_arg *a, const struct schema_arg *torch)
{
	return !strcmp(a->name, torch->name) && same_type(a, torch) &&
	       a->list_depth == torch->list_depth && a->list_len == torch->list_len &&
	       a->is_optional == torch->is_optional &&
	       a->elem_is_optional == torch->elem_is_optional && a->is_write == torch->is_write &&
	       a->kwarg_only == torch->kwarg_only && !a->alias == !torch->alias &&
	       !a->default_text == !torch->default_text;
}

static void compare(const struct schema *s, const struct schema *torch)
{
	bool same = s->nargs == torch->nargs && s->nreturns == torch->nreturns;
	for (uint16_t i = 0; same && i < s->nargs; i++)
		same = same_arg(&s->args[i], &torch->args[i]);
	for (uint16_t i = 0; same && i < s->nreturns; i++)
		same = same_arg(&s->returns[i], &torch->returns[i]);
	if (!same)
		fail_msg("\n  %s\nis, as PyTorch says,\n  %s", s->text, torch->text);
}

/* Operators may be registered only at run time; but every at::_ops must be among the oracle's. */
static size_t compare_all(const struct libtorch *l, const struct schema *torch, size_t n)
{
	struct schema_index x = {0};
	size_t compared = 0;

	assert_int_equal(schema_index_add(&x, l->rodata, l->rodata_len), 0);
	for (size_t i = 0; i < l->ncalls; i++) {
		struct cxx_function fn;
		struct schema s;
		size_t k = 0;
		assert_int_equal(cxx_function_parse(l->calls[i], &arena, &fn), 0);
		assert_int_equal(schema_index_find(&x, &fn, &arena, &s), 0);
		while (k < n && strcmp(torch[k].full_name, s.full_name))
			k++;
		if (k == n)
			fail_msg("%s: PyTorch has no such operator", s.text);
		compare(&s, &torch[k]);
		compared++;
	}
	schema_index_free(&x);
	return compared;
}

static bool ask(const char *python)
{
	char command[8192], *line = NULL;
	size_t room = 0, n = 0, max = 8192;
	struct schema *torch = calloc(max, sizeof(*torch));
	struct libtorch l;

	snprintf(command, sizeof(command), "'%s' -c \"%s\" 2>/dev/null", python, oracle);
	FILE *f = popen(command, "r");
	bool runs = f && getline(&line, &room, f) > 1;
	if (runs) {
		line[strcspn(line, "\n")] = '\0';
		libtorch_open(&l, line);
		while (n < max && getline(&line, &room, f) > 0)
			torch[n++] = parse(strtok(line, "\n"));
		print_message("# %s: %zu operators as PyTorch has them\n", python,
			      compare_all(&l, torch, n));
		libtorch_close(&l);
	}
	free(line);
	free(torch);
	if (f)
		pclose(f);
	return runs;
}

static void test_oracle(void **state)
{
	const char *list = getenv("DITRACE_TEST_PYTHON");
	char *copy = strdup(list && *list ? list : "/usr/bin/python3");
	char *save = NULL;
	int n = 0;

	(void)state;
	for (char *p = strtok_r(copy, ":", &save); p; p = strtok_r(NULL, ":", &save)) {
		if (ask(p))
			n++;
		else
			print_message("# no PyTorch in %s\n", p);
		arena_free(&arena);
	}
	free(copy);
	if (!n) {
		print_message(
		    "# skipped: no python with PyTorch; name one in DITRACE_TEST_PYTHON\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(test_names, teardown),
	    cmocka_unit_test_teardown(test_alias, teardown),
	    cmocka_unit_test_teardown(test_types, teardown),
	    cmocka_unit_test_teardown(test_defaults, teardown),
	    cmocka_unit_test_teardown(test_random, teardown),
	    cmocka_unit_test_teardown(test_bad, teardown),
	    cmocka_unit_test_teardown(test_desc, teardown),
	    cmocka_unit_test_teardown(test_scan, teardown),
	    cmocka_unit_test_teardown(test_index, teardown),
	    cmocka_unit_test_teardown(test_libraries, teardown),
	    cmocka_unit_test_teardown(test_oracle, teardown),
	};
	return unit_run(tests, NULL, NULL);
}
