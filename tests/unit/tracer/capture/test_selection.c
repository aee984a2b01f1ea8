
#include "tests/unit/unit.h"

#include <errno.h>

#include "tracer/capture/internal.h"

static struct op_desc op(uint32_t id, const char *name)
{
	return (struct op_desc){.id = id, .kind = OP_DISPATCHED, .name = name, .schema = ""};
}

static void ranges(void **state)
{
	(void)state;
	struct ranges r = {0};
	assert_true(ranges_have(&r, 1));
	assert_false(ranges_over(&r, UINT64_MAX));
	assert_int_equal(ranges_parse("--nth", "3,10-20", &r, NULL), 0);
	static const uint64_t in[] = {3, 10, 15, 20}, out[] = {1, 2, 4, 9, 21, UINT64_MAX};
	for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++)
		assert_true(ranges_have(&r, in[i]));
	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++)
		assert_false(ranges_have(&r, out[i]));
	assert_false(ranges_over(&r, 20));
	assert_true(ranges_over(&r, 21));
	ranges_free(&r);
	assert_int_equal(ranges_parse("--nth", "5-", &r, NULL), 0);
	assert_false(ranges_have(&r, 4));
	assert_true(ranges_have(&r, UINT64_MAX));
	assert_false(ranges_over(&r, UINT64_MAX));
	ranges_free(&r);
}

static void ranges_that_are_none(void **state)
{
	(void)state;
	static const char *const bad[] = {"",	 "x",	 "1,",	  ",1",
					  "0",	 "3-1",	 "1-2-3", "-3",
					  "1 2", "1--2", "1;2",	  "99999999999999999999999"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ranges r;
		struct err e = {0};
		if (ranges_parse("--steps", bad[i], &r, &e) != -EINVAL)
			fail_msg("\"%s\" is taken for a range", bad[i]);
		assert_non_null(strstr(e.what, "--steps"));
		assert_true(e.hint[0]);
		assert_null(r.list);
	}
}

/* The ops matched by one of ditorch's lists, a letter each. */
static const char *listed(const char *text)
{
	static const char *const names[] = {"aten::add.Tensor", "aten::add_.Tensor", "aten::linear",
					    "aten::_to_copy", "aten::mul.Tensor"};
	static const struct op_arg self = {.name = "self"}, input = {.name = "input"};
	static const char letters[] = "aAlcm";
	static char out[sizeof(letters)];
	struct oplist l;
	struct err e = {0};
	size_t n = 0;
	if (oplist_compile("OP_CAPTURE_LIST", text, &l, &e))
		fail_msg("%s", e.what);
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct op_desc d = op(i, names[i]);
		d.nargs = 1;
		d.args = strstr(names[i], "linear") ? &input : &self;
		if (oplist_match(&l, &d))
			out[n++] = letters[i];
	}
	out[n] = '\0';
	oplist_free(&l);
	return out;
}

/* As `name in re.findall(item, name)` in Python. */
static void lists_of_ditorch(void **state)
{
	(void)state;
	assert_string_equal(listed(".*"), "aAlcm");
	assert_string_equal(listed(""), "");
	assert_string_equal(listed("add"), "");
	assert_string_equal(listed("torch.add"), "a");
	assert_string_equal(listed("torch.Tensor.add"), "a");
	assert_string_equal(listed("torch.Tensor.__add__"), "a");
	assert_string_equal(listed("torch.Tensor.add_,torch.nn.functional.linear"), "Al");
	assert_string_equal(listed("torch.Tensor.*"), "aAm");
	assert_string_equal(listed("torch.Tensor.add.?"), "aA");
	assert_string_equal(listed("torch\\.nn\\.functional\\.\\w+"), "l");
	/* re.findall returns the group. */
	assert_string_equal(listed("(torch.add|torch.mul)"), "am");
	assert_string_equal(listed("torch.(add|mul)"), "");
	assert_string_equal(listed("torch.(?:add|mul)"), "am");
	assert_string_equal(listed("(torch).(add)"), "");
	/* The first alternative wins, not the longest. */
	assert_string_equal(listed("torch.a|torch.add"), "");
	assert_string_equal(listed("torch.add|torch.a"), "a");
	assert_string_equal(listed("|torch.add"), "a");
	assert_string_equal(listed("torch.ops.aten._to_copy.default"), "c");
	assert_string_equal(listed(" torch.add"), "");
}

static void lists_that_are_none(void **state)
{
	(void)state;
	struct oplist l;
	struct err e = {0};
	assert_int_equal(oplist_compile("OP_CAPTURE_LIST", "torch.add,torch.(mul", &l, &e),
			 -EINVAL);
	assert_non_null(strstr(e.what, "OP_CAPTURE_LIST: item 2, \"torch.(mul\""));
	assert_null(l.items);
}

/* A letter for each call: y (taken), . (not taken), o (over). */
static const char *answers(struct selection *s, const struct op_desc *d, int n)
{
	static char out[64];
	struct op_event ev = {.op = d, .tid = 1};
	int i;
	for (i = 0; i < n; i++) {
		selection_see(s, &ev);
		out[i] = ".yo"[selection_choose(s, &ev, (struct call_count){0})];
	}
	out[i] = '\0';
	return out;
}

/* The selection takes the same calls as an engine. */
static void picked_as(const char *nth, uint64_t every)
{
	struct selection_policy p = {.every = every};
	struct op_desc add = op(3, "aten::add.Tensor");
	struct op_event ev = {.op = &add, .tid = 1};
	uint64_t chosen = 0;
	struct selection s = {.policy = &p, .chosen = &chosen};
	struct pick pick;
	if (nth)
		assert_int_equal(ranges_parse("--nth", nth, &p.nth, NULL), 0);
	assert_true(selection_pick(&p, &pick));
	for (uint64_t n = 1; n < 60; n++) {
		enum selection_answer here = selection_choose(&s, &ev, (struct call_count){0});
		const struct call_count count = {CALL_NUMBERED, n};
		assert_int_equal(pick_takes(&pick, n), here == SELECTION_YES);
		assert_int_equal(selection_choose(&s, &ev, count), here);
	}
	selection_free(&s);
	selection_policy_free(&p);
}

static void an_engine_picks_the_same(void **state)
{
	(void)state;
	static const char *const nths[] = {"1", "3,7-9,40", "2-20", "5-", "1-2,4,6,8-100"};
	for (uint64_t every = 0; every < 5; every++) {
		for (size_t k = 0; k < sizeof(nths) / sizeof(nths[0]); k++)
			picked_as(nths[k], every);
		if (every > 1)
			picked_as(NULL, every);
	}
}

static void an_engine_cannot_pick_all(void **state)
{
	(void)state;
	static const char *const nths[] = {"3-5,4", "7,3", "1,3,5,7,9,11,13,15,17"};
	struct pick pick;
	for (size_t k = 0; k < sizeof(nths) / sizeof(nths[0]); k++) {
		struct selection_policy p = {0};
		assert_int_equal(ranges_parse("--nth", nths[k], &p.nth, NULL), 0);
		assert_false(selection_pick(&p, &pick));
		selection_policy_free(&p);
	}
}

static void calls_are_counted_for_each_op(void **state)
{
	(void)state;
	struct selection_policy p = {0};
	uint64_t chosen = 0;
	struct selection s = {.policy = &p, .chosen = &chosen};
	struct op_desc add = op(3, "aten::add.Tensor"), mul = op(300, "aten::mul.Tensor");

	assert_int_equal(ranges_parse("--nth", "2,4-5", &p.nth, NULL), 0);
	assert_string_equal(answers(&s, &add, 3), ".y.");
	assert_string_equal(answers(&s, &mul, 6), ".y.yy.");
	assert_string_equal(answers(&s, &add, 3), "yy.");
	assert_int_equal(chosen, 6);
	/* Ops registered only in one process have no number. */
	struct op_desc one = op(0, "mine::one"), two = op(0, "mine::two");
	assert_string_equal(answers(&s, &one, 3), ".y.");
	assert_string_equal(answers(&s, &two, 3), ".y.");
	selection_free(&s);
	selection_policy_free(&p);
}

static void processes_come_and_go(void **state)
{
	(void)state;
	struct selections s = {0};
	struct op_desc add = op(3, "aten::add.Tensor");

	assert_int_equal(ranges_parse("--nth", "2", &s.policy.nth, NULL), 0);
	struct selection *stays = selections_of(&s, 1);
	assert_string_equal(answers(stays, &add, 1), ".");
	for (pid_t pid = 2; pid < 3 * SELECTIONS_MAX; pid++) {
		struct selection *one = selections_of(&s, pid);
		assert_non_null(one);
		assert_string_equal(answers(one, &add, 3), ".y.");
		assert_ptr_equal(selections_of(&s, pid), one);
		selections_forget(&s, pid);
	}
	assert_ptr_equal(selections_of(&s, 1), stays);
	assert_string_equal(answers(stays, &add, 2), "y.");
	/* A number used again belongs to another process. */
	assert_string_equal(answers(selections_of(&s, 2), &add, 2), ".y");
	for (pid_t pid = 3; pid <= SELECTIONS_MAX; pid++)
		assert_non_null(selections_of(&s, pid));
	assert_null(selections_of(&s, SELECTIONS_MAX + 1));
	selections_free(&s);
}

static void every_and_the_most(void **state)
{
	(void)state;
	struct selection_policy p = {.every = 3, .max_calls = 4};
	uint64_t chosen = 0;
	struct selection s = {.policy = &p, .chosen = &chosen}, other = s;
	struct op_desc add = op(0, "aten::add.Tensor"), mul = op(1, "aten::mul.Tensor"),
		       node = {.kind = OP_BACKWARD, .name = "AddBackward0"};

	assert_string_equal(answers(&s, &add, 7), "y..y..y");
	assert_string_equal(answers(&s, &node, 2), "..");
	/* The limit counts all processes together. */
	assert_string_equal(answers(&other, &mul, 3), "yoo");
	assert_string_equal(answers(&s, &add, 2), "oo");
	assert_int_equal(chosen, 4);
	selection_free(&s);
	selection_free(&other);
	p = (struct selection_policy){.every = 2};
	assert_int_equal(ranges_parse("--nth", "3-7", &p.nth, NULL), 0);
	assert_string_equal(answers(&s, &add, 9), "..y.y.y..");
	selection_free(&s);
	selection_policy_free(&p);
}

static void lists_from_the_environment(void **state)
{
	(void)state;
	struct selection_policy p = {0};
	struct op_desc add = op(0, "aten::add.Tensor"), mul = op(1, "aten::mul.Tensor");
	struct err e = {0};

	unsetenv("OP_CAPTURE_LIST");
	unsetenv("OP_CAPTURE_DISABLE_LIST");
	assert_int_equal(selection_environment(&p, &selection_capture, &e), 0);
	assert_true(selection_wants_op(&p, &add));
	setenv("OP_CAPTURE_DISABLE_LIST", "torch.Tensor.add", 1);
	assert_int_equal(selection_environment(&p, &selection_capture, &e), 0);
	assert_false(selection_wants_op(&p, &add));
	assert_true(selection_wants_op(&p, &mul));
	setenv("OP_CAPTURE_LIST", "torch.Tensor.add", 1);
	selection_policy_free(&p);
	assert_int_equal(selection_environment(&p, &selection_capture, &e), 0);
	assert_false(selection_wants_op(&p, &add));
	assert_false(selection_wants_op(&p, &mul));
	setenv("OP_CAPTURE_LIST", "", 1);
	setenv("OP_CAPTURE_DISABLE_LIST", "", 1);
	selection_policy_free(&p);
	assert_int_equal(selection_environment(&p, &selection_capture, &e), 0);
	assert_false(selection_wants_op(&p, &mul));
	selection_policy_free(&p);
	setenv("OP_CAPTURE_LIST", "(", 1);
	assert_int_equal(selection_environment(&p, &selection_capture, &e), -EINVAL);
	selection_policy_free(&p);
	unsetenv("OP_CAPTURE_LIST");
	unsetenv("OP_CAPTURE_DISABLE_LIST");
	setenv("OP_OVERFLOW_CHECK_LIST", "torch.Tensor.mul", 1);
	setenv("OP_OVERFLOW_CHECK_DISABLE_LIST", "torch.sub", 1);
	assert_int_equal(selection_environment(&p, &selection_overflow, &e), 0);
	assert_true(selection_wants_op(&p, &mul));
	assert_false(selection_wants_op(&p, &add));
	assert_int_equal(p.disabled.n, 1);
	selection_policy_free(&p);
	unsetenv("OP_OVERFLOW_CHECK_LIST");
	unsetenv("OP_OVERFLOW_CHECK_DISABLE_LIST");
}

/* A stack of frames, innermost first. */
#define STACK(n, ...)                                                                              \
	((const struct py_stack *)&(const struct {                                                 \
		struct py_stack s;                                                                 \
		const struct py_frame *frames[n];                                                  \
	}){{.depth = (n)}, {__VA_ARGS__}})

static const struct py_frame line10 = {.id = 1, .file = "train.py", .function = "main", .line = 10},
			     line11 = {.id = 2, .file = "train.py", .function = "main", .line = 11},
			     sgd = {.id = 3,
				    .file = "/venv/torch/optim/sgd.py",
				    .function = "SGD.step",
				    .is_torch = true},
			     inner = {.id = 4,
				      .file = "/venv/torch/optim/sgd.py",
				      .function = "_single_tensor_sgd",
				      .is_torch = true},
			     wrapper = {.id = 5,
					.file = "/venv/torch/optim/optimizer.py",
					.function = "Optimizer.profile_hook_step.<locals>.wrapper",
					.is_torch = true},
			     own = {.id = 6, .file = "mine.py", .function = "My.step"},
			     schedule = {.id = 7,
					 .file = "/venv/torch/optim/lr_scheduler.py",
					 .function = "LRScheduler.step",
					 .is_torch = true};

static uint64_t see(struct steps *s, const struct py_stack *stack, int32_t tid)
{
	struct op_desc d = op(0, "aten::add_.Tensor");
	struct op_event ev = {.op = &d, .stack = stack, .tid = tid};
	return steps_see(s, &ev);
}

static void steps_of_the_optimizer(void **state)
{
	(void)state;
	const struct py_stack *forward = STACK(1, &line10),
			      *step = STACK(4, &inner, &sgd, &wrapper, &line10),
			      *second = STACK(3, &sgd, &wrapper, &line11),
			      *mine = STACK(3, &own, &wrapper, &line10),
			      *rate = STACK(2, &schedule, &line11);
	struct steps s = {0};

	assert_int_equal(see(&s, forward, 1), 1);
	assert_int_equal(see(&s, step, 1), 1);
	assert_int_equal(see(&s, step, 1), 1);
	assert_int_equal(see(&s, NULL, 9), 1); /* another thread */
	assert_int_equal(see(&s, step, 1), 1);
	assert_int_equal(see(&s, forward, 1), 2);
	assert_int_equal(see(&s, mine, 1), 2);
	assert_int_equal(see(&s, rate, 1), 3);
	assert_int_equal(see(&s, step, 1), 3);
	assert_int_equal(see(&s, second, 1), 4); /* two optimizers in a row */
	assert_int_equal(see(&s, NULL, 1), 5);
	assert_int_equal(see(&s, step, 9), 5); /* an optimizer on another thread */
	assert_int_equal(see(&s, forward, 9), 5);
}

static uint64_t see_op(struct selection *s, const struct op_desc *d, int32_t tid, uint16_t depth)
{
	struct op_event ev = {.op = d, .tid = tid, .depth = depth};
	return selection_see(s, &ev);
}

static void steps_of_an_op(void **state)
{
	(void)state;
	struct selection_policy p = {0};
	uint64_t chosen = 0;
	struct selection s = {.policy = &p, .chosen = &chosen};
	struct op_desc add = op(0, "aten::add.Tensor"), end = op(1, "aten::sum");

	assert_int_equal(filter_compile("--step-op", "aten::sum", &p.step_op, NULL), 0);
	assert_int_equal(ranges_parse("--steps", "2-3", &p.steps, NULL), 0);
	assert_int_equal(see_op(&s, &add, 1, 0), 1);
	assert_string_equal(answers(&s, &add, 1), ".");
	assert_int_equal(see_op(&s, &end, 1, 0), 1);
	assert_int_equal(see_op(&s, &add, 1, 1), 1); /* called by it */
	assert_int_equal(see_op(&s, &add, 2, 0), 1); /* another thread */
	assert_int_equal(see_op(&s, &end, 1, 0), 2);
	assert_string_equal(answers(&s, &add, 2), "yy");
	assert_int_equal(see_op(&s, &end, 1, 0), 3);
	assert_int_equal(see_op(&s, &add, 1, 0), 4);
	assert_string_equal(answers(&s, &add, 1), "o");
	selection_free(&s);
	selection_policy_free(&p);
}

static void add_place(struct capture *c, pid_t pid, int32_t rank, bool worker)
{
	const struct trace_process told = {.pid = pid, .worker = worker, .rank.rank = rank};
	capture_places_add(c, &told);
}

/* A launcher is told anew when its ranks are there, which may have been started again. */
static void a_worker_is_of_the_last_start(void **state)
{
	struct capture c = {.files.root = "/nowhere"};
	char place[32];
	(void)state;
	add_place(&c, 1, 7, false);
	add_place(&c, 2, 0, false);
	add_place(&c, 3, 0, false);
	add_place(&c, 1, -1, false);
	add_place(&c, 4, 0, true);
	capture_place_of(&c, 4, place, sizeof(place));
	assert_string_equal(place, "rank0.1");
	capture_place_of(&c, 1, place, sizeof(place));
	assert_string_equal(place, "");
	free(c.processes.all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ranges),
	    cmocka_unit_test(ranges_that_are_none),
	    cmocka_unit_test(lists_of_ditorch),
	    cmocka_unit_test(lists_that_are_none),
	    cmocka_unit_test(an_engine_picks_the_same),
	    cmocka_unit_test(an_engine_cannot_pick_all),
	    cmocka_unit_test(calls_are_counted_for_each_op),
	    cmocka_unit_test(processes_come_and_go),
	    cmocka_unit_test(every_and_the_most),
	    cmocka_unit_test(lists_from_the_environment),
	    cmocka_unit_test(steps_of_the_optimizer),
	    cmocka_unit_test(steps_of_an_op),
	    cmocka_unit_test(a_worker_is_of_the_last_start),
	};
	return unit_run(tests, NULL, NULL);
}
