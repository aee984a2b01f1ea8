

#include "tests/unit/unit.h"

#include "tests/unit/sample_events.h"
#include "tui/model/view.h"

static const uint64_t MS = 1000000;

static const uint8_t payload[] = "the bytes of a call";

static void add_raw(struct view *v, struct op_event ev, uint32_t size)
{
	struct trace_item item = {.type = TRACE_EVENT, .event = ev};
	item.raw = (struct trace_raw_event){.id = ev.id, .payload = payload, .size = size};
	assert_int_equal(view_add(v, &item), 0);
}

static void add(struct view *v, struct op_event ev)
{
	add_raw(v, ev, sizeof(payload));
}

static struct op_event at(struct op_event ev, const struct py_stack *stack)
{
	ev.stack = ev.where_stack = stack;
	return ev;
}

static struct op_event of(struct op_event ev, const struct op_desc *op)
{
	ev.op = op;
	return ev;
}

/* The names of the rows in order, each followed by a comma. */
static const char *names(struct view *v)
{
	static char text[512];
	size_t n, len = 0;
	const struct view_row *rows = view_rows(v, &n);
	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s,", rows[i].sum->op);
	return text;
}

static struct view *sample(void)
{
	static const struct op_desc mul = {.name = "aten::mul.Tensor", .nargs = 2};
	struct view *v = view_new();
	assert_non_null(v);
	add(v, sample_event(1, 0, 0, 1 * MS, 2 * MS));
	add(v, of(at(sample_event(2, 0, 0, 2 * MS, 5 * MS), sample_other_stack()), &mul));
	add(v, at(sample_event(3, 0, 0, 6 * MS, 8 * MS), sample_other_stack()));
	add(v, sample_backward(4, 1, 9 * MS, 11 * MS));
	return v;
}

/* The rows of the tree: "- (Model) 40%,", two spaces before it for each module above. */
static const char *tree(struct view *v)
{
	static char text[512];
	static const char marks[] = {[VIEW_LEAF] = ' ', [VIEW_FOLDED] = '+', [VIEW_OPEN] = '-'};
	size_t n, len = 0;
	const struct view_row *rows = view_rows(v, &n);
	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%*s%c %s %.0f/%.0f,",
					(int)(2 * rows[i].depth), "", marks[rows[i].fold],
					rows[i].name, rows[i].self_percent, rows[i].total_percent);
	return text;
}

static void tree_of_modules(void **state)
{
	(void)state;
	static struct py_stack stacks[5];
	static const char *const modules[5] = {"(GPT)", "blocks.0.attn", "blocks.0", "head", NULL};
	struct view *v = view_new();
	size_t n;
	assert_non_null(v);
	for (unsigned i = 0; i < 5; i++) {
		stacks[i] = (struct py_stack){.id = i + 1, .module = modules[i]};
		add(v, at(sample_event(i + 1, 0, 0, i * 10 * MS, (i + 1) * 10 * MS), &stacks[i]));
	}
	assert_int_equal(view_set_tree(v, true), 0);
	view_sort(v, VIEW_TOTAL);
	assert_string_equal(tree(v), "- (GPT) 20/80,  - blocks.0 20/40,      attn 20/20,"
				     "    head 20/20,  (in no known module) 20/20,");
	int64_t blocks = view_id(v, &view_rows(v, &n)[1]);
	view_fold(v, blocks, VIEW_FOLDED);
	assert_true(view_is_folded(v, blocks));
	assert_string_equal(tree(v), "- (GPT) 20/80,  + blocks.0 20/40,    head 20/20,"
				     "  (in no known module) 20/20,");
	assert_int_equal(view_id(v, &view_rows(v, &n)[1]), blocks);
	view_fold(v, blocks, VIEW_OPEN);
	view_set_filter(v, "attn");
	assert_string_equal(tree(v), "- (GPT) 20/80,  - blocks.0 20/40,      attn 20/20,");
	assert_int_equal(view_set_group(v, GROUPING_OP), 0);
	assert_false(view_is_tree(v));
	assert_int_equal(view_set_tree(v, true), 0);
	assert_int_equal(view_set_tree(v, false), 0);
	assert_int_equal(view_group(v), GROUPING_OP);
	view_free(v);
}

static void groups(void **state)
{
	(void)state;
	struct view *v = sample();
	assert_string_equal(names(v),
			    "aten::mul.Tensor,aten::add.Tensor,AddBackward0,aten::add.Tensor,");
	assert_int_equal(view_set_group(v, GROUPING_OP), 0);
	assert_string_equal(names(v), "aten::add.Tensor,aten::mul.Tensor,AddBackward0,");
	assert_int_equal(view_set_group(v, GROUPING_LINE), 0);
	assert_string_equal(names(v), "(forward),(backward),(forward),");
	assert_int_equal(view_set_group(v, GROUPING_MODULE), 0);
	assert_string_equal(names(v), "(no module),blocks.0.attn,blocks.0.attn,");
	assert_int_equal(view_set_group(v, GROUPING_THREAD), 0);
	assert_string_equal(names(v), "42 ,43 ,");
	assert_int_equal(view_set_group(v, GROUPING_SHAPE), 0);
	assert_string_equal(names(v), "aten::add.Tensor [2,3,4] [?],aten::mul.Tensor [2,3,4] [?],"
				      "AddBackward0 [2,3,4],");
	view_free(v);
}

static void figures(void **state)
{
	(void)state;
	struct view *v = sample();
	struct view_head h;
	size_t n;
	view_set_filter(v, "MUL");
	const struct view_row *rows = view_rows(v, &n);
	assert_int_equal(n, 1);
	assert_int_equal(rows[0].mean_ns, 3 * MS);
	assert_int_equal(rows[0].calls_per_s, 100); /* one in 10 ms */
	/* Observed time: 7 ms of thread 42, 2 ms of thread 43. */
	assert_int_equal(rows[0].self_percent * 100, 3333);
	view_head(v, &h);
	assert_int_equal(h.totals.events, 4);
	assert_int_equal(h.wall_ns, 10 * MS);
	assert_int_equal(h.ops_per_s, 400);
	assert_int_equal(h.in_ops * 100, 8888);
	view_now(v, 2000 * MS);
	view_head(v, &h);
	assert_int_equal(h.ops_per_s, 400);
	view_now(v, 2012 * MS); /* no event for two seconds */
	view_head(v, &h);
	assert_int_equal(h.ops_per_s, 0);
	assert_true(h.probes < 0);
	assert_null(h.target);
	view_free(v);
}

static void sorts_and_filters(void **state)
{
	(void)state;
	struct view *v = sample();
	bool reversed;
	view_sort(v, VIEW_OP);
	assert_string_equal(names(v),
			    "AddBackward0,aten::add.Tensor,aten::add.Tensor,aten::mul.Tensor,");
	view_sort(v, VIEW_OP);
	assert_int_equal(view_sorted(v, &reversed), VIEW_OP);
	assert_true(reversed);
	assert_string_equal(names(v),
			    "aten::mul.Tensor,aten::add.Tensor,aten::add.Tensor,AddBackward0,");
	view_sort(v, VIEW_WHERE);
	view_set_filter(v, "train.PY");
	assert_string_equal(names(v),
			    "aten::add.Tensor,AddBackward0,aten::mul.Tensor,aten::add.Tensor,");
	view_set_filter(v, "qkv");
	assert_string_equal(names(v), "aten::add.Tensor,AddBackward0,");
	view_set_filter(v, "nothing like it");
	assert_string_equal(names(v), "");
	view_free(v);
}

static void sorts_by_elements(void **state)
{
	(void)state;
	static const struct op_desc none = {.name = "aten::without"};
	struct view *v = view_new();
	struct op_event ev = of(sample_event(1, 0, 0, 1 * MS, 9 * MS), &none);
	ev.nargs = 0;
	add(v, ev);
	add(v, sample_event(2, 0, 0, 10 * MS, 11 * MS));
	assert_string_equal(names(v), "aten::without,aten::add.Tensor,");
	view_sort(v, VIEW_SHAPES);
	assert_string_equal(names(v), "aten::add.Tensor,aten::without,");
	view_sort(v, VIEW_SHAPES);
	assert_string_equal(names(v), "aten::without,aten::add.Tensor,");
	view_free(v);
}

static void reset(void **state)
{
	(void)state;
	struct view *v = sample();
	struct trace_item lost = {.type = TRACE_LOST, .lost = {.count = 3}};
	struct view_head h;
	assert_int_equal(view_add(v, &lost), 0);
	assert_int_equal(view_reset(v), 0);
	assert_string_equal(names(v), "");
	view_head(v, &h);
	assert_int_equal(h.totals.events, 0);
	assert_int_equal(h.lost, 3);
	add(v, sample_event(5, 0, 0, 20 * MS, 21 * MS));
	assert_string_equal(names(v), "aten::add.Tensor,");
	view_head(v, &h);
	assert_int_equal(h.wall_ns, 1 * MS);
	view_free(v);
}

static void add_stats(struct view *v, uint64_t probe_ns, uint64_t cpu_ns)
{
	struct trace_item item = {.type = TRACE_STATS,
				  .stats = {.probe_ns = probe_ns, .cpu_ns = cpu_ns}};
	assert_int_equal(view_add(v, &item), 0);
}

static double probes(const struct view *v)
{
	struct view_head h;
	view_head(v, &h);
	return h.probes * 100;
}

static void slowdown_by_probes(void **state)
{
	(void)state;
	struct view *v = sample();
	add_stats(v, 1 * MS, 11 * MS);
	assert_int_equal(probes(v), 1000);
	add_stats(v, 3 * MS, 18 * MS);
	assert_int_equal(probes(v), 2000);
	assert_int_equal(view_set_interval(v, true), 0);
	assert_int_equal(probes(v), 4000); /* since the last statistics: 2 of 7 ms */
	assert_int_equal(view_set_interval(v, false), 0);
	assert_int_equal(view_reset(v), 0);
	add_stats(v, 5 * MS, 20 * MS);
	assert_true(probes(v) < 0); /* unknown at the time when counting began */
	add_stats(v, 8 * MS, 24 * MS);
	assert_int_equal(probes(v), 30000);
	assert_int_equal(view_new_file(v), 0);
	add_stats(v, 2 * MS, 12 * MS);
	assert_int_equal(probes(v), 2000);
	view_free(v);
}

static void intervals(void **state)
{
	(void)state;
	struct view *v = sample();
	size_t n;
	assert_int_equal(view_set_interval(v, true), 0);
	assert_string_equal(names(v), "");
	add(v, sample_event(5, 0, 0, 100 * MS, 200 * MS));
	add(v, sample_event(6, 0, 0, 1000 * MS, 1100 * MS));
	assert_int_equal(view_rows(v, &n)[0].sum->calls, 2);
	/* The next interval begins; the complete one is shown. */
	add(v, at(sample_event(7, 0, 0, 2100 * MS, 2200 * MS), sample_other_stack()));
	assert_int_equal(view_rows(v, &n)[0].sum->calls, 2);
	assert_int_equal(n, 1);
	add(v, sample_event(8, 0, 0, 4200 * MS, 4300 * MS));
	assert_int_equal(view_rows(v, &n)[0].sum->line, 40);
	assert_int_equal(view_rows(v, &n)[0].sum->calls, 1);
	assert_int_equal(view_set_interval(v, false), 0);
	view_rows(v, &n);
	assert_int_equal(n, 4); /* meanwhile everything was counted */
	view_free(v);
}

static void backward_knows_its_forward(void **state)
{
	(void)state;
	struct view *v = sample();
	uint32_t forward[VIEW_LINKS];
	assert_int_equal(view_forwards(v, 0, forward), 0);
	assert_int_equal(view_forwards(v, 3, forward), 1);
	assert_int_equal(forward[0], 0);
	add(v, sample_backward(9, 77777, 20 * MS, 21 * MS)); /* of a forward op that was not seen */
	add(v, sample_backward(10, 1, 21 * MS, 22 * MS));
	assert_int_equal(view_forwards(v, 3, forward), 1);
	view_free(v);
}

static void last_call_is_kept(void **state)
{
	(void)state;
	struct view *v = view_new();
	static uint8_t large[GROUPING_CALL_MAX + 1];
	size_t n;
	add(v, sample_event(1, 0, 0, 1, 2));
	const struct grouping_row *row = view_all(v, GROUPING_OP_LINE, &n)[0];
	assert_int_equal(row->last.size, sizeof(payload));
	assert_memory_equal(row->last.bytes, payload, sizeof(payload));
	struct trace_item item = {.type = TRACE_EVENT, .event = sample_event(2, 0, 0, 3, 4)};
	item.raw = (struct trace_raw_event){.id = 2, .payload = large, .size = sizeof(large)};
	assert_int_equal(view_add(v, &item), 0);
	assert_int_equal(row->last.id, 2);
	assert_int_equal(row->last.size, 0);
	view_free(v);
}

static void too_many_rows_are_one(void **state)
{
	(void)state;
	struct view *v = view_new();
	uint64_t calls = 0;
	size_t n;
	enum { OPS = GROUPING_ROWS + 100 };
	for (unsigned i = 0; i < 2 * OPS; i++) {
		char name[32];
		snprintf(name, sizeof(name), "my::op%u", i % OPS);
		struct op_desc op = {.name = name, .nargs = 2};
		add(v, of(sample_event(i + 1, 0, 0, 10 * i + 1, 10 * i + 11), &op));
	}
	const struct view_row *rows = view_rows(v, &n);
	assert_int_equal(n, GROUPING_ROWS);
	for (size_t i = 0; i < n; i++)
		calls += rows[i].sum->calls;
	assert_int_equal(calls, 2 * OPS);
	assert_string_equal(rows[0].sum->op, "(other)");
	assert_int_equal(rows[0].sum->calls, 2 * 101);
	view_free(v);
}

static const struct py_stack *optimizer_stack(void)
{
	static const struct py_frame step = {
	    .id = 7, .file = "/lib/torch/optim/sgd.py", .function = "step", .is_torch = true};
	static _Alignas(struct py_stack) char memory[sizeof(struct py_stack) + 2 * sizeof(void *)];
	struct py_stack *s = (struct py_stack *)memory;
	s->id = 2;
	s->depth = 2;
	s->frames[0] = &step;
	s->frames[1] = &sample_other_frame;
	return s;
}

static void step_times(void **state)
{
	(void)state;
	struct view *v = view_new();
	struct view_head h;
	uint64_t ns[STEP_TIMES], id = 0;
	/* A step takes 10 ms, the fourth 15 ms; inner ops and other threads do not matter. */
	uint64_t now = 100 * MS;
	for (int i = 0; i < 6; i++) {
		uint64_t more = i == 4 ? 5 * MS : 0;
		struct op_event other = sample_event(++id, 0, 0, now, now + 2 * MS);
		add(v, sample_event(++id, 0, 1, now, now + MS));
		add(v, sample_event(++id, 0, 0, now, now + 6 * MS + more));
		other.tid = 77;
		add(v, other);
		now += more;
		add(v, at(sample_event(++id, 0, 0, now + 7 * MS, now + 8 * MS), optimizer_stack()));
		add(v, at(sample_event(++id, 0, 0, now + 8 * MS, now + 9 * MS), optimizer_stack()));
		now += 10 * MS;
	}
	view_head(v, &h);
	assert_int_equal(h.steps->done, 5); /* the end of the last has not come */
	assert_int_equal(step_times_last(h.steps, ns, STEP_TIMES), 4);
	assert_int_equal(ns[0], 10 * MS);
	assert_int_equal(ns[3], 15 * MS);
	assert_int_equal(step_times_last(h.steps, ns, 1), 1);
	assert_int_equal(ns[0], 15 * MS);
	assert_int_equal(h.steps->pid, 41);
	view_free(v);
}

static void agrees_with_the_aggregate(void **state)
{
	(void)state;
	struct view *v = view_new();
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	struct aggregate_totals of_a;
	struct view_head h;
	struct op_event open = sample_event(3, 0, 0, 40 * MS, 0);
	size_t n, nrows;
	add(v, sample_event(1, 0, 0, 1 * MS, 5 * MS));
	add(v, sample_backward(2, 1, 9 * MS, 11 * MS));
	add(v, open);
	struct op_event events[] = {sample_event(1, 0, 0, 1 * MS, 5 * MS),
				    sample_backward(2, 1, 9 * MS, 11 * MS), open};
	for (int i = 0; i < 3; i++)
		assert_int_equal(aggregate_add(a, &events[i]), 0);
	aggregate_totals(a, &of_a);
	view_head(v, &h);
	assert_int_equal(h.totals.observed_ns, of_a.observed_ns);
	assert_int_equal(h.totals.unfinished, 1);
	const struct aggregate_row *const *wanted = aggregate_rows(a, &n);
	struct grouping_row *const *seen = view_all(v, GROUPING_OP_LINE, &nrows);
	assert_int_equal(n, nrows);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(seen[i]->sum->op, wanted[i]->op);
		assert_int_equal(seen[i]->sum->self_ns, wanted[i]->self_ns);
		assert_int_equal(seen[i]->sum->phase, wanted[i]->phase);
	}
	aggregate_free(a);
	view_free(v);
}

static void names_are_kept(void **state)
{
	(void)state;
	struct view *v = view_new();
	struct view_head h;
	char command[] = "python train.py", name[] = "main";
	struct trace_item target = {
	    .type = TRACE_TARGET,
	    .target = {41, 0, "python", command, "2.13.0", "3.11", "bpf", "/torch"}};
	struct trace_item thread = {.type = TRACE_THREAD,
				    .thread = {.pid = 41, .tid = 42, .name = name}};
	assert_int_equal(view_add(v, &target), 0);
	assert_int_equal(view_add(v, &thread), 0);
	memset(command, '#', sizeof(command) - 1);
	memset(name, '#', sizeof(name) - 1);
	add(v, sample_event(1, 0, 0, 1, 2));
	view_head(v, &h);
	assert_string_equal(h.target->argv, "python train.py");
	assert_int_equal(h.targets, 1);
	assert_int_equal(view_set_group(v, GROUPING_THREAD), 0);
	assert_string_equal(names(v), "42 main,");
	view_free(v);
}

static void histogram_is_spread(void **state)
{
	(void)state;
	struct histogram h = {0};
	uint64_t counts[3], one;
	for (uint64_t v = 3000; v <= 300000; v *= 10)
		assert_int_equal(histogram_add(&h, v), 0);
	assert_int_equal(histogram_add(&h, 400000), 0);
	/* Each part is a factor of ten. */
	histogram_spread(&h, 1000, 1000000, counts, 3);
	assert_int_equal(counts[0], 1);
	assert_int_equal(counts[1], 1);
	assert_int_equal(counts[2], 2);
	histogram_spread(&h, 5000, 5000, &one, 1);
	assert_int_equal(one, 4);
	histogram_free(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tree_of_modules),
	    cmocka_unit_test(groups),
	    cmocka_unit_test(figures),
	    cmocka_unit_test(sorts_and_filters),
	    cmocka_unit_test(sorts_by_elements),
	    cmocka_unit_test(reset),
	    cmocka_unit_test(slowdown_by_probes),
	    cmocka_unit_test(intervals),
	    cmocka_unit_test(backward_knows_its_forward),
	    cmocka_unit_test(last_call_is_kept),
	    cmocka_unit_test(too_many_rows_are_one),
	    cmocka_unit_test(step_times),
	    cmocka_unit_test(agrees_with_the_aggregate),
	    cmocka_unit_test(names_are_kept),
	    cmocka_unit_test(histogram_is_spread),
	};
	return unit_run(tests, NULL, NULL);
}
