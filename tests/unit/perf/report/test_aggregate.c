

#include "tests/unit/unit.h"

#include "perf/report/aggregate.h"
#include "perf/report/report.h"
#include "tests/unit/aggregate_row.h"
#include "tests/unit/sample_events.h"

static void add(struct aggregate *a, struct op_event ev)
{
	assert_int_equal(aggregate_add(a, &ev), 0);
}

static void calls_are_summed_by_op_and_line(void **state)
{
	(void)state;
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	struct op_event other = sample_event(3, 0, 0, 400, 410);
	size_t n;
	add(a, sample_event(1, 0, 0, 100, 200));
	add(a, sample_event(2, 0, 0, 250, 300));
	other.stack = other.where_stack = sample_other_stack();
	add(a, other);
	other.phase = PHASE_BACKWARD;
	add(a, other);
	const struct aggregate_row *const *rows = aggregate_rows(a, &n);
	assert_int_equal(n, 3);
	assert_int_equal(rows[0]->calls, 2);
	assert_int_equal(rows[0]->total_ns, 150);
	assert_int_equal(rows[0]->self_ns, 150);
	assert_int_equal(rows[0]->min_ns, 50);
	assert_int_equal(rows[0]->max_ns, 100);
	assert_int_equal(rows[0]->line, 13);
	assert_string_equal(rows[0]->file, "/home/me/train.py");
	assert_string_equal(rows[0]->text, "q = self.qkv(x)");
	assert_int_equal(rows[1]->line, 40);
	assert_null(rows[1]->text);
	assert_int_equal(rows[2]->phase, PHASE_BACKWARD);
	aggregate_free(a);
}

/* Calls that were summed up are in all counts and times; their quantiles are not known. */
static void sums_are_added(void **state)
{
	(void)state;
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT),
			 *lines = aggregate_new(AGGREGATE_LINE);
	struct aggregate_totals t;
	struct op_sum s = {.of = sample_event(0, 0, 0, 300, 900),
			   .calls = 10,
			   .thrown = 2,
			   .total_ns = 500,
			   .child_ns = 100,
			   .min_ns = 20,
			   .max_ns = 90,
			   .nested = true};
	struct op_event ev = sample_event(1, 0, 0, 100, 200);
	ev.rank1 = s.of.rank1 = 1;
	add(a, ev);
	add(lines, ev);
	assert_true(aggregate_has_quantiles(row(a, s.of.op->name)));
	assert_int_equal(aggregate_add_sum(a, &s), 0);
	assert_int_equal(aggregate_add_sum(lines, &s), 0);
	const struct aggregate_row *r = row(a, s.of.op->name);
	assert_int_equal(r->calls, 11);
	assert_int_equal(r->thrown, 2);
	assert_int_equal(r->total_ns, 600);
	assert_int_equal(r->sum_ns, 600);
	assert_int_equal(r->self_ns, 500);
	assert_int_equal(aggregate_rank_ns(r, 0), 500);
	assert_int_equal(r->min_ns, 20);
	assert_int_equal(r->max_ns, 100);
	assert_false(aggregate_has_quantiles(r));
	assert_int_equal(aggregate_quantile(r, 0.5), 0);
	aggregate_totals(a, &t);
	assert_int_equal(t.events, 11);
	assert_int_equal(t.summed, 10);
	assert_int_equal(t.observed_ns, 800);
	assert_int_equal(t.self_ns, 500);
	/* Within an op of the same line they are part of its time. */
	size_t n;
	r = aggregate_rows(lines, &n)[0];
	assert_int_equal(n, 1);
	assert_int_equal(r->total_ns, 100);
	assert_int_equal(r->self_ns, 500);
	/* Those whose stack was left out are told from those that have none. */
	s.of.stack = s.of.where_stack = NULL;
	assert_int_equal(aggregate_add_sum(lines, &s), 0);
	s.of.stack = s.of.where_stack = &py_stack_left_out;
	assert_int_equal(aggregate_add_sum(lines, &s), 0);
	const struct aggregate_row *const *rows = aggregate_rows(lines, &n);
	assert_int_equal(n, 3);
	assert_null(rows[1]->function);
	assert_string_equal(rows[2]->function, "(stack left out)");
	assert_null(rows[2]->file);
	aggregate_free(a);
	aggregate_free(lines);
}

static void percentages_are_of_the_observed_time(void **state)
{
	(void)state;
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	struct aggregate_totals t;
	struct op_event other = sample_event(3, 0, 0, 5000, 5100),
			open = sample_event(4, 0, 0, 6000, 0);
	other.tid = 99;
	add(a, sample_event(1, 0, 0, 100, 200));
	add(a, sample_event(2, 0, 0, 900, 1100));
	add(a, other);
	aggregate_totals(a, &t);
	assert_int_equal(t.observed_ns, 1000 + 100);
	assert_int_equal(t.self_ns, 400);
	assert_int_equal(t.threads, 2);
	add(a, open);
	aggregate_lost(a, 5);
	aggregate_totals(a, &t);
	assert_int_equal(t.observed_ns, 5900 + 100);
	assert_int_equal(t.events, 3);
	assert_int_equal(t.unfinished, 1);
	assert_int_equal(t.lost, 5);
	aggregate_free(a);
}

/* Of an op in which something was compiled, what is left counts. */
static void compilations_are_time_of_their_own(void **state)
{
	(void)state;
	static const struct op_desc compile = {.name = "dynamo::compile_backward"};
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	struct aggregate_totals t;
	size_t n;
	add(a, sample_event(1, 0, 0, 0, 100));
	for (uint16_t depth = 3; depth-- > 0;) {
		struct op_event ev = sample_event(4 - depth, 0, 0, 100, 200 + 100 * (2 - depth));
		ev.depth = depth;
		ev.child_ns = depth == 2 ? 0 : ev.end_ns - ev.start_ns - 100;
		ev.op = depth == 2 ? &compile : ev.op;
		ev.phase = depth == 2 ? PHASE_COMPILE : PHASE_FORWARD;
		add(a, ev);
	}
	aggregate_totals(a, &t);
	assert_int_equal(t.compilations, 1);
	assert_int_equal(t.compile_ns, 100);
	assert_int_equal(t.observed_ns, 300);
	assert_int_equal(t.self_ns, 300);
	const struct aggregate_row *const *rows = aggregate_rows(a, &n);
	assert_int_equal(n, 2);
	assert_int_equal(rows[0]->total_ns, 300);
	assert_int_equal(rows[0]->self_ns, 300);
	assert_int_equal(rows[0]->max_ns, 200);
	assert_int_equal(rows[1]->phase, PHASE_COMPILE);
	assert_int_equal(aggregate_base(&t, rows[1]), 100);
	aggregate_free(a);
}

/* Those of the rest are in percent of the rest. */
static void samples_of_compilations_are_told_apart(void **state)
{
	(void)state;
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT | AGGREGATE_SAMPLES);
	struct aggregate_totals t;
	size_t n;
	for (unsigned i = 0; i < 3; i++) {
		struct op_event ev = sample_event(i, 0, 0, 100 * i, 100 * i + 10);
		ev.phase = i ? PHASE_COMPILE : PHASE_FORWARD;
		add(a, ev);
	}
	aggregate_totals(a, &t);
	assert_int_equal(t.observed_ns, 10);
	assert_int_equal(t.compile_ns, 20);
	const struct aggregate_row *const *rows = aggregate_rows(a, &n);
	assert_int_equal(n, 2);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(aggregate_base(&t, rows[i]), rows[i]->self_ns);
	aggregate_free(a);
}

static const struct py_stack *worker_stack(void)
{
	static const struct py_frame frame = {
	    .file = "/lib/torch/utils/data/_utils/worker.py", .function = "loop", .is_torch = true};
	static _Alignas(struct py_stack) char memory[sizeof(struct py_stack) + sizeof(void *)];
	struct py_stack *s = (struct py_stack *)memory;
	s->id = 9;
	s->depth = 1;
	s->frames[0] = &frame;
	return s;
}

static struct op_event event_of(int32_t tid, enum op_phase phase, uint64_t start, uint64_t end)
{
	static uint64_t id;
	struct op_event ev = sample_event(++id, 0, 0, start, end);
	ev.tid = tid;
	ev.phase = (uint8_t)phase;
	return ev;
}

static void shares_are_of_the_time_of_threads(void **state)
{
	(void)state;
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT | AGGREGATE_WORKERS);
	struct aggregate_totals t;
	struct op_event load = event_of(30, PHASE_FORWARD, 0, 900);
	load.stack = load.where_stack = worker_stack();
	add(a, load);
	add(a, event_of(20, PHASE_FORWARD, 100, 200));
	add(a, event_of(20, PHASE_FORWARD, 600, 700));
	add(a, event_of(21, PHASE_BACKWARD, 250, 550)); /* 20 waits for it */
	aggregate_totals(a, &t);
	assert_int_equal(t.observed_ns, 600);
	assert_int_equal(t.self_ns, 500);
	assert_int_equal(t.workers, 1);
	assert_int_equal(t.workers_ns, 900);
	add(a, event_of(22, PHASE_FORWARD, 100, 500)); /* another one that calls ops */
	aggregate_totals(a, &t);
	assert_int_equal(t.observed_ns, 600 + 400);
	assert_int_equal(t.self_ns, 900);
	size_t n;
	const struct aggregate_row *const *rows = aggregate_rows(a, &n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(aggregate_base(&t, rows[i]), rows[i]->worker ? 900 : 1000);
	add(a, event_of(23, PHASE_BACKWARD, 100, 1100)); /* nobody can wait as long */
	aggregate_totals(a, &t);
	assert_int_equal(t.self_ns, 1900);
	assert_int_equal(t.observed_ns, 600 + 300 + 400 + 1000);
	aggregate_free(a);
}

/* add 10..90 { add 20..50 { add 30..40 }, sample 60..80 { add 65..70 } }, then add 100..110 */
static void a_row_inside_itself_counts_once(void **state)
{
	(void)state;
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	struct op_event inner = sample_event(3, 2, 2, 30, 40),
			middle = sample_event(2, 1, 1, 20, 50);
	struct op_event outer = sample_event(1, 0, 0, 10, 90),
			between = sample_event(4, 1, 1, 60, 80);
	middle.child_ns = 10;
	outer.child_ns = 50;
	between.child_ns = 5;
	between.op = &sample_op;
	add(a, inner);
	add(a, middle);
	add(a, sample_event(5, 4, 2, 65, 70));
	add(a, between);
	add(a, outer);
	add(a, sample_event(6, 0, 0, 100, 110));
	const struct aggregate_row *r = row(a, "aten::add.Tensor");
	assert_int_equal(r->calls, 5);
	assert_int_equal(r->total_ns, 80 + 10);
	assert_int_equal(r->self_ns, 10 + 20 + 5 + 30 + 10);
	assert_int_equal(r->sum_ns, 10 + 30 + 5 + 80 + 10);
	assert_int_equal(row(a, "aten::sample.Tensor")->total_ns, 20);
	aggregate_free(a);
}

/* The same with more inner calls than are remembered one by one. */
static void many_calls_inside_count_once(void **state)
{
	(void)state;
	enum { N = 200000 };
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	for (uint64_t i = 0; i < N; i++)
		add(a, sample_event(i + 2, 1, 1, 10 + 2 * i, 11 + 2 * i));
	add(a, sample_event(1, 0, 0, 0, 2 * N + 20));
	assert_int_equal(row(a, "aten::add.Tensor")->total_ns, 2 * N + 20);
	aggregate_free(a);
}

static void threads_do_not_nest_in_each_other(void **state)
{
	(void)state;
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	struct op_event inside = sample_event(2, 1, 1, 20, 30);
	inside.tid = 7;
	add(a, inside);
	add(a, sample_event(3, 0, 0, 10, 50));
	assert_int_equal(row(a, "aten::add.Tensor")->total_ns, 10 + 40);
	aggregate_free(a);
}

/* More ops, lines and threads than the cache has room for: the rows are the same, with and without
 * prefetching. */
static void rows_remembered_are_the_same(void **state)
{
	(void)state;
	enum { MANY = 20000, EVENTS = 200000 };
	struct op_desc *ops = calloc(MANY, sizeof(*ops));
	char(*names)[16] = calloc(MANY, sizeof(*names));
	struct aggregate *plain = aggregate_new(AGGREGATE_DEFAULT),
			 *steady = aggregate_new(AGGREGATE_DEFAULT | AGGREGATE_STEADY);
	struct op_event ahead[4];
	uint64_t r = 1;
	size_t n, m;
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "op%u", i);
		ops[i] = (struct op_desc){.id = i, .name = names[i], .schema = ""};
	}
	for (uint64_t i = 0; i < EVENTS; i++) {
		struct op_event *ev = &ahead[i % 4];
		r = r * 6364136223846793005u + 1442695040888963407u;
		*ev = sample_event(i + 1, 0, 0, 10 * i, 10 * i + (r >> 20) % 5000);
		ev->op = &ops[(r >> 33) % (i % 3 ? 50 : MANY)];
		ev->where_stack = r >> 40 & 1 ? sample_other_stack() : ev->where_stack;
		ev->phase = r >> 41 & 1 ? PHASE_BACKWARD : PHASE_FORWARD;
		ev->tid = (int32_t)(r >> 42 & 3);
		for (unsigned k = 0; k < 3 && k <= i; k++)
			aggregate_prefetch(steady, &ahead[(i - k) % 4], 3 - (int)k);
		add(plain, *ev);
		add(steady, *ev);
	}
	const struct aggregate_row *const *a = aggregate_rows(plain, &n);
	const struct aggregate_row *const *b = aggregate_rows(steady, &m);
	assert_int_equal(n, m);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(a[i]->op, b[i]->op);
		assert_int_equal(a[i]->line, b[i]->line);
		assert_int_equal(a[i]->phase, b[i]->phase);
		assert_int_equal(a[i]->calls, b[i]->calls);
		assert_int_equal(a[i]->self_ns, b[i]->self_ns);
		assert_int_equal(aggregate_quantile(a[i], 0.5), aggregate_quantile(b[i], 0.5));
	}
	aggregate_free(plain);
	aggregate_free(steady);
	free(ops);
	free(names);
}

/* A new op at the address of one that was freed. */
static void forgets_addresses(void **state)
{
	(void)state;
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT | AGGREGATE_STEADY);
	struct op_desc op = {.name = "one", .schema = ""};
	struct op_event ev = sample_event(1, 0, 0, 10, 20);
	size_t n;
	ev.op = &op;
	add(a, ev);
	op.name = "two";
	aggregate_forget(a);
	add(a, ev);
	aggregate_rows(a, &n);
	assert_int_equal(n, 2);
	aggregate_free(a);
}

static void quantiles_are_three_percent_exact(void **state)
{
	(void)state;
	struct histogram h = {0};
	for (uint64_t scale = 1; scale < (uint64_t)1 << 40; scale *= 7) {
		for (uint64_t i = 1; i <= 1000; i++)
			assert_int_equal(histogram_add(&h, i * scale), 0);
		for (int q = 1; q <= 100; q++) {
			double want = q * 10.0 * (double)scale;
			double got = (double)histogram_quantile(&h, q / 100.0);
			if (got < want * 0.983 - 0.5 || got > want * 1.017 + 0.5)
				fail_msg("q %d of scale %g: want %g, got %g", q, (double)scale,
					 want, got);
		}
		histogram_free(&h);
	}
}

static void quantiles_of_the_extremes(void **state)
{
	(void)state;
	struct histogram h = {0};
	assert_int_equal(histogram_quantile(&h, 0.5), 0);
	histogram_add(&h, 0);
	assert_int_equal(histogram_quantile(&h, 0.99), 0);
	histogram_add(&h, UINT64_MAX);
	assert_true(histogram_quantile(&h, 1) > UINT64_MAX / 100 * 98);
	assert_int_equal(histogram_quantile(&h, 0), 0);
	histogram_free(&h);
}

static void a_quantile_lies_between_the_extremes(void **state)
{
	(void)state;
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	add(a, sample_event(1, 0, 0, 0, 1000003));
	assert_int_equal(aggregate_quantile(row(a, "aten::add.Tensor"), 0.99), 1000003);
	aggregate_free(a);
}

static char *printed(const struct aggregate *a, struct report_opts *opts,
		     int (*print)(FILE *, const struct aggregate *, const struct report_opts *))
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	assert_int_equal(print(f, a, opts), 0);
	fclose(f);
	return text;
}

static struct aggregate *sample(void)
{
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	struct op_event evil = sample_event(4, 0, 0, 3900, 4000);
	static const struct op_desc evil_op = {.name = "evil\x1b[31m,\"op\""};
	evil.op = &evil_op;
	evil.stack = evil.where_stack = NULL;
	add(a, sample_event(1, 0, 0, 1000, 2000));
	add(a, sample_event(2, 0, 0, 2500, 3500));
	add(a, evil);
	add(a, sample_backward(5, 1, 10000, 11000));
	return a;
}

static const char *slowdown(const struct trace_stats *s)
{
	static char text[64];
	return report_slowdown_text(text, sizeof(text), s);
}

static void the_table(void **state)
{
	(void)state;
	struct trace_target target = {.pid = 7,
				      .comm = "python",
				      .argv = "python train.py",
				      .torch_version = "2.13.0",
				      .python_version = "3.11.7",
				      .engine = "bpf"};
	struct trace_stats stats = {
	    .probe_ns = 40, .seen_permille = 973, .wall_ns = 12400000000, .cpu_ns = 4040};
	struct report_opts opts = {
	    .targets = &target, .ntargets = 1, .stats = &stats, .terminal.width = 104};
	struct aggregate *a = sample();
	char *text = printed(a, &opts, report_print);
	assert_string_equal(
	    text,
	    "ditrace: python train.py (pid 7, torch 2.13.0, CPython 3.11.7), engine bpf, 12.4 s\n"
	    "ditrace: traced 2 threads, 4 ops, 0 lost; probes made it about 1.0 % slower; 97.3 % "
	    "of the "
	    "dispatched ops were seen in short samples, --engine shim sees the others\n"
	    "\n"
	    "Self % v  Total %    Self   Total  Calls    Mean     P99  Op                 Where\n"
	    "   50.0%    50.0%  2.0 us  2.0 us      2  1.0 us  1.0 us  aten::add.Tensor   "
	    "train.py:13 forward: q = s…\n"
	    "    2.5%     2.5%  100 ns  100 ns      1  100 ns  100 ns  evil\\x1b[31m,\"op\"  (no "
	    "Python frame)\n"
	    "backward of the above\n"
	    "   25.0%    25.0%  1.0 us  1.0 us      1  1.0 us  1.0 us  AddBackward0       "
	    "train.py:13 forward: q = s…\n"
	    "in no op: 22.5 %, 900 ns of 4.0 us\n");
	free(text);
	assert_string_equal(slowdown(&(struct trace_stats){2, .cpu_ns = 100}), "about 2.0 %");
	assert_string_equal(slowdown(&(struct trace_stats){20, true, .cpu_ns = 100}),
			    "at least 25 %");
	/* where small errors weigh much */
	assert_null(slowdown(&(struct trace_stats){80, true, .cpu_ns = 100}));
	stats.slowdown = 31000;
	stats.slowdown_error = 8400;
	stats.turns = 24;
	stats.turns_ops = 5000;
	text = printed(a, &opts, report_print);
	assert_non_null(
	    strstr(text, " 0 lost; measured: 3.1 % ± 0.8 % slower, in 24 turns; 97.3 %"));
	assert_non_null(strstr(text, "\nditrace: 5,000 ops before that, while the overhead was "
				     "measured, are not recorded\n"));
	assert_null(strstr(text, "about"));
	free(text);
	aggregate_free(a);
}

static void a_limit_says_what_is_left_out(void **state)
{
	(void)state;
	struct report_opts opts = {.limit = 1, .sort = REPORT_BY_CALLS};
	struct aggregate *a = sample();
	char *text = printed(a, &opts, report_print);
	assert_non_null(strstr(text, "1 more row"));
	assert_null(strstr(text, "evil"));
	assert_non_null(strstr(text, "train.py:13 forward: q = self.qkv(x)\n"));
	free(text);
	aggregate_free(a);
}

static void rows_as_csv(void **state)
{
	(void)state;
	struct report_opts opts = {0};
	struct aggregate *a = sample();
	char *text = printed(a, &opts, report_print_csv);
	assert_non_null(strstr(
	    text,
	    "\naten::add.Tensor,forward,/home/me/train.py,13,forward,q = self.qkv(x),,2,0,2000,"));
	assert_non_null(strstr(text, "\n\"evil\\x1b[31m,\"\"op\"\"\",forward,,,,,,1,"));
	free(text);
	aggregate_free(a);
}

static void no_events_no_table(void **state)
{
	(void)state;
	struct report_opts opts = {0};
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	char *text = printed(a, &opts, report_print);
	assert_string_equal(text, "ditrace: traced 0 threads, 0 ops, 0 lost\n\n");
	free(text);
	aggregate_free(a);
}

static void memory_of(struct aggregate *a, int8_t device, struct op_event of, bool freed,
		      uint64_t address, uint64_t bytes, uint64_t total)
{
	const struct memory_event m = {.of = of,
				       .freed = freed,
				       .device_type = device,
				       .device_index = device ? 0 : -1,
				       .reserved = device ? 1000 + total : 0,
				       .address = address,
				       .bytes = bytes,
				       .total = total};
	assert_int_equal(aggregate_add_memory(a, &m), 0);
}

static void memory(struct aggregate *a, struct op_event of, bool freed, uint64_t address,
		   uint64_t bytes, uint64_t total)
{
	memory_of(a, 0, of, freed, address, bytes, total);
}

static void says(const struct aggregate *a, const char *what, bool yes)
{
	struct report_opts opts = {.all_activities = true};
	char *text = printed(a, &opts, report_print);
	if (yes != (strstr(text, what) != NULL))
		fail_msg("%s in: %s", what, text);
	free(text);
}

/* That of devices is apart, block for block. */
static void memory_of_devices(void **state)
{
	enum { CUDA = 1, XPU = 12 };
	(void)state;
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	const struct op_event of = sample_event(1, 0, 0, 100, 100);
	size_t n;
	memory_of(a, CUDA, of, false, 0x10, 70, 70);
	assert_int_equal(aggregate_keys(a) & (AGGREGATE_MEMORY | AGGREGATE_DEVICE_MEMORY),
			 AGGREGATE_DEVICE_MEMORY);
	memory(a, of, false, 0x10, 5, 5);
	memory_of(a, XPU, of, false, 0x10, 40, 40);
	memory_of(a, CUDA, of, true, 0x10, 70, 0);
	assert_int_equal(aggregate_end(a), 0);
	const struct memory_peak *p = aggregate_peaks(a, &n);
	assert_int_equal(n, 3);
	assert_int_equal(p[0].bytes, 70);
	assert_int_equal(p[0].reserved, 1070);
	assert_int_equal(p[1].bytes, 5);
	assert_int_equal(p[1].reserved, 0);
	assert_int_equal(p[2].bytes, 40);
	const struct memory_row *r = aggregate_rows(a, &n)[0]->memory;
	assert_int_equal(r[MEMORY_CPU].allocated, 5);
	assert_int_equal(r[MEMORY_CPU].freed, 0);
	assert_int_equal(r[MEMORY_CPU].at_peak, 5);
	assert_int_equal(r[MEMORY_DEVICES].allocated, 110);
	assert_int_equal(r[MEMORY_DEVICES].freed, 70);
	assert_int_equal(r[MEMORY_DEVICES].at_peak, 110);
	assert_true(aggregate_keys(a) & AGGREGATE_MEMORY);
	aggregate_begun_late(a);
	says(a, "peak of memory on cuda:0: 70 B of up to 1.0 KiB that were reserved\n", true);
	says(a, "peak of memory on xpu:0: 40 B of up to 1.0 KiB that were reserved\n", true);
	says(a, "peak of memory on cpu: 5 B allocated since recording began: 100 % ", true);
	aggregate_free(a);
}

/* Of many ranks there is a line for their devices and one for their CPUs. */
static void the_highest_peak_of_ranks(void **state)
{
	enum { CUDA = 1, RANKS = 8 };
	(void)state;
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	for (uint32_t i = 0; i < RANKS; i++) {
		struct op_event of = sample_event(i + 1, 0, 0, 100, 100);
		const uint64_t bytes = i == 5 ? 90 : 10 + i;
		of.pid = 100 + (int32_t)i;
		of.rank1 = i + 1;
		memory_of(a, CUDA, of, false, 0x10, bytes, bytes);
		memory(a, of, false, 0x10, 2 * i, 2 * i);
	}
	assert_int_equal(aggregate_end(a), 0);
	struct report_opts opts = {.all_activities = true};
	char *text = printed(a, &opts, report_print);
	unsigned lines = 0;
	for (const char *at = text; (at = strstr(at, "peak of memory")) != NULL; at++)
		lines++;
	assert_int_equal(lines, 2);
	free(text);
	says(a, "peak of memory on cuda:0 of rank 5, highest of 8 processes: 90 B of up to ", true);
	says(a, "peak of memory on cpu of rank 7, highest of 8 processes: 14 B\n", true);
	aggregate_free(a);
}

static void called(struct aggregate *a, uint64_t id, uint16_t depth, uint64_t from, uint64_t to,
		   const struct py_stack *stack)
{
	struct op_event ev = sample_event(id, 0, depth, from, to);
	ev.stack = ev.where_stack = stack;
	assert_int_equal(aggregate_add(a, &ev), 0);
}

static void done_in(struct aggregate *a, uint64_t id, uint64_t ns, const struct py_stack *stack,
		    bool freed, uint64_t bytes)
{
	struct op_event of = sample_event(id, 0, 0, ns, ns);
	of.stack = of.where_stack = stack;
	memory(a, of, freed, 0x1000 * id + ns, bytes, 1000);
}

/* A row has what the calls in its calls did, too; those of its own once. */
static void memory_of_what_is_called(void **state)
{
	(void)state;
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	const struct py_stack *x = sample_event(1, 0, 0, 0, 1).stack, *y = sample_other_stack();
	called(a, 4, 2, 30, 40, x); /* in 3, in 2, in 1 */
	done_in(a, 4, 35, x, false, 100);
	called(a, 3, 1, 20, 50, y);
	done_in(a, 3, 25, y, true, 10);
	done_in(a, 3, 45, y, false, 5);
	called(a, 5, 1, 60, 70, y);
	done_in(a, 5, 65, y, false, 1000);
	called(a, 2, 0, 10, 80, x);
	done_in(a, 2, 75, x, true, 1);
	called(a, 6, 0, 90, 95, y);
	done_in(a, 6, 92, y, false, 20);
	assert_int_equal(aggregate_end(a), 0);
	size_t n;
	const struct aggregate_row *const *rows = aggregate_rows(a, &n);
	assert_int_equal(n, 2);
	assert_int_equal(rows[0]->memory[MEMORY_CPU].net, 100 - 10 + 5 + 1000 - 1);
	assert_int_equal(rows[1]->memory[MEMORY_CPU].net, 100 - 10 + 5 + 1000 + 20);
	assert_true(aggregate_keys(a) & AGGREGATE_NET_MEMORY);
	/* the caller of 3 has been added without it: sums are not told then */
	done_in(a, 3, 46, y, false, 7);
	assert_int_equal(aggregate_end(a), 0);
	assert_int_equal(rows[0]->memory[MEMORY_CPU].net, 0);
	assert_false(aggregate_keys(a) & AGGREGATE_NET_MEMORY);
	aggregate_free(a);
}

/* What held most of it is known at the end, in whatever order it came. */
static void the_peak_of_memory(void **state)
{
	(void)state;
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	struct op_event other = sample_event(3, 0, 0, 400, 400);
	size_t n;
	other.stack = other.where_stack = sample_other_stack();
	memory(a, sample_event(1, 0, 0, 200, 200), false, 0x20, 30, 130);
	memory(a, sample_event(2, 0, 0, 100, 100), false, 0x10, 100, 100);
	memory(a, sample_event(4, 0, 0, 300, 300), true, 0x10, 100, 30);
	memory(a, other, false, 0x10, 110, 140);
	memory(a, sample_event(5, 0, 0, 500, 500), true, 0x10, 110, 30);
	memory(a, other, true, 0x99, 0, 30);
	assert_int_equal(aggregate_end(a), 0);
	const struct memory_peak *p = aggregate_peaks(a, &n);
	assert_int_equal(n, 1);
	assert_int_equal(p->bytes, 140);
	assert_int_equal(p->ns, 400);
	assert_int_equal(p->known, 140);
	const struct aggregate_row *const *rows = aggregate_rows(a, &n);
	assert_int_equal(n, 2);
	assert_int_equal(rows[0]->memory[MEMORY_CPU].allocated, 130);
	assert_int_equal(rows[0]->memory[MEMORY_CPU].freed, 210);
	assert_int_equal(rows[0]->memory[MEMORY_CPU].at_peak, 30);
	assert_int_equal(rows[1]->memory[MEMORY_CPU].allocated, 110);
	assert_int_equal(rows[1]->memory[MEMORY_CPU].at_peak, 110);
	struct aggregate_totals t;
	aggregate_totals(a, &t);
	assert_int_equal(t.memory_unknown, 1);
	assert_true(aggregate_keys(a) & AGGREGATE_MEMORY);
	says(a, "peak of memory on cpu: 140 B: 79 % add.Tensor at train.py:40", true);
	says(a, "allocated since recording began", false);
	aggregate_begun_late(a);
	says(a, "peak of memory on cpu: 140 B allocated since recording began: 79 % add.Tensor",
	     true);
	aggregate_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(calls_are_summed_by_op_and_line),
	    cmocka_unit_test(sums_are_added),
	    cmocka_unit_test(percentages_are_of_the_observed_time),
	    cmocka_unit_test(compilations_are_time_of_their_own),
	    cmocka_unit_test(samples_of_compilations_are_told_apart),
	    cmocka_unit_test(shares_are_of_the_time_of_threads),
	    cmocka_unit_test(a_row_inside_itself_counts_once),
	    cmocka_unit_test(many_calls_inside_count_once),
	    cmocka_unit_test(threads_do_not_nest_in_each_other),
	    cmocka_unit_test(rows_remembered_are_the_same),
	    cmocka_unit_test(forgets_addresses),
	    cmocka_unit_test(quantiles_are_three_percent_exact),
	    cmocka_unit_test(quantiles_of_the_extremes),
	    cmocka_unit_test(a_quantile_lies_between_the_extremes),
	    cmocka_unit_test(the_table),
	    cmocka_unit_test(a_limit_says_what_is_left_out),
	    cmocka_unit_test(rows_as_csv),
	    cmocka_unit_test(no_events_no_table),
	    cmocka_unit_test(the_peak_of_memory),
	    cmocka_unit_test(memory_of_devices),
	    cmocka_unit_test(the_highest_peak_of_ranks),
	    cmocka_unit_test(memory_of_what_is_called),
	};
	return unit_run(tests, NULL, NULL);
}
