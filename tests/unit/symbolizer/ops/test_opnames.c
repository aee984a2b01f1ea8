#include "tests/unit/libtorch.h"

#include "symbolizer/event/event.h"
#include "symbolizer/ops/filter.h"
#include "symbolizer/ops/schema.h"

static struct op_desc op(const char *name)
{
	return (struct op_desc){.kind = strstr(name, "::") ? OP_DISPATCHED : OP_BACKWARD,
				.name = name};
}

static void test_match(void **state)
{
	static const struct {
		const char *name, *op;
		bool want;
	} cases[] = {
	    {"torch.add", "aten::add.Tensor", true},
	    {"torch.Tensor.add", "aten::add.Tensor", true},
	    {"torch.Tensor.add", "aten::add.out", true},
	    {"torch.Tensor.add", "aten::add_.Tensor", false},
	    {"torch.Tensor.add_", "aten::add_.Tensor", true},
	    {"torch.Tensor.add", "aten::addmm", false},
	    {"torch.Tensor.add", "mylib::add", false},
	    {"torch.Tensor.__add__", "aten::add.Tensor", true},
	    {"torch.Tensor.__iadd__", "aten::add_.Tensor", true},
	    {"torch.Tensor.__getitem__", "aten::select.int", true},
	    {"torch.Tensor.__getitem__", "aten::slice.Tensor", true},
	    {"torch.Tensor.__getitem__", "aten::add.Tensor", false},
	    {"torch.Tensor.T.__get__", "aten::numpy_T", true},
	    {"torch.Tensor.requires_grad.__get__", "aten::requires_grad_", false},
	    {"torch.nn.functional.linear", "aten::linear", true},
	    {"torch.nn.functional.silu", "aten::silu_", true},
	    {"torch.Tensor.sigmoid", "aten::sigmoid_", false},
	    {"torch.nn.functional.cross_entropy", "aten::cross_entropy_loss", true},
	    {"torch.nn.functional.interpolate", "aten::upsample_bilinear2d.vec", true},
	    {"torch.nn.functional.unfold", "aten::unfold", false},
	    {"torch.Tensor.unfold", "aten::unfold", true},
	    {"torch.linalg.det", "aten::linalg_det", true},
	    {"torch.linalg.det", "aten::det", false},
	    {"torch.fft.fft", "aten::fft_fft", true},
	    {"torch.Tensor.float", "aten::to.dtype", true},
	    {"torch.functional.norm", "aten::linalg_vector_norm", true},
	    {"torch.addmm", "AddmmBackward0", false},
	    {"torch.add", "AddmmBackward0", false},
	    {"torch.", "aten::add.Tensor", false},
	    {"torch..", "aten::add.Tensor", false},
	    {"aten::add", "aten::add.Tensor", false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct op_desc d = op(cases[i].op);
		if (opnames_match(cases[i].name, &d) != cases[i].want)
			fail_msg("%s and %s: not %d", cases[i].name, cases[i].op, cases[i].want);
	}
}

static void test_show(void **state)
{
	static const char *const cases[][2] = {
	    {"aten::add.Tensor", "torch.add"},
	    {"aten::add_.Tensor", "torch.Tensor.add_"},
	    {"aten::linear", "torch.nn.functional.linear"},
	    {"aten::relu_", "torch.nn.functional.relu_"},
	    {"aten::silu_", "torch.nn.functional.silu"},
	    {"aten::to.dtype", "torch.Tensor.to"},
	    {"aten::view", "torch.Tensor.view"},
	    {"aten::__and__.Scalar", "torch.Tensor.__and__"},
	    {"aten::linalg_det", "torch.linalg.det"},
	    {"aten::special_erf", "torch.special.erf"},
	    {"aten::slice.Tensor", "torch.Tensor.__getitem__"},
	    {"aten::cross_entropy_loss", "torch.nn.functional.cross_entropy"},
	    {"aten::rsqrt", "torch.rsqrt"},
	    {"aten::_to_copy", ""},
	    {"aten::tanh_backward", ""},
	    {"aten::alias", ""},
	    {"mylib::add", ""},
	    {"AddBackward0", ""},
	};
	char name[64];
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct op_desc d = op(cases[i][0]);
		assert_int_equal(opnames_ditorch(&d, name, sizeof(name)), *cases[i][1] != '\0');
		assert_string_equal(name, cases[i][1]);
		if (*name && !opnames_match(name, &d))
			fail_msg("%s does not find %s again", name, d.name);
	}
	struct op_desc d = op("aten::linear");
	assert_false(opnames_ditorch(&d, name, 8));
}

static void library(const struct libtorch *l)
{
	struct arena a = {0};
	char name[512];
	size_t named = 0;

	for (size_t i = 0; i < l->ncalls; i++) {
		struct cxx_function f;
		char full[1024];
		assert_int_equal(cxx_function_parse(l->calls[i], &a, &f), 0);
		snprintf(full, sizeof(full), "aten::%s", f.owner);
		struct op_desc d = op(full);
		if (!opnames_ditorch(&d, name, sizeof(name)))
			continue;
		named++;
		if (!opnames_match(name, &d))
			fail_msg("%s: %s does not find it again", full, name);
	}
	print_message("# %s: %zu of %zu have a name in Python\n", l->path, named, l->ncalls);
	assert_true(named > 0);
	arena_free(&a);
}

static void test_libraries(void **state)
{
	(void)state;
	libtorch_each(library);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_match),
	    cmocka_unit_test(test_show),
	    cmocka_unit_test(test_libraries),
	};
	return unit_run(tests, NULL, NULL);
}
