#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracer/doctor/checks.h"
#include "tracer/proc/follow.h"
#include "tracer/proc/spawn.h"

enum { MAX_SEEN = 4096 };

struct seen {
	size_t n;
	struct {
		enum follow_kind kind;
		pid_t pid, parent;
		uint64_t time;
		char path[128];
	} ev[MAX_SEEN];
};

static void note(const struct follow_event *ev, void *arg)
{
	struct seen *s = arg;
	if (s->n == MAX_SEEN)
		return;
	s->ev[s->n].kind = ev->kind;
	s->ev[s->n].pid = ev->pid;
	s->ev[s->n].parent = ev->parent;
	s->ev[s->n].time = ev->time_ns;
	snprintf(s->ev[s->n++].path, sizeof(s->ev[0].path), "%s", ev->path);
}

/* Index of the first such event from `from` on, or -1; pid 0: any. */
static int find(const struct seen *s, size_t from, enum follow_kind kind, pid_t pid,
		const char *end)
{
	for (size_t i = from; i < s->n; i++) {
		size_t n = strlen(s->ev[i].path), k = strlen(end);
		if (s->ev[i].kind == kind && (!pid || s->ev[i].pid == pid) && n >= k &&
		    !strcmp(s->ev[i].path + n - k, end))
			return (int)i;
	}
	return -1;
}

/* Read events until that one comes; fails if none comes for a minute. */
static int await(struct follow *f, struct seen *s, enum follow_kind kind, pid_t pid,
		 const char *end)
{
	for (;;) {
		int at = find(s, 0, kind, pid, end);
		if (at >= 0)
			return at;
		struct pollfd p = {.fd = follow_fd(f), .events = POLLIN};
		assert_int_equal(poll(&p, 1, 60000), 1);
		assert_true(follow_read(f, note, s) >= 0);
	}
}

static struct follow *fresh(void)
{
	struct follow *f = NULL;
	if (selftest_perf()) {
		print_message("# skipped: perf_event_open is not permitted here\n");
		skip();
	}
	assert_int_equal(follow_new(&f, NULL), 0);
	return f;
}

static void test_command(void **state)
{
	(void)state;
	struct follow *f = fresh();
	struct seen *s = calloc(1, sizeof(*s));
	struct spawn_caller caller;
	struct spawn p;
	struct err e = {0};
	/* Two descendants: one that execs, one that does not. */
	static const char *const argv[] = {"sh", "-c", "(env true; :); (:); exec env sleep 0",
					   NULL};
	spawn_caller_save(&caller);
	assert_int_equal(spawn_prepare((char *const *)argv, &caller, 0, &p, &e), 0);
	pid_t pid = p.pid;
	assert_int_equal(follow_add_child(f, pid, &e), 0);
	assert_int_equal(follow_read(f, note, s), 0);
	assert_int_equal(spawn_release(&p, (char *const *)argv, &e), 0);

	int end = await(f, s, FOLLOW_EXIT, pid, "");
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	int sh = find(s, 0, FOLLOW_EXEC, pid, "sh");
	int libc = find(s, 0, FOLLOW_MAP, pid, "libc.so.6");
	int fork1 = find(s, 0, FOLLOW_FORK, 0, "");
	int sleep = find(s, 0, FOLLOW_EXEC, pid, "sleep");
	assert_true(sh >= 0 && libc > sh && fork1 > libc && sleep > fork1);
	assert_int_equal(s->ev[fork1].parent, pid);
	pid_t child = s->ev[fork1].pid;
	int gone = await(f, s, FOLLOW_EXIT, child, "");
	assert_true(gone > fork1);
	assert_true(find(s, 0, FOLLOW_EXEC, 0, "true") > fork1);
	struct stat st;
	assert_int_equal(stat(s->ev[libc].path, &st), 0);
	for (int i = 1; i < end; i++)
		assert_true(!s->ev[i].time || !s->ev[i - 1].time ||
			    s->ev[i].time >= s->ev[i - 1].time);
	assert_int_equal(find(s, 0, FOLLOW_LOST, 0, ""), -1);
	follow_free(f);
	free(s);
}

/* What a command did before its exec, still as this program, is not reported. */
static void test_failed_command(void **state)
{
	(void)state;
	struct follow *f = fresh();
	struct seen *s = calloc(1, sizeof(*s));
	struct spawn_caller caller;
	struct spawn p;
	static const char *const argv[] = {"no-such-command-here", NULL};
	spawn_caller_save(&caller);
	assert_int_equal(spawn_prepare((char *const *)argv, &caller, 0, &p, NULL), 0);
	pid_t pid = p.pid;
	assert_int_equal(follow_add_child(f, pid, NULL), 0);
	assert_int_equal(spawn_release(&p, (char *const *)argv, NULL), -ENOENT);
	int end = await(f, s, FOLLOW_EXIT, pid, "");
	assert_int_equal(find(s, 0, FOLLOW_MAP, 0, ""), -1);
	assert_int_equal(end, 0);
	follow_free(f);
	free(s);
}

static char to_map[64];

static void map_exec(void)
{
	int fd = open(to_map, O_RDONLY | O_CLOEXEC);
	mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
}

static void *thread_main(void *arg)
{
	map_exec();
	return arg;
}

/* Perform one action for each byte read. */
static void serve(int fd)
{
	char what;
	while (read(fd, &what, 1) == 1) {
		pthread_t t;
		if (what == 'm')
			map_exec();
		else if (what == 't' && !pthread_create(&t, NULL, thread_main, NULL))
			pthread_join(t, NULL);
		else if (what == 'f' && !fork()) {
			map_exec();
			_exit(0);
		} else if (what == 'f') {
			wait(NULL);
		}
	}
	_exit(0);
}

static int copy_of_library(void)
{
	static const char text[4096] = "not a library, and mapped like one";
	strcpy(to_map, "/tmp/test_follow.XXXXXX");
	int fd = mkstemp(to_map);
	return write(fd, text, sizeof(text)) == sizeof(text) ? close(fd) : -1;
}

static void test_running_process(void **state)
{
	(void)state;
	struct follow *f = fresh();
	struct seen *s = calloc(1, sizeof(*s));
	struct err e = {0};
	int fd[2];
	assert_int_equal(copy_of_library(), 0);
	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd[1]);
		serve(fd[0]);
	}
	close(fd[0]);
	assert_int_equal(follow_add_process(f, pid, &e), 0);
	static const char *const orders[] = {"m", "t", "f"};
	for (int i = 0; i < 3; i++) {
		size_t from = s->n = 0;
		assert_int_equal(write(fd[1], orders[i], 1), 1);
		int at = await(f, s, FOLLOW_MAP, 0, to_map);
		if (i < 2) {
			assert_int_equal(s->ev[at].pid, pid);
			continue;
		}
		int forked = find(s, from, FOLLOW_FORK, s->ev[at].pid, "");
		assert_true(forked >= 0 && forked < at);
		assert_int_equal(s->ev[forked].parent, pid);
		await(f, s, FOLLOW_EXIT, s->ev[at].pid, "");
	}
	close(fd[1]);
	await(f, s, FOLLOW_EXIT, pid, "");
	waitpid(pid, NULL, 0);
	follow_free(f);
	unlink(to_map);
	free(s);
}

static void *map_when_told(void *arg)
{
	char c;
	int fd = *(int *)arg;
	if (read(fd, &c, 1) == 1)
		map_exec();
	if (read(fd, &c, 1) != 1)
		_exit(0);
	return NULL;
}

/* The first thread ends: the descriptor does not stay readable, and later events still come. */
static void test_first_thread_ends(void **state)
{
	(void)state;
	struct follow *f = fresh();
	struct seen *s = calloc(1, sizeof(*s));
	int fd[2], start[2];
	assert_int_equal(copy_of_library(), 0);
	assert_int_equal(pipe2(fd, O_CLOEXEC) | pipe2(start, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (!pid) {
		pthread_t t;
		char c;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd[1]);
		close(start[1]);
		pthread_create(&t, NULL, map_when_told, &fd[0]);
		ssize_t n = read(start[0], &c, 1);
		pthread_exit(n ? &t : NULL);
	}
	close(fd[0]);
	close(start[0]);
	assert_int_equal(follow_add_process(f, pid, NULL), 0);
	close(start[1]);
	/* Wait until its first thread is a zombie. */
	char path[64], line[256] = "";
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	for (int i = 0; i < 60000 && !strstr(line, ") Z "); i++) {
		FILE *stat = fopen(path, "r");
		assert_non_null(stat);
		assert_non_null(fgets(line, sizeof(line), stat));
		fclose(stat);
		usleep(1000);
	}
	assert_non_null(strstr(line, ") Z "));
	struct pollfd p = {.fd = follow_fd(f), .events = POLLIN};
	int idle_polls = 0;
	for (int i = 0; i < 100 && !idle_polls; i++) {
		follow_read(f, note, s);
		idle_polls += poll(&p, 1, 10) == 0;
	}
	assert_int_equal(idle_polls, 1);
	assert_int_equal(find(s, 0, FOLLOW_EXIT, 0, ""), -1);
	assert_int_equal(write(fd[1], "m", 1), 1);
	await(f, s, FOLLOW_MAP, pid, to_map);
	close(fd[1]);
	await(f, s, FOLLOW_EXIT, pid, "");
	waitpid(pid, NULL, 0);
	follow_free(f);
	unlink(to_map);
	free(s);
}

/* Processes that end before they are looked at: everything they did is reported, then their end. */
static void test_short_lived(void **state)
{
	(void)state;
	struct follow *f = fresh();
	struct seen *s = calloc(1, sizeof(*s));
	int fd[2];
	assert_int_equal(copy_of_library(), 0);
	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd[1]);
		serve(fd[0]);
	}
	close(fd[0]);
	assert_int_equal(follow_add_process(f, pid, NULL), 0);
	assert_int_equal(write(fd[1], "fff", 3), 3);
	close(fd[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	await(f, s, FOLLOW_EXIT, pid, "");
	assert_true(follow_read(f, note, s) >= 0);
	int at = -1;
	for (int i = 0; i < 3; i++) {
		int forked = at = find(s, (size_t)(at + 1), FOLLOW_FORK, 0, "");
		assert_true(forked >= 0);
		int mapped = find(s, (size_t)forked, FOLLOW_MAP, s->ev[forked].pid, to_map);
		int ended = find(s, (size_t)forked, FOLLOW_EXIT, s->ev[forked].pid, "");
		assert_true(mapped > forked && ended > mapped);
		assert_int_equal(find(s, (size_t)ended + 1, FOLLOW_FORK, s->ev[forked].pid, ""),
				 -1);
	}
	follow_free(f);
	unlink(to_map);
	free(s);
}

static void *idle(void *arg)
{
	pause();
	return arg;
}

/* Create so many threads that a perf event for each on each CPU exceeds the limit; false if the
 * system does not allow it. */
static bool make_crowd(void)
{
	long n = 4200 / sysconf(_SC_NPROCESSORS_CONF) + 1;
	pthread_attr_t attr;
	pthread_t t;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	while (n-- > 0)
		if (pthread_create(&t, &attr, idle, NULL))
			return false;
	return true;
}

static void test_crowd(void **state)
{
	(void)state;
	struct follow *f = fresh();
	struct seen *s = calloc(1, sizeof(*s));
	int order[2], ready[2];
	char made = 0;
	assert_int_equal(copy_of_library(), 0);
	assert_int_equal(pipe2(order, O_CLOEXEC) | pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(order[1]);
		made = make_crowd() ? 'y' : 'n';
		if (write(ready[1], &made, 1) == 1)
			serve(order[0]);
		_exit(1);
	}
	assert_int_equal(read(ready[0], &made, 1), 1);
	if (made == 'y') {
		assert_int_equal(follow_add_process(f, pid, NULL), 0);
		assert_int_equal(write(order[1], "f", 1), 1);
		int at = await(f, s, FOLLOW_MAP, 0, to_map);
		int forked = find(s, 0, FOLLOW_FORK, s->ev[at].pid, "");
		assert_true(forked >= 0 && forked < at && s->ev[forked].parent == pid);
		/* Nothing from other processes of this machine. */
		for (size_t i = 0; i < s->n; i++)
			assert_true(s->ev[i].pid == pid || s->ev[i].pid == s->ev[at].pid);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(order[0]);
	close(order[1]);
	close(ready[0]);
	close(ready[1]);
	follow_free(f);
	unlink(to_map);
	free(s);
	if (made != 'y')
		skip();
}

static void test_no_process(void **state)
{
	(void)state;
	struct follow *f = fresh();
	struct err e = {0};
	assert_int_equal(follow_add_process(f, 0x7ffffffe, &e), -ESRCH);
	assert_non_null(strstr(e.what, "no such process"));
	follow_free(f);
	follow_free(NULL);
}

/* More records than the rings hold: the loss is reported, ends of processes are not lost. */
static void test_flood(void **state)
{
	(void)state;
	struct follow *f = fresh();
	struct seen *s = calloc(1, sizeof(*s));
	struct spawn_caller caller;
	struct spawn p;
	static const char *const argv[] = {
	    "sh", "-c", "i=0; while [ $i -lt 400 ]; do env true; i=$((i + 1)); done", NULL};
	spawn_caller_save(&caller);
	assert_int_equal(spawn_prepare((char *const *)argv, &caller, 0, &p, NULL), 0);
	pid_t pid = p.pid;
	assert_int_equal(follow_add_child(f, pid, NULL), 0);
	assert_int_equal(spawn_release(&p, (char *const *)argv, NULL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(follow_read(f, note, s) > 0);
	await(f, s, FOLLOW_EXIT, pid, "");
	assert_true(find(s, 0, FOLLOW_LOST, 0, "") >= 0);
	for (size_t i = 0; i < s->n; i++)
		if (s->ev[i].kind == FOLLOW_FORK)
			assert_true(find(s, i, FOLLOW_EXIT, s->ev[i].pid, "") > (int)i);
	follow_free(f);
	free(s);
}

static pid_t fork_waiting(void)
{
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

static bool is_among(const pid_t *pids, ssize_t n, pid_t pid)
{
	for (ssize_t i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/* Without records new children are found in /proc; earlier ones do not count. */
static void test_children_without_records(void **state)
{
	(void)state;
	pid_t *pids = NULL, old = fork_waiting();
	/* Start times have a resolution of 10 ms. */
	usleep(50000);
	struct follow *f = fresh();
	assert_int_equal(follow_add_process(f, getpid(), NULL), 0);
	usleep(50000);
	pid_t young = fork_waiting();
	ssize_t n = follow_processes(f, &pids);
	assert_true(is_among(pids, n, getpid()));
	assert_true(is_among(pids, n, young));
	assert_false(is_among(pids, n, old));
	kill(old, SIGKILL);
	kill(young, SIGKILL);
	assert_int_equal(waitpid(old, NULL, 0), old);
	assert_int_equal(waitpid(young, NULL, 0), young);
	free(pids);
	follow_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_command),
	    cmocka_unit_test(test_failed_command),
	    cmocka_unit_test(test_running_process),
	    cmocka_unit_test(test_no_process),
	    cmocka_unit_test(test_first_thread_ends),
	    cmocka_unit_test(test_short_lived),
	    cmocka_unit_test(test_flood),
	    cmocka_unit_test(test_children_without_records),
	    cmocka_unit_test(test_crowd),
	};
	return unit_run(tests, NULL, NULL);
}
