/* Where a library may lie: which folders others decide about, and which paths lead through none. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tracer/engine/shim/internal.h"

enum { ME = 1000, OTHER = 1001, NAMESPACE = 100000 };

static struct stat folder(uid_t uid, mode_t mode)
{
	return (struct stat){.st_uid = uid, .st_mode = S_IFDIR | mode};
}

static bool is_home(uid_t uid, mode_t mode)
{
	struct stat st = folder(uid, mode);
	return !shim_home_doubt(&st, ME);
}

static void test_home(void **state)
{
	struct stat file = {.st_uid = ME, .st_mode = S_IFREG | 0700};
	(void)state;
	assert_true(is_home(ME, 0700));
	assert_true(is_home(ME, 0755));
	assert_true(is_home(0, 0755));
	assert_true(is_home(0, 02755));
	assert_false(is_home(OTHER, 0700));
	assert_false(is_home(ME, 0770));
	assert_false(is_home(ME, 0702));
	assert_false(is_home(0, 0775));
	assert_false(is_home(0, 01777));
	assert_non_null(shim_home_doubt(&file, ME));
	struct stat own = folder(ME, 0700);
	assert_non_null(shim_home_doubt(&own, 0));
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

static int open_path(const char *at, char path[PATH_MAX], struct shim_home_why *why)
{
	*why = (struct shim_home_why){0};
	snprintf(path, PATH_MAX, "%s", at);
	int fd = shim_home_open(path, why);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static void test_paths(void **state)
{
	struct shim_home_why why;
	char path[PATH_MAX];
	(void)state;
	assert_int_equal(open_path("/", path, &why), 0);
	assert_string_equal(path, "/");
	assert_int_equal(open_path("/usr/./bin/../lib", path, &why), 0);
	assert_string_equal(path, "/usr/lib");
	assert_string_equal(why.text, "");
	assert_int_equal(open_path("usr/lib", path, &why), -EINVAL);
	assert_int_equal(open_path("", path, &why), -EINVAL);
	assert_int_equal(open_path("/usr/lib/no/such", path, &why), -ENOENT);
	assert_int_equal(open_path("/etc/passwd", path, &why), -ENOTDIR);
	assert_int_equal(open_path("/tmp", path, &why), -EPERM);
	assert_string_equal(why.text, "/tmp can be written by others");
}

/* A folder of this user's own below /tmp, which others could make again. */
static void test_below_tmp(void **state)
{
	struct shim_home_why why;
	char path[PATH_MAX], dir[] = "/tmp/ditrace-test-XXXXXX";
	(void)state;
	assert_non_null(mkdtemp(dir));
	int r = open_path(dir, path, &why);
	rmdir(dir);
	assert_int_equal(r, -EPERM);
	assert_string_equal(why.text, "/tmp can be written by others");
}

static void test_long(void **state)
{
	struct shim_home_why why = {0};
	char name[300];
	(void)state;
	memset(name, 'a', sizeof(name));
	name[0] = '/';
	name[sizeof(name) - 1] = '\0';
	for (int i = 0; i < 4; i++)
		shim_home_say(&why, name, "cannot be used");
	assert_true(strlen(why.text) < sizeof(why.text));
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
	    cmocka_unit_test(test_home),  cmocka_unit_test(test_place),
	    cmocka_unit_test(test_paths), cmocka_unit_test(test_below_tmp),
	    cmocka_unit_test(test_long),  cmocka_unit_test(test_user),
	};

	return unit_run(tests, NULL, NULL);
}
