/* The CPython interpreters of this machine, for tests that compare with them. */
#ifndef TESTS_UNIT_PYTHONS_H
#define TESTS_UNIT_PYTHONS_H

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PYTHONS_MAX = 8 };

/* A child process whose standard output is read. */
struct python {
	pid_t pid;
	FILE *out;
};

/* Start argv[0] from PATH, without standard error; it dies with the test. */
static inline struct python python_start(const char *const argv[])
{
	struct python p = {0};
	int fd[2];

	if (pipe2(fd, O_CLOEXEC))
		return p;
	p.pid = fork();
	if (p.pid == 0) {
		int null = open("/dev/null", O_RDWR);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(null, 0);
		dup2(fd[1], 1);
		dup2(null, 2);
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(fd[1]);
	p.out = fdopen(fd[0], "r");
	return p;
}

static inline int python_stop(struct python *p, int sig)
{
	int status = -1;

	if (p->out)
		fclose(p->out);
	if (p->pid > 0) {
		if (sig)
			kill(p->pid, sig);
		waitpid(p->pid, &status, 0);
	}
	*p = (struct python){0};
	return status;
}

/* The interpreter behind `name`, into real, if it is CPython 3.`minor`. */
static inline bool python_real(const char *name, int minor, char *real, size_t size)
{
	static const char program[] =
	    "import sys, os\n"
	    "v = sys.version_info\n"
	    "assert sys.implementation.name == 'cpython' and v[:2] == (3, int(sys.argv[1]))\n"
	    "print(os.path.realpath(sys.executable))\n";
	char n[8];
	const char *const argv[] = {name, "-c", program, n, NULL};
	struct python p;
	bool ok;

	snprintf(n, sizeof(n), "%d", minor);
	p = python_start(argv);
	ok = p.out && fgets(real, (int)size, p.out);
	ok = python_stop(&p, 0) == 0 && ok;
	real[strcspn(real, "\n")] = '\0';
	return ok;
}

struct pythons {
	char path[PYTHONS_MAX][512];
	size_t count;
};

static inline void pythons_add(struct pythons *found, const char *name, int minor)
{
	char real[512];

	if (found->count == PYTHONS_MAX || !python_real(name, minor, real, sizeof(real)))
		return;
	for (size_t i = 0; i < found->count; i++)
		if (strcmp(found->path[i], real) == 0)
			return;
	strcpy(found->path[found->count++], real);
}

static inline void pythons_add_root(struct pythons *found, const char *root, int minor)
{
	char pattern[600];
	glob_t g;

	snprintf(pattern, sizeof(pattern), "%s/versions/3.%d.*/bin/python3", root, minor);
	if (glob(pattern, 0, NULL, &g))
		return;
	for (size_t i = 0; i < g.gl_pathc; i++)
		pythons_add(found, g.gl_pathv[i], minor);
	globfree(&g);
}

/* Every CPython 3.`minor` in $PYENV_ROOT, ~/.pyenv and `pyenv root`, on PATH, and in /usr/bin. */
static inline struct pythons pythons_find(int minor)
{
	static const char *const pyenv[] = {"pyenv", "root", NULL};
	struct pythons found = {.count = 0};
	const char *root = getenv("PYENV_ROOT"), *home = getenv("HOME");
	struct python p;
	char name[512];

	if (root)
		pythons_add_root(&found, root, minor);
	if (home) {
		snprintf(name, sizeof(name), "%.500s/.pyenv", home);
		pythons_add_root(&found, name, minor);
	}
	p = python_start(pyenv);
	if (p.out && fgets(name, sizeof(name), p.out)) {
		name[strcspn(name, "\n")] = '\0';
		pythons_add_root(&found, name, minor);
	}
	python_stop(&p, 0);
	snprintf(name, sizeof(name), "python3.%d", minor);
	pythons_add(&found, name, minor);
	snprintf(name, sizeof(name), "/usr/bin/python3.%d", minor);
	pythons_add(&found, name, minor);
	return found;
}

/* test_3_8 to test_3_13: check(found, minor) with the interpreters of that version, skipped where
 * there are none. */
#define PYTHON_TEST(n, check)                                                                      \
	static void test_3_##n(void **state)                                                       \
	{                                                                                          \
		struct pythons found = pythons_find(n);                                            \
		(void)state;                                                                       \
		if (!found.count) {                                                                \
			print_message("# no CPython 3.%d on this machine\n", n);                   \
			skip();                                                                    \
		}                                                                                  \
		check(&found, n);                                                                  \
	}
#define PYTHON_TESTS(check)                                                                        \
	PYTHON_TEST(8, check)                                                                      \
	PYTHON_TEST(9, check)                                                                      \
	PYTHON_TEST(10, check)                                                                     \
	PYTHON_TEST(11, check)                                                                     \
	PYTHON_TEST(12, check)                                                                     \
	PYTHON_TEST(13, check)

#endif
