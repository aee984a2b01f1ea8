#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbolizer/target/process.h"
#include "tracer/proc/spawn.h"

/* A child that sleeps until killed; it dies with the test. */
static pid_t sleeper(void)
{
	pid_t pid = spawn_part(SIGKILL);
	if (!pid)
		for (;;)
			pause();
	assert_true(pid > 0);
	return pid;
}

static int end(pid_t pid)
{
	int status = 0;
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void test_status(void **state)
{
	(void)state;
	static const char text[] =
	    "Name:\tState:\tX\nState:\tT (stopped)\nTgid:\t41\nPid:\t42\nPPid:\t7\n"
	    "TracerPid:\t99\nUid:\t1000\t1001\t0\t0\nNSpid:\t42\t3\nThreads:\t5\n"
	    "CapEff:\t000001c000080000\nSeccomp:\t2\n";
	struct process_status s;
	process_parse_status(text, &s);
	assert_int_equal(s.state, 'T');
	assert_int_equal(s.tgid, 41);
	assert_int_equal(s.ppid, 7);
	assert_int_equal(s.tracer, 99);
	assert_int_equal(s.uid, 1000);
	assert_int_equal(s.ns_pid, 3);
	assert_int_equal(s.ns_levels, 2);
	assert_int_equal(s.threads, 5);
	assert_true(s.caps == 0x1c000080000);

	process_parse_status("", &s);
	assert_int_equal(s.state, 0);
	assert_int_equal(s.ns_levels, 0);
}

static void test_own(void **state)
{
	(void)state;
	struct process p, child;
	struct err e = {0};
	assert_int_equal(process_read(getpid(), &p, &e), 0);
	assert_int_equal(p.pid, getpid());
	assert_int_equal(p.status.ppid, getppid());
	assert_int_equal(p.status.uid, getuid());
	assert_true(p.ns_known && !p.other_mnt_ns && !p.other_pid_ns);
	assert_non_null(strstr(p.exe, "test_process"));
	assert_true(p.start_ticks > 0);

	pid_t pid = sleeper();
	assert_int_equal(process_read(pid, &child, &e), 0);
	assert_int_equal(child.status.ppid, getpid());
	assert_true(child.start_ticks >= p.start_ticks);
	assert_int_equal(process_check(pid, &e), 0);
	end(pid);
}

static void test_gone(void **state)
{
	(void)state;
	struct process p;
	struct err e = {0};
	pid_t pid = sleeper();
	assert_true(process_alive(pid));
	assert_false(process_thread_ended(pid, pid));
	kill(pid, SIGKILL);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_false(process_alive(pid));
	assert_true(process_thread_ended(pid, pid));
	assert_int_equal(process_read(pid, &p, &e), -ESRCH);
	assert_non_null(strstr(e.what, "zombie"));
	assert_int_equal(process_check(pid, &e), -ESRCH);
	end(pid);
	assert_false(process_alive(pid));
	assert_true(process_thread_ended(pid, pid));
	assert_int_equal(process_read(pid, &p, &e), -ESRCH);
	assert_non_null(strstr(e.what, "no such process"));
	assert_true(*e.hint);
	assert_int_equal(process_read(0, &p, &e), -ESRCH);
	assert_int_equal(process_read(-1, &p, &e), -ESRCH);
}

static int gate[2];

static void *linger(void *arg)
{
	char c;
	(void)arg;
	/* Returns when the test closes its end. */
	ssize_t n = read(gate[0], &c, 1);
	(void)n;
	_exit(0);
}

/* If its first thread has exited, a process has the state of a zombie but is alive. */
static void test_first_thread_ended(void **state)
{
	(void)state;
	pid_t *tids;
	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (!pid) {
		pthread_t t;
		close(gate[1]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_create(&t, NULL, linger, NULL);
		pthread_exit(NULL);
	}
	close(gate[0]);
	struct process p = {0};
	for (int i = 0; i < 60000 && p.status.state != 'Z'; i++) {
		usleep(1000);
		if (process_read(pid, &p, NULL))
			break;
	}
	assert_int_equal(p.status.state, 'Z');
	assert_true(process_alive(pid));
	assert_true(process_threads(pid, &tids) >= 1);
	free(tids);
	close(gate[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(process_threads(pid, &tids), 0);
}

static void test_another_user(void **state)
{
	(void)state;
	struct err e = {0};
	int status;
	if (geteuid()) {
		skip();
		return;
	}
	pid_t target = sleeper(), pid = fork();
	if (!pid) {
		bool ok = !setuid(65534) && process_check(target, &e) == -EPERM &&
			  strstr(e.what, "user root") && strstr(e.hint, "sudo ditrace attach");
		_exit(ok ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	end(target);
}

static void test_cmdline(void **state)
{
	(void)state;
	char out[64], small[5];
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execlp("sleep", "sleep", "1000", (char *)NULL);
		_exit(1);
	}
	for (int i = 0; i < 60000 && strncmp(process_cmdline(pid, out, sizeof(out)), "sleep", 5);
	     i++)
		usleep(1000);
	assert_string_equal(out, "sleep 1000");
	assert_string_equal(process_cmdline(pid, small, sizeof(small)), "slee");
	end(pid);
	assert_string_equal(process_cmdline(pid, out, sizeof(out)), "?");
}

static int run(const char *const argv[], struct err *e)
{
	struct spawn_caller caller;
	struct spawn s;
	int status;
	spawn_caller_save(&caller);
	assert_int_equal(spawn_prepare((char *const *)argv, &caller, 0, &s, e), 0);
	pid_t pid = s.pid;
	int r = spawn_release(&s, (char *const *)argv, e);
	if (r)
		return r;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return spawn_exit_status(status);
}

static void test_spawn(void **state)
{
	(void)state;
	struct err e = {0};
	assert_int_equal(run((const char *const[]){"sh", "-c", "exit 7", NULL}, &e), 7);
	assert_int_equal(run((const char *const[]){"sh", "-c", "kill -TERM $$", NULL}, &e),
			 128 + SIGTERM);
	assert_int_equal(run((const char *const[]){"no-such-command-here", NULL}, &e), -ENOENT);
	assert_string_equal(e.what, "cannot run no-such-command-here: No such file or directory");
	assert_int_equal(spawn_failure_status(-ENOENT), 127);
	assert_int_equal(run((const char *const[]){"/etc/passwd", NULL}, &e), -EACCES);
	assert_int_equal(spawn_failure_status(-EACCES), 126);
	/* No child is left. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* A signal mask from this process's status, in the kernel's format. */
static void signal_mask(const char *name, char mask[17])
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "r");
	assert_non_null(f);
	mask[0] = '\0';
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)))
			sscanf(line + strlen(name), ": %16s", mask);
	fclose(f);
	assert_int_equal(strlen(mask), 16);
}

/* The command inherits the signal dispositions of ditrace's caller, whatever ditrace changed
 * itself. */
static void test_spawn_signals(void **state)
{
	(void)state;
	static const char script[] =
	    "test $(awk '/^SigIgn/ { print $2 }' /proc/self/status) = $1 && "
	    "test $(awk '/^SigBlk/ { print $2 }' /proc/self/status) = $2";
	char ignored[17], blocked[17];
	char *const argv[] = {"sh", "-c", (char *)script, "sh", ignored, blocked, NULL};
	struct spawn_caller caller;
	struct spawn s;
	sigset_t usr2, old;
	int status;
	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	sigprocmask(SIG_SETMASK, &usr2, &old);
	signal(SIGINT, SIG_DFL);
	signal(SIGUSR1, SIG_IGN);
	spawn_caller_save(&caller);
	signal_mask("SigIgn", ignored);
	signal_mask("SigBlk", blocked);
	signal(SIGINT, SIG_IGN);
	signal(SIGUSR1, SIG_DFL);
	sigprocmask(SIG_SETMASK, &old, NULL);
	assert_int_equal(spawn_prepare(argv, &caller, 0, &s, NULL), 0);
	pid_t pid = s.pid;
	assert_int_equal(spawn_release(&s, argv, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	signal(SIGINT, SIG_DFL);
	assert_int_equal(spawn_exit_status(status), 0);
}

/* The command does not run before the release, nor if ditrace exits instead. */
static void test_spawn_gate(void **state)
{
	(void)state;
	char file[] = "/tmp/test_process.XXXXXX", script[128];
	int fd = mkstemp(file);
	assert_true(fd >= 0);
	close(fd);
	snprintf(script, sizeof(script), "echo ran > %s", file);
	const char *const argv[] = {"sh", "-c", script, NULL};
	struct spawn_caller caller;
	struct spawn s;
	spawn_caller_save(&caller);
	assert_int_equal(spawn_prepare((char *const *)argv, &caller, 0, &s, NULL), 0);
	pid_t pid = s.pid;
	assert_true(process_alive(pid));
	spawn_cancel(&s);
	assert_false(process_alive(pid));
	char c;
	fd = open(file, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, &c, 1), 0);
	close(fd);
	unlink(file);
}

/* A child killed at the gate must not cause SIGPIPE in ditrace. */
static void test_spawn_killed(void **state)
{
	(void)state;
	const char *const argv[] = {"true", NULL};
	struct spawn_caller caller;
	struct spawn s;
	siginfo_t info;
	spawn_caller_save(&caller);
	assert_int_equal(spawn_prepare((char *const *)argv, &caller, 0, &s, NULL), 0);
	kill(s.pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)s.pid, &info, WEXITED | WNOWAIT), 0);
	assert_true(spawn_release(&s, (char *const *)argv, NULL) < 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_parse_pid(void **state)
{
	static const char *const bad[] = {
	    "", "0", "-5", "abc", "12x", "4194305", "99999999999999999999"};
	struct err e;
	pid_t pid = 7;
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(process_parse_pid(bad[i], &pid, &e), -EINVAL);
		assert_non_null(strstr(e.what, "is not a process ID"));
		assert_int_equal(pid, 7);
	}
	assert_int_equal(process_parse_pid("4121", &pid, NULL), 0);
	assert_int_equal(pid, 4121);
}

/* Child processes that exit at once: none keeps the pipe open, in any order of events. */
static void test_spawn_part(void **state)
{
	int ends[2];
	char none;
	(void)state;
	assert_int_equal(pipe(ends), 0);
	for (int i = 0; i < 100; i++) {
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (!pid)
			_exit(sleeper() < 0);
		int status;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &none, 1), 0);
	close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_status),	 cmocka_unit_test(test_own),
	    cmocka_unit_test(test_gone),	 cmocka_unit_test(test_first_thread_ended),
	    cmocka_unit_test(test_another_user), cmocka_unit_test(test_cmdline),
	    cmocka_unit_test(test_spawn),	 cmocka_unit_test(test_spawn_signals),
	    cmocka_unit_test(test_spawn_gate),	 cmocka_unit_test(test_spawn_killed),
	    cmocka_unit_test(test_spawn_part),	 cmocka_unit_test(test_parse_pid),
	};
	signal(SIGCHLD, SIG_DFL); /* even if the caller ignores it */
	signal(SIGTERM, SIG_DFL);
	return unit_run(tests, NULL, NULL);
}
