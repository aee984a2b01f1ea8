

#include "tests/unit/unit.h"

#include <errno.h>

#include "symbolizer/when/when.h"
#include "tests/unit/when_sample.h"

static const struct op_desc *const both_ops[] = {&when_op, &when_other_op};

static struct when *compiled(const char *text)
{
	struct when *w = NULL;
	struct err e = {0};
	if (when_compile("--when", text, &w, &e))
		fail_msg("%s: %s (%s)", text, e.what, e.hint);
	return w;
}

/* T, F, U(nknown), L(ater) */
static char evaluate(const char *text, const struct op_event *ev, enum when_moment at)
{
	struct when *w = compiled(text);
	char r = "FTUL"[when_eval(w, ev, at)];
	when_free(w);
	return r;
}

struct example {
	const char *text;
	char result;
};

static void check_all(const struct example *x, size_t n, const struct op_event *ev)
{
	for (size_t i = 0; i < n; i++) {
		char r = evaluate(x[i].text, ev, WHEN_AT_EXIT);
		if (r != x[i].result)
			fail_msg("%s: %c, not %c", x[i].text, r, x[i].result);
		/* A decision at the entry holds at the exit. */
		char entry = evaluate(x[i].text, ev, WHEN_AT_ENTRY);
		if (entry != 'L' && entry != r)
			fail_msg("%s: %c at the entry, %c at the exit", x[i].text, entry, r);
	}
}

#define CHECK(examples, ev) check_all(examples, sizeof(examples) / sizeof((examples)[0]), ev)

static void numbers(void **state)
{
	static const struct example examples[] = {
	    {"1 < 2", 'T'},
	    {"2 <= 2", 'T'},
	    {"2 < 2", 'F'},
	    {"3 > 2 >= 2", 'T'},
	    {"1 < 3 < 2", 'F'},
	    {"1 == 1.0", 'T'},
	    {"1 != 1.0", 'F'},
	    {"True == 1", 'T'},
	    {"False", 'F'},
	    {"0.0", 'F'},
	    {"1e-9", 'T'},
	    {".5 + .5 == 1", 'T'},
	    {"1_000_000 == 1e6", 'T'},
	    {"0xff == 255", 'T'},
	    {"010 == 10", 'T'},
	    {"2 + 3 * 4 == 14", 'T'},
	    {"(2 + 3) * 4 == 20", 'T'},
	    {"10 - 4 - 3 == 3", 'T'},
	    {"7 / 2 == 3.5", 'T'},
	    {"7 // 2 == 3", 'T'},
	    {"-7 // 2 == -4", 'T'},
	    {"7 // -2 == -4", 'T'},
	    {"-7 % 3 == 2", 'T'},
	    {"7 % -3 == -2", 'T'},
	    {"-6 % 3 == 0", 'T'},
	    {"-7.5 % 2 == 0.5", 'T'},
	    {"7.5 // 2 == 3", 'T'},
	    {"5 // -1 == -5", 'T'},
	    {"5 % -1 == 0", 'T'},
	    {"--3 == 3", 'T'},
	    {"+3 == 3", 'T'},
	    {"-2 * -3 == 6", 'T'},
	    {"1 / 0 > 0", 'F'},
	    {"not (1 / 0 > 0)", 'F'},
	    {"1 % 0 == 0 or 1 == 1", 'T'},
	    /* exact, where doubles are rounded */
	    {"9007199254740993 == 9007199254740992.0", 'F'},
	    {"9007199254740993 > 9007199254740992.0", 'T'},
	    {"18446744073709551615 + 1 == 18446744073709551616.0", 'T'},
	    {"2 < 2.5", 'T'},
	    {"-2 > -2.5", 'T'},
	    {"1e300 > 5", 'T'},
	    {"2ms == 0.002", 'T'},
	    {"1.5s > 100us", 'T'},
	    {"3ns < 1us", 'T'},
	};
	struct op_event ev = when_event();
	(void)state;
	CHECK(examples, &ev);
}

static void logic(void **state)
{
	/* eps is not decoded; None and the like do not apply. */
	static const struct example examples[] = {
	    {"eps > 0", 'U'},
	    {"not eps > 0", 'U'},
	    {"eps > 0 and 1 > 2", 'F'},
	    {"1 > 2 and eps > 0", 'F'},
	    {"eps > 0 and 2 > 1", 'U'},
	    {"eps > 0 or 2 > 1", 'T'},
	    {"2 > 1 or eps > 0", 'T'},
	    {"eps > 0 or 1 > 2", 'U'},
	    {"not (eps > 0 or 2 > 1)", 'F'},
	    {"not (eps > 0 and 1 > 2)", 'T'},
	    {"eps is None", 'U'},
	    {"eps == eps", 'U'},
	    {"1 < eps < 0", 'U'},
	    {"1 < 0 < eps", 'F'},
	    {"1 / 0 == 1", 'F'},
	    {"not 1 / 0 == 1", 'F'},
	    {"1 / 0 == 1 or 2 > 1", 'T'},
	    {"1 / 0 == 1 and 2 > 1", 'F'},
	    {"not (1 / 0 == 1 or 1 > 2)", 'F'},
	    {"not (1 / 0 == 1 and 1 > 2)", 'T'},
	    {"1 / 0 == 1 or eps > 0", 'U'},
	    {"1 / 0 == 1 and eps > 0", 'U'},
	    {"1 / 0 == eps", 'F'},
	    {"eps / 0 == 1", 'U'},
	    {"not not 1", 'T'},
	    {"not 1 == 2", 'T'},
	    {"1 == 1 or 1 == 1 and 1 == 2", 'T'},
	    {"(1 == 1 or 1 == 1) and 1 == 2", 'F'},
	    {"not 1 == 2 and 1 == 1", 'T'},
	    {"nothing == 1", 'F'},
	    {"not nothing == 1", 'F'},
	    {"nothing is None", 'F'},
	    {"nothing is not None", 'F'},
	    {"nothing == 1 or depth == 1", 'T'},
	};
	struct op_event ev = when_event();
	(void)state;
	CHECK(examples, &ev);
}

static void tensors(void **state)
{
	static const struct example examples[] = {
	    {"self.dtype == float16 or self.dim() == 2", 'T'},
	    {"self.dtype == torch.float16", 'T'},
	    {"self.dtype == half", 'T'},
	    {"self.dtype == float", 'F'},
	    {"self.dtype != float16", 'F'},
	    {"self.dtype in (bfloat16, float16)", 'T'},
	    {"self.dtype not in [bfloat16, int64]", 'T'},
	    {"other.dtype == long", 'T'},
	    {"self.shape[2] > 128 and \"norm.py\" in file", 'T'},
	    {"self.shape == (2, 3, 200)", 'T'},
	    {"(2, 3, 200) == self.size()", 'T'},
	    {"self.shape == (2, 3)", 'F'},
	    {"self.shape != (2, 3)", 'T'},
	    {"self.shape == [2, 3, 201]", 'F'},
	    {"self.shape == self.shape", 'T'},
	    {"self.shape == dims", 'F'},
	    {"self.shape[-1] == 200", 'T'},
	    {"self.shape[-4] == 200", 'F'},
	    {"not self.shape[3] == 200", 'F'},
	    {"self.size(1) == 3", 'T'},
	    {"self.size(-3) == 2", 'T'},
	    {"self.stride(0) == 600", 'T'},
	    {"self.stride == (600, 200, 1)", 'T'},
	    {"other.stride()[1] == 9", 'T'},
	    {"len(self.shape) == self.ndim == self.dim() == 3", 'T'},
	    {"3 in self.shape", 'T'},
	    {"4 in self.shape", 'F'},
	    {"4 not in self.shape", 'T'},
	    {"numel(self) == self.numel() == self.numel == 1200", 'T'},
	    {"self.nbytes == 2400", 'T'},
	    {"self.itemsize == 2 and other.element_size() == 8", 'T'},
	    {"self.storage_offset() == 7", 'T'},
	    {"self.data_ptr == 0x7f0012345678", 'T'},
	};
	struct op_event ev = when_event();
	(void)state;
	CHECK(examples, &ev);
}

static void devices_and_layouts_of_tensors(void **state)
{
	static const struct example examples[] = {
	    {"self.device == 'cuda:1'", 'T'},
	    {"self.device == 'cuda'", 'T'},
	    {"self.device == 'cuda:0'", 'F'},
	    {"self.device != 'cpu'", 'T'},
	    {"self.device.type == 'cuda' and self.device.index == 1", 'T'},
	    {"other.device.index is None", 'T'},
	    {"other.device == 'cpu'", 'T'},
	    {"device == 'cpu'", 'T'},
	    {"other.device == device", 'T'},
	    {"self.device == device", 'F'},
	    {"self.layout == strided", 'T'},
	    {"self.layout == sparse_coo", 'F'},
	    {"self.requires_grad", 'T'},
	    {"not other.requires_grad()", 'T'},
	    {"arg0.requires_grad", 'T'},
	    {"self.is_contiguous()", 'T'},
	    {"other.is_contiguous()", 'F'},
	    {"tensors[1].is_contiguous()", 'T'},
	    {"tensors[1].shape == ()", 'T'},
	    {"not tensors[1].shape", 'T'},
	};
	struct op_event ev = when_event();
	(void)state;
	CHECK(examples, &ev);
}

static void unknown_and_absent_tensors(void **state)
{
	static const struct example examples[] = {
	    {"dark.dtype == float32", 'T'}, {"dark.shape == (1,)", 'U'},
	    {"dark.numel > 1", 'U'},	    {"dark.nbytes > 1", 'U'},
	    {"dark.device == 'cpu'", 'U'},  {"dark.is_contiguous", 'U'},
	    {"dark.requires_grad", 'U'},    {"dark.dim() == 2 or dark.dtype == float32", 'T'},
	    {"bias.dtype == float16", 'F'}, {"not bias.dtype == float16", 'F'},
	    {"bias is None", 'T'},	    {"bias is not None", 'F'},
	    {"bias == None", 'T'},	    {"self != None", 'T'},
	    {"self is not None", 'T'},
	};
	struct op_event ev = when_event();
	(void)state;
	CHECK(examples, &ev);
}

static void arguments(void **state)
{
	static const struct example examples[] = {
	    {"alpha == 2", 'T'},
	    {"not (alpha == 1)", 'T'},
	    {"args[2] == 2", 'T'},
	    {"args['alpha'] == 2", 'T'},
	    {"args['alpha'] == args[2] == arg2", 'T'},
	    {"args['line'] == 5", 'T'},
	    {"line == 13", 'T'},
	    {"args[-1] == 5", 'T'},
	    {"args[3] is None", 'T'},
	    {"args[99] is None", 'F'},
	    {"args[99] is not None", 'F'},
	    {"args['nothing'] is None", 'F'},
	    {"len(args) == 19", 'T'},
	};
	struct op_event ev = when_event();
	(void)state;
	CHECK(examples, &ev);
}

static void values(void **state)
{
	static const struct example examples[] = {
	    {"big == 18446744073709551615", 'T'},
	    {"big > 0", 'T'},
	    {"big + 1 == 2.0 * 9223372036854775808", 'T'},
	    {"value == 3", 'T'},
	    {"value != 3.5", 'T'},
	    {"value < 4", 'F'},
	    {"flag", 'T'},
	    {"flag == True", 'T'},
	    {"flag + 1 == 2", 'T'},
	    {"p == 0.5", 'T'},
	    {"p", 'T'},
	};
	struct op_event ev = when_event();
	(void)state;
	CHECK(examples, &ev);
}

static void strings(void **state)
{
	static const struct example examples[] = {
	    {"mode == 'bilinear'", 'T'},
	    {"mode == \"bicubic\"", 'F'},
	    {"'linear' in mode", 'T'},
	    {"'x' not in mode", 'T'},
	    {"mode in ('nearest', 'bilinear')", 'T'},
	    {"mode.startswith('bi')", 'T'},
	    {"mode.startswith('')", 'T'},
	    {"mode.endswith('linear')", 'T'},
	    {"mode.endswith('a long bilinear')", 'F'},
	    {"len(mode) == 8", 'T'},
	    {"'a' < mode < 'c'", 'T'},
	    {"'bilinea' < mode", 'T'},
	    {"mode < 3", 'F'},
	    {"'it\\'s \\\\' == \"it's \\\\\"", 'T'},
	};
	struct op_event ev = when_event();
	(void)state;
	CHECK(examples, &ev);
}

static void names_and_lists(void **state)
{
	static const struct example examples[] = {
	    {"dtype == bfloat16", 'T'},
	    {"memory_format == channels_last", 'T'},
	    {"layout == strided", 'T'},
	    {"generator is not None", 'T'},
	    {"dims[0] == 2", 'T'},
	    {"dims[1] == -1", 'T'},
	    {"dims[2] == 1", 'U'},
	    {"dims == (2, -1, 1)", 'U'},
	    {"dims == (2, 0, 1)", 'F'},
	    {"-1 in dims", 'T'},
	    {"7 in dims", 'U'},
	    {"7 not in dims", 'U'},
	    {"len(dims) == 3", 'T'},
	    {"dims", 'T'},
	    {"tensors[0].numel == 6", 'T'},
	    {"tensors[-1] is None", 'T'},
	    {"tensors[2].numel == 6", 'F'},
	    {"None in tensors", 'T'},
	    {"tensors[0].shape[self.shape[0]] == 2", 'T'},
	};
	struct op_event ev = when_event();
	(void)state;
	CHECK(examples, &ev);
}

static void loops(void **state)
{
	static const struct example examples[] = {
	    {"any(t.dtype == float16 for t in inputs)", 'T'},
	    {"any(t.dtype == bfloat16 for t in inputs)", 'F'},
	    {"all(t.numel() > 0 for t in tensors)", 'F'}, /* None has no numel */
	    {"any(t.numel() == 6 for t in tensors)", 'T'},
	    {"any(t is None for t in tensors)", 'T'},
	    {"all(t is None or t.numel > 0 for t in tensors)", 'T'},
	    {"all(t.numel() > 0 for t in inputs)", 'U'}, /* unknown for the tensor `dark` */
	    {"all(t.numel() > 1 for t in inputs)", 'F'},
	    {"all(t.numel() > 0 for t in outputs)", 'T'},
	    {"any(n > 100 for n in self.shape)", 'T'},
	    {"all(n > 100 for n in self.shape)", 'F'},
	    {"all(n > 100 for n in ())", 'T'},
	    {"any(n > 100 for n in [])", 'F'},
	    {"any(n == 7 for n in (5, 6, 7))", 'T'},
	    {"any(a == 2 for a in args)", 'T'},
	    {"any(any(n == 200 for n in t.shape) for t in inputs)", 'T'},
	    {"any(all(n in self.shape for n in t.shape) for t in outputs)", 'T'},
	    {"any(t.numel > 1200 // alpha - 595 for t in tensors)", 'T'},
	    {"len(inputs) == 5", 'T'},
	    {"inputs[0].dtype == float16", 'T'},
	    {"inputs[2].numel == 6 and inputs[3].numel == 1", 'T'},
	    {"inputs[-1].dtype == float32", 'T'},
	    {"inputs[5] is None", 'F'},
	    {"len(outputs) == len(results) == 2", 'T'},
	    {"outputs[1].numel == 1200", 'T'},
	    {"any(i == 200 for i in [any(i == 3 for i in self.shape), 200])", 'T'},
	};
	struct op_event ev = when_event();
	(void)state;
	CHECK(examples, &ev);
}

static void undecoded_tensors(void **state)
{
	struct value args[] = {{.kind = VALUE_NOT_DECODED, .str = "gone"},
			       {.kind = VALUE_TENSOR, .tensor = &when_self}};
	static const struct op_arg names[] = {{"self", "Tensor"}, {"p", "Tensor"}};
	static const struct op_arg float_names[] = {{"eps", "float"}, {"p", "Tensor"}};
	struct op_desc op = {.nargs = 2, .name = "aten::x", .schema = "x", .args = names};
	struct op_event ev = {.op = &op, .args = args, .nargs = 2, .end_ns = 1};
	(void)state;
	assert_int_equal(evaluate("any(t.dtype == int8 for t in inputs)", &ev, WHEN_AT_EXIT), 'U');
	assert_int_equal(evaluate("any(t.dtype == half for t in inputs)", &ev, WHEN_AT_EXIT), 'T');
	assert_int_equal(evaluate("len(inputs) == 2", &ev, WHEN_AT_EXIT), 'U');
	assert_int_equal(evaluate("len(inputs) == 2", &ev, WHEN_AT_ENTRY), 'L');
	op.args = float_names; /* not a tensor, decoded or not */
	assert_int_equal(evaluate("any(t.dtype == int8 for t in inputs)", &ev, WHEN_AT_EXIT), 'F');
	assert_int_equal(evaluate("len(inputs) == 1", &ev, WHEN_AT_EXIT), 'T');
}

static void events(void **state)
{
	static const struct example examples[] = {
	    {"op == 'aten::sample.Tensor'", 'T'},
	    {"'sample' in op", 'T'},
	    {"overload == 'Tensor'", 'T'},
	    {"phase == forward", 'T'},
	    {"phase == backward", 'F'},
	    {"phase != backward", 'T'},
	    {"depth == 0", 'F'},
	    {"depth == 1", 'T'},
	    {"pid == 41 and tid == 42 and thread == tid", 'T'},
	    {"id == 5 and forward_id == 5", 'T'},
	    {"file.endswith('/norm.py')", 'T'},
	    {"function == 'forward'", 'T'},
	    {"line in (12, 13)", 'T'},
	    {"thrown", 'F'},
	    {"elapsed == 2ms", 'T'},
	    {"elapsed > 2ms", 'F'},
	    {"elapsed > 1.9ms", 'T'},
	    {"out.numel == 6", 'T'},
	    {"numel(result) > 1e6", 'F'},
	    {"values.dtype == int64", 'T'},
	    {"indices.numel == results[1].numel == results['indices'].numel == 1200", 'T'},
	};
	static const struct example of_parameter[] = {
	    {"parameter == 'fc.weight'", 'T'},
	    {"parameter.endswith('bias')", 'F'},
	    {"file == 'fc.weight'", 'F'},
	};
	static const struct example of_none[] = {{"parameter == 'fc.weight'", 'F'}};
	static const struct py_stack where = {.parameter = "fc.weight"};
	struct op_event ev = when_event();
	(void)state;
	CHECK(examples, &ev);
	CHECK(of_none, &ev);
	ev.where_stack = &where;
	CHECK(of_parameter, &ev);
}

static void other_events(void **state)
{
	static const struct op_desc bare = {.name = "mylib::op", .schema = ""};
	static const struct op_arg out[] = {{"out", "Tensor(a!)"}};
	static const struct op_desc out_op = {.nargs = 1,
					      .nresults = 1,
					      .name = "aten::x.out",
					      .schema = "x",
					      .args = out,
					      .results = when_result_names};
	struct op_event ev = when_event();
	(void)state;

	ev.phase = PHASE_BACKWARD;
	ev.where_stack = NULL;
	assert_int_equal(evaluate("phase == backward", &ev, WHEN_AT_EXIT), 'T');
	assert_int_equal(evaluate("forward_id is None", &ev, WHEN_AT_EXIT), 'T');
	ev.phase = PHASE_RECOMPUTE;
	assert_int_equal(evaluate("phase == recompute", &ev, WHEN_AT_EXIT), 'T');
	assert_int_equal(evaluate("phase in (forward, backward)", &ev, WHEN_AT_EXIT), 'F');
	assert_int_equal(evaluate("'norm' in file", &ev, WHEN_AT_EXIT), 'F');
	assert_int_equal(evaluate("'norm' not in file", &ev, WHEN_AT_EXIT), 'F');
	ev.forward_id = 3;
	assert_int_equal(evaluate("forward_id == 3", &ev, WHEN_AT_EXIT), 'T');

	ev = when_event();
	ev.thrown = true;
	ev.nresults = 0;
	assert_int_equal(evaluate("thrown", &ev, WHEN_AT_EXIT), 'T');
	assert_int_equal(evaluate("numel(out) > 0", &ev, WHEN_AT_EXIT), 'F');
	assert_int_equal(evaluate("not (numel(out) > 0)", &ev, WHEN_AT_EXIT), 'F');

	ev.thrown = false; /* returned, but the results are unknown */
	assert_int_equal(evaluate("numel(out) > 0", &ev, WHEN_AT_EXIT), 'U');
	assert_int_equal(evaluate("any(t.numel > 0 for t in outputs)", &ev, WHEN_AT_EXIT), 'U');
	ev.end_ns = 0; /* unfinished */
	assert_int_equal(evaluate("thrown", &ev, WHEN_AT_EXIT), 'U');
	assert_int_equal(evaluate("elapsed > 1", &ev, WHEN_AT_EXIT), 'U');

	ev = when_event();
	ev.nargs = 0;
	ev.args = NULL;
	assert_int_equal(evaluate("self.dim() == 3", &ev, WHEN_AT_EXIT), 'U');
	assert_int_equal(evaluate("len(inputs) == 3", &ev, WHEN_AT_EXIT), 'U');
	ev.op = &bare;
	assert_int_equal(evaluate("self.dim() == 3", &ev, WHEN_AT_EXIT), 'U');
	assert_int_equal(evaluate("overload == ''", &ev, WHEN_AT_EXIT), 'T');

	ev = when_event(); /* out is an argument of this one */
	ev.op = &out_op;
	ev.nargs = ev.nresults = 1;
	assert_int_equal(evaluate("out.numel == 1200", &ev, WHEN_AT_ENTRY), 'T');
	assert_int_equal(evaluate("result.numel == 6", &ev, WHEN_AT_ENTRY), 'L');
	assert_int_equal(evaluate("result.numel == 6", &ev, WHEN_AT_EXIT), 'T');
}

static void entries(void **state)
{
	static const struct example examples[] = {
	    {"self.dim() == 3", 'T'},
	    {"self.dim() == 2", 'F'},
	    {"self.dim() == 2 and numel(out) > 1", 'F'},
	    {"numel(out) > 1 and self.dim() == 2", 'F'},
	    {"self.dim() == 3 and numel(out) > 1", 'L'},
	    {"self.dim() == 3 or numel(out) > 1", 'T'},
	    {"elapsed > 1ms", 'L'},
	    {"not thrown", 'L'},
	    {"len(results) == 2", 'L'},
	    {"outputs[0].dim() == 1", 'L'},
	    {"values.dim() == 1", 'L'},
	    {"eps > 0", 'L'}, /* could be decoded at the exit */
	    {"dark.numel > 1", 'U'},
	    {"dark.numel > 1 and elapsed > 1", 'L'},
	    {"1 / 0 == 1 and elapsed > 1", 'L'},
	    {"1 / 0 == elapsed", 'F'},
	    {"7 in dims", 'L'},
	    {"phase == forward and depth == 1 and line == 13", 'T'},
	};
	struct op_event ev = when_event();
	(void)state;
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++)
		if (evaluate(examples[i].text, &ev, WHEN_AT_ENTRY) != examples[i].result)
			fail_msg("%s is not %c", examples[i].text, examples[i].result);
}

static bool needs_exit(const char *text)
{
	struct err e = {0};
	struct when *w = compiled(text);
	if (when_check(w, both_ops, 2, false, &e))
		fail_msg("%s: %s", text, e.what);
	bool r = when_needs_exit(w);
	when_free(w);
	return r;
}

static void needs(void **state)
{
	(void)state;
	assert_false(needs_exit("self.dim() == 2 or input.dim() == 2"));
	assert_false(needs_exit("depth == 0 and any(t.numel > 0 for t in inputs)"));
	assert_true(needs_exit("depth == 0 and elapsed > 1"));
	assert_true(needs_exit("thrown"));
	assert_true(needs_exit("out.numel > 1"));
	assert_true(needs_exit("indices.numel > 1"));
	assert_true(needs_exit("results[1].numel > 1"));
	assert_true(needs_exit("any(t.numel > 0 for t in outputs)"));
}

static void counts(void **state)
{
	struct when_counts c = {0};
	struct op_event ev = when_event();
	struct when *w = compiled("eps > 0 or self.dim() == 4");
	char text[160];
	(void)state;
	assert_int_equal(when_decide(w, &ev, WHEN_AT_EXIT, &c), WHEN_NO);
	ev.op = &when_other_op;
	ev.nargs = 2;
	ev.nresults = 0;
	assert_int_equal(when_decide(w, &ev, WHEN_AT_EXIT, &c), WHEN_NO);
	assert_int_equal(when_decide(w, &ev, WHEN_AT_EXIT, &c), WHEN_NO);
	when_free(w);
	assert_int_equal(c.unknown, 1);
	assert_int_equal(c.left_out, 2);
	assert_string_equal(when_counts_text(text, sizeof(text), &c),
			    "--when left out 2 ops, and 1 because a value that it asks for is not "
			    "known");
	c = (struct when_counts){.left_out = 1234567};
	assert_string_equal(when_counts_text(text, sizeof(text), &c),
			    "--when left out 1,234,567 ops");
	c = (struct when_counts){UINT64_MAX, UINT64_MAX, "--ops, --not-ops and --when"};
	assert_true(strlen(when_counts_text(text, sizeof(text), &c)) > 100);
	w = compiled("alpha == 2");
	ev = when_event();
	c = (struct when_counts){0};
	assert_int_equal(when_decide(w, &ev, WHEN_AT_EXIT, &c), WHEN_YES);
	assert_int_equal(when_decide(NULL, &ev, WHEN_AT_ENTRY, &c), WHEN_YES);
	when_free(w);
	w = compiled("result.numel() > 1");
	assert_int_equal(when_decide(w, &ev, WHEN_AT_ENTRY, &c), WHEN_WAIT);
	assert_int_equal(c.unknown + c.left_out, 0);
	assert_int_equal(when_decide(w, &ev, WHEN_ENTRY_ONLY, &c), WHEN_NO);
	assert_int_equal(when_decide(w, &ev, WHEN_ENTRY_ONLY, NULL), WHEN_NO);
	assert_int_equal(c.unknown, 1);
	assert_int_equal(c.left_out, 0);
	when_free(w);
}

/* Errors, the part of the text that is marked, and words of message and hint. */
struct mistake {
	const char *text, *marked, *what, *hint;
};

static void check_mistake(const struct mistake *m, const struct err *e, int r)
{
	if (r != -EINVAL)
		fail_msg("%s: taken", m->text);
	if (strncmp(e->what, "--when: ", 8) != 0 || !strstr(e->what, m->what))
		fail_msg("%s: said \"%s\", not \"%s\"", m->text, e->what, m->what);
	if (!e->hint[0] || !strstr(e->hint, m->hint))
		fail_msg("%s: hint \"%s\", not \"%s\"", m->text, e->hint, m->hint);
	assert_string_equal(e->quote, m->text);
	size_t len = strlen(m->marked);
	if (e->quote_len != len || strncmp(e->quote + e->quote_at, m->marked, len) != 0)
		fail_msg("%s: marked \"%.*s\", not \"%s\"", m->text, (int)e->quote_len,
			 e->quote + e->quote_at, m->marked);
}

static void not_compiled(const struct mistake *all, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct err e = {0};
		struct when *w = NULL;
		int r = when_compile("--when", all[i].text, &w, &e);
		check_mistake(&all[i], &e, r);
		assert_null(w);
	}
}

static void mistakes_of_words(void **state)
{
	static const struct mistake all[] = {
	    {"self.dim() = 2", "=", "means nothing", "=="},
	    {"a == 1 && b == 1", "&&", "means nothing", "and"},
	    {"a == 1 || b == 1", "||", "means nothing", "or"},
	    {"!a", "!", "means nothing", "not"},
	    {"self.shape[1:]", ":", "means nothing", "slices"},
	    {"a == 1 @ 2", "@", "means nothing", "Python"},
	    {"a == \xc3\xa9", "\xc3\xa9", "means nothing", "Python"},
	    {"a ==", "", "a value is missing at the end", "Python"},
	    {"== 1", "==", "a value is missing here", "Python"},
	    {"a and", "", "a value is missing", "Python"},
	    {"a == 1 b == 2", "b", "does not belong here", "and, or"},
	    {"a not b", "b", "\"in\" is missing", "not in"},
	    {"a is 3", "3", "None is missing", "=="},
	    {"a if b", "if", "does not belong", "and"},
	    {"(a == 1", "", "\")\" is missing at the end", "close"},
	    {"a in [1, 2", "", "\"]\" is missing at the end", "close"},
	    {"a[1", "", "\"]\" is missing", "x.shape[0]"},
	    {"a == 1)", ")", "does not belong", "and"},
	    {"", "", "empty", "self.dim()"},
	    {" \t", "", "empty", "self.dim()"},
	    {"a == 'x", "'", "no end", "close it"},
	    {"a == 'x\\n'", "\\n", "escape", "\\\\"},
	    {"a == 12k", "12k", "no number", "1e6"},
	    {"a == 1.2.3", "1.2.3", "no number", "1e6"},
	    {"a == 99999999999999999999", "99999999999999999999", "too large", "1e20"},
	    {"self.dtyp == float16", "dtyp", "nothing has \"dtyp\"", "dtype"},
	    {"self.xyzzy", "xyzzy", "nothing has", "shape"},
	    {"self.", "", "a name is missing", "x.shape"},
	    {"self.dim(1)", "1", "takes no argument", "size(i)"},
	    {"file.endswith", "", "a string is missing", "endswith"},
	    {"torch.float17 == a", "float17", "torch has no", "torch.float16"},
	    {"foo(1) == 2", "foo", "no function", "len(x)"},
	    {"depth() == 0", "depth", "no function", "len(x)"},
	    {"any(inputs)", ")", "\"for\" is missing", "for t in inputs"},
	    {"any(t for depth in inputs)", "depth", "no other meaning", "for t in inputs"},
	    {"any(t for t of inputs)", "of", "\"in\" is missing", "for t in inputs"},
	    {"a == ((1, 2), 3)", "(", "list within a list", "one by one"},
	    {"a == (b, [1])", "[", "list within a list", "one by one"},
	};
	(void)state;
	not_compiled(all, sizeof(all) / sizeof(all[0]));
}

static void mistakes_of_kinds(void **state)
{
	static const struct mistake all[] = {
	    {"depth == 'a'", "==", "between a number and a string", "one kind"},
	    {"phase == 'backward'", "==", "between a phase and a string", "without quotes"},
	    {"self.dtype == 'float16'", "==", "between a dtype and a string", "without quotes"},
	    {"phase > 3", ">", "between a phase and a number", "one kind"},
	    {"a < b < c == 1 < backward", "<", "between a number and a phase", "one kind"},
	    {"line.shape", "line.shape", "fact of a tensor, and this is a number", "self.shape"},
	    {"inputs.shape == ()", "inputs.shape", "this is a list", "tensors[0]"},
	    {"inputs[0]", "inputs[0]", "neither true nor false", "numel"},
	    {"not backward", "backward", "neither true nor false", "numel"},
	    {"float16", "float16", "neither true nor false", "numel"},
	    {"len(3) == 1", "len(3)", "lists and strings", "numel"},
	    {"-file == 1", "-file", "only numbers", "shape"},
	    {"file + 1 == 1", "file + 1", "only numbers", "shape"},
	    {"file[0] == 'a'", "file[0]", "a string has no such items", "args[-1]"},
	    {"any(t for t in depth)", "t", "goes over no list", "for t in inputs"},
	    {"file.endswith(1)", "1", "takes a string, and this is a number", "train.py"},
	    {"1 in depth", "in", "between a number and a number", "one kind"},
	    {"1 in file", "in", "between a number and a string", "one kind"},
	    {"float16 in ('float16', 'a')", "in", "between a dtype and a list", "one kind"},
	};
	(void)state;
	not_compiled(all, sizeof(all) / sizeof(all[0]));
}

static void checks(void **state)
{
	static const struct mistake all[] = {
	    {"sellf.dim() == 1", "sellf", "none of the 2 chosen ops has", "self"},
	    {"depht == 1", "depht", "none of the 2", "depth"},
	    {"self.device == cuda", "cuda", "none of the 2", "\"cuda\""},
	    {"self.dtype == flaot16", "flaot16", "none of the 2", "float16"},
	    {"self.dim() == 1 or nothing == 1", "nothing", "none of the 2", "schema"},
	    {"self.dim() == 1 and input.dim() == 1", "self.dim() == 1 and input.dim() == 1",
	     "no chosen op has all", "or"},
	    {"self == 1", "==", "between a tensor and a number", "x.dtype"},
	    {"self", "self", "a tensor is neither", "numel"},
	    {"bias", "bias", "None or a tensor is neither", "not None"},
	    {"mode.shape == (1,)", "mode.shape", "this is a string", "self.shape"},
	    {"tensors.shape == (1,)", "tensors.shape", "this is a list", "tensors[0]"},
	    {"args[19] is None", "args[19]", "this one of its args", "args[-1]"},
	    {"args[-20] is None", "args[-20]", "this one of its args", "args[-1]"},
	    {"args['nothing'] is None", "args['nothing']", "this one of its args", "args[-1]"},
	    {"results[2] is None", "results[2]", "this one of its results", "args[-1]"},
	    {"arg19 is None", "arg19", "none of the 2", ""},
	    {"args[0] > 1", ">", "between a tensor and a number", "x.dtype"},
	    {"any(t > 1 for t in tensors)", ">", "between None or a tensor and a number",
	     "x.dtype"},
	    {"any(n.dtype == half for n in dims)", "n.dtype", "this is a number", "self.shape"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct err e = {0};
		struct when *w = compiled(all[i].text);
		check_mistake(&all[i], &e, when_check(w, both_ops, 2, false, &e));
		when_free(w);
	}
}

static void check_passes(void **state)
{
	static const char *const good[] = {
	    "self.dim() == 1 or input.dim() == 1",
	    "alpha == 2",
	    "alpha == 'x'", /* a string in the other op */
	    "bias is None",
	    "dtype == None",
	    "args[1] is None",
	    "args[18] == 3",
	    "any(a.dtype == float16 for a in args)",
	    "out.dim() == 2 and values.dim() == 2",
	    "generator is not None",
	};
	struct err e = {0};
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct when *w = compiled(good[i]);
		if (when_check(w, both_ops, 2, false, &e))
			fail_msg("%s: %s", good[i], e.what);
		when_free(w);
	}
	/* Names of ops registered later are allowed, nothing else is. */
	struct when *w = compiled("sellf.dim() == 1");
	assert_int_equal(when_check(w, both_ops, 2, true, &e), 0);
	assert_true(when_needs_exit(w));
	assert_int_equal(when_check(w, both_ops, 2, false, &e), -EINVAL);
	assert_int_equal(when_check(w, NULL, 0, false, &e), 0);
	assert_int_equal(when_check(w, both_ops + 1, 1, false, &e), -EINVAL);
	assert_string_equal(e.what, "--when: aten::other has no argument or result \"sellf\"");
	when_free(w);
	w = compiled("weight.dim() == 1");
	assert_int_equal(when_check(w, both_ops + 1, 1, false, &e), -EINVAL);
	assert_string_equal(e.hint, "aten::other has: input, alpha");
	when_free(w);
}

static void limits(void **state)
{
	char text[8192];
	struct when *w = NULL;
	struct err e = {0};
	(void)state;
	memset(text, '(', 2000);
	text[2000] = '\0';
	assert_int_equal(when_compile("--when", text, &w, &e), -EINVAL);
	assert_non_null(strstr(e.what, "too deep"));
	for (size_t i = 0; i < 1000; i++)
		memcpy(text + 4 * i, "not ", 5);
	assert_int_equal(when_compile("--when", text, &w, &e), -EINVAL);
	memset(text, '-', 2000);
	text[2000] = '\0';
	assert_int_equal(when_compile("--when", text, &w, &e), -EINVAL);
	memset(text, ' ', 5000);
	text[5000] = '\0';
	assert_int_equal(when_compile("--when", text, &w, &e), -EINVAL);
	assert_non_null(strstr(e.what, "longer than"));
	/* An error far into a long text is quoted with its surroundings. */
	text[0] = '\0';
	for (size_t i = 0; i < 60; i++)
		strcat(text, "depth == 1 or ");
	strcat(text, "sellf. == 1");
	for (size_t i = 0; i < 60; i++)
		strcat(text, " or depth == 1");
	assert_int_equal(when_compile("--when", text, &w, &e), -EINVAL);
	assert_int_equal(strncmp(e.quote + e.quote_at, "== 1 or", 7), 0);
	assert_int_equal(strncmp(e.quote, "...", 3), 0);
	assert_string_equal(e.quote + strlen(e.quote) - 3, "...");
	/* Middle operands of comparisons are evaluated once, or this would take exponential time.
	 */
	text[0] = '\0';
	for (size_t i = 0; i < 30; i++)
		strcat(text, "0 <= (0 <= ");
	strcat(text, "1");
	for (size_t i = 0; i < 30; i++)
		strcat(text, " <= 1) <= 1");
	struct op_event ev = when_event();
	assert_int_equal(evaluate(text, &ev, WHEN_AT_EXIT), 'T');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numbers),
	    cmocka_unit_test(logic),
	    cmocka_unit_test(tensors),
	    cmocka_unit_test(devices_and_layouts_of_tensors),
	    cmocka_unit_test(unknown_and_absent_tensors),
	    cmocka_unit_test(arguments),
	    cmocka_unit_test(values),
	    cmocka_unit_test(strings),
	    cmocka_unit_test(names_and_lists),
	    cmocka_unit_test(loops),
	    cmocka_unit_test(undecoded_tensors),
	    cmocka_unit_test(events),
	    cmocka_unit_test(other_events),
	    cmocka_unit_test(entries),
	    cmocka_unit_test(needs),
	    cmocka_unit_test(counts),
	    cmocka_unit_test(mistakes_of_words),
	    cmocka_unit_test(mistakes_of_kinds),
	    cmocka_unit_test(checks),
	    cmocka_unit_test(check_passes),
	    cmocka_unit_test(limits),
	};
	return unit_run(tests, NULL, NULL);
}
