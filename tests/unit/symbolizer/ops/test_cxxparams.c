#include "tests/unit/libtorch.h"

#include <errno.h>

#include "symbolizer/ops/schema.h"

static struct cxx_param type(const char *text)
{
	struct cxx_param p = {.text = text};
	cxx_type_parse(text, strlen(text), &p);
	assert_ptr_equal(p.text, text);
	return p;
}

static void check(const char *text, struct cxx_param want)
{
	struct cxx_param got = type(text);
	want.text = text;
	if (memcmp(&got, &want, sizeof(got)))
		fail_msg(
		    "%s: base %d list %d len %d opt %d elem %d std %d class %d ref %d const %d",
		    text, got.base, got.list, got.array_len, got.optional, got.elem_optional,
		    got.std_optional, got.opt_array_ref_class, got.by_ref, got.is_const);
}

static void test_plain(void **state)
{
	(void)state;
	check("at::Tensor const&",
	      (struct cxx_param){.base = CXX_TENSOR, .by_ref = true, .is_const = true});
	check("at::Tensor&", (struct cxx_param){.base = CXX_TENSOR, .by_ref = true});
	check("bool", (struct cxx_param){.base = CXX_BOOL});
	check("long", (struct cxx_param){.base = CXX_INT64});
	check("signed char", (struct cxx_param){.base = CXX_INT8});
	check("double", (struct cxx_param){.base = CXX_DOUBLE});
	check("c10::SymInt", (struct cxx_param){.base = CXX_SYMINT});
	check("c10::Scalar const&",
	      (struct cxx_param){.base = CXX_SCALAR, .by_ref = true, .is_const = true});
	check("std::basic_string_view<char, std::char_traits<char> >",
	      (struct cxx_param){.base = CXX_STRING_VIEW, .std_view = true});
	check("c10::basic_string_view<char>", (struct cxx_param){.base = CXX_STRING_VIEW});
	check("c10::Layout", (struct cxx_param){.base = CXX_LAYOUT});
	check("c10::Stream", (struct cxx_param){.base = CXX_STREAM});
	check("c10::Storage", (struct cxx_param){.base = CXX_STORAGE});
}

static void test_wrapped(void **state)
{
	(void)state;
	check("std::optional<at::Tensor> const&", (struct cxx_param){.base = CXX_TENSOR,
								     .optional = true,
								     .std_optional = true,
								     .by_ref = true,
								     .is_const = true});
	check("c10::optional<c10::ScalarType>",
	      (struct cxx_param){.base = CXX_SCALAR_TYPE, .optional = true});
	check("c10::ArrayRef<at::Tensor>",
	      (struct cxx_param){.base = CXX_TENSOR, .list = CXX_ARRAY_REF});
	check("c10::OptionalArrayRef<c10::SymInt>",
	      (struct cxx_param){.base = CXX_SYMINT,
				 .list = CXX_ARRAY_REF,
				 .optional = true,
				 .opt_array_ref_class = true});
	check("c10::optional<c10::ArrayRef<double> >",
	      (struct cxx_param){.base = CXX_DOUBLE, .list = CXX_ARRAY_REF, .optional = true});
	check("std::array<bool, 3ul>",
	      (struct cxx_param){.base = CXX_BOOL, .list = CXX_STD_ARRAY, .array_len = 3});
	check("c10::List<std::optional<at::Tensor> > const&",
	      (struct cxx_param){.base = CXX_TENSOR,
				 .list = CXX_C10_LIST,
				 .elem_optional = true,
				 .std_optional = true,
				 .by_ref = true,
				 .is_const = true});
	check("c10::IListRef<at::Tensor> const&",
	      (struct cxx_param){
		  .base = CXX_TENSOR, .list = CXX_ILIST_REF, .by_ref = true, .is_const = true});
	check(
	    "std::optional<std::basic_string_view<char, std::char_traits<char> > >",
	    (struct cxx_param){
		.base = CXX_STRING_VIEW, .optional = true, .std_optional = true, .std_view = true});
	check("std::optional<c10::basic_string_view<char> >",
	      (struct cxx_param){.base = CXX_STRING_VIEW, .optional = true, .std_optional = true});
}

static void test_unknown(void **state)
{
	static const char *const texts[] = {"",
					    "at::Quantizer",
					    "unsigned long",
					    "at::Tensor const*",
					    "at::Tensor&&",
					    "std::array<bool, 999ul>",
					    "std::array<bool>",
					    "std::map<long, bool>",
					    "c10::ArrayRef<",
					    ">"};
	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(type(texts[i]).base, CXX_OTHER);
}

static void test_function(void **state)
{
	struct arena a = {0};
	struct cxx_function f;
	(void)state;

	assert_int_equal(cxx_function_parse("_ZN2at4_ops7dropout4callERKNS_6TensorEdb", &a, &f), 0);
	assert_string_equal(f.scope, "at::_ops::dropout");
	assert_string_equal(f.owner, "dropout");
	assert_string_equal(f.name, "call");
	assert_int_equal(f.nparams, 3);
	assert_int_equal(f.params[0].base, CXX_TENSOR);
	assert_string_equal(f.params[0].text, "at::Tensor const&");
	assert_int_equal(f.params[1].base, CXX_DOUBLE);
	assert_int_equal(f.params[2].base, CXX_BOOL);
	assert_int_equal(cxx_function_parse("_ZN12_GLOBAL__N_13fooEv", &a, &f), 0);
	assert_string_equal(f.name, "foo");
	assert_string_equal(f.scope, "(anonymous namespace)");
	assert_int_equal(f.nparams, 0);
	assert_int_equal(cxx_function_parse("_ZN2at4_ops7dropout4callE", &a, &f), -EINVAL);
	assert_int_equal(cxx_function_parse("main", &a, &f), -EINVAL);
	assert_int_equal(cxx_function_parse("", &a, &f), -EINVAL);
	arena_free(&a);
}

static void library(const struct libtorch *l)
{
	struct arena a = {0};
	size_t params = 0;

	for (size_t i = 0; i < l->ncalls; i++) {
		struct cxx_function f;
		assert_int_equal(cxx_function_parse(l->calls[i], &a, &f), 0);
		assert_string_equal(f.name, "call");
		for (uint16_t k = 0; k < f.nparams; k++)
			if (f.params[k].base == CXX_OTHER)
				fail_msg("%s: %s: not known: %s", l->path, l->calls[i],
					 f.params[k].text);
		params += f.nparams;
	}
	print_message("# %s: %zu functions, %zu parameters\n", l->path, l->ncalls, params);
	assert_true(params > l->ncalls);
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
	    cmocka_unit_test(test_plain),     cmocka_unit_test(test_wrapped),
	    cmocka_unit_test(test_unknown),   cmocka_unit_test(test_function),
	    cmocka_unit_test(test_libraries),
	};
	return unit_run(tests, NULL, NULL);
}
