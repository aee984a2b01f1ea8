/* Jumps that come and go in running processes, which compute what they would without; and what
 * stays when somebody dies. */
#define _GNU_SOURCE
#include "tests/unit/tracer/engine/shim/jumps_target.h"

#include <sys/ptrace.h>
#include <sys/user.h>

#include "symbolizer/target/process.h"

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
		assert_true(ip - target_pool.addr < target_pool.len);
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

/* Whose code it is. */

static void poke(pid_t pid, uint64_t addr, uint8_t byte)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)addr), 1);
	close(fd);
}

static void test_foreign(void **state)
{
	enum { INT3 = 0xcc };
	pid_t pid = target_fork(run_quietly);
	struct jumps *j = open_jumps();
	const struct jump_site *s = target_site;
	uint8_t now;

	(void)state;
	target_runs();
	stand();
	poke(pid, s->addr, INT3);
	struct jumps_done done = add_jumps(j, pid);
	assert_int_equal(done.foreign, 1);
	assert_int_equal(done.written, target_sites - 1);
	assert_int_equal(jumps_state(j, 0), JUMP_FOREIGN);
	assert_int_equal(jumps_state(j, 1), JUMP_WRITTEN);
	/* what is set over a jump stays, too */
	poke(pid, s[1].addr, INT3);
	assert_int_equal(jumps_remove(j, pid), 0);
	for (int i = 0; i < 2; i++) {
		target_peek(pid, s[i].addr, &now, 1);
		assert_int_equal(now, INT3);
	}
	poke(pid, s->addr, s->bytes[0]);
	poke(pid, s[1].addr, 0xe9);
	target->wait = 0;
	target_runs();
	add_all(j, pid);
	jumps_close(j);
	assert_true(target_is_clean(pid));
	target_end(pid);
}

static void test_refused(void **state)
{
	struct jumps *j = open_jumps();
	struct jump_site s[2] = {target_site[0], target_site[0]};
	struct jump_pool pool = target_pool;
	struct jumps_done done;
	struct err e;
	int status;
	pid_t pid = target_fork(run_quietly);

	(void)state;
	target_runs();
	assert_int_equal(jumps_add(j, pid, &pool, s, 2, &done, &e), -EINVAL);
	s[0].len = 4;
	assert_int_equal(jumps_add(j, pid, &pool, s, 1, &done, &e), -EINVAL);
	s[0].len = JUMP_WINDOW_MAX + 1;
	assert_int_equal(jumps_add(j, pid, &pool, s, 1, &done, &e), -EINVAL);
	pool.addr += UINT64_C(1) << 32;
	assert_int_equal(jumps_add(j, pid, &pool, s + 1, 1, &done, &e), -EINVAL);
	pool = (struct jump_pool){(uintptr_t)target_was & ~UINT64_C(4095), target_pool.len};
	assert_true(jumps_add(j, pid, &pool, s + 1, 1, &done, &e) < 0);
	/* five bytes in two pages */
	s[0] = target_site[0];
	s[0].addr = (s[0].addr & ~UINT64_C(4095)) - 2;
	assert_int_equal(jumps_add(j, pid, &target_pool, s, 1, &done, &e), 0);
	assert_int_equal(done.split, 1);
	/* somebody else traces it */
	assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
	assert_int_equal(jumps_add(j, pid, &target_pool, s + 1, 1, &done, &e), -EBUSY);
	assert_non_null(strstr(e.what, "traces it already"));
	assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_int_equal(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
	assert_true(target_is_clean(pid));
	target_end(pid);
	assert_int_equal(jumps_add(j, pid, &target_pool, s + 1, 1, &done, &e), -ESRCH);
	jumps_close(j);
}

/* A child has the jumps of its parent, until it is asked about them; then they count otherwise. */
static void test_fork(void **state)
{
	pid_t pid = target_fork(run_with_signals);
	struct jumps *j = open_jumps();
	struct jumps_done done;
	struct err e;

	(void)state;
	target_runs();
	add_all(j, pid);
	target->fork = 1;
	while (!target->other)
		sleep_us(1000);
	assert_int_equal(jumps_remove(j, pid), 0);
	assert_true(target_is_clean(pid));
	assert_false(target_is_clean(target->other));
	done = add_jumps(j, target->other);
	assert_int_equal(done.written, target_sites);
	assert_int_equal(done.stood_ns, 0);
	for (uint32_t i = 0; i < target_sites; i++)
		target_site[i].number += SITES_MAX;
	assert_int_equal(
	    jumps_add(j, target->other, &target_pool, target_site, target_sites, &done, &e), 0);
	assert_int_equal(done.written, target_sites);
	for (uint32_t i = 0; i < target_sites; i++) {
		target_site[i].number -= SITES_MAX;
		while (!((volatile uint64_t *)target->hits)[SITES_MAX + i])
			sleep_us(1000);
	}
	jumps_close(j);
	assert_true(target_is_clean(target->other));
	target_runs();
	target_end(pid);
}

static void *wait_in_vfork(void *arg)
{
	if (!vfork()) {
		while (!target->stop)
			;
		_exit(0);
	}
	return arg;
}

static void run_beside_vfork(void)
{
	pthread_t t;
	if (pthread_create(&t, NULL, wait_in_vfork, NULL))
		abort();
	target_thread(NULL);
	pthread_join(t, NULL);
}

/* A thread that cannot be stopped is not waited for for ever. */
static void test_vfork(void **state)
{
	struct jumps *j = open_jumps();
	struct jumps_done done;
	struct err e;

	(void)state;
	if (!getenv("LONG")) {
		jumps_close(j);
		return;
	}
	pid_t pid = target_fork(run_beside_vfork);
	target_runs();
	while (process_thread_state(pid, pid + 1) != 'D')
		sleep_us(100);
	assert_int_equal(jumps_add(j, pid, &target_pool, target_site, target_sites, &done, &e),
			 -ETIMEDOUT);
	print_message("# %s; %s\n", e.what, e.hint);
	assert_int_equal(done.stood_ns, 0);
	target_runs();
	assert_true(target_is_clean(pid));
	jumps_close(j);
	target_end(pid);
}

static void *outlive_first(void *arg)
{
	target_thread(arg);
	_exit(target->wrong != 0);
}

static void run_without_first(void)
{
	pthread_t t;
	if (pthread_create(&t, NULL, outlive_first, NULL))
		abort();
	pthread_exit(NULL);
}

/* The first thread has ended, and with it what /proc has of the process. */
static void test_first_ended(void **state)
{
	pid_t pid = target_fork(run_without_first);
	struct jumps *j = open_jumps();
	struct jumps_done done;
	struct err e;

	(void)state;
	while (process_thread_state(pid, pid) != 'Z')
		sleep_us(100);
	assert_int_equal(jumps_add(j, pid, &target_pool, target_site, target_sites, &done, &e),
			 -ESRCH);
	target_runs();
	jumps_close(j);
	target_end(pid);
}

static void run_another(void)
{
	while (!target->stop) {
		target_call_all(1);
		target->rounds++;
	}
	execl("/bin/sleep", "sleep", "1000", NULL);
}

static void test_exec(void **state)
{
	pid_t pid = target_fork(run_another);
	struct jumps *j = open_jumps();
	struct jumps_done done;
	struct process p = {0};
	struct err e;

	(void)state;
	await(&target->rounds, 1);
	add_all(j, pid);
	target->stop = 1;
	while (strcmp(p.comm, "sleep") || p.status.state != 'S') {
		assert_int_equal(process_read(pid, &p, NULL), 0);
		sleep_us(1000);
	}
	assert_int_equal(jumps_remove(j, pid), 0);
	assert_true(jumps_add(j, pid, &target_pool, target_site, target_sites, &done, &e) < 0);
	jumps_close(j);
	assert_true(process_alive(pid));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_in_and_out, reset),
	    cmocka_unit_test_setup(test_short_threads, reset),
	    cmocka_unit_test_setup(test_counts, reset),
	    cmocka_unit_test_setup(test_moved, reset),
	    cmocka_unit_test_setup(test_busy, reset),
	    cmocka_unit_test_setup(test_foreign, reset),
	    cmocka_unit_test_setup(test_refused, reset),
	    cmocka_unit_test_setup(test_fork, reset),
	    cmocka_unit_test_setup(test_vfork, reset),
	    cmocka_unit_test_setup(test_first_ended, reset),
	    cmocka_unit_test_setup(test_exec, reset),
	};

	return unit_run(tests, target_setup, NULL);
}
