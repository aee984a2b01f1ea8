#include "tests/unit/unit.h"

#include "base/table.h"

static void as_short_as_tells_them_apart(void **state)
{
	static const char *const files[][2] = {
	    {"/home/me/a/train.py", "a/train.py"},
	    {"/home/me/b/train.py", "b/train.py"},
	    {"/home/me/model.py", "model.py"},
	    {"/x/c/util.py", "/x/c/util.py"},
	    {"/y/x/c/util.py", "y/x/c/util.py"},
	    {"run.py", "run.py"},
	    {"/run.py", "/run.py"},
	    {"<string>", "<string>"},
	    {"a//twice.py", "a//twice.py"},
	    {"b//twice.py", "b//twice.py"},
	};
	enum { FILES = sizeof(files) / sizeof(files[0]) };
	struct file_names n = {0};
	(void)state;
	assert_string_equal(file_names_short(NULL, "/home/me/a/train.py"), "train.py");
	assert_string_equal(file_names_short(&n, "/home/me/a/train.py"), "train.py");
	for (int twice = 0; twice < 2; twice++)
		for (int i = 0; i < FILES; i++)
			assert_int_equal(file_names_add(&n, files[i][0]), 0);
	assert_int_equal(file_names_add(&n, NULL), 0);
	for (int i = 0; i < FILES; i++)
		assert_string_equal(file_names_short(&n, files[i][0]), files[i][1]);
	assert_string_equal(file_names_short(&n, "/elsewhere/train.py"), "train.py");
	file_names_free(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(as_short_as_tells_them_apart),
	};
	return unit_run(tests, NULL, NULL);
}
