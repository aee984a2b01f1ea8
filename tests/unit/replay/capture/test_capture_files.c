
#include "tests/unit/unit.h"

#include <errno.h>
#include <float.h>
#include <math.h>

#include "replay/capture/capture_files.h"
#include "replay/numbers/numbers.h"
#include "symbolizer/event/names.h"
#include "symbolizer/ops/filter.h"
#include "symbolizer/ops/schema.h"
#include "tests/unit/self_source.h"

static struct value number(int64_t i)
{
	return (struct value){.kind = VALUE_INT, .i = i};
}

static struct value boolean(bool b)
{
	return (struct value){.kind = VALUE_BOOL, .i = b};
}

/* "2 alpha out": the number of positional arguments, and the names of keyword arguments. */
static const char *sorted(const char *schema, const struct value *args, uint16_t n)
{
	static char out[256];
	struct op_desc d = {.kind = OP_DISPATCHED, .name = "aten::x", .schema = ""};
	struct op_event ev = {.op = &d, .args = args, .nargs = n};
	struct arena a = {0};
	struct pth_content c = {0};
	struct schema s;
	if (!schema_parse(schema, strlen(schema), "aten", &a, &s))
		assert_int_equal(schema_to_desc(&s, &a, &d), 0);
	assert_int_equal(pth_choose_input(&ev, &a, &c), 0);
	size_t len = (size_t)snprintf(out, sizeof(out), "%u", c.nargs);
	for (unsigned i = 0; i < c.nkwargs; i++)
		len += (size_t)snprintf(out + len, sizeof(out) - len, " %s", c.kwargs[i].name);
	arena_free(&a);
	return out;
}

static void arguments_as_python_passes_them(void **state)
{
	(void)state;
	const char *add = "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) "
			  "out) -> Tensor(a!)";
	struct value a[] = {
	    number(1), number(2), {.kind = VALUE_SCALAR, .scalar = VALUE_INT, .i = 1}, number(3)};
	assert_string_equal(sorted(add, a, 4), "2 out");
	a[2] = (struct value){.kind = VALUE_SCALAR, .scalar = VALUE_FLOAT, .f = 1};
	assert_string_equal(sorted(add, a, 4), "2 out");
	a[2].f = 1.5;
	assert_string_equal(sorted(add, a, 4), "2 alpha out");
	a[2] = (struct value){.kind = VALUE_NOT_DECODED, .str = "why"};
	assert_string_equal(sorted(add, a, 4), "2 alpha out");
	const char *to =
	    "aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, "
	    "bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)";
	struct value b[] = {number(1),
			    {.kind = VALUE_DTYPE, .i = 6},
			    boolean(false),
			    boolean(false),
			    {.kind = VALUE_MEMORY_FORMAT, .i = 1}};
	assert_string_equal(sorted(to, b, 5), "2 memory_format");
	assert_string_equal(sorted("", a, 4), "4");
	assert_string_equal(sorted("not a schema", a, 4), "4");
	assert_string_equal(sorted("aten::f(int a) -> ()", a, 4), "4");
}

static void defaults_are_left_out(void **state)
{
	(void)state;
	struct value ones[] = {number(1), number(1)}, mixed[] = {number(1), number(2)};
	const struct value none = {.kind = VALUE_NONE},
			   list = {.kind = VALUE_LIST, .count = 2, .items = ones},
			   other = {.kind = VALUE_LIST, .count = 2, .items = mixed},
			   text = {.kind = VALUE_STRING, .str = "none", .count = 4},
			   eps = {.kind = VALUE_FLOAT, .f = 1e-5},
			   format = {.kind = VALUE_MEMORY_FORMAT, .i = 0};
	const struct {
		const char *type_and_default;
		struct value v;
		const char *sorted;
	} cases[] = {
	    {"Tensor? x=None", none, "0"},
	    {"Tensor? x", none, "1"},
	    {"bool x=True", boolean(true), "0"},
	    {"bool x=True", boolean(false), "1"},
	    {"int x=-1", number(-1), "0"},
	    {"int x=-1", number(1), "1"},
	    {"int reduction=Mean", number(1), "0"},
	    {"int reduction=Mean", number(0), "1"},
	    {"int[2] x=1", list, "0"},
	    {"int[2] x=1", other, "1"},
	    {"int[2] x=[1, 1]", list, "0"},
	    {"int[2] x=[1, 2]", other, "0"},
	    {"int[2] x=[1, 2]", list, "1"},
	    {"int[] x=[]", list, "1"},
	    {"str x='none'", text, "0"},
	    {"str x='tanh'", text, "1"},
	    {"float x=1e-05", eps, "0"},
	    {"float x=1e-06", eps, "1"},
	    {"MemoryFormat x=contiguous_format", format, "0"},
	    {"*, MemoryFormat x=contiguous_format", format, "0"},
	    {"*, str x='tanh'", text, "0 x"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char schema[128];
		snprintf(schema, sizeof(schema), "aten::f(%s) -> ()", cases[i].type_and_default);
		if (strcmp(sorted(schema, &cases[i].v, 1), cases[i].sorted) != 0)
			fail_msg("%s: %s", schema, sorted(schema, &cases[i].v, 1));
	}
	/* Only trailing defaults are dropped. */
	struct value two[] = {none, number(5)};
	assert_string_equal(sorted("aten::f(Tensor? a=None, int b=1) -> ()", two, 2), "2");
}

static void each_is_named(bool (*fn)(const struct op_desc *, char *, size_t),
			  const char *const (*cases)[2], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct op_desc d = {.kind = strstr(cases[i][0], "::") ? OP_DISPATCHED : OP_BACKWARD,
				    .name = cases[i][0]};
		char name[64];
		assert_true(fn(&d, name, sizeof(name)));
		assert_string_equal(name, cases[i][1]);
	}
}

static void names_for_python(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
	    {"aten::add.Tensor", "torch.add"},
	    {"aten::_to_copy", "torch.ops.aten._to_copy.default"},
	    {"mylib::f.out", "torch.ops.mylib.f.out"},
	    {"AddBackward0", "AddBackward0"},
	};
	each_is_named(opnames_python, cases, sizeof(cases) / sizeof(cases[0]));
	char name[8];
	struct op_desc d = {.kind = OP_DISPATCHED, .name = "mylib::f.out"};
	assert_false(opnames_python(&d, name, sizeof(name)));
	assert_string_equal(name, "");
}

/* Python's own function, if it takes the operator's arguments. */
static void names_to_call(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
	    {"aten::add.Tensor", "torch.add"},
	    {"aten::linear", "torch.nn.functional.linear"},
	    {"aten::layer_norm", "torch.nn.functional.layer_norm"},
	    {"aten::relu_", "torch.nn.functional.relu_"},
	    {"aten::add_.Tensor", "torch.Tensor.add_"},
	    {"aten::embedding", "torch.ops.aten.embedding.default"},
	    {"aten::softmax.int", "torch.ops.aten.softmax.int"},
	    {"aten::cross_entropy_loss", "torch.ops.aten.cross_entropy_loss.default"},
	    {"aten::slice.Tensor", "torch.ops.aten.slice.Tensor"},
	    {"aten::silu_", "torch.ops.aten.silu_.default"},
	    {"aten::mT", "torch.ops.aten.mT.default"},
	    {"mylib::f.out", "torch.ops.mylib.f.out"},
	    {"AddBackward0", "AddBackward0"},
	};
	each_is_named(opnames_callable, cases, sizeof(cases) / sizeof(cases[0]));
}

/* A name from the target cannot escape the folder. */
static void paths_stay_inside(void **state)
{
	(void)state;
	char dir[] = "/tmp/test_capture.XXXXXX";
	assert_non_null(mkdtemp(dir));
	struct capture_files c = {.root = dir};
	struct source src = {.read = source_read_self};
	struct capture_call call = {.id = 5, .pid = 7, .op = "../../a/b\n"};
	struct capture_saved saved;
	struct op_desc d = {.kind = OP_DISPATCHED, .name = "x", .schema = ""};
	struct value v = number(1);
	struct op_event ev = {.op = &d, .args = &v, .nargs = 1};
	struct err e = {0};
	char want[128], rm[64];

	setenv("TZ", "UTC", 1);
	assert_int_equal(capture_write(&c, &call, CAPTURE_INPUT, &ev, &src, &saved, &e), 0);
	snprintf(
	    want, sizeof(want),
	    "%s/op_tools_results/op_capture_results/_._.._a_b_/7/5/1970-01-01-00-00-00/input.pth",
	    dir);
	want[strlen(dir) + strlen("/op_tools_results/op_capture_results/") + 1] = '.';
	assert_string_equal(saved.path, want);
	assert_int_equal(c.files, 1);
	assert_int_equal(c.bytes, saved.bytes);
	v = (struct value){.kind = VALUE_GENERATOR, .i = 1};
	assert_int_equal(capture_write(&c, &call, CAPTURE_INPUT, &ev, &src, &saved, &e), -ENOTSUP);
	assert_int_equal(c.refused[REFUSED_GENERATOR], 1);
	assert_int_equal(c.files, 1);
	snprintf(rm, sizeof(rm), "rm -r %s", dir);
	assert_int_equal(system(rm), 0); /* NOLINT(bugprone-command-processor) */
}

static struct stats stats_of(int dtype, const void *data, size_t n, size_t piece)
{
	struct stats out;
	struct stats_sum *s = stats_begin(dtype);
	size_t size = (size_t)names_itemsize(dtype);
	assert_non_null(s);
	for (size_t at = 0; at < n; at += piece)
		stats_add(s, (const char *)data + at * size, piece < n - at ? piece : n - at);
	stats_end(s, &out);
	return out;
}

enum { INT64 = 4, FLOAT64 = 7, UINT64_ = 29, BITS8 = 21, COMPLEX128 = 10 };

static void statistics_do_not_depend_on_pieces(void **state)
{
	(void)state;
	enum { N = 10007 };
	static double v[N];
	double sum = 0, squares = 0;
	for (int i = 0; i < N; i++) {
		v[i] = (i * 7919 % 1000) / 64.0 - 5;
		sum += v[i];
		squares += v[i] * v[i];
	}
	struct stats a = stats_of(FLOAT64, v, N, N), b = stats_of(FLOAT64, v, N, 1),
		     c = stats_of(FLOAT64, v, N, 4097);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_memory_equal(&a, &c, sizeof(a));
	/* Multiples of 1/64, so that the plain sums are exact. */
	assert_true(fabs(a.mean - sum / N) < 1e-13);
	assert_true(fabs(a.l2 - sqrt(squares)) < 1e-10);
	assert_true(fabs(a.std - sqrt((squares - sum * sum / N) / (N - 1))) < 1e-12);
	assert_true(a.min == -5 && a.max == 999 / 64.0 - 5);
}

static void statistics_of_extremes(void **state)
{
	(void)state;
	const double large[] = {DBL_MAX, DBL_MAX, -DBL_MAX, DBL_MAX}, tiny[] = {5e-324, 5e-324},
		     few[] = {NAN, INFINITY, -INFINITY, -0.0}, lost[] = {NAN, NAN};
	struct stats s = stats_of(FLOAT64, large, 4, 4);
	assert_true(s.mean == DBL_MAX / 2 && s.std == DBL_MAX && s.l2 == INFINITY);
	s = stats_of(FLOAT64, tiny, 2, 2);
	assert_true(s.mean == 5e-324 && s.std == 0 && s.l2 > 0);
	s = stats_of(FLOAT64, few, 4, 4);
	assert_true(s.nan == 1 && s.pos_inf == 1 && s.neg_inf == 1 && s.zeros == 1);
	assert_true(s.min == -INFINITY && s.max == INFINITY && s.mean == 0 && isnan(s.std) &&
		    s.l2 == 0);
	s = stats_of(FLOAT64, lost, 2, 2);
	assert_true(s.nan == 2 && isnan(s.min) && isnan(s.max) && isnan(s.mean) && isnan(s.l2));
	s = stats_of(FLOAT64, lost, 0, 1);
	assert_true(s.count == 0 && isnan(s.min) && isnan(s.mean) && s.l2 == 0);
}

static void statistics_of_integers(void **state)
{
	(void)state;
	const int64_t v[] = {INT64_MIN, INT64_MAX, (INT64_C(1) << 53) + 1};
	struct stats s = stats_of(INT64, v, 3, 1);
	assert_true(s.is_int && s.min_int == INT64_MIN && s.max_int == INT64_MAX);
	s = stats_of(INT64, v + 2, 1, 1);
	assert_int_equal(s.min_int, v[2]);
	s = stats_of(UINT64_, v, 3, 3);
	assert_true(s.is_unsigned && s.min_int == v[2] && s.max_int == INT64_MIN);
	s = stats_of(BITS8, v, 8, 8);
	assert_true(!s.is_numeric && s.count == 8 && isnan(s.min) && isnan(s.l2) && s.hash);
	const double z[] = {3, 4, NAN, INFINITY};
	s = stats_of(COMPLEX128, z, 2, 2);
	assert_true(s.count == 2 && s.nan == 1 && s.min == 5 && s.max == 5);
	assert_null(stats_begin(99));
}

static void half_precision(void **state)
{
	(void)state;
	enum { FLOAT16 = 5 };
	const uint16_t h[] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x8000, 0x7c00, 0xfc00, 0x7e00};
	double d[8];
	number_of(FLOAT16)->to_double(h, sizeof(h[0]), 8, d);
	assert_true(d[0] == 1 && d[1] == -2 && d[2] == 65504 && d[3] == 0x1p-24);
	assert_true(d[4] == 0 && signbit(d[4]) && d[5] == INFINITY && d[6] == -INFINITY &&
		    isnan(d[7]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(arguments_as_python_passes_them),
	    cmocka_unit_test(defaults_are_left_out),
	    cmocka_unit_test(names_for_python),
	    cmocka_unit_test(names_to_call),
	    cmocka_unit_test(paths_stay_inside),
	    cmocka_unit_test(statistics_do_not_depend_on_pieces),
	    cmocka_unit_test(statistics_of_extremes),
	    cmocka_unit_test(statistics_of_integers),
	    cmocka_unit_test(half_precision),
	};
	return unit_run(tests, NULL, NULL);
}
