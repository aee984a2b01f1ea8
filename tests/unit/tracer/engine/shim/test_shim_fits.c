/* What speaks against the engine shim: limits, and a library that must be loaded first. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracer/engine/engine.h"

/* -code of engine_shim_fits(0) in a child with that limit. */
static int with_limit(int which, rlim_t limit)
{
	const struct rlimit l = {limit, RLIM_INFINITY};
	int status;
	pid_t pid = fork();
	if (!pid)
		_exit(setrlimit((__rlimit_resource_t)which, &l) ? 255 : -engine_shim_fits(0, NULL));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_limits(void **state)
{
	(void)state;
	int usual = with_limit(RLIMIT_AS, RLIM_INFINITY);
	assert_true(!usual || usual == EACCES);
	assert_int_equal(with_limit(RLIMIT_AS, (rlim_t)4 << 30), ENOMEM);
	assert_int_equal(with_limit(RLIMIT_FSIZE, (rlim_t)1 << 30), ENOMEM);
	assert_int_equal(with_limit(RLIMIT_FSIZE, (rlim_t)1 << 40), usual);
}

static void test_preloaded(void **state)
{
	struct err e = {0};
	(void)state;
	setenv("LD_PRELOAD", "/usr/lib/libasan.so.8", 1);
	assert_int_equal(engine_shim_fits(0, &e), -ENOTSUP);
	assert_non_null(strstr(e.what, "LD_PRELOAD"));
	setenv("LD_PRELOAD", "/usr/lib/libtcmalloc.so", 1);
	assert_int_not_equal(engine_shim_fits(0, &e), -ENOTSUP);
	unsetenv("LD_PRELOAD");
}

/* The parent of vfork(2) waits in the kernel until its child has ended or called exec. */
static void test_thread_that_cannot_stop(void **state)
{
	struct err e = {0};
	int ends[2];
	char c;
	(void)state;
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	if (!pid) {
		close(ends[1]);
		if (!vfork()) {
			read(ends[0], &c, 1);
			_exit(0);
		}
		_exit(0);
	}
	close(ends[0]);
	while (engine_shim_fits(pid, &e) != -EBUSY)
		;
	assert_non_null(strstr(e.what, "waits in the kernel"));
	close(ends[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_preloaded),
	    cmocka_unit_test(test_thread_that_cannot_stop),
	};

	return unit_run(tests, NULL, NULL);
}
