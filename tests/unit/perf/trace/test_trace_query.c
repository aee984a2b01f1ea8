
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "perf/trace/trace_read.h"
#include "perf/trace/trace_write.h"
#include "tests/unit/sample_events.h"

static char path[64];

static int setup(void **state)
{
	(void)state;
	snprintf(path, sizeof(path), "/tmp/ditrace-test-%d.data", (int)getpid());
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static const struct py_frame optimizer = {
    .id = 3, .file = "/x/torch/optim/adam.py", .function = "step", .line = 5, .is_torch = true};

/* Three steps: an op in the optimizer ends each; times are relative to when the file was begun. */
enum { EVENTS = 6, APART_NS = 1000000 };

static struct op_event event(uint64_t origin, uint64_t i)
{
	static _Alignas(struct py_stack) char memory[sizeof(struct py_stack) + 2 * sizeof(void *)];
	struct py_stack *stack = (struct py_stack *)memory;
	uint64_t start = origin + APART_NS * i;
	struct op_event ev = sample_event(i + 1, 0, 0, start, start + 500);
	*stack = (struct py_stack){.id = 7, .depth = 2};
	stack->frames[0] = &optimizer;
	stack->frames[1] = &sample_other_frame;
	if (i % 2)
		ev.stack = ev.where_stack = stack;
	return ev;
}

/* A writer, and when its file was begun. */
static struct trace_writer *writer(uint64_t *origin)
{
	struct trace_writer *w;
	struct trace_reader *r;
	struct err e = {0};
	assert_int_equal(trace_writer_open(path, &w, &e), 0);
	assert_int_equal(trace_writer_flush(w), 0);
	assert_int_equal(trace_reader_open(path, &r, &e), 0);
	*origin = trace_reader_origin(r);
	trace_reader_close(r);
	return w;
}

/* The order in which they ended is not that in which they started: the first two are swapped. */
static void write_events(struct trace_writer *w, uint64_t origin, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		struct op_event ev = event(origin, i < 2 ? 1 - i : i);
		assert_int_equal(trace_write_event(w, &ev), 0);
	}
}

static void write_sample(struct trace_writer *w, uint64_t ns)
{
	const struct sample s = {
	    .time_ns = ns, .weight = 1, .pid = 41, .tid = 42, .python = sample_stack()};
	assert_int_equal(trace_write_sample(w, &s), 0);
}

/* Six events, and two samples, in the second and third step. */
static uint64_t write_steps(void)
{
	uint64_t origin;
	struct trace_writer *w = writer(&origin);
	write_events(w, origin, 0, EVENTS);
	write_sample(w, origin + 3 * APART_NS + 100);
	write_sample(w, origin + 5 * APART_NS + 100);
	assert_int_equal(trace_writer_close(w, true), 0);
	return origin;
}

/* What a query gave: a bit an event, the ids in their order, and how many samples. */
struct given {
	int code;
	unsigned events, samples;
	char ids[EVENTS + 1];
};

static struct given run(const struct trace_query_opts *opts)
{
	struct given g = {0};
	struct trace_query *q;
	struct trace_item item;
	struct err e = {0};
	g.code = trace_query(path, opts, &q, &e);
	if (g.code) {
		assert_true(e.hint[0]);
		return g;
	}
	for (size_t n = 0; (g.code = trace_query_next(q, &item, &e)) > 0;) {
		g.samples += item.type == TRACE_SAMPLE;
		if (item.type != TRACE_EVENT)
			continue;
		g.events |= 1u << (item.event.id - 1);
		g.ids[n++] = (char)('0' + item.event.id);
	}
	assert_int_equal(trace_query_end(q, 0, g.code, &e), 0);
	return g;
}

static void parts(void **state)
{
	(void)state;
	write_steps();
	struct {
		struct trace_choice choice;
		int code;
		unsigned events, samples;
	} cases[] = {
	    {{0}, 0, 0x3f, 2},
	    {{.time = "1ms-3ms"}, 0, 0x06, 0},
	    {{.time = "-1ms"}, 0, 0x01, 0},
	    {{.time = "4500us-"}, 0, 0x20, 1},
	    {{.time = "3ms-2ms"}, -EINVAL, 0, 0},
	    {{.time = "-"}, -EINVAL, 0, 0},
	    {{.time = "2"}, -EINVAL, 0, 0},
	    {{.step = "2"}, 0, 0x0c, 1},
	    {{.step = "2-"}, 0, 0x3c, 2},
	    {{.step = "1,3"}, 0, 0x33, 1},
	    {{.time = "3ms-", .step = "2"}, 0, 0x08, 1},
	    {{.step = "4"}, -ENOENT, 0, 0},
	    {{.step = "x"}, -EINVAL, 0, 0},
	    {{.step_op = "add"}, -EINVAL, 0, 0},
	    {{.step = "2", .step_op = "aten::add.Tensor"}, 0, 0x02, 0},
	    {{.step = "2", .step_op = "aten::mul.Tensor"}, -ENOENT, 0, 0},
	    {{.when = "op == 'aten::add.Tensor'"}, 0, 0x3f, 0},
	    {{.when = "op != 'aten::add.Tensor'"}, 0, 0, 2},
	    {{.when = "nonsense == 1"}, -EINVAL, 0, 0},
	    {{.when = "op == 'aten::add.Tensor'", .time = "2ms-", .step = "2"}, 0, 0x0c, 0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int by_start = 0; by_start < 2; by_start++) {
			struct given g = run(&(struct trace_query_opts){.choice = cases[i].choice,
									.by_start = by_start});
			if (g.code != cases[i].code || g.events != cases[i].events ||
			    g.samples != cases[i].samples)
				fail_msg("case %zu, %d: %d, %x, %u", i, by_start, g.code, g.events,
					 g.samples);
		}
	}
}

static void order(void **state)
{
	(void)state;
	write_steps();
	assert_string_equal(run(&(struct trace_query_opts){0}).ids, "213456");
	assert_string_equal(run(&(struct trace_query_opts){.by_start = true}).ids, "123456");
}

static void kinds(void **state)
{
	(void)state;
	uint64_t origin;
	struct given g;
	write_steps();
	g = run(&(struct trace_query_opts){.kinds = TRACE_OPS});
	assert_true(g.events == 0x3f && g.samples == 0);
	g = run(&(struct trace_query_opts){.kinds = TRACE_SAMPLES});
	assert_true(g.events == 0 && g.samples == 2);
	g = run(&(struct trace_query_opts){.kinds = TRACE_OPS_OR_SAMPLES});
	assert_true(g.events == 0x3f && g.samples == 0);
	struct trace_writer *w = writer(&origin);
	write_sample(w, origin);
	assert_int_equal(trace_writer_close(w, true), 0);
	g = run(&(struct trace_query_opts){.kinds = TRACE_OPS_OR_SAMPLES});
	assert_true(g.events == 0 && g.samples == 1);
}

/* A first pass has all, as recorded; an error of it ends it. */
struct noted {
	char ids[EVENTS + 1];
	size_t n;
	int error;
};

static int note(void *arg, const struct trace_item *item, struct err *e)
{
	struct noted *n = arg;
	if (item->type != TRACE_EVENT)
		return 0;
	assert_int_equal(item->event.nargs, 2);
	n->ids[n->n++] = (char)('0' + item->event.id);
	err_set(e, n->error, "noted");
	return n->error ? err_hint(e, "no more") : 0;
}

static void first_pass(void **state)
{
	(void)state;
	struct noted n = {0};
	struct trace_query_opts opts = {.first = note, .first_arg = &n};
	write_steps();
	run(&opts);
	assert_string_equal(n.ids, "213456");
	n = (struct noted){0};
	opts.choice = (struct trace_choice){.when = "op == 'aten::add.Tensor'", .step = "2"};
	assert_string_equal(run(&opts).ids, "34");
	assert_string_equal(n.ids, "213456");
	n = (struct noted){.error = -EIO};
	assert_int_equal(run(&opts).code, -EIO);
	assert_string_equal(n.ids, "2");
	opts.choice.step = NULL;
	n = (struct noted){.error = -EIO};
	assert_int_equal(run(&opts).code, -EIO);
	assert_string_equal(n.ids, "2");
}

/* What the condition leaves out is for the caller to ask. */
static void unchosen(void **state)
{
	(void)state;
	const struct trace_query_opts opts = {
	    .choice = {.when = "op != 'aten::add.Tensor'", .time = "2ms-"}, .unchosen = true};
	struct trace_query *q;
	struct trace_item item;
	unsigned events = 0;
	write_steps();
	assert_int_equal(trace_query(path, &opts, &q, NULL), 0);
	while (trace_query_next(q, &item, NULL) > 0) {
		events += item.type == TRACE_EVENT;
		if (item.type == TRACE_EVENT && item.event.id == 4)
			assert_false(trace_query_chooses(q, &item.event));
	}
	assert_int_equal(events, 4);
	assert_int_equal(trace_query_counts(q)->left_out, 1);
	assert_int_equal(trace_query_samples(q), 2);
	assert_int_equal(trace_query_end(q, 0, 0, NULL), 0);
}

static int next_id(struct trace_query *q)
{
	struct trace_item item;
	int n;
	while ((n = trace_query_next(q, &item, NULL)) > 0)
		if (item.type == TRACE_EVENT)
			return (int)item.event.id;
	return n;
}

/* Steps of a file that is being written are counted as they come. */
static void follows_steps(void **state)
{
	(void)state;
	const struct trace_query_opts opts = {.choice.step = "2", .by_start = true, .follow = true};
	uint64_t origin;
	struct trace_query *q;
	struct trace_writer *w = writer(&origin);
	write_events(w, origin, 0, 2);
	assert_int_equal(trace_writer_flush(w), 0);
	assert_int_equal(trace_query(path, &opts, &q, NULL), 0);
	assert_int_equal(next_id(q), -EAGAIN);
	write_events(w, origin, 2, EVENTS);
	assert_int_equal(trace_writer_flush(w), 0);
	assert_int_equal(next_id(q), 3);
	assert_int_equal(next_id(q), 4);
	assert_int_equal(next_id(q), -EAGAIN);
	assert_int_equal(trace_writer_close(w, true), 0);
	assert_int_equal(next_id(q), 0);
	trace_query_end(q, 0, 0, NULL);
	/* The whole file has no fourth. */
	struct trace_query_opts fourth = opts;
	fourth.choice.step = "4";
	struct err e = {0};
	assert_int_equal(trace_query(path, &fourth, &q, NULL), 0);
	struct trace_item item;
	int n;
	while ((n = trace_query_next(q, &item, &e)) > 0)
		assert_int_not_equal(item.type, TRACE_EVENT);
	assert_int_equal(n, -ENOENT);
	assert_true(e.hint[0]);
	trace_query_end(q, 0, 0, NULL);
}

/* The stream numbers of the activities that a choice leaves, as bits. */
static unsigned activities_of(const struct trace_query_opts *opts)
{
	struct trace_query *q;
	struct trace_item item;
	struct err e = {0};
	unsigned found = 0;
	if (trace_query(path, opts, &q, &e))
		fail_msg("%s", e.what);
	while (trace_query_next(q, &item, &e) > 0)
		if (item.type == TRACE_ACTIVITY)
			found |= 1u << item.activity.stream;
	assert_int_equal(trace_query_activities(q), __builtin_popcount(found));
	assert_int_equal(trace_query_activities_lost(q), 5);
	trace_query_end(q, 0, 0, &e);
	return found;
}

/* They belong to the time and the step of their launch, and to the op in which it was; without a
 * known launch to their own start. */
static void activities(void **state)
{
	(void)state;
	uint64_t origin;
	struct trace_writer *w = writer(&origin);
	write_events(w, origin, 0, EVENTS);
	struct op_event third = event(origin, 2), none = {.pid = third.pid, .tid = third.tid};
	struct activity a[4] = {
	    /* launched in the second step, run in the third */
	    sample_activity(&third, origin + 2 * APART_NS + 100, origin + 5 * APART_NS,
			    origin + 5 * APART_NS + 10),
	    sample_activity(&none, origin + 3 * APART_NS + 700, origin + 4 * APART_NS,
			    origin + 4 * APART_NS + 10),
	    sample_copy(third.pid, origin + 5 * APART_NS, origin + 5 * APART_NS + 10),
	    sample_copy(third.pid + 1, origin + 2 * APART_NS, origin + 5 * APART_NS + 10),
	};
	a[1].launch = LAUNCH_IN_NO_OP;
	for (unsigned i = 0; i < 4; i++) {
		a[i].stream = i;
		assert_int_equal(trace_write_activity(w, &a[i]), 0);
	}
	assert_int_equal(trace_write_activities_lost(w, third.pid, origin, 5), 0);
	assert_int_equal(trace_writer_close(w, true), 0);
	static const struct {
		struct trace_choice choice;
		unsigned found;
	} cases[] = {
	    {{0}, 0xf},
	    {{.time = "2ms-3ms"}, 0x9},
	    {{.time = "4ms-"}, 0x4},
	    {{.step = "2"}, 0x3},
	    {{.step = "3"}, 0x4},
	    {{.ops = "add"}, 0x1},
	    {{.not_ops = "add"}, 0xe},
	    {{.step = "2", .ops = "add"}, 0x1},
	    {{.when = "op == 'aten::add.Tensor'"}, 0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int by_start = 0; by_start < 2; by_start++)
			assert_int_equal(activities_of(&(struct trace_query_opts){
					     .choice = cases[i].choice, .by_start = by_start}),
					 cases[i].found);
	assert_int_equal(activities_of(&(struct trace_query_opts){.kinds = TRACE_SAMPLES}), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parts),	  cmocka_unit_test(order),
	    cmocka_unit_test(kinds),	  cmocka_unit_test(first_pass),
	    cmocka_unit_test(unchosen),	  cmocka_unit_test(follows_steps),
	    cmocka_unit_test(activities),
	};
	return unit_run(tests, setup, teardown);
}
