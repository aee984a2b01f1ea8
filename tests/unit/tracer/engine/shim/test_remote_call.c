/* Calls on a thread of another process: what they return, and that the process is unharmed, whether
 * the caller ends well or is killed in between. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "symbolizer/code/arch_x86_64.h"
#include "tracer/engine/shim/internal.h"

enum { PATIENCE_MS = 60000 };

/* Shared by the test and its children. */
struct shared {
	atomic_long rounds, wrong;
	atomic_int ready, called, release, end;
	char text[64];
	ssize_t got; /* by a read */
};

static struct shared *shared;
static int channel[2];
static uint64_t returning;

static void short_pause(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
}

static void await(atomic_int *what)
{
	while (!*what)
		short_pause();
}

static int find_sigreturn(struct dl_phdr_info *i, size_t size, void *arg)
{
	(void)size, (void)arg;
	if (!strstr(i->dlpi_name, "libc.so"))
		return 0;
	for (int k = 0; k < i->dlpi_phnum; k++) {
		const ElfW(Phdr) *p = &i->dlpi_phdr[k];
		const uint8_t *code = (const uint8_t *)i->dlpi_addr + p->p_vaddr;
		ssize_t at = p->p_type == PT_LOAD && p->p_flags & PF_X
				 ? remote_call_sigreturn(code, p->p_memsz)
				 : -1;
		if (at >= 0)
			returning = (uint64_t)(uintptr_t)(code + at);
	}
	return 1;
}

static int setup(void **state)
{
	(void)state;
	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	dl_iterate_phdr(find_sigreturn, NULL);
	return shared == MAP_FAILED || pipe(channel) || !returning;
}

static int teardown(void **state)
{
	(void)state;
	close(channel[0]);
	close(channel[1]);
	return munmap(shared, sizeof(*shared));
}

static pid_t child(void (*body)(void))
{
	pid_t pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* Yama: to be traced by a sibling */
	body();
	_exit(0);
}

/* Check continuously everything that a call could corrupt. */
static void compute(void)
{
	static char alternative[64 << 10];
	stack_t stack = {.ss_sp = alternative, .ss_size = sizeof(alternative)}, now;
	sigset_t mask;
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	sigaltstack(&stack, NULL);
	shared->ready = 1;
	while (!shared->end) {
		double sum = 0;
		uint64_t x = 1;
		for (int i = 1; i <= 1000; i++) {
			sum += 1.0 / i;
			x = x * 6364136223846793005ULL + (uint64_t)i;
		}
		sigprocmask(SIG_SETMASK, NULL, &mask);
		sigaltstack(NULL, &now);
		bool good =
		    sum > 7.48547086055034 && sum < 7.48547086055035 && x == 1268012618205120581ULL;
		good = good && sigismember(&mask, SIGUSR2) && !sigismember(&mask, SIGUSR1) &&
		       !sigismember(&mask, SIGTERM) && now.ss_sp == alternative;
		shared->wrong += !good;
		shared->rounds++;
	}
}

static void block(void)
{
	shared->ready = 1;
	char c;
	shared->got = read(channel[0], &c, 1);
	shared->end = 1;
}

/* The function called. Uses state that the caller may have left in disorder. */
static long greet(const char *text, long second)
{
	volatile double d = 3;
	strncpy(shared->text, text ? text : "", sizeof(shared->text) - 1);
	shared->called++;
	while (!shared->release)
		d = d * 1.5 - 1;
	return second + 1;
}

static struct remote_call call_of(const char *text, long second)
{
	return (struct remote_call){
	    .function = (uint64_t)(uintptr_t)greet,
	    .sigreturn = returning,
	    .data = text,
	    .size = text ? strlen(text) + 1 : 0,
	    .second = (uint64_t)second,
	};
}

static void end_well(pid_t pid)
{
	int status;
	shared->end = 1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(shared->wrong, 0);
}

static void await_rounds(void)
{
	for (long until = shared->rounds + 100; shared->rounds < until;)
		short_pause();
}

static void test_call(void **state)
{
	(void)state;
	const struct remote_call c = call_of("as it was written", 0);
	struct remote_thread *t;
	pid_t pid = child(compute);
	await(&shared->ready);
	shared->release = 1;
	for (int i = 0; i < 50; i++) {
		assert_int_equal(remote_thread_stop(pid, PATIENCE_MS, &t), 0);
		assert_true(remote_thread_regs(t)[ARCH_SP] > 4096);
		assert_int_equal(remote_thread_call(t, &c, PATIENCE_MS), 0);
		assert_int_equal(remote_thread_call(t, &c, PATIENCE_MS), 0);
		remote_thread_release(t);
	}
	await_rounds();
	assert_int_equal(shared->called, 100);
	assert_string_equal(shared->text, "as it was written");
	end_well(pid);
}

/* SIGSTOP that comes while the thread is stopped already takes effect in the call. */
static void test_stopped(void **state)
{
	(void)state;
	const struct remote_call c = call_of("while it is stopped", 0);
	struct remote_thread *t;
	siginfo_t info = {0};
	pid_t pid = child(compute);
	await(&shared->ready);
	shared->release = 1;
	assert_int_equal(remote_thread_stop(pid, PATIENCE_MS, &t), 0);
	kill(pid, SIGSTOP);
	assert_int_equal(remote_thread_call(t, &c, PATIENCE_MS), 0);
	assert_int_equal(remote_thread_call(t, &c, PATIENCE_MS), 0);
	remote_thread_release(t);
	assert_int_equal(shared->called, 2);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
	assert_int_equal(info.si_status, SIGSTOP);
	kill(pid, SIGCONT);
	await_rounds();
	end_well(pid);
}

static void test_ask(void **state)
{
	(void)state;
	const struct remote_call c = call_of(NULL, 41);
	struct remote_thread *t;
	uint64_t result = 0;
	pid_t pid = child(compute);
	await(&shared->ready);
	shared->release = 1;
	assert_int_equal(remote_thread_stop(pid, PATIENCE_MS, &t), 0);
	assert_int_equal(remote_thread_ask(t, &c, PATIENCE_MS, &result), 0);
	remote_thread_release(t);
	assert_int_equal(result, 42);
	await_rounds();
	end_well(pid);
}

/* An interrupted read(2) continues. */
static void test_blocked(void **state)
{
	(void)state;
	const struct remote_call c = call_of("x", 0);
	struct remote_thread *t;
	pid_t pid = child(block);
	await(&shared->ready);
	shared->release = 1;
	assert_int_equal(remote_thread_stop(pid, PATIENCE_MS, &t), 0);
	assert_int_equal(remote_thread_call(t, &c, PATIENCE_MS), 0);
	remote_thread_release(t);
	assert_int_equal(write(channel[1], "!", 1), 1);
	end_well(pid);
	assert_int_equal(shared->got, 1);
}

static void nap(void)
{
	const struct timespec some = {.tv_sec = 1};
	shared->ready = 1;
	shared->got = clock_nanosleep(CLOCK_MONOTONIC, 0, &some, NULL);
}

/* So does a call that the kernel restarts by another. */
static void test_sleeping(void **state)
{
	(void)state;
	const struct remote_call c = call_of("x", 0);
	struct remote_thread *t;
	pid_t pid = child(nap);
	await(&shared->ready);
	shared->release = 1;
	assert_int_equal(remote_thread_stop(pid, PATIENCE_MS, &t), 0);
	assert_int_equal(remote_thread_call(t, &c, PATIENCE_MS), 0);
	remote_thread_release(t);
	end_well(pid);
	assert_int_equal(shared->got, 0);
}

static pid_t called; /* by call_forever */

static void call_forever(void)
{
	const struct remote_call c = call_of("killed", 0);
	struct remote_thread *t;
	if (!remote_thread_stop(called, PATIENCE_MS, &t))
		remote_thread_call(t, &c, PATIENCE_MS);
}

/* Kill the caller during the call. */
static void kill_caller(void)
{
	pid_t caller = child(call_forever);
	await(&shared->called);
	kill(caller, SIGKILL);
	waitpid(caller, NULL, 0);
	assert_string_equal(shared->text, "killed");
	shared->release = 1;
}

static void test_killed(void **state)
{
	(void)state;
	called = child(compute);
	await(&shared->ready);
	kill_caller();
	await_rounds();
	end_well(called);
}

static void test_killed_while_blocked(void **state)
{
	(void)state;
	called = child(block);
	await(&shared->ready);
	kill_caller();
	assert_int_equal(write(channel[1], "!", 1), 1);
	end_well(called);
	assert_int_equal(shared->got, 1);
}

/* A function that does not exist, and one that faults. */
static void test_failing(void **state)
{
	(void)state;
	struct remote_call c = call_of("x", 0);
	struct remote_thread *t;
	pid_t pid = child(compute);
	await(&shared->ready);
	c.function = 16;
	assert_int_equal(remote_thread_stop(pid, PATIENCE_MS, &t), 0);
	assert_int_equal(remote_thread_call(t, &c, PATIENCE_MS), -EFAULT);
	remote_thread_release(t);
	await_rounds();
	end_well(pid);
	assert_int_equal(remote_thread_stop(pid, PATIENCE_MS, &t), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_call, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_stopped, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_ask, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_blocked, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_sleeping, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_killed_while_blocked, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_failing, setup, teardown),
	};
	return unit_run(tests, NULL, NULL);
}
