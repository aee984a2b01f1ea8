#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>

#include "perf/report/aggregate.h"
#include "perf/report/devices.h"
#include "perf/report/report.h"
#include "tests/unit/aggregate_row.h"
#include "tests/unit/sample_events.h"

static uint64_t busy_of(struct busy *b, uint64_t from, uint64_t to)
{
	uint64_t off, ns = busy_between(b, from, to, &off);
	assert_int_equal(off, 0);
	return ns;
}

/* Overlapping spans count once, in whatever order they come. */
static void spans_are_joined(void **state)
{
	static const struct busy_span spans[] = {{100, 200}, {150, 250}, {400, 500}, {10, 20},
						 {240, 260}, {410, 420}, {500, 510}, {600, 600}};
	struct busy b = {0};
	(void)state;
	for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++)
		assert_int_equal(busy_add(&b, spans[i].from, spans[i].to), 0);
	assert_int_equal(busy_of(&b, 0, UINT64_MAX), 10 + 160 + 110);
	assert_int_equal(busy_of(&b, 15, 410), 5 + 160 + 10);
	assert_int_equal(busy_of(&b, 260, 400), 0);
	/* And when it was asked already. */
	assert_int_equal(busy_add(&b, 390, 405), 0);
	assert_int_equal(busy_of(&b, 0, UINT64_MAX), 10 + 160 + 120);
	assert_false(b.late);
	busy_free(&b);
}

/* Of two streams, the second comes behind a part of the first each time: exact, though not all
 * spans are held. */
static void many_spans_are_exact(void **state)
{
	enum { PARTS = 40, OF_PART = 20000, EVERY = 1000 };
	struct busy b = {0};
	uint64_t off, all, some;
	(void)state;
	for (uint64_t part = 0; part < PARTS; part++)
		for (uint64_t stream = 0; stream < 2; stream++)
			for (uint64_t i = 0; i < OF_PART; i++) {
				uint64_t at = 1000000 + (part * OF_PART + i) * EVERY + stream * 300;
				assert_int_equal(busy_add(&b, at, at + 400), 0);
			}
	assert_true(b.n <= BUSY_HELD);
	assert_false(b.late);
	all = busy_between(&b, 0, UINT64_MAX, &off);
	assert_int_equal(all, (uint64_t)PARTS * OF_PART * 700);
	assert_int_equal(off, 0);
	/* A part of it is known up to the stretches at its ends. */
	some = busy_between(&b, 1000000, 1000000 + 10 * OF_PART * EVERY, &off);
	assert_true(off > 0 && off < 100000);
	assert_in_range(some, 10 * OF_PART * 700 - off, 10 * OF_PART * 700 + off);
	/* What comes after all is told as such, and no stretch is busy for longer than it is. */
	for (int i = 0; i < 3; i++)
		assert_int_equal(busy_add(&b, 1000000, 1000000 + OF_PART * EVERY), 0);
	assert_true(b.late);
	assert_in_range(busy_between(&b, 0, UINT64_MAX, &off), all,
			all + OF_PART * EVERY + 2 * b.width - OF_PART * 700);
	/* A damaged file may say anything. */
	assert_int_equal(busy_add(&b, 0, UINT64_MAX), 0);
	assert_int_equal(busy_add(&b, UINT64_MAX - 1, UINT64_MAX), 0);
	assert_true(busy_between(&b, 0, UINT64_MAX, &off) > 1ull << 63);
	busy_free(&b);
}

static struct activity activity(uint64_t start, uint64_t end)
{
	struct activity a = {.of = sample_event(7, 0, 0, start, end),
			     .kind = ACTIVITY_KERNEL,
			     .device_type = 1,
			     .stream = 7,
			     .launched_ns = start - 50,
			     .name = "void gemm<float, 32>(float*)"};
	return a;
}

static struct activity no_op(enum activity_launch launch, uint64_t start, uint64_t end)
{
	struct activity a = activity(start, end);
	a.of =
	    (struct op_event){.pid = a.of.pid, .tid = a.of.tid, .start_ns = start, .end_ns = end};
	a.of.tid = launch == LAUNCH_NO_THREAD ? 0 : a.of.tid;
	a.launch = launch;
	a.kind = ACTIVITY_COPY;
	a.name = "Memcpy HtoD (Pageable -> Device)";
	return a;
}

static void add(struct aggregate *a, struct activity of)
{
	assert_int_equal(aggregate_add_activity(a, &of), 0);
}

/* An op of 100 ns with 300 ns of a device, of which 100 beside another op's; 50 in no op, and 30
 * and 20 of which less is known. */
static struct aggregate *filled(unsigned keys)
{
	struct aggregate *a = aggregate_new(keys);
	struct op_event op = sample_event(1, 0, 0, 1000, 1100), other = op;
	struct activity of_other = activity(2200, 2400);
	assert_non_null(a);
	assert_int_equal(aggregate_add(a, &op), 0);
	other.op = of_other.of.op = &sample_op;
	other.start_ns = 1100;
	other.end_ns = 2000;
	assert_int_equal(aggregate_add(a, &other), 0);
	add(a, activity(2000, 2200));
	add(a, activity(2300, 2400));
	of_other.stream = 8;
	add(a, of_other);
	add(a, no_op(LAUNCH_IN_NO_OP, 3000, 3050));
	add(a, no_op(LAUNCH_UNKNOWN, 3100, 3130));
	add(a, no_op(LAUNCH_NO_THREAD, 3200, 3220));
	return a;
}

static void rows_have_the_time_of_devices(void **state)
{
	struct aggregate *a = filled(AGGREGATE_DEFAULT);
	struct aggregate_totals t;
	(void)state;
	assert_true(aggregate_keys(a) & AGGREGATE_ACTIVITIES);
	assert_int_equal(row(a, sample_add.name)->device_ns, 300);
	assert_int_equal(row(a, sample_add.name)->activities, 2);
	assert_int_equal(row(a, sample_add.name)->calls, 1);
	assert_int_equal(row(a, sample_add.name)->self_ns, 100);
	assert_int_equal(row(a, sample_op.name)->device_ns, 200);
	assert_int_equal(row(a, "(in no op)")->device_ns, 50);
	assert_int_equal(row(a, "(in no op)")->calls, 0);
	assert_int_equal(row(a, "(op not known)")->device_ns, 30);
	assert_int_equal(row(a, "(launch not known)")->device_ns, 20);
	aggregate_totals(a, &t);
	assert_int_equal(t.activities, 6);
	assert_int_equal(t.busy_ns, 400 + 50 + 30 + 20);
	assert_int_equal(t.self_ns, 1000);
	assert_int_equal(t.threads, 1);
	aggregate_free(a);
}

/* The time of all rows is that of all activities, whatever the rows are. */
static void nothing_is_missing(void **state)
{
	(void)state;
	for (unsigned keys = 0; keys < AGGREGATE_SIDES; keys++) {
		struct aggregate *a = filled(keys);
		struct aggregate_totals t;
		uint64_t ns = 0, activities = 0;
		size_t n;
		assert_int_equal(aggregate_end(a), 0);
		const struct aggregate_row *const *rows = aggregate_rows(a, &n);
		for (size_t i = 0; i < n; i++) {
			ns += rows[i]->device_ns;
			activities += rows[i]->activities;
		}
		aggregate_totals(a, &t);
		assert_int_equal(t.activities, 6);
		assert_int_equal(ns, 600);
		assert_int_equal(activities, 6);
		aggregate_free(a);
	}
}

static void has_device_ns(const struct aggregate *a, const char *shape, unsigned launch,
			  uint64_t ns)
{
	size_t n;
	const struct aggregate_row *const *rows = aggregate_rows(a, &n);
	for (size_t i = 0; i < n; i++)
		if (rows[i]->launch == launch && (launch || !strcmp(rows[i]->shape, shape))) {
			assert_int_equal(rows[i]->device_ns, ns);
			return;
		}
	fail_msg("no row %s", shape);
}

/* Rows by shape know theirs by the call, before and after its end; where the call is not known it
 * is told. */
static void calls_have_theirs(void **state)
{
	struct aggregate *a = aggregate_new(AGGREGATE_OP | AGGREGATE_SHAPE);
	struct op_event call = sample_event(5, 0, 0, 100, 200),
			other = sample_event(6, 0, 0, 300, 400);
	struct activity of = activity(150, 250);
	(void)state;
	other.nargs = 1;
	of.of.id = 5;
	add(a, of);
	add(a, of);
	assert_int_equal(aggregate_add(a, &call), 0);
	assert_int_equal(aggregate_add(a, &other), 0);
	has_device_ns(a, "[2,3,4] ?", 0, 200);
	add(a, of);
	has_device_ns(a, "[2,3,4] ?", 0, 300);
	of.of.id = 6;
	add(a, of);
	has_device_ns(a, "[2,3,4]", 0, 100);
	of.of.id = 0;
	add(a, of);
	of.of.id = 12345;
	add(a, of);
	has_device_ns(a, NULL, AGGREGATE_NO_CALL, 100);
	assert_int_equal(aggregate_end(a), 0);
	has_device_ns(a, NULL, AGGREGATE_NO_CALL, 200);
	has_device_ns(a, "[2,3,4] ?", 0, 300);
	aggregate_free(a);
}

/* The output of a report; the caller frees it. */
static char *printed(const struct aggregate *a, struct report_opts opts,
		     int (*print)(FILE *f, const struct aggregate *a, const struct report_opts *o))
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	assert_int_equal(print(f, a, &opts), 0);
	fclose(f);
	return text;
}

static void the_table(void **state)
{
	static const char *const lines[] = {
	    "Self %  Total %  Device % v  Device    Self   Total  Calls  Activities    Mean  "
	    "   P99     Max  Op                   Where\n",
	    " 10.0%    10.0%       60.0%  300 ns  100 ns  100 ns      1           2  100 ns  "
	    "100 ns  100 ns  aten::add.Tensor     ",
	    "     -        -       10.0%   50 ns       -       -      -           1       -  "
	    "     -       -  (in no op)           -\n"};
	struct aggregate *a = filled(AGGREGATE_DEFAULT);
	(void)state;
	aggregate_activities_lost(a, 12);
	char *text =
	    printed(a, (struct report_opts){.sort = REPORT_BY_DEVICE_TIME, .percent_limit = 5},
		    report_print);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (!strstr(text, lines[i]))
			fail_msg("%s is not in\n%s", lines[i], text);
	assert_non_null(strstr(text, "12 activities of devices were lost"));
	/* "launch not known" has 4 % only. */
	assert_null(strstr(text, "(launch not known)"));
	assert_non_null(strstr(text, "1 more row"));
	free(text);
	aggregate_free(a);
}

static void the_fields(void **state)
{
	struct aggregate *a = filled(AGGREGATE_OP);
	struct report_opts opts = {.sort = REPORT_BY_DEVICE_TIME};
	(void)state;
	char *csv = printed(a, opts, report_print_csv), *json = printed(a, opts, report_print_json);
	assert_non_null(strstr(csv, "total_percent,activities,device_ns,device_percent,launch\n"
				    "aten::add.Tensor,1,0,100,100,"));
	assert_non_null(strstr(csv, ",2,300,60.0000,\n"));
	assert_non_null(strstr(csv, ",1,20,4.0000,not known\n"));
	assert_non_null(strstr(json, "\"devices\":[{\"device\":\"cuda:0\",\"pid\":41,\"rank\":null,"
				     "\"activities\":6,\"busy_ns\":500,"));
	free(csv);
	free(json);
	aggregate_free(a);
}

static const char elementwise[] =
    "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float> >(int, "
    "at::native::MulFunctor<float>)";

/* Three kernels of 100 at two lines, and a copy of 2 KiB in 1 us, of which no op is known. */
static struct kernels *filled_kernels(unsigned keys, struct aggregate *a)
{
	struct kernels *k = kernels_new(keys);
	assert_non_null(k);
	for (uint64_t i = 0; i < 4; i++) {
		struct activity of = activity(1000 + 200 * i, 1100 + 200 * i);
		of.name = elementwise;
		if (i == 0)
			of.of.where_stack = of.of.stack = sample_other_stack();
		if (i == 3) {
			of = no_op(LAUNCH_IN_NO_OP, 2000, 3000);
			of.bytes = 2048;
			of.stream = 8;
		}
		assert_int_equal(kernels_add(k, &of), 0);
		add(a, of);
	}
	return k;
}

static void check_kernels(unsigned keys, int width, enum report_sort sort, const char *want)
{
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	struct kernels *k = filled_kernels(keys, a);
	char *text = printed(
	    a, (struct report_opts){.kernels = k, .sort = sort, .terminal = {.width = width}},
	    report_print);
	if (!strstr(text, want))
		fail_msg("%s is not in\n%s", want, text);
	free(text);
	kernels_free(k);
	aggregate_free(a);
}

static void a_table_of_kernels(void **state)
{
	(void)state;
	check_kernels(KERNELS_NAME, 130, REPORT_BY_DEVICE_TIME,
		      "Device % v   Total  Calls    Mean     Max  Most launched by        Kernel\n"
		      "     76.9%  1.0 us      1  1.0 us  1.0 us  (in no op)              "
		      "Memcpy HtoD (Pageable -> Device), 2.0 KiB, 1.9 GiB/s\n"
		      "     23.1%  300 ns      3  100 ns  100 ns  add.Tensor train.py:13  "
		      "vectorized_elementwise_kernel<4, MulFunctor<float> >\n");
	check_kernels(KERNELS_NAME, 0, REPORT_BY_CALLS, elementwise);
	check_kernels(KERNELS_NAME, 0, REPORT_BY_CALLS, ", 2.0 KiB, 1.9 GiB/s\n");
	check_kernels(
	    KERNELS_STREAM, 0, REPORT_BY_CALLS,
	    "Device %   Total  Calls v    Mean     Max  Device  Stream  Most launched by\n"
	    "   23.1%  300 ns        3  100 ns  100 ns  cuda:0       7  add.Tensor "
	    "train.py:13\n"
	    "   76.9%  1.0 us        1  1.0 us  1.0 us  cuda:0       8  (in no op)\n");
}

static void kernels_for_programs(void **state)
{
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	struct kernels *k = filled_kernels(KERNELS_NAME | KERNELS_DEVICE, a);
	struct report_opts opts = {.kernels = k, .sort = REPORT_BY_CALLS};
	(void)state;
	char *csv = printed(a, opts, report_print_csv), *json = printed(a, opts, report_print_json);
	assert_non_null(strstr(csv,
			       "\",kernel,cuda:0,41,,,3,300,100,100,23.0769,0,aten::add.Tensor,"
			       "forward,/home/me/train.py,13,forward,,200\n"
			       "Memcpy HtoD (Pageable -> Device),copy,cuda:0,41,,,1,1000,1000,"
			       "1000,76.9231,2048,(in no op),,,,,,1000\n"));
	assert_non_null(strstr(json, "\"kind\":\"copy\",\"device\":\"cuda:0\",\"pid\":41,"
				     "\"rank\":null,\"stream\":null,\"calls\":1,"));
	free(csv);
	free(json);
	kernels_free(k);
	aggregate_free(a);
}

static void words(void **state)
{
	struct err e = {0};
	enum report_sort sort;
	unsigned keys;
	(void)state;
	assert_int_equal(kernels_parse("op,line", &keys, &e), 0);
	assert_int_equal(kernels_parse("device", &keys, &e), 0);
	assert_int_equal(kernels_parse(NULL, &keys, &e), 0);
	assert_int_equal(kernels_parse("kernel,stream", &keys, &e), 1);
	assert_int_equal(keys, KERNELS_NAME | KERNELS_STREAM);
	assert_int_equal(kernels_parse("kernel,line", &keys, &e), -EINVAL);
	assert_non_null(strstr(e.what, "\"line\""));
	assert_int_equal(kernels_parse_sort("mean", &sort, &e), 0);
	assert_int_equal(sort, REPORT_BY_MEAN);
	assert_int_equal(kernels_parse_sort("p99", &sort, &e), -EINVAL);
}

/* Steps of 1000: an op, and the optimizer's. */
struct training {
	struct aggregate *ops;
	struct breakdown *steps;
	bool waits; /* for its data, half of the time */
};

enum { STEPS = 11, STEP_NS = 1000, BEGIN = 1000000 };

static struct training train(void)
{
	static const struct py_frame adam = {.id = 13,
					     .file = "/lib/torch/optim/adam.py",
					     .function = "step",
					     .line = 1,
					     .is_torch = true};
	static _Alignas(16) char memory[sizeof(struct py_stack) + 2 * sizeof(void *)];
	struct py_stack *optimizer = (struct py_stack *)memory;
	struct training t = {.ops = aggregate_new(AGGREGATE_DEFAULT), .steps = breakdown_new()};
	optimizer->id = 9;
	optimizer->depth = 2;
	optimizer->frames[0] = &adam;
	optimizer->frames[1] = &sample_other_frame;
	for (uint64_t at = BEGIN; at < BEGIN + STEPS * STEP_NS; at += STEP_NS) {
		struct op_event ev = sample_event(1, 0, 0, at, at + 500);
		assert_int_equal(aggregate_add(t.ops, &ev), 0);
		assert_int_equal(breakdown_add(t.steps, &ev), 0);
		ev.start_ns = at + 900;
		ev.end_ns = at + STEP_NS;
		ev.stack = ev.where_stack = optimizer;
		ev.op = &sample_op;
		assert_int_equal(breakdown_add(t.steps, &ev), 0);
	}
	/* What ends the last one. */
	struct op_event last =
	    sample_event(1, 0, 0, BEGIN + STEPS * STEP_NS + 10, BEGIN + STEPS * STEP_NS + 20);
	assert_int_equal(breakdown_add(t.steps, &last), 0);
	return t;
}

/* `index`: of the device; it works for `ns` of each step from number `first` on. */
static void work(struct training *t, int8_t index, uint64_t ns, uint64_t first)
{
	for (uint64_t at = BEGIN + first * STEP_NS; at < BEGIN + STEPS * STEP_NS; at += STEP_NS) {
		struct activity a = activity(at + 100, at + 100 + ns);
		a.device_index = index;
		add(t->ops, a);
	}
}

static void check_headline(struct training *t, int width, const char *want, const char * not )
{
	struct breakdown_result steps;
	breakdown_get(t->steps, &steps);
	if (t->waits)
		steps.data =
		    (struct breakdown_line){.file = "slow.py", .line = 13, .ns = steps.wall_ns / 2};
	char *text =
	    printed(t->ops,
		    (struct report_opts){
			.steps = &steps, .breakdown = t->steps, .terminal = {.width = width}},
		    report_print);
	if (!strstr(text, want) || (not &&strstr(text, not )))
		fail_msg("%s, and not %s, should be in\n%s", want, not, text);
	free(text);
	aggregate_free(t->ops);
	breakdown_free(t->steps);
}

static void a_device_that_waits(void **state)
{
	static const char host[] = "the program is bound by the host";
	(void)state;
	struct training t = train();
	work(&t, 0, 300, 0);
	check_headline(&t, 0,
		       "\ncuda:0 was busy 30 % of the time (300 ns of the 1.0 us of a step): the "
		       "program is bound by the host\n",
		       "slowest on");
	t = train();
	work(&t, 0, 300, 0);
	check_headline(
	    &t, 80, "\ncuda:0 was busy 30 % of the time: the program is bound by the host\n", NULL);
	/* It was not recorded from the start on: less is known. */
	t = train();
	work(&t, 0, 300, 6);
	check_headline(&t, 0, "\ncuda:0 was busy 35 % of 4.3 us, from its first work to its last\n",
		       host);
	/* Some is missing. */
	t = train();
	work(&t, 0, 300, 0);
	aggregate_activities_lost(t.ops, 1);
	check_headline(&t, 0, "\ncuda:0 was busy at least 30 % of the time (", host);
	/* The one may wait for the other. */
	t = train();
	work(&t, 0, 300, 0);
	work(&t, 1, 200, 0);
	check_headline(&t, 0,
		       "\n2 devices were busy 20 to 30 % of the time, cuda:1 least, cuda:0 most\n",
		       host);
	/* Nothing was recorded. */
	t = train();
	check_headline(&t, 0, "\nslowest op: ", "busy");
	/* Much was done before the first step. */
	t = train();
	struct op_event ev = sample_event(1, 0, 0, BEGIN - 10 * STEPS * STEP_NS, BEGIN);
	assert_int_equal(aggregate_add(t.ops, &ev), 0);
	check_headline(&t, 0, "\nof all time steps are 8 % (--per-step), slowest op ", "busy");
}

/* On a terminal, with the two lines of what was traced, there are five at most; elsewhere all. */
static void a_verdict_is_short(void **state)
{
	static const char peak[] = "; peak memory on cpu 5.0 KiB\n";
	(void)state;
	for (int width = 0; width <= 70; width += 70) {
		struct training t = train();
		struct memory_event m = {.of = sample_event(1, 0, 0, BEGIN + 10, BEGIN + 10),
					 .device_index = -1,
					 .address = 0x10,
					 .bytes = 5120,
					 .total = 5120};
		assert_int_equal(aggregate_add_memory(t.ops, &m), 0);
		assert_int_equal(aggregate_end(t.ops), 0);
		check_headline(&t, width, width ? peak : "\npeak of memory on cpu: 5.0 KiB, ",
			       width ? "\npeak of" : peak);
	}
	struct training t = train();
	struct op_event ev = sample_event(1, 0, 0, BEGIN - 10 * STEPS * STEP_NS, BEGIN);
	assert_int_equal(aggregate_add(t.ops, &ev), 0);
	t.waits = true;
	check_headline(&t, 70,
		       "50 % of a step waits for data in slow.py:13\n"
		       "10 steps, median 999 ns, p99 999 ns; steps are 8 % of all time\n",
		       "\nof all time");
}

static void a_busy_device(void **state)
{
	(void)state;
	struct training t = train();
	struct activity copy = no_op(LAUNCH_IN_NO_OP, BEGIN, BEGIN + 2000);
	work(&t, 0, 900, 0);
	add(t.ops, copy);
	check_headline(&t, 0,
		       "slowest on cuda:0: 98 % add.Tensor at train.py:13, 20 % (in no op); copies "
		       "20 %, most Memcpy HtoD (Pageable -> Device)\n",
		       "slowest op");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(spans_are_joined),
	    cmocka_unit_test(many_spans_are_exact),
	    cmocka_unit_test(rows_have_the_time_of_devices),
	    cmocka_unit_test(nothing_is_missing),
	    cmocka_unit_test(calls_have_theirs),
	    cmocka_unit_test(the_table),
	    cmocka_unit_test(the_fields),
	    cmocka_unit_test(a_table_of_kernels),
	    cmocka_unit_test(kernels_for_programs),
	    cmocka_unit_test(words),
	    cmocka_unit_test(a_device_that_waits),
	    cmocka_unit_test(a_busy_device),
	    cmocka_unit_test(a_verdict_is_short),
	};
	return unit_run(tests, NULL, NULL);
}
