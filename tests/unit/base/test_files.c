#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"

static char dir[] = "/tmp/test_files.XXXXXX";

static int setup(void **state)
{
	(void)state;
	umask(0);
	return mkdtemp(dir) && !chdir(dir) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st, (void)type, (void)f;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static unsigned mode_of(const char *path)
{
	struct stat st;
	return lstat(path, &st) ? 0 : st.st_mode;
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void holds(const char *path, const char *want)
{
	char text[64] = "";
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	assert_string_equal(text, want);
}

/* Make `path` with this text. 0 or -errno. */
static int make(const char *path, const char *text, struct err *e)
{
	struct new_file f;
	int r = new_file_open(&f, path, 0, e);
	if (r)
		return r;
	assert_int_equal(write(f.fd, text, strlen(text)), strlen(text));
	return new_file_end(&f, 0);
}

static void a_file_appears_whole(void **state)
{
	(void)state;
	struct new_file f;
	assert_int_equal(new_file_open(&f, "whole", 0, NULL), 0);
	assert_int_equal(mode_of("whole"), 0);
	assert_int_equal(mode_of("whole.part"), S_IFREG | 0600);
	FILE *s = new_file_stream(&f);
	fputs("text", s);
	assert_int_equal(fclose(s), 0);
	assert_int_equal(new_file_end(&f, 0), 0);
	holds("whole", "text");
	assert_int_equal(mode_of("whole"), S_IFREG | 0600);
	assert_int_equal(mode_of("whole.part"), 0);
}

static void a_failed_one_leaves_the_old(void **state)
{
	(void)state;
	struct new_file f;
	put("old", "old");
	assert_int_equal(new_file_open(&f, "old", 0, NULL), 0);
	assert_int_equal(new_file_end(&f, -EIO), -EIO);
	holds("old", "old");
	assert_int_equal(mode_of("old.part"), 0);
}

static void the_old_one_can_still_be_read(void **state)
{
	(void)state;
	put("mapped", "old text");
	int fd = open("mapped", O_RDONLY);
	const char *map = mmap(NULL, 8, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	close(fd);
	assert_int_equal(make("mapped", "n", NULL), 0);
	assert_memory_equal(map, "old text", 8);
	munmap((void *)map, 8);
	holds("mapped", "n");
	assert_int_equal(mode_of("mapped"), S_IFREG | 0600);
}

static void keep(const char *path, bool want)
{
	struct new_file f;
	bool kept;
	assert_int_equal(new_file_open(&f, path, 0, NULL), 0);
	assert_int_equal(write(f.fd, "new", 3), 3);
	assert_int_equal(new_file_name_keep(&f, &kept), 0);
	assert_int_equal(kept, want);
	new_file_close(&f);
	holds(path, "new");
}

/* What is no regular file is not kept, and no link is followed. */
static void the_old_one_is_kept(void **state)
{
	(void)state;
	put("aside", "mine");
	keep("first", false);
	assert_int_equal(mode_of("first.old"), 0);
	put("trace", "before");
	assert_int_equal(symlink("aside", "trace.old"), 0);
	keep("trace", true);
	holds("trace.old", "before");
	keep("trace", true);
	holds("trace.old", "new");
	assert_int_equal(symlink("aside", "linked"), 0);
	keep("linked", false);
	assert_int_equal(mode_of("linked.old"), 0);
	holds("aside", "mine");
	assert_int_equal(mode_of("trace.part"), 0);
}

static void links_to_files_are_replaced(void **state)
{
	(void)state;
	put("outside", "mine");
	assert_int_equal(symlink("outside", "link"), 0);
	assert_int_equal(symlink("nothing", "dangling"), 0);
	assert_int_equal(symlink("outside", "link.part"), 0);
	assert_int_equal(symlink("loop", "loop"), 0);
	assert_int_equal(make("link", "new", NULL), 0);
	assert_int_equal(make("dangling", "new", NULL), 0);
	assert_int_equal(make("loop", "new", NULL), 0);
	holds("outside", "mine");
	holds("link", "new");
	assert_int_equal(mode_of("link"), S_IFREG | 0600);
	assert_int_equal(mode_of("dangling"), S_IFREG | 0600);
	assert_int_equal(mode_of("nothing"), 0);
}

static void what_is_no_file_is_written(void **state)
{
	(void)state;
	char text[8] = "";
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_int_equal(symlink("fifo", "to_fifo"), 0);
	int fd = open("fifo", O_RDONLY | O_NONBLOCK);
	assert_int_equal(make("fifo", "one", NULL), 0);
	assert_int_equal(make("to_fifo", "two", NULL), 0);
	assert_int_equal(read(fd, text, 7), 6);
	assert_string_equal(text, "onetwo");
	close(fd);
	assert_int_equal(make("/dev/null", "one", NULL), 0);
	assert_int_equal(mode_of("fifo"), S_IFIFO | 0600);
	struct new_file f;
	assert_int_equal(new_file_open(&f, "fifo", O_NONBLOCK, NULL), -ENXIO);
}

static void descriptors_are_written(void **state)
{
	(void)state;
	char path[32], text[8] = "";
	int fd[2], file = open("shell", O_RDWR | O_CREAT, 0644);
	assert_int_equal(pipe(fd), 0);
	snprintf(path, sizeof(path), "/dev/fd/%d", fd[1]);
	assert_int_equal(make(path, "piped", NULL), 0);
	assert_int_equal(read(fd[0], text, 7), 5);
	assert_string_equal(text, "piped");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	assert_int_equal(make(path, "to file", NULL), 0);
	assert_int_equal(make(path, "again", NULL), 0);
	holds("shell", "again");
	close(file);
}

static void a_dash_is_no_name(void **state)
{
	(void)state;
	struct err e = {0};
	assert_int_equal(make("-", "text", &e), -EINVAL);
	assert_non_null(strstr(e.hint, "./-"));
	assert_int_equal(make("./-", "text", NULL), 0);
	holds("./-", "text");
}

static void one_writer_at_a_time(void **state)
{
	(void)state;
	struct err e = {0};
	int fd = file_replace("grows", NULL);
	assert_true(fd >= 0);
	assert_int_equal(mode_of("grows"), S_IFREG | 0600);
	assert_int_equal(make("grows", "", &e), -EBUSY);
	assert_non_null(strstr(e.what, "grows"));
	assert_true(e.hint[0]);
	assert_int_equal(mode_of("grows.part"), 0);
	close(fd);
	struct new_file f;
	assert_int_equal(new_file_open(&f, "grows", 0, NULL), 0);
	assert_int_equal(make("grows", "", NULL), -EBUSY);
	assert_int_equal(mode_of("grows.part"), S_IFREG | 0600);
	assert_int_equal(new_file_end(&f, 0), 0);
	fd = open("grows", O_RDONLY);
	assert_int_equal(flock(fd, LOCK_SH), 0);
	assert_int_equal(make("grows", "read", NULL), 0);
	close(fd);
	put("grows.part", "of one that was killed");
	assert_int_equal(make("grows", "new", NULL), 0);
	holds("grows", "new");
}

/* A child that lives on keeps no file locked; what is not a locked file it keeps open. */
static void a_child_lets_go(void **state)
{
	(void)state;
	int end[2], ready[2], kept = open(".", O_RDONLY), fd = file_replace("of parent", NULL);
	char byte;
	assert_true(fd >= 0 && kept >= 0);
	assert_int_equal(flock(kept, LOCK_EX), 0);
	assert_int_equal(pipe(end) | pipe(ready), 0);
	pid_t pid = fork();
	if (!pid) {
		close(end[1]);
		files_let_go();
		byte = fcntl(fd, F_GETFD) < 0 && fcntl(kept, F_GETFD) >= 0;
		_exit(write(ready[1], &byte, 1) != 1 || read(end[0], &byte, 1));
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_true(byte);
	assert_int_equal(make("of parent", "", NULL), -EBUSY);
	close(fd);
	assert_int_equal(make("of parent", "new", NULL), 0);
	close(end[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(end[0]);
	close(ready[0]);
	close(ready[1]);
	close(kept);
}

/* Each child tries to begin the file, and the first holds it until all have tried. */
static void of_many_one_wins(void **state)
{
	(void)state;
	enum { CHILDREN = 8, ROUNDS = 50 };
	for (int round = 0; round < ROUNDS; round++) {
		int go[2], tried[2], end[2], won = 0;
		char byte;
		if (pipe(go) || pipe(tried) || pipe(end))
			fail();
		if (round % 2)
			put("race.part", "of one that was killed");
		for (int i = 0; i < CHILDREN; i++)
			if (!fork()) {
				close(go[1]);
				close(end[1]);
				if (read(go[0], &byte, 1))
					_exit(2);
				int fd = file_replace("race", NULL);
				if (write(tried[1], "", 1) != 1 || read(end[0], &byte, 1))
					_exit(2);
				_exit(fd >= 0 ? 1 : fd == -EBUSY ? 0 : 2);
			}
		close(go[0]);
		close(go[1]);
		for (int i = 0; i < CHILDREN; i++)
			assert_int_equal(read(tried[0], &byte, 1), 1);
		close(end[0]);
		close(end[1]);
		close(tried[0]);
		close(tried[1]);
		for (int i = 0, status; i < CHILDREN; i++) {
			assert_true(wait(&status) > 0);
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
			won += WEXITSTATUS(status);
		}
		assert_int_equal(won, 1);
	}
}

static void folders(void **state)
{
	(void)state;
	struct err e = {0};
	assert_int_equal(folders_make("a/b//c", &e), 0);
	assert_int_equal(folders_make("a/./b/../b/c/", &e), 0);
	assert_int_equal(mode_of("a"), S_IFDIR | 0700);
	assert_int_equal(mode_of("a/b/c"), S_IFDIR | 0700);
	assert_int_equal(make("a/b/c/file", "", &e), 0);
	assert_int_equal(folders_make("a/b/c/file/d", &e), -ENOTDIR);
	assert_int_equal(folder_new("a/b/d", &e), 0);
	assert_int_equal(mode_of("a/b/d"), S_IFDIR | 0700);
	assert_int_equal(folder_new("a/b/d", &e), -EEXIST);
	assert_int_equal(folder_new("a/no/d", &e), -ENOENT);
	assert_int_equal(make("a/no/d", "", &e), -ENOENT);
	assert_int_equal(make("a/b", "", &e), -EISDIR);
	assert_int_equal(make("a/", "", &e), -EISDIR);
	assert_int_equal(make("", "", &e), -ENOENT);
	assert_true(e.hint[0]);
}

static void own_links_are_followed(void **state)
{
	(void)state;
	char absolute[64];
	snprintf(absolute, sizeof(absolute), "%s/real", dir);
	assert_int_equal(folders_make("real/inner", NULL), 0);
	assert_int_equal(symlink("real", "relative"), 0);
	assert_int_equal(symlink(absolute, "absolute"), 0);
	assert_int_equal(symlink("../relative/inner", "real/up"), 0);
	assert_int_equal(symlink("round", "round"), 0);
	assert_int_equal(make("relative/one", "1", NULL), 0);
	assert_int_equal(make("absolute/inner/two", "2", NULL), 0);
	assert_int_equal(make("absolute/up/three", "3", NULL), 0);
	assert_int_equal(make("/proc/self/cwd/real/four", "4", NULL), 0);
	holds("real/one", "1");
	holds("real/inner/two", "2");
	holds("real/inner/three", "3");
	holds("real/four", "4");
	assert_int_equal(make("round/file", "", NULL), -ELOOP);
}

/* A user's folder in which root works: what is a link, a FIFO or a folder of that user's. */
static void root_trusts_no_other_user(void **state)
{
	(void)state;
	enum { USER = 200001 };
	struct err e = {0};
	if (geteuid() != 0)
		skip();
	unsetenv("SUDO_UID");
	assert_int_equal(mkdir("theirs", 0755) | mkdir("theirs/real", 0755) | mkdir("safe", 0700),
			 0);
	assert_int_equal(symlink("../safe", "theirs/link") | symlink("../safe/x", "theirs/file") |
			     mkfifo("theirs/fifo", 0666),
			 0);
	const char *const names[] = {"theirs", "theirs/real", "theirs/link", "theirs/file",
				     "theirs/fifo"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(lchown(names[i], USER, USER), 0);
	assert_int_equal(make("theirs/link/x", "", &e), -EPERM);
	assert_non_null(strstr(e.what, "link is a link of user 200001"));
	assert_int_equal(folders_make("theirs/link/a/b", &e), -EPERM);
	assert_int_equal(folder_new("theirs/link/a", &e), -EPERM);
	assert_int_equal(make("theirs/file", "", &e), 0);
	int fd = open("theirs/fifo", O_RDONLY | O_NONBLOCK);
	assert_int_equal(make("theirs/fifo", "", &e), 0);
	close(fd);
	assert_int_equal(mode_of("theirs/file"), S_IFREG | 0600);
	assert_int_equal(mode_of("theirs/fifo"), S_IFREG | 0600);
	assert_int_equal(make("theirs/real/x", "", &e), 0);
	assert_int_equal(rmdir("safe"), 0); /* it is empty */
	assert_int_equal(mkdir("safe", 0700), 0);
	/* Under sudo that user's links are followed, and what is made there is theirs. */
	struct stat st;
	setenv("SUDO_UID", "200001", 1);
	setenv("SUDO_GID", "200002", 1);
	assert_int_equal(make("theirs/link/x", "", &e), 0);
	assert_true(!stat("safe/x", &st) && st.st_uid == 0);
	assert_int_equal(make("theirs/real/y", "", &e) | folders_make("theirs/real/f/g", &e), 0);
	assert_true(!stat("theirs/real/y", &st) && st.st_uid == USER && st.st_gid == USER + 1);
	assert_true(!stat("theirs/real/f/g", &st) && st.st_uid == USER && st.st_gid == USER + 1);
	setenv("SUDO_UID", "200001x", 1);
	assert_int_equal(make("theirs/link/x", "", &e), -EPERM);
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
}

static void the_umask_narrows(void **state)
{
	(void)state;
	umask(0277);
	int r = make("narrow", "", NULL);
	umask(0);
	assert_int_equal(r, 0);
	assert_int_equal(mode_of("narrow"), S_IFREG | 0400);
	if (geteuid() != 0)
		assert_int_equal(make("narrow", "", NULL), -EACCES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_file_appears_whole),
	    cmocka_unit_test(a_failed_one_leaves_the_old),
	    cmocka_unit_test(the_old_one_can_still_be_read),
	    cmocka_unit_test(the_old_one_is_kept),
	    cmocka_unit_test(links_to_files_are_replaced),
	    cmocka_unit_test(what_is_no_file_is_written),
	    cmocka_unit_test(descriptors_are_written),
	    cmocka_unit_test(a_dash_is_no_name),
	    cmocka_unit_test(one_writer_at_a_time),
	    cmocka_unit_test(a_child_lets_go),
	    cmocka_unit_test(of_many_one_wins),
	    cmocka_unit_test(folders),
	    cmocka_unit_test(own_links_are_followed),
	    cmocka_unit_test(root_trusts_no_other_user),
	    cmocka_unit_test(the_umask_narrows),
	};
	return unit_run(tests, setup, teardown);
}
