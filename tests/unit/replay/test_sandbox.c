#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/replay.h"

/* Where the words follow each other; -1: nowhere. */
static int place_of(const struct sandbox *s, const char *const *words)
{
	for (size_t i = 0; i < s->n; i++) {
		size_t k = 0;
		while (words[k] && i + k < s->n && !strcmp(s->argv[i + k], words[k]))
			k++;
		if (!words[k])
			return (int)i;
	}
	return -1;
}

#define PLACE(s, ...) place_of(s, (const char *[]){__VA_ARGS__, NULL})

static void nothing_can_be_written_or_reached(void **state)
{
	(void)state;
	struct sandbox s;
	assert_int_equal(sandbox_make(&s, "/usr/bin/bwrap", "/usr/bin/python3", NULL, 0), 0);
	assert_string_equal(s.argv[0], "/usr/bin/bwrap");
	assert_true(PLACE(&s, "--unshare-all") > 0);
	assert_true(PLACE(&s, "--die-with-parent") > 0);
	assert_true(PLACE(&s, "--new-session") > 0);
	int root = PLACE(&s, "--ro-bind", "/", "/");
	assert_true(root > 0);
	assert_true(PLACE(&s, "--dev", "/dev") > root);
	assert_true(PLACE(&s, "--proc", "/proc") > root);
	assert_true(PLACE(&s, "--tmpfs", "/tmp") > root);
	assert_true(PLACE(&s, "--tmpfs", "/run") > root);
	assert_int_equal(PLACE(&s, "--bind"), -1);
	assert_int_equal(PLACE(&s, "--share-net"), -1);
	assert_string_equal(s.argv[s.n - 1], "--");
	assert_null(s.argv[s.n]);
	sandbox_free(&s);
}

static void captures_are_seen_under_their_names(void **state)
{
	(void)state;
	char folder[] = "/tmp/sandbox.XXXXXX", link[64], name[PATH_MAX + 8], cwd[PATH_MAX];
	struct sandbox s;
	assert_non_null(mkdtemp(folder));
	snprintf(link, sizeof(link), "%s.link", folder);
	assert_int_equal(symlink(folder, link), 0);
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	snprintf(name, sizeof(name), "%s/..", cwd);
	char *folders[] = {folder, link, "..", "/no/such/folder"};
	assert_int_equal(sandbox_make(&s, "bwrap", "/tmp/a venv/bin/python", folders, 4), 0);
	int tmp = PLACE(&s, "--tmpfs", "/tmp");
	assert_true(PLACE(&s, "--ro-bind", folder, folder) > tmp);
	assert_true(PLACE(&s, "--ro-bind", folder, link) > tmp);
	int above = PLACE(&s, name);
	assert_true(above > tmp && !strcmp(s.argv[above - 2], "--ro-bind"));
	assert_int_equal(PLACE(&s, "/no/such/folder"), -1);
	sandbox_free(&s);
	unlink(link);
	rmdir(folder);
}

static void a_missing_bwrap_is_told(void **state)
{
	(void)state;
	struct sandbox s = {0};
	struct err e = {0};
	char *path = strdup(getenv("PATH"));
	setenv("PATH", "/nowhere:relative", 1);
	assert_int_equal(sandbox_open(&s, "/usr/bin/python3", NULL, 0, &e), -ENOENT);
	assert_non_null(strstr(e.what, "bwrap"));
	assert_non_null(strstr(e.hint, "apt install bubblewrap"));
	setenv("PATH", path, 1);
	free(path);
}

/* Mapped by both sides: no side can take away what the other looks at. */
static void the_memory_for_tensors_grows_only(void **state)
{
	(void)state;
	int fd = worker_arena();
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 8192), 0);
	assert_int_equal(ftruncate(fd, 4096), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, 16384), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), -1);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_can_be_written_or_reached),
	    cmocka_unit_test(captures_are_seen_under_their_names),
	    cmocka_unit_test(a_missing_bwrap_is_told),
	    cmocka_unit_test(the_memory_for_tensors_grows_only),
	};
	return unit_run(tests, NULL, NULL);
}
