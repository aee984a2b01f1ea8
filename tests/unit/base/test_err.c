#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

static int failing(struct err *e, int code)
{
	err_set(e, code, "cannot do %d", code);
	return err_hint(e, "try %s", "again");
}

static void a_failure_is_one_without_an_err_too(void **state)
{
	(void)state;
	struct err e = {0};
	assert_int_equal(failing(&e, -ENOENT), -ENOENT);
	assert_int_equal(failing(NULL, -EACCES), -EACCES);
	assert_int_equal(failing(&e, -EBUSY), -EBUSY);
	assert_int_equal(e.code, -EBUSY);
	assert_string_equal(e.what, "cannot do -16");
	assert_string_equal(e.hint, "try again");
}

static void a_new_failure_has_no_old_hint(void **state)
{
	(void)state;
	struct err e = {0};
	failing(&e, -ENOENT);
	assert_int_equal(err_set(&e, -EIO, "other"), -EIO);
	assert_string_equal(e.hint, "");
}

static void too_many_open_files_is_no_matter_of_permissions(void **state)
{
	(void)state;
	struct err e = {0};
	assert_int_equal(failing(&e, -EMFILE), -EMFILE);
	assert_non_null(strstr(e.hint, "ulimit -n"));
	failing(&e, -ENOENT);
	assert_string_equal(e.hint, "try again");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_failure_is_one_without_an_err_too),
	    cmocka_unit_test(a_new_failure_has_no_old_hint),
	    cmocka_unit_test(too_many_open_files_is_no_matter_of_permissions),
	};
	return unit_run(tests, NULL, NULL);
}
