/* Whether a library that is in a process is another ditrace's, or leaves by itself; and what a
 * helper process keeps. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/ptrace.h>

#include "tracer/engine/shim/injector.c"

static struct shim_state in_use_by(pid_t tracer)
{
	return (struct shim_state){
	    .phase = SHIM_IN, .tracer = tracer, .since_ns = clock_ns(CLOCK_MONOTONIC)};
}

static void *tell_tid(void *tid)
{
	int *t = tid;
	t[0] = gettid();
	(void)!write(t[1], "", 1);
	pause();
	return NULL;
}

/* Its number may be that of another by now. */
static void test_tracer(void **state)
{
	struct shim_state s = in_use_by(getpid());
	(void)state;
	assert_false(is_moving(&s, INJECTOR_RECORDS));
	assert_int_equal(is_in_use(1, INJECTOR_RECORDS, &s, NULL), -EALREADY);
	s.since_ns = 1;
	assert_true(is_moving(&s, INJECTOR_RECORDS));
	assert_int_equal(is_in_use(1, INJECTOR_RECORDS, &s, NULL), -EBUSY);
	s.phase = SHIM_OUT;
	assert_false(is_moving(&s, INJECTOR_RECORDS));
	assert_int_equal(is_in_use(1, INJECTOR_RECORDS, &s, NULL), 0);

	pid_t child = fork();
	if (!child)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	s = in_use_by(child);
	assert_true(is_moving(&s, INJECTOR_RECORDS));

	int tid[2], ready[2];
	char c;
	pthread_t t;
	assert_int_equal(pipe(ready), 0);
	tid[1] = ready[1];
	assert_int_equal(pthread_create(&t, NULL, tell_tid, tid), 0);
	assert_int_equal(read(ready[0], &c, 1), 1);
	s = in_use_by(tid[0]);
	assert_true(is_moving(&s, INJECTOR_RECORDS));
	pthread_cancel(t);
	pthread_join(t, NULL);
}

static void keep_two(int sock, void *other)
{
	char c;
	helper_begin("ditrace-test", sock);
	helper_keep(*(int *)other, sock);
	helper_send(sock, "", 1);
	helper_receive(sock, &c, 1);
}

/* What ditrace holds is closed when it closes it, whether a helper is there or not. */
static void test_kept(void **state)
{
	int kept[2], closed[2], sock;
	char c;
	(void)state;
	assert_true(!pipe2(kept, O_CLOEXEC | O_NONBLOCK) && !pipe2(closed, O_CLOEXEC));
	pid_t helper = helper_start(keep_two, &kept[1], &sock);
	assert_true(helper > 0);
	close(kept[1]);
	close(closed[1]);
	assert_true(helper_receive(sock, &c, 1));
	assert_int_equal(read(closed[0], &c, 1), 0);
	assert_true(read(kept[0], &c, 1) < 0 && errno == EAGAIN);
	close(sock);
	assert_int_equal(waitpid(helper, NULL, 0), helper);
	assert_int_equal(read(kept[0], &c, 1), 0);
}

static bool is_stopped(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSTOPPED(status);
}

/* A program at whose start the dynamic linker has not mapped the C library yet. */
static void test_starting(void **state)
{
	struct injector_points points;
	struct err e = {0};
	int r = -EAGAIN;
	unsigned early = 0;
	(void)state;
	pid_t pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execl("/bin/sh", "sh", "-c", ":", (char *)NULL);
		_exit(127);
	}
	for (; r && is_stopped(pid); ptrace(PTRACE_SYSCALL, pid, NULL, NULL)) {
		r = injector_find_points(pid, &points, &e);
		early += r == -EAGAIN;
		assert_true(!r || r == -EAGAIN);
	}
	assert_true(!r && early);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_tracer),
	    cmocka_unit_test(test_kept),
	    cmocka_unit_test(test_starting),
	};

	return unit_run(tests, NULL, NULL);
}
