#include "tests/unit/unit.h"

#include "perf/report/aggregate.h"
#include "tests/unit/sample_events.h"

static const int64_t left[] = {3, 4}, right[] = {4, 5};
static struct tensor a = {.meta = {.ndim = 2, .shape = left}},
		     b = {.meta = {.ndim = 2, .shape = right}};
static const struct value args[] = {{.kind = VALUE_TENSOR, .tensor = &a},
				    {.kind = VALUE_TENSOR, .tensor = &b}};
static const struct op_desc mm = {.name = "aten::mm.out"}, linear = {.name = "aten::linear"};

static struct op_event call(const struct op_desc *op, uint16_t depth)
{
	struct op_event ev = sample_event(1, 0, depth, 100, 200);
	ev.op = op;
	ev.args = args;
	ev.nargs = 2;
	return ev;
}

static void by_shapes(void **state)
{
	(void)state;
	double flops;
	struct op_event ev = call(&mm, 0);
	assert_int_equal(flops_of(&ev, &flops), FLOPS_KNOWN);
	assert_true(flops == 2 * 3 * 4 * 5);
	ev.op = &linear;
	assert_int_equal(flops_of(&ev, &flops), FLOPS_NONE);
}

static void without_shapes(void **state)
{
	(void)state;
	double flops;
	struct op_event ev = call(&mm, 0);
	ev.nargs = 1;
	assert_int_equal(flops_of(&ev, &flops), FLOPS_UNKNOWN);
	ev = call(&mm, 0);
	b.meta.unknown = TENSOR_NO_SHAPE;
	assert_int_equal(flops_of(&ev, &flops), FLOPS_UNKNOWN);
	b.meta.unknown = 0;
	ev.thrown = true;
	assert_int_equal(flops_of(&ev, &flops), FLOPS_NONE);
}

static void inner_calls_count_once(void **state)
{
	(void)state;
	struct flops_nest n = {0};
	assert_true(flops_own(&n, 2, 100) == 100);
	assert_true(flops_own(&n, 1, 100) == 0);
	assert_true(flops_own(&n, 1, 50) == 50);
	assert_true(flops_own(&n, 0, 160) == 10);
	assert_true(flops_own(&n, 0, 7) == 7);
	assert_true(flops_own(&n, FLOPS_DEPTH + 1, 3) == 3);
	assert_true(flops_own(&n, 0, 3) == 0);
}

static void rows_have_them(void **state)
{
	(void)state;
	struct aggregate *sum = aggregate_new(AGGREGATE_OP | AGGREGATE_FLOPS);
	struct op_event inner = call(&mm, 1), outer = call(&linear, 0);
	struct op_sum summed = {.of = call(&mm, 0), .calls = 4, .min_ns = 1, .max_ns = 2};
	size_t n;
	summed.of.nargs = 0;
	assert_int_equal(aggregate_add(sum, &inner), 0);
	assert_int_equal(aggregate_add(sum, &outer), 0);
	assert_int_equal(aggregate_add_sum(sum, &summed), 0);
	const struct aggregate_row *const *rows = aggregate_rows(sum, &n);
	assert_int_equal(n, 2);
	assert_true(rows[0]->flops == 120 && rows[1]->flops == 0);
	assert_int_equal(rows[0]->flops_unknown, 4);
	assert_int_equal(rows[1]->flops_unknown, 0);
	aggregate_free(sum);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(by_shapes),
	    cmocka_unit_test(without_shapes),
	    cmocka_unit_test(inner_calls_count_once),
	    cmocka_unit_test(rows_have_them),
	};
	return unit_run(tests, NULL, NULL);
}
