
#include "tests/unit/unit.h"

#include <math.h>

#include "perf/diff/trace_diff.h"
#include "perf/report/aggregate.h"
#include "tests/unit/sample_events.h"

/* splitmix64: the same sequence on every machine. */
static uint64_t seed;

static double uniform(void)
{
	uint64_t z = (seed += 0x9e3779b97f4a7c15u);
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static double normal(void)
{
	return sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());
}

enum { OPS = 40 };

/* A simulated run. */
struct run {
	unsigned calls; /* of each op */
	double all;	/* slowdown of all calls */
	int slow;	/* op whose calls take `by` times as long; -1: none */
	double by;
	int64_t rows;	/* first dimension of that op's input */
	int missing;	/* op that is never called; -1: none */
	unsigned twice; /* op that is called twice as often; OPS: none */
	int32_t line;	/* offset of all line numbers */
	double wander;	/* noise of each op, autocorrelated from call to call */
	double vary;	/* noise of each op, constant over the run */
	int early;	/* op whose calls all come first; -1: none */
};

static const struct run usual = {
    .calls = 400, .all = 1, .slow = -1, .rows = 2, .missing = -1, .twice = OPS, .early = -1};

static struct op_desc ops[OPS];
static char names[OPS][32];

static struct op_event call(const struct run *run, unsigned op, uint64_t id, double ns)
{
	static int64_t shape[2];
	static const int64_t stride[2] = {3, 1};
	static struct tensor tensor;
	static struct value arg;
	static struct py_frame frame;
	static _Alignas(struct py_stack) char memory[sizeof(struct py_stack) + sizeof(void *)];
	struct py_stack *stack = (struct py_stack *)memory;
	shape[0] = (int)op == run->slow ? run->rows : 2;
	shape[1] = 3;
	tensor = (struct tensor){
	    .meta = {
		.dtype = 6, .ndim = 2, .numel = shape[0] * 3, .shape = shape, .stride = stride}};
	arg = (struct value){.kind = VALUE_TENSOR, .tensor = &tensor};
	frame = (struct py_frame){.file = "/home/me/train.py",
				  .function = "step",
				  .text = names[op],
				  .line = run->line + (int32_t)op};
	*stack = (struct py_stack){.depth = 1};
	stack->frames[0] = &frame;
	uint64_t start = id * 1000000000;
	return (struct op_event){.id = id,
				 .start_ns = start,
				 .end_ns = start + (uint64_t)ns,
				 .op = &ops[op],
				 .args = &arg,
				 .nargs = 1,
				 .stack = stack,
				 .where_stack = stack,
				 .pid = 1,
				 .tid = 1};
}

/* Durations are lognormal around 10 us, 20 us, ..., with 20 % of noise, rare outliers of fifty
 * times the duration, and a drift common to all ops of a stretch. */
static struct aggregate *traced(const struct run *run, uint64_t from)
{
	struct aggregate *a = aggregate_new(TRACE_DIFF_KEYS);
	double drift = 0, own[OPS] = {0}, whole[OPS];
	uint64_t id = 0;
	seed = from;
	for (unsigned op = 0; op < OPS; op++)
		whole[op] = run->vary ? run->vary * normal() : 0;
	for (unsigned i = 0; i < run->calls; i++) {
		drift = 0.95 * drift + 0.01 * normal();
		for (unsigned op = 0; op < OPS; op++) {
			own[op] = 0.98 * own[op] + run->wander * normal();
			unsigned times = op == run->twice ? 2 : 1;
			if ((int)op == run->early)
				times = i ? 0 : run->calls;
			for (unsigned k = 0; k < times && (int)op != run->missing; k++) {
				double ns = 10000 * (op + 1) * run->all *
					    exp(0.2 * normal() + drift + own[op] + whole[op]);
				ns *= uniform() < 0.005 ? 50 : 1;
				ns *= (int)op == run->slow ? run->by : 1;
				struct op_event ev = call(run, op, ++id, ns);
				assert_int_equal(aggregate_add(a, &ev), 0);
			}
		}
	}
	return a;
}

static int setup(void **state)
{
	(void)state;
	for (unsigned i = 0; i < OPS; i++) {
		snprintf(names[i], sizeof(names[i]), "aten::op%u", i);
		ops[i] = (struct op_desc){.id = i, .name = names[i], .schema = ""};
	}
	return 0;
}

static struct aggregate *before, *after;

static struct trace_diff compared(const struct run *a, const struct run *b, uint64_t from)
{
	struct trace_diff d;
	before = traced(a, from);
	after = traced(b, from + 1000000);
	assert_int_equal(trace_diff(before, after, 0.05, &d), 0);
	return d;
}

static void done(struct trace_diff *d)
{
	trace_diff_free(d);
	aggregate_free(before);
	aggregate_free(after);
}

static void equal_runs_do_not_differ(void **state)
{
	(void)state;
	for (uint64_t trial = 1; trial <= 20; trial++) {
		struct trace_diff d = compared(&usual, &usual, trial);
		if (d.changed)
			fail_msg("trial %d: %zu changed, first %s, p %g, ratio %g", (int)trial,
				 d.changed, d.rows[0].a->op, d.rows[0].p, d.rows[0].ratio);
		assert_int_equal(d.n, OPS);
		done(&d);
	}
}

/* A run with twice the steps on a machine that is 10 % slower. */
static void longer_and_slower_runs_do_not_differ(void **state)
{
	(void)state;
	struct run other = usual;
	other.calls = 800;
	other.all = 1.1;
	for (uint64_t trial = 1; trial <= 20; trial++) {
		struct trace_diff d = compared(&usual, &other, 100 * trial);
		assert_int_equal(d.changed, 0);
		assert_true(fabs(d.calls_ratio - 2) < 1e-9);
		assert_true(d.time_ratio > 1.05 && d.time_ratio < 1.15);
		done(&d);
	}
}

/* Each op drifts by a seventh over some hundred calls: in a run of 400 calls the effect can only be
 * estimated. */
static void ops_that_wander_do_not_differ(void **state)
{
	(void)state;
	struct run wanders = usual;
	wanders.wander = 0.03;
	unsigned wrong = 0;
	for (uint64_t trial = 1; trial <= 20; trial++) {
		struct trace_diff d = compared(&wanders, &wanders, 10000 * trial);
		wrong += d.changed > 0;
		done(&d);
	}
	assert_int_equal(wrong, 0);
	wanders.slow = 3;
	wanders.by = 3;
	struct trace_diff d = compared(&usual, &wanders, 7);
	assert_true(d.changed >= 1 && d.rows[0].time > 0);
	assert_string_equal(d.rows[0].a->op, "aten::op3");
	done(&d);
}

/* Memory layout or processor differ between runs: more calls do not reveal that, but the spread
 * over the rows does. */
static void runs_that_vary_do_not_differ(void **state)
{
	(void)state;
	struct run varies = usual;
	varies.vary = 0.05;
	for (uint64_t trial = 1; trial <= 20; trial++) {
		struct trace_diff d = compared(&varies, &varies, 1000 * trial);
		assert_int_equal(d.changed, 0);
		assert_true(d.spread > 0.03 && d.spread < 0.15);
		done(&d);
	}
	varies.slow = 3;
	varies.by = 2;
	for (uint64_t trial = 1; trial <= 20; trial++) {
		struct trace_diff d = compared(&usual, &varies, 1000 * trial);
		assert_true(d.changed == 1 && d.rows[0].time > 0);
		assert_string_equal(d.rows[0].a->op, "aten::op3");
		done(&d);
	}
}

/* All calls of an op fall into one slow moment: a single observation. */
static void a_moment_tells_nothing(void **state)
{
	(void)state;
	struct run first = usual, second;
	first.early = 3;
	second = first;
	second.slow = 3;
	second.by = 2;
	struct trace_diff d = compared(&first, &second, 7);
	assert_int_equal(d.changed, 0);
	for (size_t i = 0; i < d.n; i++)
		assert_true(d.rows[i].few == !strcmp(d.rows[i].a->op, "aten::op3"));
	done(&d);
}

static void inflation(void **state)
{
	(void)state;
	static const double up[] = {1, 2, 3, 4, 5, 6, 7, 8}, saw[] = {1, 8, 1, 8, 1, 8, 1, 8},
			    flat[] = {4, 4, 4, 4, 4, 4, 4, 4}, mixed[] = {1, 2, 7, 8, 3, 4, 5, 6};
	/* of `mixed`: sum of squares 42, products at lag 1 to 3: 7.25, -24.5 and -10.25 */
	assert_true(significance_inflation(mixed, 8, mixed, 8) == 1);
	/* of a line: 26.25 and 11.5, then negative */
	double line = 1 + 2 * ((26.25 + 11.5) / 42 + 2.0 / 8);
	assert_true(fabs(significance_inflation(up, 8, up, 8) - line) < 1e-9);
	assert_true(significance_inflation(saw, 8, saw, 8) < 1.3);
	assert_true(significance_inflation(flat, 8, flat, 8) == 1);
}

static void a_planted_slowdown_comes_first(void **state)
{
	(void)state;
	struct run slow = usual;
	slow.by = 2;
	slow.rows = 4;
	for (slow.slow = 0; slow.slow < OPS; slow.slow += 13) {
		struct trace_diff d = compared(&usual, &slow, 7);
		assert_int_equal(d.changed, 1);
		assert_string_equal(d.rows[0].b->op, names[slow.slow]);
		assert_int_equal(d.rows[0].time, 1);
		assert_true(d.rows[0].shape);
		assert_string_equal(d.rows[0].b->shape, "[4,3]");
		assert_true(d.rows[0].ratio > 1.8 && d.rows[0].ratio < 2.2);
		done(&d);
	}
}

static void a_faster_op_too(void **state)
{
	(void)state;
	struct run fast = usual;
	fast.slow = 5;
	fast.by = 0.8;
	struct trace_diff d = compared(&usual, &fast, 7);
	assert_int_equal(d.changed, 1);
	assert_int_equal(d.rows[0].time, -1);
	assert_false(d.rows[0].shape);
	assert_true(d.rows[0].change_ns < 0);
	done(&d);
}

static void ops_appear_vanish_and_come_more_often(void **state)
{
	(void)state;
	struct run other = usual, first = usual;
	other.missing = 30;
	other.twice = 20;
	first.missing = 10;
	struct trace_diff d = compared(&first, &other, 7);
	assert_int_equal(d.changed, 3);
	for (size_t i = 0; i < 3; i++) {
		const struct trace_diff_row *r = &d.rows[i];
		if (!r->a)
			assert_string_equal(r->b->op, "aten::op10");
		else if (!r->b)
			assert_string_equal(r->a->op, "aten::op30");
		else
			assert_true(r->calls && !r->time && !strcmp(r->a->op, "aten::op20"));
	}
	assert_true(fabs(d.rows[0].change_ns) >= fabs(d.rows[1].change_ns));
	assert_true(fabs(d.rows[1].change_ns) >= fabs(d.rows[2].change_ns));
	done(&d);
}

static void lines_may_move(void **state)
{
	(void)state;
	struct run moved = usual;
	moved.line = 1000;
	struct trace_diff d = compared(&usual, &moved, 7);
	assert_int_equal(d.n, OPS);
	assert_int_equal(d.changed, 0);
	done(&d);
}

static void few_calls_tell_nothing(void **state)
{
	(void)state;
	struct run few = usual, slow = usual;
	few.calls = slow.calls = 5;
	slow.slow = 3;
	slow.by = 2;
	struct trace_diff d = compared(&few, &slow, 7);
	assert_int_equal(d.changed, 0);
	for (size_t i = 0; i < d.n; i++)
		assert_true(d.rows[i].few);
	done(&d);
}

static char *printed(const struct trace_diff *d, int form)
{
	struct trace_diff_print opts = {.a = before, .b = after};
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	assert_int_equal(form == 0   ? trace_diff_print(f, d, &opts)
			 : form == 1 ? trace_diff_print_json(f, d, &opts)
				     : trace_diff_print_csv(f, d),
			 0);
	fclose(f);
	return text;
}

static void what_is_printed(void **state)
{
	(void)state;
	struct run slow = usual, first = usual;
	slow.slow = 20;
	slow.by = 3;
	slow.rows = 5;
	slow.missing = 1;
	struct trace_diff d = compared(&first, &slow, 7);
	char *text = printed(&d, 0);
	assert_non_null(strstr(text, "before: 16,000 ops, "));
	assert_non_null(
	    strstr(text, "slower+shape  aten::op20  [2,3] -> [5,3]  train.py:20 step: "));
	assert_non_null(
	    strstr(text, "gone          aten::op1   [2,3]           train.py:1 step: "));
	assert_non_null(strstr(text, "\nnothing else changed beyond noise\n"));
	assert_null(strstr(text, "op2 "));
	free(text);
	text = printed(&d, 1);
	assert_non_null(strstr(text,
			       "\"op\":\"aten::op20\",\"phase\":\"forward\",\"file\":\"/home/me/"
			       "train.py\",\"function\":\"step\",\"verdict\":\"slower+shape\","
			       "\"changed\":true,\"change_ns\":"));
	assert_non_null(strstr(text, "\"after\":null}"));
	free(text);
	text = printed(&d, 2);
	assert_non_null(strstr(text, "\naten::op1,forward,/home/me/train.py,step,gone,-"));
	free(text);
	done(&d);
}

static void quantiles_and_spread(void **state)
{
	(void)state;
	double v[] = {4, 1, 3, 2, 5}, one[] = {7}, rows[100];
	assert_true(fabs(significance_quantile(v, 5, 0.5) - 3) < 1e-12);
	assert_true(fabs(significance_quantile(v, 5, 0.25) - 2) < 1e-12);
	assert_true(fabs(significance_quantile(v, 4, 0.25) - 1.75) < 1e-12);
	assert_true(significance_quantile(v, 5, 1) == 5 && significance_quantile(one, 1, 0.9) == 7);
	assert_true(significance_quantile(v, 0, 0.5) == 0);
	/* Outliers, a tenth of the rows, do not change the spread of the others. */
	for (int changed = 0; changed <= 10; changed += 10) {
		seed = 5;
		for (int i = 0; i < 100; i++)
			rows[i] = 3 + 0.1 * normal() + (i < changed ? 5 : 0);
		double spread = significance_spread(rows, 100);
		assert_true(spread > 0.07 && spread < 0.15);
	}
	/* Heavier tails than normal widen it. */
	for (int i = 0; i < 100; i++)
		rows[i] = (i % 10 < 2 ? 4 : 1) * (i % 2 ? 1 : -1);
	assert_true(fabs(significance_spread(rows, 100) - 4 / 1.645) < 1e-9);
}

static void student(void **state)
{
	(void)state;
	/* from tables of t: 2.228 for 10 degrees of freedom at 0.05, 4.587 at 0.001 */
	assert_true(fabs(significance_student(2.228, 1, 10) - 0.05) < 0.001);
	assert_true(fabs(significance_student(2 * 4.587, 2, 10) - 0.001) < 0.0001);
	assert_true(significance_student(-1, 1, 10) == 1);
	assert_true(significance_student(1, 0, 10) == 0 && significance_student(0, 0, 10) == 1);
	assert_true(significance_student(9, INFINITY, 10) == 1);
	static const double a[] = {1, 3, 1, 3}, b[] = {2, 6, 2, 6};
	/* variances 4/3 and 16/3 of four values each */
	assert_true(fabs(significance_error(a, 4, b, 4) - sqrt(20.0 / 12)) < 1e-9);
	assert_true(isinf(significance_error(a, 1, b, 4)));
}

static void holm(void **state)
{
	(void)state;
	static const double p[] = {0.01, 0.04, 0.03, 0.005};
	unsigned char holds[4];
	assert_int_equal(significance_holm(p, 4, 0.05, holds), 0);
	assert_int_equal(holds[0], 1);
	assert_int_equal(holds[1], 0);
	assert_int_equal(holds[2], 0);
	assert_int_equal(holds[3], 1);
}

/* A row with every third event of the trace. */
static void batches_keep_the_mean(void **state)
{
	(void)state;
	for (unsigned n = 30; n < 5000; n += 61) {
		struct batches b = {0};
		double means[BATCHES_MAX];
		for (unsigned i = 0; i < n; i += 3)
			batches_add(&b, i, i);
		uint32_t got = batches_means(&b, n, means);
		assert_in_range(got, n < 96 ? n / 3 : 31, BATCHES_MAX);
		for (uint32_t i = 0; i < got; i++)
			assert_true(means[i] >= (i ? means[i - 1] : 0) && means[i] < n);
		for (uint32_t i = 0; i + 1 < got && b.size >= 3; i++)
			assert_true(fabs(means[i] - ((double)i + 0.5) * (double)b.size) < 2);
	}
}

/* All calls in a hundredth of the trace, however many they are. */
static void batches_of_a_moment_are_one(void **state)
{
	(void)state;
	struct batches b = {0};
	double means[BATCHES_MAX];
	for (unsigned i = 0; i < 1000; i++)
		batches_add(&b, i, 2);
	assert_true(batches_means(&b, 1000, means) > 31);
	assert_int_equal(batches_means(&b, 100000, means), 1);
	assert_true(means[0] == 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(equal_runs_do_not_differ),
	    cmocka_unit_test(longer_and_slower_runs_do_not_differ),
	    cmocka_unit_test(ops_that_wander_do_not_differ),
	    cmocka_unit_test(runs_that_vary_do_not_differ),
	    cmocka_unit_test(a_moment_tells_nothing),
	    cmocka_unit_test(a_planted_slowdown_comes_first),
	    cmocka_unit_test(a_faster_op_too),
	    cmocka_unit_test(ops_appear_vanish_and_come_more_often),
	    cmocka_unit_test(lines_may_move),
	    cmocka_unit_test(few_calls_tell_nothing),
	    cmocka_unit_test(what_is_printed),
	    cmocka_unit_test(quantiles_and_spread),
	    cmocka_unit_test(student),
	    cmocka_unit_test(inflation),
	    cmocka_unit_test(holm),
	    cmocka_unit_test(batches_keep_the_mean),
	    cmocka_unit_test(batches_of_a_moment_are_one),
	};
	return unit_run(tests, setup, NULL);
}
