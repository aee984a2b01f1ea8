#include <signal.h>
#include <unistd.h>

#include "base/system.h"
#include "tests/unit/unit.h"
#include "tracer/trace_loop.h"

static void helper_sends(int sig, uint64_t looked_ns)
{
	const union sigval value = {.sival_ptr = (void *)(uintptr_t)looked_ns};
	assert_int_equal(sigqueue(getpid(), sig, value), 0);
}

static int handle_signals(void **state)
{
	struct trace_loop l = {0};
	(void)state;
	trace_loop_signals(&l);
	raise(SIGCONT);
	return 0;
}

static void test_ctrl_z(void **state)
{
	(void)state;
	raise(SIGTSTP);
	assert_true(trace_loop_halts());
	raise(SIGCONT);
	assert_false(trace_loop_halts());
	trace_loop_halt("nothing"); /* does not stop this process */
}

static void test_helper_asks(void **state)
{
	(void)state;
	helper_sends(ENGINE_HALTS, clock_ns(CLOCK_MONOTONIC));
	helper_sends(SIGCONT, 0);
	assert_true(trace_loop_halts());
	raise(SIGCONT);
	assert_false(trace_loop_halts());
}

/* Somebody continued it after the helper had seen it stopped. */
static void test_helper_is_late(void **state)
{
	uint64_t looked = clock_ns(CLOCK_MONOTONIC);
	(void)state;
	raise(SIGCONT);
	helper_sends(ENGINE_HALTS, looked);
	helper_sends(SIGCONT, looked);
	assert_false(trace_loop_halts());
}

/* Nobody but the helper says when it looked; others send SIGURG for sockets. */
static void test_other_sigurg(void **state)
{
	(void)state;
	raise(SIGURG);
	assert_false(trace_loop_halts());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_ctrl_z),
	    cmocka_unit_test(test_helper_asks),
	    cmocka_unit_test(test_helper_is_late),
	    cmocka_unit_test(test_other_sigurg),
	};
	return unit_run(tests, handle_signals, NULL);
}
