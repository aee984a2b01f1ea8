
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>

#include "perf/report/aggregate.h"
#include "perf/calls/call_tree.h"
#include "perf/report/report.h"
#include "tests/unit/sample_events.h"

/* sample 1000..2000 { add 1100..1400 }, add 2500..2600 on another thread and line, and the backward
 * of both; the first backward node calls an op. */
static const struct {
	uint64_t id, parent, start, end, child;
	const struct op_desc *op;
	int tid, phase;
	uint64_t forward_id;
} rows[] = {
    {2, 1, 1100, 1400, 0, &sample_add, 42, PHASE_FORWARD, 0},
    {1, 0, 1000, 2000, 300, &sample_op, 42, PHASE_FORWARD, 0},
    {3, 0, 2500, 2600, 0, &sample_add, 77, PHASE_FORWARD, 0},
    {5, 4, 3010, 3050, 0, &sample_add, 43, PHASE_BACKWARD, 1},
    {4, 0, 3000, 3200, 40, &sample_node, 43, PHASE_BACKWARD, 1},
    {6, 0, 3300, 3400, 0, &sample_node, 43, PHASE_BACKWARD, 3},
    {7, 0, 3500, 3550, 0, &sample_node, 43, PHASE_BACKWARD, 0},
};
enum { NROWS = sizeof(rows) / sizeof(rows[0]) };

static struct op_event event(size_t i)
{
	struct op_event ev = sample_event(rows[i].id, rows[i].parent, rows[i].parent != 0,
					  rows[i].start, rows[i].end);
	ev.op = rows[i].op;
	ev.tid = rows[i].tid;
	ev.phase = (uint8_t)rows[i].phase;
	ev.forward_id = rows[i].forward_id;
	ev.child_ns = rows[i].child;
	if (rows[i].tid == 77)
		ev.stack = ev.where_stack = sample_other_stack();
	return ev;
}

static struct aggregate *by(unsigned keys)
{
	struct aggregate *a = aggregate_new(keys);
	for (size_t i = 0; i < NROWS; i++) {
		struct op_event ev = event(i);
		assert_int_equal(aggregate_add(a, &ev), 0);
	}
	return a;
}

/* The rows as CSV, without the header. */
static char *csv(unsigned keys, enum report_sort sort)
{
	struct report_opts opts = {.sort = sort};
	struct aggregate *a = by(keys);
	char *text, *rest;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	assert_int_equal(report_print_csv(f, a, &opts), 0);
	fclose(f);
	aggregate_free(a);
	rest = strdup(strchr(text, '\n') + 1);
	free(text);
	return rest;
}

static void check(unsigned keys, enum report_sort sort, const char *want)
{
	char *text = csv(keys, sort);
	assert_string_equal(text, want);
	free(text);
}

static void groups(void **state)
{
	(void)state;
	/* calls, thrown, self, total, mean, min, p50, p99, max, self %, total % */
	check(AGGREGATE_OP, REPORT_BY_SELF,
	      "aten::sample.Tensor,1,0,700,1000,1000,1000,1000,1000,1000,42.4242,60.6061\n"
	      "aten::add.Tensor,3,0,440,440,146,40,100,299,300,26.6667,26.6667\n"
	      "AddBackward0,3,0,310,350,116,50,100,200,200,18.7879,21.2121\n");
	check(AGGREGATE_PHASE, REPORT_BY_CALLS,
	      "forward,3,0,1100,1100,466,100,299,999,1000,66.6667,66.6667\n"
	      "backward,4,0,350,350,97,40,50,200,200,21.2121,21.2121\n");
	check(AGGREGATE_THREAD, REPORT_BY_THREAD,
	      "41,42,,2,0,1000,1000,650,300,300,999,1000,60.6061,60.6061\n"
	      "41,43,,4,0,350,350,97,40,50,200,200,21.2121,21.2121\n"
	      "41,77,,1,0,100,100,100,100,100,100,100,6.0606,6.0606\n");
	check(AGGREGATE_FILE | AGGREGATE_SHAPE | AGGREGATE_DTYPE | AGGREGATE_DEVICE,
	      REPORT_BY_SHAPE,
	      "/home/me/train.py,\"[2,3,4] ?\",float32 dtype 999,cpu device "
	      "57:1,7,0,1450,1450,255,40,100,999,1000,87.8788,87.8788\n");
	check(AGGREGATE_FUNCTION, REPORT_BY_FUNCTION,
	      "/home/me/train.py,forward,6,0,1350,1350,281,40,100,999,1000,81.8182,81.8182\n"
	      "/home/me/train.py,main,1,0,100,100,100,100,100,100,100,6.0606,6.0606\n");
	check(AGGREGATE_LINE, REPORT_BY_LINE,
	      "/home/me/train.py,13,forward,q = "
	      "self.qkv(x),,6,0,1350,1350,281,40,100,999,1000,81.8182,81.8182\n"
	      "/home/me/train.py,40,main,,,1,0,100,100,100,100,100,100,100,6.0606,6.0606\n");
}

static void all_groups_add_up(void **state)
{
	(void)state;
	for (unsigned keys = 0; keys < AGGREGATE_SIDES; keys++) {
		struct aggregate *a = by(keys);
		struct aggregate_totals t;
		uint64_t self = 0, calls = 0;
		size_t n;
		const struct aggregate_row *const *all = aggregate_rows(a, &n);
		for (size_t i = 0; i < n; i++) {
			self += all[i]->self_ns;
			calls += all[i]->calls;
		}
		aggregate_totals(a, &t);
		assert_int_equal(self, t.self_ns);
		assert_int_equal(self, 1450);
		assert_int_equal(calls, NROWS);
		aggregate_free(a);
	}
}

static void forward_beside_backward(void **state)
{
	(void)state;
	struct report_opts opts = {.sort = REPORT_BY_TOTAL};
	struct aggregate *a = by(AGGREGATE_OP | AGGREGATE_SIDES);
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	assert_int_equal(report_print(f, a, &opts), 0);
	fclose(f);
	assert_string_equal(
	    strstr(text, "Both"),
	    "Both % v  Calls    Mean  Forward  Backward  Nodes   B/F  Op\n"
	    "   72.7%      1  1.0 us   1.0 us    200 ns      1  0.20  aten::sample.Tensor\n"
	    "   30.3%      2  200 ns   400 ns    100 ns      1  0.25  aten::add.Tensor\n"
	    "    3.0%      0    0 ns     0 ns     50 ns      1     -  AddBackward0\n"
	    "in no op: 12.1 %, 200 ns of 1.6 us\n");
	free(text);
	aggregate_free(a);
}

static void add_in(struct aggregate *a, const char *module, uint64_t start, uint64_t ns, int phase)
{
	static _Alignas(16) char memory[sizeof(struct py_stack)];
	struct py_stack *s = (struct py_stack *)memory;
	struct op_event ev = sample_event(1, 0, 0, start, start + ns);
	s->module = module;
	ev.stack = ev.where_stack = s;
	ev.phase = (uint8_t)phase;
	assert_int_equal(aggregate_add(a, &ev), 0);
}

static void modules_are_a_tree(void **state)
{
	(void)state;
	const struct report_opts opts = {.modules = true, .percent_limit = 1};
	struct aggregate *a = aggregate_new(AGGREGATE_MODULE | AGGREGATE_PHASE);
	char *text;
	size_t len;
	add_in(a, "blocks.0.attn.qkv", 0, 100, PHASE_FORWARD);
	add_in(a, "blocks.0.attn.qkv", 100, 200, PHASE_BACKWARD);
	add_in(a, "blocks.0.attn", 300, 100, PHASE_FORWARD);
	add_in(a, "head", 400, 300, PHASE_FORWARD);
	add_in(a, "(GPT)", 700, 95, PHASE_FORWARD);
	add_in(a, "tail", 795, 5, PHASE_FORWARD);
	add_in(a, NULL, 900, 100, PHASE_FORWARD);
	FILE *f = open_memstream(&text, &len);
	assert_int_equal(report_print(f, a, &opts), 0);
	fclose(f);
	assert_string_equal(strstr(text, "Total %"),
			    "Total % v  Forward  Backward   Total     Own  Module\n"
			    "    80.0%   600 ns    200 ns  800 ns   95 ns  (GPT)\n"
			    "    40.0%   200 ns    200 ns  400 ns    0 ns    blocks.0\n"
			    "    40.0%   200 ns    200 ns  400 ns  100 ns      attn\n"
			    "    30.0%   100 ns    200 ns  300 ns  300 ns        qkv\n"
			    "    30.0%   300 ns      0 ns  300 ns  300 ns    head\n"
			    "    10.0%   100 ns      0 ns  100 ns  100 ns  (in no known module)\n"
			    "1 more module\n"
			    "in no op: 10.0 %, 100 ns of 1.0 us\n");
	free(text);
	aggregate_free(a);
}

static void gaps(void **state)
{
	(void)state;
	struct gaps g = {0};
	struct op_event ev = sample_event(1, 0, 0, 100, 200), gap;
	assert_int_equal(gaps_see(&g, &ev, &gap), 0);
	ev = sample_event(3, 2, 1, 310, 320);
	assert_int_equal(gaps_see(&g, &ev, &gap), 0);
	ev = sample_event(2, 0, 0, 300, 400);
	ev.where_stack = sample_other_stack();
	assert_int_equal(gaps_see(&g, &ev, &gap), 1);
	assert_int_equal(gap.start_ns, 200);
	assert_int_equal(gap.end_ns, 300);
	assert_int_equal(py_stack_where(gap.where_stack)->line, 13);
	ev = sample_event(4, 0, 0, 1000, 1100);
	ev.tid = 9;
	assert_int_equal(gaps_see(&g, &ev, &gap), 0);
	ev = sample_event(5, 0, 0, 400, 0);
	assert_int_equal(gaps_see(&g, &ev, &gap), 0);
	ev = sample_event(6, 0, 0, 900, 950);
	assert_int_equal(gaps_see(&g, &ev, &gap), 0);
	gaps_free(&g);
}

static char *graph(bool callers, bool all,
		   int (*print)(FILE *, struct call_tree *, const struct call_graph_opts *))
{
	static const size_t started[] = {1, 0, 2, 4, 3, 5, 6};
	struct call_graph_opts opts = {.callers = callers, .observed_ns = 1450, .all = all};
	struct call_tree *t = call_tree_new();
	for (size_t i = 0; i < NROWS; i++) {
		struct op_event ev = event(started[i]);
		if (ev.phase == PHASE_BACKWARD)
			ev.stack = NULL;
		assert_int_equal(call_tree_add(t, &ev, CALL_MIXED), 0);
	}
	struct call_tree *shown = callers ? call_tree_callers(t) : t;
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	assert_int_equal(print(f, shown, &opts), 0);
	fclose(f);
	if (callers)
		call_tree_free(shown);
	call_tree_free(t);
	return text;
}

static void callees(void **state)
{
	(void)state;
	char *text = graph(false, true, call_graph_print);
	assert_string_equal(text, "Total%     Calls  Frame or op, and what it called\n"
				  " 69.0%            ├ forward (train.py:13)\n"
				  " 69.0%            │ forward (linear.py:114)\n"
				  " 69.0%         1  │ aten::sample.Tensor\n"
				  " 20.7%         1  │ aten::add.Tensor\n"
				  " 24.1%         3  ├ AddBackward0\n"
				  "  2.8%         1  │ aten::add.Tensor\n"
				  "  6.9%            └ main (train.py:40)\n"
				  "  6.9%         1    aten::add.Tensor\n");
	free(text);
}

static void has_name(struct call_tree *t,
		     int (*print)(FILE *, struct call_tree *, const struct call_graph_opts *),
		     const char *name)
{
	struct call_graph_opts opts = {.observed_ns = 10};
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	assert_int_equal(print(f, t, &opts), 0);
	fclose(f);
	if (!strstr(text, name))
		fail_msg("%s is not in %s", name, text);
	free(text);
}

/* As people are shown it, and as everything else in JSON and CSV has it. */
static void accumulation_of_gradients(void **state)
{
	struct op_desc sum = sample_add;
	struct op_event ev = sample_event(1, 0, 0, 10, 20);
	struct call_tree *t = call_tree_new();
	size_t n;
	(void)state;
	sum.name = "torch::autograd::AccumulateGrad";
	ev.op = &sum;
	assert_int_equal(call_tree_add(t, &ev, CALL_OPS), 0);
	call_tree_nodes(t, &n);
	assert_int_equal(n, 1);
	has_name(t, call_graph_print, "  gradient accumulation\n");
	has_name(t, call_graph_print_json, "\"name\":\"torch::autograd::AccumulateGrad\"");
	has_name(t, call_graph_print_csv, ",torch::autograd::AccumulateGrad,");
	call_tree_free(t);
}

static void left_out(void **state)
{
	(void)state;
	char *text = graph(false, false, call_graph_print);
	assert_string_equal(text,
			    "Total%     Calls  Frame or op, and what it called\n"
			    " 69.0%            ├ forward (train.py:13)\n"
			    " 69.0%         1  │ aten::sample.Tensor\n"
			    " 20.7%         1  │ aten::add.Tensor\n"
			    " 24.1%         3  ├ AddBackward0\n"
			    "  2.8%         1  │ aten::add.Tensor\n"
			    "  6.9%            └ main (train.py:40)\n"
			    "  6.9%         1    aten::add.Tensor\n"
			    "1 frame of torch, imports and the interpreter left out: --all\n");
	free(text);
}

static void native_left_out(void **state)
{
	static const struct py_frame python = {.file = "/x/train.py", .function = "main"},
				     interpreter = {.file = "/lib/libpython3.11.so.1.0",
						    .function = "PyObject_Vectorcall"},
				     nameless = {.file = "/lib/libx.so.1",
						 .function = "libx.so.1+0x1234"},
				     named = {.file = "/lib/libx.so.1", .function = "f"},
				     eval = {.file = "/bin/python3",
					     .function = "_PyEval_EvalFrameDefault"};
	static const struct py_stack stack = {.depth = 1, .frames = {&python}},
				     native = {.depth = 5,
					       .frames = {&nameless, &named, &nameless,
							  &interpreter, &eval}};
	const struct sample s = {.weight = 100, .python = &stack, .native = &native};
	const struct call_graph_opts opts = {.observed_ns = 100, .samples = true};
	struct call_tree *t = call_tree_new();
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	(void)state;
	assert_int_equal(call_tree_add_sample(t, &s, CALL_MIXED), 0);
	assert_int_equal(call_graph_print(f, t, &opts), 0);
	fclose(f);
	call_tree_free(t);
	assert_string_equal(text,
			    "Total%   Samples  Frame or op, and what it called\n"
			    "100.0%            main (train.py)\n"
			    "100.0%            f (libx.so.1)\n"
			    "100.0%         1  libx.so.1+0x1234 (libx.so.1)\n"
			    "2 frames of torch, imports and the interpreter left out: --all\n");
	free(text);
}

static void callers(void **state)
{
	(void)state;
	char *text = graph(true, true, call_graph_print);
	assert_string_equal(text, "Self %     Calls  Op, and what called it\n"
				  " 48.3%         1  aten::sample.Tensor\n"
				  " 48.3%         1  forward (linear.py:114)\n"
				  " 48.3%         1  forward (train.py:13)\n\n"
				  " 30.3%         3  aten::add.Tensor\n"
				  " 20.7%         1  ├ aten::sample.Tensor\n"
				  " 20.7%         1  │ forward (linear.py:114)\n"
				  " 20.7%         1  │ forward (train.py:13)\n"
				  "  6.9%         1  ├ main (train.py:40)\n"
				  "  2.8%         1  └ AddBackward0\n\n"
				  " 21.4%         3  AddBackward0\n\n");
	free(text);
	text = graph(true, false, call_graph_print_csv);
	assert_non_null(strstr(text, "\n0,op,aten::sample.Tensor,1,700,700,48.2759\n"
				     "1,frame,forward (linear.py:114),1,0,700,48.2759\n"));
	free(text);
}

static void words(void **state)
{
	(void)state;
	struct report_columns columns;
	struct err e = {0};
	unsigned keys = 0;
	enum report_sort sort = REPORT_BY_SELF;
	assert_int_equal(group_parse("op,shape,thread", &keys, &e), 0);
	assert_int_equal(keys, AGGREGATE_OP | AGGREGATE_SHAPE | AGGREGATE_THREAD);
	assert_int_equal(group_parse_sort("p50", keys, &sort, &e), 0);
	assert_int_equal(sort, REPORT_BY_P50);
	assert_int_equal(group_parse_sort("shape", keys, &sort, &e), 0);
	assert_int_equal(sort, REPORT_BY_SHAPE);
	assert_int_equal(group_parse_sort("line", keys, &sort, &e), -EINVAL);
	assert_string_equal(e.hint, "group by it, too: --group op,line");
	assert_int_equal(group_parse_sort("phas", keys, &sort, &e), -EINVAL);
	assert_int_equal(group_parse("op,", &keys, &e), -EINVAL);
	assert_int_equal(group_parse("op,module", &keys, &e), 0);
	assert_int_equal(keys, AGGREGATE_OP | AGGREGATE_MODULE);
	assert_int_equal(group_parse_sort("module", keys, &sort, &e), 0);
	assert_int_equal(report_columns_parse("op,calls", AGGREGATE_OP, &columns, &e), 0);
	assert_int_equal(columns.n, 2);
	assert_int_equal(report_columns_parse("op,where", AGGREGATE_OP, &columns, &e), -EINVAL);
	assert_int_equal(report_columns_parse("", AGGREGATE_OP, &columns, &e), -EINVAL);
}

static char *table_of(const struct aggregate *a)
{
	const struct breakdown_result steps = {.wall_ns = 1000};
	struct report_opts opts = {.steps = &steps};
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	opts.ranks = aggregate_ranks(a, &opts.nranks);
	assert_int_equal(report_print(f, a, &opts), 0);
	fclose(f);
	return text;
}

static void ranks(void **state)
{
	(void)state;
	static const struct op_desc collective = {.name = "c10d::allreduce_"};
	struct aggregate *a = aggregate_new(AGGREGATE_OP);
	struct op_event ev = event(1);
	ev.rank1 = 4;
	assert_int_equal(aggregate_add(a, &ev), 0);
	char *text = table_of(a);
	assert_null(strstr(text, "rank"));
	free(text);
	ev = event(0);
	ev.rank1 = 1; /* another process, which may have the same PID elsewhere */
	assert_int_equal(aggregate_add(a, &ev), 0);
	ev.op = &collective;
	ev.end_ns += 5000;
	assert_int_equal(aggregate_add(a, &ev), 0);
	text = table_of(a);
	assert_non_null(strstr(text, "of 2 ranks 3 is in ops for longest, 700 ns, and 0 for "
				     "shortest, 300 ns; collectives not counted\n"));
	assert_non_null(strstr(text, "Least, rank  Most, rank"));
	assert_non_null(strstr(text, "0 ns 3    5.3 us 0"));
	free(text);
	aggregate_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(groups),
	    cmocka_unit_test(all_groups_add_up),
	    cmocka_unit_test(modules_are_a_tree),
	    cmocka_unit_test(gaps),
	    cmocka_unit_test(forward_beside_backward),
	    cmocka_unit_test(callees),
	    cmocka_unit_test(left_out),
	    cmocka_unit_test(accumulation_of_gradients),
	    cmocka_unit_test(native_left_out),
	    cmocka_unit_test(callers),
	    cmocka_unit_test(words),
	    cmocka_unit_test(ranks),
	};
	return unit_run(tests, NULL, NULL);
}
