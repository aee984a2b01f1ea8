/* Which Python stacks are of a compilation of torch.compile, and which of a backward. */
#include "tests/unit/unit.h"

#include "symbolizer/event/event.h"

#define TORCH "/lib/torch/"
#define COMPILED_BACKWARD TORCH "_functorch/_aot_autograd/runtime_wrappers.py"

static bool compiles(const char *file, const char *function, unsigned at, bool truncated)
{
	static const struct py_frame other = {.file = "/train.py", .function = "_compile"};
	static struct {
		struct py_stack s;
		const struct py_frame *room[3];
	} on;
	const struct py_frame f = {.file = file, .function = function, .is_torch = true};
	on.s.depth = 3;
	on.s.truncated = truncated;
	const struct py_frame **frames = (const struct py_frame **)on.s.frames;
	for (unsigned i = 0; i < 3; i++)
		frames[i] = i == at ? &f : &other;
	return py_stack_compiles(&on.s);
}

static void forward(void **state)
{
	(void)state;
	assert_true(compiles(TORCH "_dynamo/convert_frame.py", "_compile", 2, false));
	assert_true(compiles(TORCH "_dynamo/convert_frame.py", "_compile", 0, false));
	assert_false(compiles(TORCH "_dynamo/convert_frame.py", "ConvertFrame.__call__", 2, false));
	assert_false(compiles(TORCH "utils/checkpoint.py", "_compile", 2, false));
	assert_false(py_stack_compiles(NULL));
}

static void backward(void **state)
{
	(void)state;
	assert_true(compiles(COMPILED_BACKWARD, "Lazy.get_or_compile", 1, false));
	assert_true(compiles(COMPILED_BACKWARD, "get_or_compile", 1, false));
	/* It may have compiled before. */
	assert_false(compiles(COMPILED_BACKWARD, "Lazy.get_or_compile", 0, false));
	assert_true(compiles(TORCH "_dynamo/backends/common.py",
			     "AotAutograd.__call__.<locals>._wrapped_bw_compiler", 2, false));
}

static void outer_frames_are_missing(void **state)
{
	(void)state;
	static const char file[] = TORCH "_dynamo/symbolic_convert.py";
	assert_true(compiles(file, "InstructionTranslatorBase.run", 2, true));
	assert_false(compiles(file, "InstructionTranslatorBase.run", 2, false));
	assert_false(compiles(file, "<module>", 2, true));
}

static bool in_backward(const char *file, const char *function, bool innermost)
{
	static const struct py_frame other = {.file = "/train.py", .function = "apply"};
	static struct {
		struct py_stack s;
		const struct py_frame *room[2];
	} on;
	const struct py_frame f = {.file = file, .function = function, .is_torch = true};
	const struct py_frame **frames = (const struct py_frame **)on.s.frames;
	on.s.depth = 2;
	frames[innermost ? 0 : 1] = &f;
	frames[innermost ? 1 : 0] = &other;
	return py_stack_is_in_backward(&on.s);
}

static void engine_runs(void **state)
{
	(void)state;
	static const char function[] = TORCH "autograd/function.py",
			  graph[] = TORCH "autograd/graph.py";
	assert_true(in_backward(function, "BackwardCFunction.apply", true));
	assert_true(in_backward(function, "BackwardCFunction.apply", false));
	assert_false(in_backward(function, "Function.apply", true));
	assert_false(in_backward("/train.py", "BackwardCFunction.apply", true));
	assert_true(in_backward(graph, "_engine_run_backward", true));
	/* What it calls may be a hook that runs when the backward has ended. */
	assert_false(in_backward(graph, "_engine_run_backward", false));
	assert_false(py_stack_is_in_backward(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(forward),
	    cmocka_unit_test(backward),
	    cmocka_unit_test(outer_frames_are_missing),
	    cmocka_unit_test(engine_runs),
	};
	return unit_run(tests, NULL, NULL);
}
