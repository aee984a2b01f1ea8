/* What becomes of jumps in a running process when those who write them are killed. */
#define _GNU_SOURCE
#include "tests/unit/tracer/engine/shim/jumps_target.h"

static struct {
	pid_t helper;
	atomic_int stay, in; /* stay: it does not take them out */
} * by;

/* A ditrace that writes jumps and takes them out again and again. */
static pid_t start_writer(pid_t pid)
{
	by->helper = 0;
	by->in = 0;
	pid_t writer = fork();
	if (writer) {
		assert_true(writer > 0);
		while (!__atomic_load_n(&by->helper, __ATOMIC_ACQUIRE))
			sleep_us(100);
		return writer;
	}
	struct jumps *j;
	struct jumps_done done;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (jumps_open(&j))
		_exit(1);
	__atomic_store_n(&by->helper, jumps_helper(j), __ATOMIC_RELEASE);
	for (;;) {
		if (jumps_add(j, pid, &target_pool, target_site, target_sites, &done, NULL))
			_exit(1);
		by->in = 1;
		do
			sleep_us(500);
		while (by->stay);
		if (jumps_remove(j, pid))
			_exit(1);
	}
}

static void await_end(pid_t pid)
{
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int rounds(void)
{
	return getenv("LONG") ? 1000 : 25;
}

/* The helper process takes all out, and ends. */
static void test_ditrace(void **state)
{
	pid_t pid = target_fork(target_with_signals);

	(void)state;
	target_runs();
	srand(1);
	for (int i = 0; i < rounds(); i++) {
		pid_t writer = start_writer(pid);
		sleep_us(rand() % 10000);
		assert_int_equal(kill(writer, SIGKILL), 0);
		await_end(writer);
		await_end(by->helper);
		assert_true(target_is_clean(pid));
	}
	target_runs();
	target_end(pid);
}

/* What is left is harmless, and taken over by the next. */
static void test_both(void **state)
{
	pid_t pid = target_fork(target_with_signals);
	int left = 0;

	(void)state;
	target_runs();
	srand(2);
	for (int i = 0; i < rounds(); i++) {
		by->stay = i % 4 == 0;
		pid_t writer = start_writer(pid);
		sleep_us(rand() % 10000);
		while (by->stay && !by->in)
			sleep_us(100);
		assert_int_equal(kill(by->helper, SIGKILL), 0);
		assert_int_equal(kill(writer, SIGKILL), 0);
		await_end(writer);
		await_end(by->helper);
		left += !target_is_clean(pid);
		assert_true(!by->stay || !target_is_clean(pid));
		struct jumps *j = open_jumps();
		struct jumps_done done = add_jumps(j, pid);
		assert_int_equal(done.written + done.busy, target_sites);
		jumps_close(j);
		assert_true(target_is_clean(pid));
	}
	target_runs();
	by->stay = 0;
	print_message("# left behind %d times of %d\n", left, rounds());
	target_end(pid);
}

static void test_helper(void **state)
{
	pid_t pid = target_fork(target_with_signals);
	struct jumps *j = open_jumps();
	struct jumps_done done;

	(void)state;
	target_runs();
	add_jumps(j, pid);
	assert_int_equal(kill(jumps_helper(j), SIGKILL), 0);
	while (jumps_alive(j))
		sleep_us(100);
	assert_int_equal(jumps_remove(j, 0), -ECHILD);
	assert_int_equal(jumps_add(j, pid, &target_pool, target_site, target_sites, &done, NULL),
			 -ECHILD);
	jumps_close(j);
	target_runs();
	target_end(pid);
}

static int setup(void **state)
{
	by = mmap(NULL, sizeof(*by), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return target_setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_ditrace, target_begin),
	    cmocka_unit_test_setup(test_both, target_begin),
	    cmocka_unit_test_setup(test_helper, target_begin),
	};

	return unit_run(tests, setup, NULL);
}
