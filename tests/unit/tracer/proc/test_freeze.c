#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "symbolizer/target/process.h"
#include "tracer/proc/seize.h"

enum { PATIENCE_MS = 60000 };

/* Shared by the test and its child. */
struct shared {
	atomic_long count, other_count;
	atomic_int tid, result, signals, ready;
};

static struct shared *shared;

static int setup(void **state)
{
	(void)state;
	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(shared, 0, sizeof(*shared));
	return shared == MAP_FAILED;
}

static int teardown(void **state)
{
	(void)state;
	munmap(shared, sizeof(*shared));
	return 0;
}

static pid_t child(void (*body)(void))
{
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* Yama: to be traced by a sibling */
		body();
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

static void await(atomic_int *flag)
{
	for (int i = 0; i < PATIENCE_MS && !atomic_load(flag); i++)
		usleep(1000);
	assert_true(atomic_load(flag));
}

static void await_state(pid_t pid, char want)
{
	struct process p = {0};
	for (int i = 0; i < PATIENCE_MS && p.status.state != want; i++) {
		usleep(1000);
		assert_int_equal(process_read(pid, &p, NULL), 0);
	}
	assert_int_equal(p.status.state, want);
}

/* Wait until it counts on: then its state is that of a running thread, whatever it was before. */
static void await_counting(atomic_long *count)
{
	long then = atomic_load(count);
	for (int i = 0; i < PATIENCE_MS && atomic_load(count) == then; i++)
		usleep(1000);
	assert_true(atomic_load(count) != then);
}

static void kill_child(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void *count_other(void *arg)
{
	atomic_store(&shared->tid, gettid());
	for (;;)
		atomic_fetch_add(&shared->other_count, 1);
	return arg;
}

static void on_signal(int sig)
{
	(void)sig;
	atomic_fetch_add(&shared->signals, 1);
}

static void busy(void)
{
	pthread_t t;
	signal(SIGUSR1, on_signal);
	pthread_create(&t, NULL, count_other, NULL);
	atomic_store(&shared->ready, 1);
	for (;;)
		atomic_fetch_add(&shared->count, 1);
}

static struct freeze *freeze(pid_t tid)
{
	struct freeze *h = NULL;
	int r = freeze_thread(tid, PATIENCE_MS, &h);
	if (r == -EPERM) {
		print_message("# skipped: ptrace is not permitted here\n");
		skip();
	}
	assert_int_equal(r, 0);
	return h;
}

static void test_one_thread(void **state)
{
	(void)state;
	struct process p;
	pid_t pid = child(busy);
	await(&shared->ready);
	await(&shared->tid);
	for (int i = 0; i < 20; i++) {
		struct freeze *h = freeze(pid);
		long then = atomic_load(&shared->count);
		await_counting(&shared->other_count);
		assert_true(atomic_load(&shared->count) == then);
		assert_int_equal(process_read(pid, &p, NULL), 0);
		assert_int_equal(p.status.state, 't');
		assert_int_equal(freeze_release(h), 0);
		await_counting(&shared->count);
	}
	assert_int_equal(process_read(pid, &p, NULL), 0);
	assert_int_equal(p.status.state, 'R');
	assert_int_equal(p.status.tracer, 0);
	struct freeze *h = freeze(shared->tid);
	long then = atomic_load(&shared->other_count);
	await_counting(&shared->count);
	assert_true(atomic_load(&shared->other_count) == then);
	assert_int_equal(freeze_release(h), 0);
	await_counting(&shared->other_count);
	kill_child(pid);
}

static void test_signal_meanwhile(void **state)
{
	(void)state;
	pid_t pid = child(busy);
	await(&shared->ready);
	await(&shared->tid);
	for (int i = 1; i <= 50; i++) {
		/* Before the freeze, so that the stop may be the signal's own, or during it. */
		if (i % 2)
			tgkill(pid, pid, SIGUSR1);
		struct freeze *h = freeze(pid);
		if (!(i % 2))
			tgkill(pid, pid, SIGUSR1);
		assert_int_equal(freeze_release(h), 0);
		for (int k = 0; k < PATIENCE_MS && atomic_load(&shared->signals) < i; k++)
			usleep(1000);
		assert_int_equal(atomic_load(&shared->signals), i);
	}
	kill_child(pid);
}

/* A stopped process stays stopped, and one stopped during the freeze is stopped afterwards. */
static void test_group_stop(void **state)
{
	(void)state;
	pid_t pid = child(busy);
	await(&shared->ready);
	kill(pid, SIGSTOP);
	await_state(pid, 'T');
	assert_int_equal(freeze_release(freeze(pid)), 0);
	await_state(pid, 'T');
	long then = atomic_load(&shared->count);
	usleep(20000);
	assert_true(atomic_load(&shared->count) == then);
	kill(pid, SIGCONT);
	await_counting(&shared->count);

	struct freeze *h = freeze(pid);
	kill(pid, SIGSTOP);
	assert_int_equal(freeze_release(h), 0);
	await_state(pid, 'T');
	kill(pid, SIGCONT);
	await_counting(&shared->count);
	kill_child(pid);
}

static int to_child[2];

static void sleep_and_read(void)
{
	struct timespec t = {.tv_nsec = 300000000};
	char c = 0;
	close(to_child[1]);
	atomic_store(&shared->ready, 1);
	int r = nanosleep(&t, NULL);
	atomic_store(&shared->result, r ? -errno : 1);
	ssize_t n = read(to_child[0], &c, 1);
	atomic_store(&shared->result, n == 1 && c == 'x' ? 2 : -errno);
}

/* System calls interrupted by the freeze resume by themselves. */
static void test_in_system_call(void **state)
{
	(void)state;
	int status;
	assert_int_equal(pipe2(to_child, O_CLOEXEC), 0);
	pid_t pid = child(sleep_and_read);
	close(to_child[0]);
	await(&shared->ready);
	await_state(pid, 'S');
	assert_int_equal(freeze_release(freeze(pid)), 0);
	await(&shared->result);
	assert_int_equal(shared->result, 1);
	await_state(pid, 'S');
	assert_int_equal(freeze_release(freeze(pid)), 0);
	assert_int_equal(write(to_child[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(shared->result, 2);
	assert_int_equal(status, 0);
	close(to_child[1]);
}

/* The tracer dies while a thread is frozen: the thread resumes. */
static void test_holder_killed(void **state)
{
	(void)state;
	pid_t pid = child(busy);
	await(&shared->ready);
	atomic_store(&shared->ready, 0);
	pid_t holder = fork();
	if (!holder) {
		struct freeze *h;
		int r = freeze_thread(pid, PATIENCE_MS, &h);
		atomic_store(&shared->result, r ? r : 1);
		atomic_store(&shared->ready, 1);
		for (;;)
			pause();
	}
	await(&shared->ready);
	int got = atomic_load(&shared->result);
	if (got == 1) {
		await_state(pid, 't');
		kill_child(holder);
		await_counting(&shared->count);
		struct process p;
		assert_int_equal(process_read(pid, &p, NULL), 0);
		assert_int_equal(p.status.state, 'R');
		assert_int_equal(p.status.tracer, 0);
	} else {
		kill_child(holder);
	}
	kill_child(pid);
	if (got == -EPERM)
		skip();
	assert_int_equal(got, 1);
}

static void test_killed_while_held(void **state)
{
	(void)state;
	int status;
	pid_t pid = child(busy);
	await(&shared->ready);
	struct freeze *h = freeze(pid);
	kill(pid, SIGKILL);
	assert_int_equal(freeze_release(h), -ESRCH);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(freeze_thread(pid, PATIENCE_MS, &h), -ESRCH);
	assert_int_equal(freeze_release(NULL), 0);
}

/* A process traced by another is refused and left alone. */
static void test_traced_by_other(void **state)
{
	(void)state;
	struct freeze *h = NULL;
	pid_t pid = child(busy);
	await(&shared->ready);
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL)) {
		kill_child(pid);
		skip();
		return;
	}
	assert_int_equal(freeze_thread(pid, PATIENCE_MS, &h), -EPERM);
	await_counting(&shared->count);
	kill_child(pid);
}

/* The parent of a vfork is uninterruptible until the child is gone. */
static void vfork_and_wait(void)
{
	close(to_child[1]);
	atomic_store(&shared->ready, 1);
	pid_t pid = vfork();
	if (!pid) {
		char c;
		ssize_t n = read(to_child[0], &c, 1);
		(void)n;
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	atomic_store(&shared->result, 1);
	for (;;)
		atomic_fetch_add(&shared->count, 1);
}

static void test_does_not_stop(void **state)
{
	(void)state;
	struct freeze *h = NULL;
	struct process p;
	assert_int_equal(pipe2(to_child, O_CLOEXEC), 0);
	pid_t pid = child(vfork_and_wait);
	close(to_child[0]);
	await(&shared->ready);
	await_state(pid, 'D');
	int r = freeze_thread(pid, 50, &h);
	close(to_child[1]);
	if (r == -EPERM)
		skip();
	assert_int_equal(r, -ETIMEDOUT);
	await_counting(&shared->count);
	assert_int_equal(shared->result, 1);
	assert_int_equal(process_read(pid, &p, NULL), 0);
	assert_int_equal(p.status.tracer, 0);
	kill_child(pid);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_one_thread),	TEST(test_signal_meanwhile), TEST(test_group_stop),
	    TEST(test_in_system_call),	TEST(test_holder_killed),    TEST(test_killed_while_held),
	    TEST(test_traced_by_other), TEST(test_does_not_stop),
	};
	return unit_run(tests, NULL, NULL);
}
