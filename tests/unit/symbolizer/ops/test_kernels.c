#include "symbolizer/ops/ops.h"
#include "tests/unit/unit.h"

#define KEY "ccnkdeligdz4av33gqayvy5uzj47brzq3syzach5cgxtu7q2keh6"

static void test_libraries(void **state)
{
	(void)state;
	assert_true(kernel_is_library("/tmp/torchinductor_me/cn/" KEY ".main.so"));
	assert_true(kernel_is_library("/tmp/torchinductor_me/cn/" KEY ".so"));
	assert_false(kernel_is_library("/tmp/torchinductor_me/cx/" KEY ".so"));
	assert_false(kernel_is_library("/tmp/torchinductor_me/acn/" KEY ".so"));
	assert_false(kernel_is_library("/tmp/torchinductor_me/cn/" KEY ".main.cpp"));
	assert_false(kernel_is_library("/tmp/torchinductor_me/cn/" KEY "a.so"));
	assert_false(kernel_is_library(KEY ".so"));
	assert_false(kernel_is_library("n/" KEY ".so"));
	assert_false(kernel_is_library("/usr/lib/libc.so"));
	assert_false(kernel_is_library(""));
}

static const char *called(const char *text)
{
	static char name[24];
	return kernel_called(text, name, sizeof(name)) ? name : "";
}

static void test_calls(void **state)
{
	(void)state;
	assert_string_equal(called("cpp_fused_gelu_0(buf0, buf1)"), "cpp_fused_gelu_0");
	assert_string_equal(called("kernel(x)"), "kernel");
	assert_string_equal(called("extern_kernels.mm(x, y, out=z)"), "");
	assert_string_equal(called("y = cpp_fused_gelu_0(x)"), "");
	assert_string_equal(called("(lambda: 0)()"), "");
	assert_string_equal(called("0(x)"), "");
	assert_string_equal(called("cpp_fused_gelu_0"), "");
	assert_string_equal(called("cpp_fused_with_a_long_name(x)"), "");
}

static void test_definitions(void **state)
{
	char text[64], small[16];
	(void)state;
	assert_true(kernel_definition("cpp_fused_gelu_0", text, sizeof(text)));
	assert_string_equal(text, "cpp_fused_gelu_0 = async_compile.cpp_pybinding(");
	assert_false(kernel_definition("cpp_fused_gelu_0", small, sizeof(small)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_libraries),
	    cmocka_unit_test(test_calls),
	    cmocka_unit_test(test_definitions),
	};
	return unit_run(tests, NULL, NULL);
}
