/* Jumps that come and go in running processes, which compute what they would without; and what
 * stays when somebody dies. */
#define _GNU_SOURCE
#include "tests/unit/tracer/engine/shim/jumps_target.h"

#include <sys/ptrace.h>
#include <sys/user.h>

#include "symbolizer/target/process.h"

/* Threads and handlers of signals call functions all the time. */
static void test_in_and_out(void **state)
{
	const int rounds = getenv("LONG") ? 1000 : 25;
	pid_t pid = target_fork(target_with_signals);
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

static void *call_some(void *arg)
{
	for (unsigned long i = 0; i < 20; i++)
		target_call_all(i);
	target->rounds++;
	return arg;
}

static void *start_some(void *arg)
{
	pthread_t t[THREADS];
	while (!target->stop) {
		for (unsigned i = 0; i < THREADS; i++)
			if (pthread_create(&t[i], NULL, call_some, NULL))
				abort();
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(t[i], NULL);
	}
	return arg;
}

/* Threads end all the time while others begin. */
static void run_briefly(void)
{
	pthread_t t;
	if (pthread_create(&t, NULL, start_some, NULL))
		abort();
	start_some(NULL);
	pthread_join(t, NULL);
}

static void test_short_threads(void **state)
{
	const int rounds = getenv("LONG") ? 500 : 25;
	pid_t pid = target_fork(run_briefly);
	struct jumps *j = open_jumps();

	(void)state;
	target_runs();
	for (int i = 0; i < rounds; i++) {
		add_jumps(j, pid);
		target_runs();
		assert_int_equal(jumps_remove(j, pid), 0);
		assert_true(target_is_clean(pid));
	}
	jumps_close(j);
	target_end(pid);
}

/* Every call passes the entry and one exit. */
static void test_counts(void **state)
{
	pid_t pid = target_fork(target_without_signals);
	struct jumps *j = open_jumps();

	(void)state;
	target_runs();
	target_stand();
	add_all(j, pid);
	long before = target->rounds;
	target->wait = 0;
	await(&target->rounds, before + 1000);
	target_stand();
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

/* One thread in the middle of something. */

static void run_alone(void)
{
	target_take_signals();
	target_thread(NULL);
}

/* The site whose jump would have `addr` inside. */
static int site_around(uint64_t addr)
{
	for (uint32_t i = 0; i < target_sites; i++)
		if (addr - target_site[i].addr - 1 < ARCH_JUMP_LEN - 1)
			return (int)i;
	return -1;
}

/* Let it run until it is in the middle of a site that is not in `seen`, and leave it with a signal,
 * whose handler waits. */
static int leave_inside(pid_t pid, uint64_t *seen, int sig)
{
	struct user_regs_struct r;
	int status, at = -1;
	assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	while (at < 0 || *seen >> at & 1) {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, __WALL), pid);
		assert_true(WIFSTOPPED(status));
		assert_int_equal(ptrace(PTRACE_GETREGS, pid, NULL, &r), 0);
		at = site_around(r.rip);
	}
	*seen |= UINT64_C(1) << at;
	target->wait = sig != SIGSTOP;
	assert_int_equal(ptrace(PTRACE_DETACH, pid, NULL, (void *)(long)sig), 0);
	return at;
}

static uint64_t next_instruction(pid_t pid)
{
	char text[256];
	unsigned long sp, ip = 0;
	assert_true(process_file(pid, "syscall", text, sizeof(text)) > 0);
	sscanf(text, "-1 %lx %lx", &sp, &ip);
	return ip;
}

static void await_stopped(pid_t pid)
{
	while (process_thread_state(pid, pid) != 'T')
		sleep_us(100);
}

/* A stopped process stays stopped, and goes on in the stub. */
static void test_moved(void **state)
{
	pid_t pid = target_fork(run_alone);
	struct jumps *j = open_jumps();
	uint64_t seen = 0;

	(void)state;
	await(&target->rounds, 1);
	for (int i = 0; i < 8; i++) {
		int at = leave_inside(pid, &seen, SIGSTOP);
		await_stopped(pid);
		uint64_t ip = next_instruction(pid);
		assert_int_equal(site_around(ip), at);
		assert_int_equal(add_jumps(j, pid).written, target_sites);
		await_stopped(pid);
		ip = next_instruction(pid);
		assert_true(ip - target_pool.part[0].addr < target_pool.part[0].len);
		kill(pid, SIGCONT);
		target_runs();
		assert_int_equal(jumps_remove(j, pid), 0);
		assert_true(target_is_clean(pid));
	}
	jumps_close(j);
	target_end(pid);
}

/* It waits in a handler, or in one on another stack above it, and would come back. */
static void check_busy(bool other_stack)
{
	pid_t pid = target_fork(run_alone);
	struct jumps *j = open_jumps();
	uint64_t seen = 0;

	await(&target->rounds, 1);
	int at = leave_inside(pid, &seen, SIGUSR1);
	await(&target->waiting, 1);
	if (other_stack)
		kill(pid, SIGUSR2);
	await(&target->waiting, 1 + other_stack);
	struct jumps_done done = add_jumps(j, pid);
	assert_int_equal(done.busy, 1);
	assert_int_equal(done.written, target_sites - 1);
	assert_int_equal(jumps_state(j, (uint32_t)at), JUMP_BUSY);
	target->wait = 0;
	target_runs();
	add_all(j, pid);
	target_runs();
	jumps_close(j);
	assert_true(target_is_clean(pid));
	target_end(pid);
}

static void test_busy(void **state)
{
	(void)state;
	check_busy(false);
	target_reset();
	check_busy(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_in_and_out, target_begin),
	    cmocka_unit_test_setup(test_short_threads, target_begin),
	    cmocka_unit_test_setup(test_counts, target_begin),
	    cmocka_unit_test_setup(test_moved, target_begin),
	    cmocka_unit_test_setup(test_busy, target_begin),
	};

	return unit_run(tests, target_setup, NULL);
}
