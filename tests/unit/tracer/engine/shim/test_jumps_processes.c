/* Jumps in processes that fork, execute another program, have code of others, or cannot be stopped.
 */
#define _GNU_SOURCE
#include "tests/unit/tracer/engine/shim/jumps_target.h"

#include <sys/ptrace.h>

#include "symbolizer/target/process.h"

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
	pid_t pid = target_fork(target_without_signals);
	struct jumps *j = open_jumps();
	const struct jump_site *s = target_site;
	uint8_t now;

	(void)state;
	target_runs();
	target_stand();
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

/* Memory that no jump reaches. */
static struct jump_pool target_far_pool(void)
{
	const struct jump_part *near = &target_pool.part[0];
	void *p = mmap((void *)(uintptr_t)(near->addr - (UINT64_C(1) << 33)), near->len,
		       PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(p != MAP_FAILED);
	return (struct jump_pool){1, {{(uintptr_t)p, near->len}}};
}

static void test_refused(void **state)
{
	struct jumps *j = open_jumps();
	struct jump_site s[2] = {target_site[0], target_site[0]};
	struct jump_pool pool = target_pool, far = target_far_pool();
	struct jumps_done done;
	struct err e;
	int status;
	pid_t pid = target_fork(target_without_signals);

	(void)state;
	target_runs();
	assert_int_equal(jumps_add(j, pid, &pool, s, 2, &done, &e), -EINVAL);
	s[0].len = 4;
	assert_int_equal(jumps_add(j, pid, &pool, s, 1, &done, &e), -EINVAL);
	s[0].len = JUMP_WINDOW_MAX + 1;
	assert_int_equal(jumps_add(j, pid, &pool, s, 1, &done, &e), -EINVAL);
	pool.part[0].addr += UINT64_C(1) << 32;
	assert_true(jumps_add(j, pid, &pool, s + 1, 1, &done, &e) < 0);
	assert_int_equal(jumps_add(j, pid, &far, s + 1, 1, &done, &e), 0);
	assert_int_equal(done.no_room, 1);
	pool = (struct jump_pool){0};
	assert_int_equal(jumps_add(j, pid, &pool, s + 1, 1, &done, &e), -EINVAL);
	pool.n = JUMP_PARTS + 1;
	assert_int_equal(jumps_add(j, pid, &pool, s + 1, 1, &done, &e), -EINVAL);
	pool = target_pool;
	pool.part[0].addr = (uintptr_t)target_was & ~UINT64_C(4095);
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
	pid_t pid = target_fork(target_with_signals);
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
	    cmocka_unit_test_setup(test_foreign, target_begin),
	    cmocka_unit_test_setup(test_refused, target_begin),
	    cmocka_unit_test_setup(test_fork, target_begin),
	    cmocka_unit_test_setup(test_vfork, target_begin),
	    cmocka_unit_test_setup(test_first_ended, target_begin),
	    cmocka_unit_test_setup(test_exec, target_begin),
	};

	return unit_run(tests, target_setup, NULL);
}
