#include "tests/unit/unit.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tracer/sample/sampler.h"

/* The child, and what the sampler has told of it. */
struct seen {
	pid_t child;
	bool added, ended;	 /* adding it reads, too */
	unsigned samples, named; /* of the present read; those with the child's own function */
};

/* A function without an unwind table, as numeric libraries have: its caller follows from its code.
 */
void spin_without_table(void);
#ifdef __x86_64__
__asm__(".text\n"
	".type spin_without_table, @function\n"
	"spin_without_table:\n"
	"push %rbx\n"
	"sub $64, %rsp\n"
	"1: add $1, %rbx\n"
	"jmp 1b\n"
	".size spin_without_table, . - spin_without_table\n");
#else
void spin_without_table(void)
{
	for (volatile unsigned i = 0;; i++)
		;
}
#endif

static volatile sig_atomic_t goes_on;

static void go_on(int number)
{
	(void)number;
	goes_on = true;
}

__attribute__((noinline)) static void spin_for_ever(void)
{
	while (!goes_on)
		;
	spin_without_table();
	goes_on = false; /* it is not a tail call */
}

static bool is_in_spin(const struct sample *s)
{
	for (unsigned i = 0; s->native && i < s->native->depth; i++)
		if (!strcmp(s->native->frames[i]->function, "spin_for_ever"))
			return true;
	return false;
}

static uint64_t run_ns(pid_t pid)
{
	struct timespec t;
	clockid_t clock;
	assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
	assert_int_equal(clock_gettime(clock, &t), 0);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void let_run(pid_t pid, uint64_t ns)
{
	static const struct timespec pause = {.tv_nsec = 5000000};
	for (uint64_t end = run_ns(pid) + ns; run_ns(pid) < end;)
		nanosleep(&pause, NULL);
}

static void end_child(struct seen *seen)
{
	kill(seen->child, SIGKILL);
	assert_int_equal(waitpid(seen->child, NULL, 0), seen->child);
	seen->ended = true;
}

/* With the first sample in hand, the child takes more, in another function, and ends, and the
 * sampler's next look for what has ended is due. */
static void on_sample(const struct sample *s, void *arg)
{
	static const struct timespec look = {.tv_sec = 2};
	struct seen *seen = arg;
	seen->samples++;
	seen->named += is_in_spin(s);
	if (!seen->added || seen->ended)
		return;
	kill(seen->child, SIGUSR1);
	let_run(seen->child, 100000000);
	end_child(seen);
	nanosleep(&look, NULL);
}

static void on_lost(uint64_t time_ns, uint64_t count, void *arg)
{
	(void)time_ns;
	(void)count;
	(void)arg;
}

static void on_build(const char *file, const void *id, size_t len, void *arg)
{
	(void)file;
	(void)id;
	(void)len;
	(void)arg;
}

static void on_forget(void *arg)
{
	(void)arg;
}

static struct sampler *sampler_of(struct seen *seen)
{
	const struct sampler_sink sink = {seen, on_sample, on_lost, on_build, on_forget};
	struct sampler *s;
	struct err e = {0};
	if (!sampler_open(999, &sink, &s, &e))
		return s;
	print_message("# %s\n", e.what);
	skip();
	return NULL;
}

static void read_some(struct sampler *s, struct seen *seen)
{
	seen->samples = seen->named = 0;
	while (!seen->samples) {
		struct pollfd fd = {.fd = sampler_fd(s), .events = POLLIN};
		poll(&fd, 1, 100);
		assert_int_equal(sampler_read(s), 0);
	}
}

static void what_ended_during_a_read_is_known_in_the_next(void **state)
{
	(void)state;
	struct seen seen = {0};
	struct err e = {0};
	struct sampler *s = sampler_of(&seen);
	signal(SIGUSR1, go_on);
	seen.child = fork();
	if (!seen.child)
		spin_for_ever();
	assert_int_equal(sampler_add_process(s, seen.child, &e), 0);
	seen.added = true;
	read_some(s, &seen);
	assert_true(seen.ended);
	read_some(s, &seen);
	assert_int_equal(seen.named, seen.samples);
	sampler_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_ended_during_a_read_is_known_in_the_next),
	};
	return unit_run(tests, NULL, NULL);
}
