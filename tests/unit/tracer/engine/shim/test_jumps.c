/* Jumps that come and go in running processes, which compute what they would without; and what
 * stays when somebody dies. */
#define _GNU_SOURCE
#include "tests/unit/tracer/engine/shim/jumps_target.h"

static void run_with_signals(void)
{
	target_run(true);
}

static void run_quietly(void)
{
	target_run(false);
}

static int reset(void **state)
{
	(void)state;
	target_reset();
	return 0;
}

/* Busy sites are tried again as often as it takes. */
static void add_all(struct jumps *j, pid_t pid)
{
	struct jumps_done done;
	for (int i = 0; i < 100; i++) {
		done = add_jumps(j, pid);
		assert_int_equal(done.foreign + done.split, 0);
		assert_int_equal(done.written + done.busy, target_sites);
		if (!done.busy)
			return;
	}
	fail_msg("%u sites are busy", done.busy);
}

/* Threads and handlers of signals call functions all the time. */
static void test_in_and_out(void **state)
{
	const int rounds = getenv("LONG") ? 1000 : 25;
	pid_t pid = target_fork(run_with_signals);
	struct jumps *j = open_jumps();
	uint64_t stood = 0;
	uint32_t busy = 0;

	(void)state;
	target_runs();
	srand(1);
	for (int i = 0; i < rounds; i++) {
		struct jumps_done done = add_jumps(j, pid);
		assert_int_equal(done.written + done.busy, target_sites);
		stood += done.stood_ns;
		busy += done.busy;
		sleep_us(rand() % 3000);
		assert_int_equal(jumps_remove(j, rand() % 2 ? pid : 0), 0);
		assert_true(target_is_clean(pid));
		sleep_us(rand() % 1000);
	}
	target_runs();
	for (uint32_t i = 0; i < target_sites; i++)
		assert_true(target->hits[i] > 0);
	assert_true(target->signals > 0);
	print_message("# stood %.2f ms each time, %u sites were busy\n",
		      (double)stood * 1e-6 / rounds, busy);
	jumps_close(j);
	target_end(pid);
}

static void stand(void)
{
	target->wait = 1;
	await(&target->waiting, THREADS);
}

/* Every call passes the entry and one exit. */
static void test_counts(void **state)
{
	pid_t pid = target_fork(run_quietly);
	struct jumps *j = open_jumps();

	(void)state;
	target_runs();
	stand();
	add_all(j, pid);
	long before = target->rounds;
	target->wait = 0;
	await(&target->rounds, before + 1000);
	stand();
	uint64_t calls = (uint64_t)(target->rounds - before), in = 0, out = 0;
	for (uint32_t i = 0; i < target_sites; i++) {
		const bool exit = target_site[i].skips_red_zone;
		if (!exit)
			assert_int_equal(target->hits[i], calls);
		*(exit ? &out : &in) += target->hits[i];
	}
	assert_int_equal(in, calls * FUNCTIONS);
	assert_int_equal(out, in);
	jumps_close(j);
	assert_true(target_is_clean(pid));
	target->wait = 0;
	target_runs();
	for (uint32_t i = 0; i < target_sites; i++)
		in -= target->hits[i] * !target_site[i].skips_red_zone;
	assert_int_equal(in, 0);
	target_end(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_in_and_out, reset),
	    cmocka_unit_test_setup(test_counts, reset),
	};

	return unit_run(tests, target_setup, NULL);
}
