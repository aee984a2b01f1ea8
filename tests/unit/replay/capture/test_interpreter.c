#define _GNU_SOURCE

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay/capture/capture_files.h"

/* As in a virtual environment: ROOT/bin/python3 is a symbolic link to a program elsewhere. */
static char root[64], bin[80], python[96], server[96];

static int make_links(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/test_interpreter.XXXXXX");
	if (!mkdtemp(root))
		return -1;
	snprintf(bin, sizeof(bin), "%s/bin", root);
	snprintf(python, sizeof(python), "%s/python3", bin);
	snprintf(server, sizeof(server), "%s/server", bin);
	return mkdir(bin, 0700) || symlink("/bin/sleep", python) || symlink("/bin/sleep", server);
}

static int drop_links(void **state)
{
	(void)state;
	unlink(python);
	unlink(server);
	rmdir(bin);
	return rmdir(root);
}

/* exec closes files before it sets the arguments (fs/exec.c, begin_new_exec; fs/binfmt_elf.c,
 * create_elf_tables): wait for them. */
static void await_arguments(pid_t pid)
{
	char path[32], c;
	ssize_t n = 0;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	while (n == 0) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		n = read(fd, &c, 1);
		close(fd);
	}
	assert_int_equal(n, 1);
}

/* Find the interpreter of a process started as `name` in the folder ROOT. */
static void find(const char *name, struct interpreter *out)
{
	int started[2];
	char one, path[128];
	assert_int_equal(pipe2(started, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (!pid) {
		snprintf(path, sizeof(path), "PATH=/nowhere:%s", bin);
		char *env[] = {path, NULL}, *argv[] = {(char *)name, "60", NULL};
		if (!chdir(root))
			execve(python, argv, env);
		_exit(1);
	}
	close(started[1]);
	assert_int_equal(read(started[0], &one, 1), 0); /* end of file: exec has closed the pipe */
	close(started[0]);
	await_arguments(pid);
	*out = (struct interpreter){0};
	interpreter_of(pid, out);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void is_found_by_how_it_was_started(void **state)
{
	(void)state;
	const char *const names[] = {python, "python3", "bin/python3"};
	struct interpreter i;
	for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
		find(names[k], &i);
		assert_string_equal(i.path, python);
		assert_true(interpreter_is_there(i.path, i.changed));
	}
}

static void what_is_no_python_is_none(void **state)
{
	(void)state;
	const char *const names[] = {server, "server", "trainer", "/usr/bin/python3", ""};
	struct interpreter i;
	for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
		find(names[k], &i);
		assert_string_equal(i.path, "");
	}
}

static void one_that_has_changed_is_not_there(void **state)
{
	(void)state;
	struct interpreter i;
	find(python, &i);
	assert_false(interpreter_is_there(i.path, "1700000000.000000001"));
	assert_false(interpreter_is_there("bin/python3", i.changed));
	assert_int_equal(unlink(python), 0);
	assert_false(interpreter_is_there(i.path, i.changed));
	assert_int_equal(symlink("/bin/sleep", python), 0);
	assert_false(interpreter_is_there(i.path, i.changed));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(is_found_by_how_it_was_started),
	    cmocka_unit_test(what_is_no_python_is_none),
	    cmocka_unit_test(one_that_has_changed_is_not_there),
	};
	return unit_run(tests, make_links, drop_links);
}
