/* Where the library and the socket of a running process may lie. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tracer/engine/shim/internal.h"

enum { ME = 1000, OTHER = 1001, NAMESPACE = 100000 };

static struct stat folder(uid_t uid, mode_t mode)
{
	return (struct stat){.st_uid = uid, .st_mode = S_IFDIR | mode};
}

static bool is_place(uid_t uid, mode_t mode, bool is_last)
{
	struct stat st = folder(uid, mode);
	return !shim_place_doubt(&st, ME, NAMESPACE, is_last);
}

static void test_place(void **state)
{
	(void)state;
	for (int last = 0; last < 2; last++) {
		assert_true(is_place(0, 01777, last));
		assert_true(is_place(NAMESPACE, 01777, last));
		assert_true(is_place(ME, 0755, last));
		assert_true(is_place(ME, 01777, last));
		assert_false(is_place(ME, 0777, last));
		assert_false(is_place(ME, 0775, last));
		assert_false(is_place(0, 0777, last));
		assert_false(is_place(OTHER, 01777, last));
		assert_false(is_place(OTHER, 0755, last));
	}
	/* Where its user cannot make a folder, root is not to make one for it. */
	assert_true(is_place(0, 0755, false));
	assert_false(is_place(0, 0755, true));
	assert_false(is_place(0, 01775, true));
	struct stat link = {.st_mode = S_IFLNK | 0777};
	assert_non_null(shim_place_doubt(&link, ME, 0, false));
}

static void test_user(void **state)
{
	struct shim_listener *d;
	struct err e = {0};
	(void)state;
	assert_int_equal(shim_listener_open(getpid(), NULL, &d, &e), 0);
	assert_true(shim_listener_fits(d, getpid()));
	d->user++;
	assert_false(shim_listener_fits(d, getpid()));
	assert_int_equal(access(d->library, R_OK | X_OK), 0);
	assert_int_equal(access(d->socket, F_OK), 0);
	char library[PATH_MAX];
	snprintf(library, sizeof(library), "%s", d->library);
	shim_listener_close(d);
	*strrchr(library, '/') = '\0';
	assert_int_equal(access(library, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_place),
	    cmocka_unit_test(test_user),
	};

	return unit_run(tests, NULL, NULL);
}
