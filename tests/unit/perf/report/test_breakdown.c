#include "tests/unit/unit.h"

#include <stdio.h>

#include "perf/report/report.h"
#include "tests/unit/sample_events.h"

enum { MAIN = 42, OTHER = 43 };

#define FRAME(n, path, name, number, torch)                                                        \
	{                                                                                          \
		.id = (n), .file = (path), .function = (name), .line = (number),                   \
		.is_torch = (torch)                                                                \
	}

static const struct py_frame
    train = FRAME(10, "train.py", "train", 7, false),
    loop = FRAME(11, "train.py", "train", 3, false),
    update = FRAME(12, "train.py", "train", 9, false),
    adam = FRAME(13, "/lib/torch/optim/adam.py", "step", 1, true),
    loader = FRAME(14, "/lib/torch/utils/data/dataloader.py", "__next__", 1, true),
    fetch = FRAME(15, "/lib/torch/utils/data/_utils/fetch.py", "fetch", 1, true),
    dataset = FRAME(16, "data.py", "__getitem__", 5, false),
    worker = FRAME(17, "/lib/torch/utils/data/_utils/worker.py", "_worker_loop", 1, true),
    pin = FRAME(18, "/lib/torch/utils/data/_utils/pin_memory.py", "_pin_memory_loop", 1, true),
    share = FRAME(19, "/lib/torch/multiprocessing/reductions.py", "reduce_storage", 1, true),
    feed = FRAME(20, "/lib/python3.11/multiprocessing/queues.py", "Queue._feed", 1, false);

enum stack { FORWARD, OPTIMIZER, DATA, WORKER, PIN, FEED, CLOSURE, NSTACKS };

static const struct py_stack *stack(enum stack of)
{
	static const struct py_frame *const frames[NSTACKS][4] = {
	    [FORWARD] = {&train},
	    [OPTIMIZER] = {&adam, &update},
	    [DATA] = {&dataset, &fetch, &loader, &loop},
	    [WORKER] = {&dataset, &fetch, &worker},
	    [PIN] = {&pin},
	    [FEED] = {&share, &feed},
	    [CLOSURE] = {&train, &adam, &update}};
	static _Alignas(16) char memory[NSTACKS][sizeof(struct py_stack) + 4 * sizeof(void *)];
	struct py_stack *s = (struct py_stack *)memory[of];
	s->id = of;
	for (s->depth = 0; s->depth < 4 && frames[of][s->depth]; s->depth++)
		s->frames[s->depth] = frames[of][s->depth];
	return s;
}

static void add(struct breakdown *b, int tid, enum stack of, uint64_t start, uint64_t end)
{
	struct op_event ev = sample_event(1, 0, 0, start, end);
	ev.tid = tid;
	ev.stack = ev.where_stack = stack(of);
	assert_int_equal(breakdown_add(b, &ev), 0);
}

static void backward(struct breakdown *b, int tid, uint64_t start, uint64_t end)
{
	struct op_event ev = sample_backward(1, 0, start, end);
	ev.tid = tid;
	assert_int_equal(breakdown_add(b, &ev), 0);
}

/* 50 in no op, 450 of data, 100 in no op, 100 forward, 100 backward, 200 of the optimizer. */
static uint64_t step(struct breakdown *b, uint64_t at, int tid)
{
	add(b, MAIN, DATA, at + 50, at + 60);
	add(b, MAIN, DATA, at + 400, at + 500);
	add(b, MAIN, FORWARD, at + 600, at + 700);
	backward(b, tid, at + 700, at + 800);
	add(b, MAIN, OPTIMIZER, at + 800, at + 1000);
	return at + 1000;
}

static struct breakdown_result result(struct breakdown *b)
{
	struct breakdown_result r;
	breakdown_get(b, &r);
	breakdown_free(b);
	return r;
}

static void compile(struct breakdown *b, uint16_t depth, uint64_t start, uint64_t end)
{
	static const struct op_desc desc = {.name = "dynamo::compile_forward"};
	struct op_event ev = sample_event(1, 0, 0, start, end);
	ev.tid = MAIN;
	ev.depth = depth;
	ev.op = &desc;
	ev.phase = PHASE_COMPILE;
	ev.stack = ev.where_stack = stack(FORWARD);
	assert_int_equal(breakdown_add(b, &ev), 0);
}

/* A step that compiles, by itself and within an op, is not counted, and what compiles is in no
 * part. */
static void compilations_are_left_out(void **state)
{
	(void)state;
	struct breakdown *b = breakdown_new();
	uint64_t at = step(b, 1000, MAIN);
	at = step(b, at, MAIN);
	compile(b, 0, at, at + 300);
	compile(b, 1, at + 310, at + 500);
	add(b, MAIN, FORWARD, at + 305, at + 510);
	at = step(b, at + 1000, MAIN);
	step(b, at, MAIN);
	add(b, MAIN, FORWARD, at + 2000, at + 2001);
	struct breakdown_result r = result(b);
	assert_int_equal(r.compilations, 2);
	assert_int_equal(r.compile_ns, 490);
	assert_int_equal(r.compile_steps, 1);
	assert_int_equal(r.steps, 2);
	assert_int_equal(r.wall_ns, 2000);
	assert_int_equal(r.parts[BREAKDOWN_FORWARD], 200);
}

static void check_steps(int backward_tid)
{
	struct breakdown *b = breakdown_new();
	uint64_t at = step(b, 5000000, backward_tid);
	for (int i = 0; i < 3; i++)
		at = step(b, at, backward_tid);
	add(b, MAIN, FORWARD, at + 9000, at + 9100);
	struct breakdown_result r = result(b);
	assert_int_equal(r.steps, 3);
	assert_int_equal(r.processes, 1);
	assert_int_equal(r.wall_ns, 3000);
	assert_in_range(r.median_ns, 970, 1030);
	assert_int_equal(r.parts[BREAKDOWN_DATA], 1350);
	assert_int_equal(r.parts[BREAKDOWN_FORWARD], 300);
	assert_int_equal(r.parts[BREAKDOWN_BACKWARD], 300);
	assert_int_equal(r.parts[BREAKDOWN_OPTIMIZER], 600);
	assert_int_equal(r.parts[BREAKDOWN_NO_OP], 450);
	assert_int_equal(r.data.line, 3);
	assert_int_equal(r.data.ns, 1350);
	assert_int_equal(r.no_op.line, 7);
	assert_int_equal(r.no_op.ns, 300);
	assert_true(r.loads_itself);
}

static void parts_of_steps(void **state)
{
	(void)state;
	check_steps(MAIN);
}

/* The first thread waits for it. */
static void backward_in_another_thread(void **state)
{
	(void)state;
	check_steps(OTHER);
}

static void without_steps_all_ops_count(void **state)
{
	(void)state;
	struct breakdown *b = breakdown_new();
	add(b, MAIN, FORWARD, 100, 200);
	add(b, MAIN, FORWARD, 500, 600);
	struct breakdown_result r = result(b);
	assert_int_equal(r.steps, 0);
	assert_int_equal(r.wall_ns, 500);
	assert_int_equal(r.parts[BREAKDOWN_FORWARD], 200);
	assert_int_equal(r.no_op.ns, 300);
}

static void workers_do_not_count(void **state)
{
	(void)state;
	struct breakdown *b = breakdown_new();
	add(b, MAIN, WORKER, 100, 200);
	assert_int_equal(result(b).wall_ns, 0);
	assert_true(breakdown_is_worker(stack(WORKER)));
	assert_true(breakdown_is_worker(stack(FEED)));
	assert_false(breakdown_is_worker(stack(DATA)));
}

/* As when it is attached to while the main thread waits. */
static void a_helper_before_the_thread_that_trains(void **state)
{
	(void)state;
	static const enum stack helpers[] = {PIN, FEED};
	for (size_t i = 0; i < sizeof(helpers) / sizeof(*helpers); i++) {
		struct breakdown *b = breakdown_new();
		add(b, OTHER, helpers[i], 50, 60);
		add(b, MAIN, FORWARD, 100, 200);
		struct breakdown_result r = result(b);
		assert_int_equal(r.wall_ns, 100);
		assert_int_equal(r.parts[BREAKDOWN_FORWARD], 100);
	}
}

/* A step that calls the forward and the backward, as that of LBFGS. */
static void a_closure_is_not_the_optimizer(void **state)
{
	(void)state;
	struct breakdown *b = breakdown_new();
	add(b, MAIN, CLOSURE, 100, 200);
	add(b, MAIN, OPTIMIZER, 200, 300);
	struct breakdown_result r = result(b);
	assert_int_equal(r.parts[BREAKDOWN_FORWARD], 100);
	assert_int_equal(r.parts[BREAKDOWN_OPTIMIZER], 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parts_of_steps),
	    cmocka_unit_test(compilations_are_left_out),
	    cmocka_unit_test(backward_in_another_thread),
	    cmocka_unit_test(without_steps_all_ops_count),
	    cmocka_unit_test(workers_do_not_count),
	    cmocka_unit_test(a_helper_before_the_thread_that_trains),
	    cmocka_unit_test(a_closure_is_not_the_optimizer),
	};
	return unit_run(tests, NULL, NULL);
}
