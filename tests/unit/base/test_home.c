/* Folders that only root and this user decide about, and what lies in them. */
#define _GNU_SOURCE
#include "base/home.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

enum { ME = 1000, OTHER = 1001, MODE = 0400 };

static struct stat folder(uid_t uid, mode_t mode)
{
	return (struct stat){.st_uid = uid, .st_mode = S_IFDIR | mode};
}

static bool is_home(uid_t uid, mode_t mode)
{
	struct stat st = folder(uid, mode);
	return !home_doubt(&st, ME);
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
	assert_non_null(home_doubt(&file, ME));
	struct stat own = folder(ME, 0700);
	assert_non_null(home_doubt(&own, 0));
}

static int open_path(const char *at, char path[PATH_MAX], struct home_why *why)
{
	*why = (struct home_why){0};
	snprintf(path, PATH_MAX, "%s", at);
	int fd = home_open(path, why);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static void test_paths(void **state)
{
	struct home_why why;
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
	struct home_why why;
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
	struct home_why why = {0};
	char name[300];
	(void)state;
	memset(name, 'a', sizeof(name));
	name[0] = '/';
	name[sizeof(name) - 1] = '\0';
	for (int i = 0; i < 4; i++)
		home_say(&why, name, "cannot be used");
	assert_true(strlen(why.text) < sizeof(why.text));
}

/* These need not be without doubt. */
static int new_folder(char name[])
{
	assert_non_null(mkdtemp(name));
	int dir = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	return dir;
}

static void test_files(void **state)
{
	char name[] = "/tmp/ditrace-test-XXXXXX", found[4] = "";
	int dir = new_folder(name);
	struct home_file f = {"a", "old", 3, 3};
	(void)state;
	assert_int_equal(home_read(dir, "a", MODE, found, 3), -ENOENT);
	assert_int_equal(home_keep(dir, &f, MODE), 0);
	assert_int_equal(home_read(dir, "a", MODE, found, 3), 0);
	assert_string_equal(found, "old");
	assert_int_equal(home_read(dir, "a", MODE, found, 2), -ENOENT);
	assert_int_equal(home_read(dir, "a", 0600, found, 3), -ENOENT);
	f.bytes = "new";
	assert_int_equal(home_keep(dir, &f, MODE), 0);
	assert_int_equal(home_read(dir, "a", MODE, found, 3), 0);
	assert_string_equal(found, "new");
	assert_int_equal(symlinkat("a", dir, "link"), 0);
	assert_int_equal(home_read(dir, "link", MODE, found, 3), -ENOENT);
	home_limit(dir, 0);
	close(dir);
	assert_int_equal(rmdir(name), 0);
}

static void test_limit(void **state)
{
	enum { FILES = 6, MOST = 4 };
	char name[] = "/tmp/ditrace-test-XXXXXX", file[2] = "a";
	int dir = new_folder(name);
	(void)state;
	for (int i = 0; i < FILES; i++, file[0]++) {
		const struct timespec when[2] = {{.tv_sec = 1000 - i}, {.tv_sec = 1000 - i}};
		assert_int_equal(home_keep(dir, &(struct home_file){file, "", 0, 0}, MODE), 0);
		assert_int_equal(utimensat(dir, file, when, 0), 0);
	}
	home_limit(dir, FILES);
	assert_int_equal(faccessat(dir, "f", F_OK, 0), 0);
	home_limit(dir, MOST);
	for (file[0] = 'a'; file[0] < 'a' + FILES; file[0]++)
		assert_int_equal(faccessat(dir, file, F_OK, 0), file[0] < 'a' + MOST ? 0 : -1);
	home_limit(dir, 0);
	close(dir);
	assert_int_equal(rmdir(name), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_home),      cmocka_unit_test(test_paths),
	    cmocka_unit_test(test_below_tmp), cmocka_unit_test(test_long),
	    cmocka_unit_test(test_files),     cmocka_unit_test(test_limit),
	};

	return unit_run(tests, NULL, NULL);
}
