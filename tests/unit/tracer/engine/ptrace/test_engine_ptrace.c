/* The engine ptrace on children whose functions are known byte by byte: its reports, that they run
 * on unharmed, and that their code is restored however the engine ends. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "tracer/engine/engine.h"

enum { PATIENCE_MS = 120000, THREADS = 8, CODE_MAX = 512, INT3 = 0xcc };

/* sum(a, b) = a + b in compiler style: push at the entry, and each kind of instruction at the exit
 * that a breakpoint can replace. Nobody calls idle. */
__asm__(".text\n"
	".globl probed_sum\nprobed_sum:\n"
	"push %rbp\n"
	"mov %rsp, %rbp\n"
	"lea (%rdi,%rsi), %rax\n"
	"cmp $0, %rax\n"
	".globl probed_jcc\nprobed_jcc:\n"
	"je 1f\n"
	".globl probed_call\nprobed_call:\n"
	"call probed_leaf\n"
	"1:\n"
	".globl probed_lea\nprobed_lea:\n"
	"lea probed_word(%rip), %rcx\n"
	"add (%rcx), %rax\n"
	"pop %rbp\n"
	".globl probed_ret\nprobed_ret:\n"
	"ret\n"
	".globl probed_leaf\nprobed_leaf:\n"
	"nop\n"
	"ret\n"
	".globl probed_idle\nprobed_idle:\n"
	"nop\n"
	"ret\n"
	".globl probed_end\nprobed_end:\n"
	".data\n.globl probed_word\nprobed_word: .quad 0\n.text\n");

extern const uint8_t probed_jcc[], probed_call[], probed_lea[], probed_ret[], probed_leaf[],
    probed_idle[], probed_end[];
long probed_sum(long a, long b);

static struct shared {
	atomic_long rounds, wrong, alarms, chld, prof, segv;
	atomic_int stop, ready, threads, tracer;
} * shared;

static int setup(void **state)
{
	(void)state;
	if (!shared)
		shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(shared, 0, sizeof(*shared));
	return shared == MAP_FAILED;
}

static void *sum_on(void *arg)
{
	shared->threads++;
	for (long i = (long)(intptr_t)arg; !shared->stop; i++) {
		shared->wrong += probed_sum(i, -i) != 0;
		shared->wrong += probed_sum(i, 5) != i + 5;
		shared->rounds++;
	}
	return NULL;
}

static pid_t child(void (*body)(void))
{
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		body();
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void await(atomic_long *n, long least)
{
	for (int i = 0; i < PATIENCE_MS && *n < least; i++)
		sleep_ms(1);
	if (*n < least)
		fail_msg("%ld instead of %ld after %d ms", *n, least, PATIENCE_MS);
}

static void end(pid_t pid, int wanted)
{
	int status;
	shared->stop = 1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status != wanted)
		fail_msg("status %#x instead of %#x", (unsigned)status, (unsigned)wanted);
	assert_int_equal(shared->wrong, 0);
}

/* A site of probed_sum: the entry at its start, or the exit at `at`. */
static struct probe_site site(const void *at, uint32_t kind, uint32_t op)
{
	struct maps maps;
	assert_int_equal(maps_read(getpid(), &maps, NULL), 0);
	const struct mapping *m = maps_find(&maps, (uintptr_t)at);
	struct probe_site s = {(uintptr_t)at - m->start + m->offset, op, (uint16_t)kind, 0, 0};
	maps_free(&maps);
	return s;
}

static bool none_interesting(pid_t pid)
{
	(void)pid;
	return false;
}

static const struct op_plan plan = {
    .nentry = 2,
    .nexit = 1,
    .read = {{.kind = READ_WORD, .a = 0},
	     {.kind = READ_WORD, .a = 1},
	     {.kind = READ_WORD, .a = LOC_NOW | 10 /* rax */}},
};

static struct engine *open_as(const struct engine_wanted *wanted)
{
	const struct proc_conf conf = {.generation = 1};
	struct engine *g;
	struct err e = {0};
	if (engine_ptrace_open(wanted, &g, &e))
		fail_msg("%s", e.what);
	for (uint32_t op = 0; op < 4; op++)
		assert_int_equal(g->set_plans(g, op, &plan, 1, NULL), 0);
	assert_int_equal(g->set_proc(g, 0, &conf), 0);
	return g;
}

static struct engine *open_engine(void)
{
	return open_as(&(struct engine_wanted){.nplans = 4, .interesting = none_interesting});
}

static int attach_sites(struct engine *g, pid_t pid, const struct probe_site *sites, size_t n,
			struct err *e)
{
	char exe[4096];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	assert_true(len > 0);
	exe[len] = '\0';
	return g->attach(g, pid, 0, &(struct probe_file){.path = exe, .sites = sites, .nsites = n},
			 e);
}

static int try_attach(struct engine *g, pid_t pid, const void *exit_at, struct err *e)
{
	const struct probe_site sites[] = {site((const void *)probed_sum, SITE_ENTRY, 1),
					   site(exit_at, SITE_EXIT, 1)};
	return attach_sites(g, pid, sites, 2, e);
}

static void attach(struct engine *g, pid_t pid, const void *exit_at)
{
	struct err e = {0};
	if (try_attach(g, pid, exit_at, &e))
		fail_msg("%s", e.what);
}

struct seen {
	long entries, exits, wrong, a, b;
	uint64_t seq;
};

/* For one thread: each exit follows its entry and has the right sum. */
static void on_hit(const struct hit *h, void *arg)
{
	struct seen *s = arg;
	const struct item *it = (const struct item *)(h + 1);
	const long *w = (const long *)(it + 1);
	if (h->kind == HIT_ENTRY) {
		s->wrong += h->seq != s->seq + 1 && s->seq;
		s->a = w[0];
		s->b = w[2];
		s->seq = h->seq;
		s->entries++;
	} else {
		s->wrong += h->seq != s->seq || w[0] != s->a + s->b || h->depth != 0;
		s->exits++;
	}
}

static void any_hit(const struct hit *h, void *arg)
{
	*(long *)arg += h->kind == HIT_EXIT;
}

static void on_news(const struct follow_event *ev, void *arg)
{
	*(int *)arg |= 1 << ev->kind;
}

/* Wait for the end of a traced process, which stays until its records have been read. Returns the
 * number of exits; *kinds are the events reported. */
static long end_traced(struct engine *g, pid_t pid, int wanted, int *kinds)
{
	long exits = 0;
	int status = -1, ms = 0;
	*kinds = 0;
	shared->stop = 1;
	for (; !(*kinds & 1 << FOLLOW_EXIT) && ms < PATIENCE_MS; ms++) {
		g->follow(g, on_news, kinds);
		g->consume(g, any_hit, &exits);
		sleep_ms(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, wanted);
	assert_int_equal(shared->wrong, 0);
	return exits;
}

static size_t code_size(void)
{
	return (size_t)(probed_end - (const uint8_t *)probed_sum);
}

static void read_code(pid_t pid, uint8_t its[CODE_MAX])
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, its, code_size(), (off_t)(uintptr_t)probed_sum), code_size());
	close(fd);
}

static bool is_code_as_before(pid_t pid)
{
	uint8_t its[CODE_MAX];
	read_code(pid, its);
	return !memcmp(its, (const void *)probed_sum, code_size());
}

static void code_is_as_before(pid_t pid)
{
	uint8_t its[CODE_MAX];
	read_code(pid, its);
	assert_memory_equal(its, (const void *)probed_sum, code_size());
}

/* The code is unchanged except for `n` breakpoints. */
static void code_is_as_before_but_for(pid_t pid, unsigned n)
{
	uint8_t its[CODE_MAX];
	read_code(pid, its);
	for (size_t i = 0; i < code_size(); i++)
		n -= its[i] != ((const uint8_t *)probed_sum)[i];
	assert_int_equal(n, 0);
}

/* Whether SIGTRAP is in this set of a thread's. */
static bool has_sigtrap(pid_t tid, const char *set)
{
	char text[4096];
	process_file(tid, "status", text, sizeof(text));
	const char *signals = process_line(text, set);
	assert_non_null(signals);
	return strtoull(signals, NULL, 16) >> (SIGTRAP - 1) & 1;
}

static bool is_caught(pid_t pid)
{
	return has_sigtrap(pid, "SigCgt");
}

static bool is_blocked(pid_t pid)
{
	pid_t *tids;
	bool is = false;
	ssize_t n = process_threads(pid, &tids);
	assert_true(n > 0);
	for (ssize_t i = 0; i < n; i++)
		is |= tids[i] != pid && has_sigtrap(tids[i], "SigBlk");
	free(tids);
	return is;
}

/* Whether it has the mapping of the engine's handler: executable, without a file. */
static bool has_page(pid_t pid)
{
	struct maps maps;
	bool has = false;
	assert_int_equal(maps_read(pid, &maps, NULL), 0);
	for (size_t i = 0; i < maps.n; i++)
		has |= maps.map[i].exec && !*maps.map[i].path;
	maps_free(&maps);
	return has;
}

static bool is_traced(pid_t pid)
{
	struct process p;
	return !process_read(pid, &p, NULL) && p.status.tracer;
}

static void one_thread(void)
{
	sum_on(NULL);
}

/* With the exit at each kind of instruction, emulated or executed out of line. */
static void sums_are_seen(void **state)
{
	static const uint8_t *const exits[] = {probed_jcc, probed_lea, probed_ret};
	(void)state;
	for (unsigned i = 0; i < sizeof(exits) / sizeof(exits[0]); i++) {
		struct seen s = {0};
		struct engine_counters c;
		setup(NULL);
		pid_t pid = child(one_thread);
		struct engine *g = open_engine();
		attach(g, pid, exits[i]);
		for (int k = 0; k < PATIENCE_MS && s.exits < 500; k++) {
			g->consume(g, on_hit, &s);
			sleep_ms(1);
		}
		assert_true(s.exits >= 500);
		assert_int_equal(s.wrong, 0);
		g->counters(g, &c);
		assert_true(c.hits >= 1000);
		assert_int_equal(c.lost, 0);
		g->detach(g, 0);
		code_is_as_before(pid);
		long rounds = shared->rounds;
		await(&shared->rounds, rounds + 1000);
		g->close(g);
		assert_false(is_traced(pid));
		end(pid, 0);
	}
}

static void many_threads(void)
{
	pthread_t t[THREADS];
	for (long i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, sum_on, (void *)(intptr_t)(i * 1000));
	for (long i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

static void comes_and_goes_under_load(void **state)
{
	const unsigned times = getenv("LONG") ? 200 : 50;
	(void)state;
	pid_t pid = child(many_threads);
	while (shared->threads < THREADS)
		sleep_ms(1);
	long exits = 0;
	for (unsigned i = 0; i < times; i++) {
		struct engine *g = open_engine();
		attach(g, pid, i % 2 ? probed_jcc : probed_ret);
		sleep_ms(i % 5);
		g->consume(g, any_hit, &exits);
		g->close(g);
		code_is_as_before(pid);
		assert_false(is_caught(pid) || has_page(pid));
		long rounds = shared->rounds;
		await(&shared->rounds, rounds + 1);
	}
	assert_true(exits > times);
	assert_false(is_traced(pid));
	end(pid, 0);
}

static void come_and_go(pid_t pid)
{
	struct engine *g = open_engine();
	attach(g, pid, probed_ret);
	g->close(g);
}

/* SIGKILL ends all of ditrace but its tracing process. */
static void leaves_when_killed(void **state)
{
	const unsigned times = getenv("LONG") ? 100 : 30;
	(void)state;
	pid_t pid = child(many_threads);
	while (shared->threads < THREADS)
		sleep_ms(1);
	srand(1);
	for (unsigned i = 0; i < times; i++) {
		pid_t user = fork();
		if (!user) {
			struct engine *g = open_engine();
			attach(g, pid, probed_ret);
			for (;;)
				pause();
		}
		sleep_ms(rand() % 30);
		kill(user, SIGKILL);
		waitpid(user, NULL, 0);
		for (int k = 0; k < PATIENCE_MS && is_traced(pid); k++)
			sleep_ms(1);
		assert_false(is_traced(pid));
		code_is_as_before(pid);
	}
	long rounds = shared->rounds;
	await(&shared->rounds, rounds + 1000);
	end(pid, 0);
}

static void count_signal(int sig)
{
	if (sig == SIGALRM)
		shared->alarms++;
	else if (sig == SIGPROF)
		shared->prof++;
	else
		shared->chld++;
}

static sigjmp_buf back;
static int *volatile nowhere = (int *)16;

static void on_segv(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	shared->wrong += info->si_addr != (void *)16;
	shared->segv++;
	siglongjmp(back, 1);
}

/* One-shot timers that expire soon: with periodic ones a traced thread on a busy machine might do
 * nothing but handle signals. */
static void soon(void)
{
	const struct itimerval once = {{0, 0}, {0, 500}};
	setitimer(ITIMER_REAL, &once, NULL);
	setitimer(ITIMER_PROF, &once, NULL);
}

/* All sorts of signals while it sums: timers, faults, children, restarted system calls. */
static void with_signals(void)
{
	const struct sigaction restart = {.sa_handler = count_signal, .sa_flags = SA_RESTART},
			       fault = {.sa_sigaction = on_segv,
					.sa_flags = SA_SIGINFO | SA_NODEFER};
	sigaction(SIGALRM, &restart, NULL);
	sigaction(SIGPROF, &restart, NULL);
	sigaction(SIGCHLD, &restart, NULL);
	sigaction(SIGSEGV, &fault, NULL);
	while (!shared->stop) {
		char byte;
		int fd[2];
		for (long i = 0; i < 20; i++) {
			soon();
			shared->wrong += probed_sum(i, 3) != i + 3;
		}
		if (!sigsetjmp(back, 1))
			*nowhere = 1;
		/* A child that writes late: timers restart the read, which must never fail. */
		soon();
		shared->wrong += pipe(fd) != 0;
		pid_t pid = fork();
		if (!pid) {
			struct itimerval never = {0};
			setitimer(ITIMER_REAL, &never, NULL);
			sleep_ms(3);
			_exit(write(fd[1], "x", 1) != 1 || probed_sum(2, 2) != 4);
		}
		shared->wrong += read(fd[0], &byte, 1) != 1;
		int status = -1;
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		shared->wrong += status != 0;
		close(fd[0]);
		close(fd[1]);
		shared->rounds++;
	}
}

static void signals_pass(void **state)
{
	(void)state;
	pid_t pid = child(with_signals);
	await(&shared->rounds, 5);
	struct engine *g = open_engine();
	attach(g, pid, probed_lea);
	long alarms = shared->alarms, chld = shared->chld, segv = shared->segv, exits = 0;
	await(&shared->rounds, shared->rounds + 40);
	assert_true(shared->alarms > alarms && shared->chld > chld + 35 &&
		    shared->segv > segv + 35);
	g->consume(g, any_hit, &exits);
	assert_true(exits >= 750);
	g->close(g);
	code_is_as_before(pid);
	await(&shared->rounds, shared->rounds + 5);
	end(pid, 0);
}

static void await_state(pid_t pid, char state)
{
	struct process p = {0};
	for (int i = 0; i < PATIENCE_MS && p.status.state != state; i++) {
		sleep_ms(1);
		process_read(pid, &p, NULL);
	}
	assert_int_equal(p.status.state, state);
}

static void what_is_stopped_stays_so(void **state)
{
	(void)state;
	long exits = 0;
	pid_t pid = child(many_threads);
	await(&shared->rounds, 100);
	kill(pid, SIGSTOP);
	await_state(pid, 'T');
	struct engine *g = open_engine();
	attach(g, pid, probed_ret);
	sleep_ms(50);
	long rounds = shared->rounds;
	sleep_ms(50);
	assert_int_equal(shared->rounds, rounds);
	g->close(g);
	await_state(pid, 'T');
	code_is_as_before(pid);

	/* Continued and stopped again while traced. */
	g = open_engine();
	attach(g, pid, probed_ret);
	kill(pid, SIGCONT);
	await(&shared->rounds, rounds + 100);
	kill(pid, SIGSTOP);
	await_state(pid, 't');
	g->consume(g, any_hit, &exits);
	assert_true(exits > 50);
	g->close(g);
	await_state(pid, 'T');
	code_is_as_before(pid);
	rounds = shared->rounds;
	kill(pid, SIGCONT);
	await(&shared->rounds, rounds + 100);
	end(pid, 0);
}

/* A stop may arrive between a finished step and the trap that reports it. */
static void stops_within_a_step(void **state)
{
	const unsigned stops = getenv("LONG") ? 2000 : 400;
	(void)state;
	struct seen s = {0};
	pid_t pid = child(one_thread);
	struct engine *g = open_engine();
	attach(g, pid, probed_lea);
	for (unsigned i = 0; i < stops; i++) {
		kill(pid, SIGSTOP);
		kill(pid, SIGCONT);
		g->consume(g, on_hit, &s);
		nanosleep(&(struct timespec){.tv_nsec = i % 16 * 10000}, NULL);
	}
	await(&shared->rounds, shared->rounds + 100);
	g->consume(g, on_hit, &s);
	assert_true(s.exits > 0);
	assert_int_equal(s.wrong, 0);
	g->close(g);
	code_is_as_before(pid);
	await(&shared->rounds, shared->rounds + 100);
	end(pid, 0);
}

static void short_threads(void)
{
	while (!shared->stop) {
		pthread_t t[4];
		for (long i = 0; i < 4; i++)
			pthread_create(&t[i], NULL, (void *(*)(void *))(void *)probed_sum, NULL);
		for (long i = 0; i < 4; i++)
			pthread_join(t[i], NULL);
		shared->rounds++;
	}
}

static void threads_come_and_go(void **state)
{
	(void)state;
	pid_t pid = child(short_threads);
	await(&shared->rounds, 10);
	for (unsigned i = 0; i < 20; i++) {
		long exits = 0;
		struct engine *g = open_engine();
		attach(g, pid, probed_ret);
		long rounds = shared->rounds;
		await(&shared->rounds, rounds + 20);
		g->consume(g, any_hit, &exits);
		if (exits < 4 * 15)
			fail_msg("%ld exits in %ld rounds", exits, shared->rounds - rounds);
		g->close(g);
		code_is_as_before(pid);
	}
	end(pid, 0);
}

static void return_sites_in_the_middle(void)
{
	shared->ready = 1;
	while (!shared->stop)
		probed_sum(1, 1);
	_exit((int)probed_sum(3, 4));
}

static void ends_while_traced(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		struct err e = {0};
		int kinds;
		setup(NULL);
		pid_t pid = child(return_sites_in_the_middle);
		while (!shared->ready)
			sleep_ms(1);
		struct engine *g = open_engine();
		attach(g, pid, probed_ret);
		end_traced(g, pid, 7 << 8, &kinds);
		assert_int_equal(try_attach(g, pid, probed_ret, &e), -ESRCH);
		g->close(g);
	}
}

/* Memory stays readable until the process's records have been read. */
static void ends_when_looked_at(void **state)
{
	int kinds;
	struct process p;
	(void)state;
	pid_t pid = child(return_sites_in_the_middle);
	while (!shared->ready)
		sleep_ms(1);
	struct engine *g = open_engine();
	attach(g, pid, probed_ret);
	shared->stop = 1;
	await_state(pid, 't');
	sleep_ms(50);
	code_is_as_before_but_for(pid, 2);
	assert_int_equal(process_read(pid, &p, NULL), 0);
	assert_true(end_traced(g, pid, 7 << 8, &kinds) > 0);
	assert_int_equal(kinds, 1 << FOLLOW_EXIT);
	g->close(g);
}

static void execs(void)
{
	while (!shared->stop)
		probed_sum(1, 1);
	execl("/bin/sh", "sh", "-c", "exit 9", (char *)NULL);
}

static void execs_while_traced(void **state)
{
	int kinds = 0;
	(void)state;
	pid_t pid = child(execs);
	struct engine *g = open_engine();
	attach(g, pid, probed_ret);
	sleep_ms(20);
	end_traced(g, pid, 9 << 8, &kinds);
	assert_int_equal(kinds, 1 << FOLLOW_EXEC | 1 << FOLLOW_EXIT);
	g->close(g);
}

static void forks(void)
{
	while (!shared->stop) {
		int status = -1;
		pid_t pid = fork();
		if (!pid) {
			long sum = 0;
			for (long i = 0; i < 20; i++)
				sum = probed_sum(sum, i);
			_exit(sum != 190);
		}
		waitpid(pid, &status, 0);
		shared->wrong += status != 0 || probed_sum(1, 2) != 3;
		shared->rounds++;
	}
}

struct tally {
	uint64_t entries, exits, summed, thrown;
};

static void tally_hit(const struct hit *h, void *arg)
{
	struct tally *t = arg;
	struct sum_counts c;
	t->entries += h->kind == HIT_ENTRY;
	t->exits += h->kind == HIT_EXIT;
	if (h->kind != HIT_SUM)
		return;
	memcpy(&c, (const uint8_t *)h + h->size - sizeof(c), sizeof(c));
	t->summed += c.calls;
	t->thrown += c.thrown;
	shared->wrong += !c.calls || c.min_ns > c.max_ns || c.first_ns > c.last_ns;
}

static void when_ready(void)
{
	while (!shared->ready)
		sleep_ms(1);
	sum_on(NULL);
}

/* A small ring that nobody reads is soon full: each call is in a record or in a sum. */
static void a_full_ring_loses_no_call(void **state)
{
	enum { ROUNDS = 5000 };
	const struct engine_wanted wanted = {
	    .nplans = 4, .interesting = none_interesting, .may_sum = true, .buffer = 1};
	struct engine_counters c;
	struct tally seen = {0};
	int kinds = 0;
	(void)state;
	struct engine *g = open_as(&wanted);
	pid_t pid = child(when_ready);
	attach(g, pid, probed_ret);
	shared->ready = 1;
	await(&shared->rounds, ROUNDS);
	shared->stop = 1;
	for (int ms = 0; !(kinds & 1 << FOLLOW_EXIT) && ms < PATIENCE_MS; ms++) {
		g->follow(g, on_news, &kinds);
		g->consume(g, tally_hit, &seen);
		sleep_ms(1);
	}
	end(pid, 0);
	g->counters(g, &c);
	assert_int_equal(c.lost, 0);
	assert_true(seen.summed > 0 && !seen.thrown);
	assert_int_equal(seen.entries + seen.summed, 2 * shared->rounds);
	assert_int_equal(seen.exits, seen.entries);
	g->close(g);
}

/* Children inherit the breakpoints in their parent's memory. */
static void forks_while_traced(void **state)
{
	(void)state;
	pid_t pid = child(forks);
	for (unsigned i = 0, n = getenv("LONG") ? 200 : 50; i < n; i++) {
		struct engine *g = open_engine();
		attach(g, pid, probed_ret);
		sleep_ms(i % 7);
		g->close(g);
		code_is_as_before(pid);
	}
	await(&shared->rounds, shared->rounds + 10);
	end(pid, 0);
}

static void is_traced_already(void **state)
{
	struct err e = {0};
	(void)state;
	pid_t pid = child(one_thread);
	struct engine *g = open_engine(), *other = open_engine();
	attach(g, pid, probed_ret);
	assert_int_equal(try_attach(other, pid, probed_ret, &e), -EBUSY);
	assert_non_null(strstr(e.what, "traces it already"));
	assert_true(e.hint[0]);
	other->close(other);
	g->close(g);
	end(pid, 0);
}

/* A foreign breakpoint stays, and no probe is placed on it. */
static void foreign_breakpoint(void **state)
{
	static const uint8_t int3 = INT3;
	struct err e = {0};
	char path[64];
	uint8_t there;
	(void)state;
	shared->stop = 1; /* it must not hit the breakpoint */
	pid_t pid = child((void (*)(void))pause);
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	int fd = open(path, O_RDWR);
	assert_int_equal(pwrite(fd, &int3, 1, (off_t)(uintptr_t)probed_sum), 1);
	struct engine *g = open_engine();
	assert_int_equal(try_attach(g, pid, probed_ret, &e), -EBUSY);
	assert_non_null(strstr(e.what, "breakpoint"));
	g->close(g);
	assert_int_equal(pread(fd, &there, 1, (off_t)(uintptr_t)probed_sum), 1);
	assert_int_equal(there, int3);
	close(fd);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* When the tracing process itself dies, the code is restored, and the engine reports it. The
 * threads are stopped meanwhile to keep them off the breakpoints. */
static void tracer_is_killed(void **state)
{
	int r = 0;
	long exits = 0;
	(void)state;
	pid_t pid = child(many_threads);
	await(&shared->rounds, 100);
	kill(pid, SIGSTOP);
	await_state(pid, 'T');
	struct engine *g = open_engine();
	attach(g, pid, probed_ret);
	kill(g->tracer, SIGKILL);
	for (int i = 0; i < PATIENCE_MS && r != -ECHILD; i++) {
		r = g->consume(g, any_hit, &exits);
		sleep_ms(1);
	}
	assert_int_equal(r, -ECHILD);
	code_is_as_before(pid);
	g->close(g);
	long rounds = shared->rounds;
	kill(pid, SIGCONT);
	await(&shared->rounds, rounds + 100);
	end(pid, 0);
}

/* One that attaches and consumes until it is killed. The sites are of every kind, two of them one
 * byte apart. */
static void trace_on(void)
{
	const struct probe_site sites[] = {
	    site((const void *)probed_sum, SITE_ENTRY, 1),
	    site(probed_jcc, SITE_EXIT, 1),
	    site(probed_lea, SITE_EXIT, 1),
	    site(probed_ret, SITE_EXIT, 1),
	    site(probed_leaf, SITE_ENTRY, 2),
	    site(probed_leaf + 1, SITE_EXIT, 2),
	    site(probed_idle, SITE_ENTRY, 3),
	};
	long exits = 0;
	struct engine *g = open_engine();
	shared->tracer = g->tracer;
	attach_sites(g, shared->ready, sites, sizeof(sites) / sizeof(sites[0]), NULL);
	for (;;)
		g->consume(g, any_hit, &exits);
}

static void kill_both(pid_t user, unsigned way, long within_ns)
{
	for (int i = 0; i < PATIENCE_MS && !shared->tracer; i++)
		sleep_ms(1);
	pid_t tracer = shared->tracer;
	assert_true(tracer > 0);
	nanosleep(&(struct timespec){.tv_nsec = rand() % within_ns}, NULL);
	if (way < 2)
		kill(tracer, SIGKILL);
	if (way)
		kill(user, SIGKILL);
	if (way == 3) /* while it leaves */
		nanosleep(&(struct timespec){.tv_nsec = rand() % 3000000}, NULL);
	if (way >= 2)
		kill(tracer, SIGKILL);
	if (!way)
		sleep_ms(1);
	kill(user, SIGKILL);
	waitpid(user, NULL, 0);
	for (int k = 0; k < PATIENCE_MS && is_traced(shared->ready); k++)
		sleep_ms(1);
}

static void survives_a_killed_tracer(void **state)
{
	const unsigned times = getenv("LONG") ? 300 : 60;
	(void)state;
	pid_t pid = child(many_threads);
	while (shared->threads < THREADS)
		sleep_ms(1);
	shared->ready = pid;
	srand(1);
	for (unsigned i = 0; i < times; i++) {
		shared->tracer = 0;
		pid_t user = child(trace_on);
		kill_both(user, i % 4, i / 4 % 2 ? 30000000 : 3000000);
		long rounds = shared->rounds;
		await(&shared->rounds, rounds + 1000);
		for (int k = 0; k < PATIENCE_MS && !is_code_as_before(pid); k++)
			sleep_ms(1);
		code_is_as_before(pid);
	}
	come_and_go(pid);
	assert_false(is_caught(pid));
	end(pid, 0);
}

/* Its tracing process and that one's keeper, too, all stopped first: none may outlive another. */
static void kill_all(pid_t user)
{
	enum { MOST = 8 };
	char path[64];
	pid_t part[MOST] = {user};
	size_t n = 1;
	kill(user, SIGSTOP);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", user, user);
	FILE *f = fopen(path, "re");
	while (f && n < MOST && fscanf(f, "%d", &part[n]) == 1)
		n++;
	if (f)
		fclose(f);
	assert_int_equal(n, 3);
	for (int sig = SIGSTOP; sig; sig = sig == SIGSTOP ? SIGKILL : 0)
		for (size_t i = 0; i < n; i++)
			kill(part[i], sig);
	waitpid(user, NULL, 0);
}

static bool is_idle_probed(pid_t pid)
{
	uint8_t its[CODE_MAX];
	read_code(pid, its);
	return its[probed_idle - (const uint8_t *)probed_sum] == INT3;
}

/* A child has the breakpoints that are left, and a thread of it may block SIGTRAP. */
static void one_hit_restores_all(void **state)
{
	(void)state;
	pid_t pid = child(many_threads);
	while (shared->threads < THREADS)
		sleep_ms(1);
	shared->ready = pid;
	pid_t user = child(trace_on);
	for (int i = 0; i < PATIENCE_MS && !is_idle_probed(pid); i++)
		sleep_ms(1);
	assert_true(is_idle_probed(pid));
	kill_all(user);
	await(&shared->rounds, shared->rounds + 1000);
	for (int i = 0; i < PATIENCE_MS / 10 && !is_code_as_before(pid); i++)
		sleep_ms(1);
	code_is_as_before(pid);
	end(pid, 0);
}

static void blocking_threads(void)
{
	sigset_t trap;
	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	sigprocmask(SIG_BLOCK, &trap, NULL);
	many_threads();
}

/* The kernel unblocks SIGTRAP in a thread that hits a breakpoint, and resets the handler. */
static void threads_that_block_sigtrap(void **state)
{
	(void)state;
	pid_t pid = child(blocking_threads);
	while (shared->threads < THREADS)
		sleep_ms(1);
	shared->ready = pid;
	pid_t user = child(trace_on);
	for (int i = 0; i < PATIENCE_MS && is_blocked(pid); i++)
		sleep_ms(1);
	for (int i = 0; i < PATIENCE_MS && !is_caught(pid); i++)
		sleep_ms(1);
	kill_both(user, 1, 10000000);
	await(&shared->rounds, shared->rounds + 1000);
	end(pid, 0);
}

static void with_own_handler(void)
{
	const struct sigaction own = {.sa_handler = count_signal};
	sigaction(SIGTRAP, &own, NULL);
	while (!shared->stop) {
		shared->wrong += probed_sum(1, 2) != 3;
		raise(SIGTRAP);
		shared->rounds++;
	}
}

static void own_handler_stays(void **state)
{
	(void)state;
	pid_t pid = child(with_own_handler);
	await(&shared->rounds, 100);
	struct engine *g = open_engine();
	attach(g, pid, probed_ret);
	await(&shared->rounds, shared->rounds + 100);
	g->close(g);
	assert_false(has_page(pid));
	await(&shared->rounds, shared->rounds + 100);
	end(pid, 0);
	assert_int_equal(shared->chld, shared->rounds);
}

/* A SIGTRAP from elsewhere has its default action. */
static void another_sigtrap_ends_it(void **state)
{
	int kinds, status = -1, ms = 0;
	(void)state;
	pid_t pid = child(many_threads);
	await(&shared->rounds, 100);
	struct engine *g = open_engine();
	attach(g, pid, probed_ret);
	assert_true(is_caught(pid));
	kill(pid, SIGTRAP);
	long exits = 0;
	for (kinds = 0; !(kinds & 1 << FOLLOW_EXIT) && ms < PATIENCE_MS; ms++) {
		g->follow(g, on_news, &kinds);
		g->consume(g, any_hit, &exits);
		sleep_ms(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP);
	g->close(g);
}

/* The terminal sends these signals to all processes of the job. */
static void tracer_ignores_the_terminal(void **state)
{
	struct seen s = {0};
	(void)state;
	pid_t pid = child(one_thread);
	struct engine *g = open_engine();
	attach(g, pid, probed_ret);
	assert_int_not_equal(getpgid(g->tracer), getpgrp());
	assert_int_not_equal(getsid(g->tracer), getsid(0));
	kill(g->tracer, SIGINT);
	kill(g->tracer, SIGHUP);
	kill(g->tracer, SIGQUIT);
	sleep_ms(20);
	while (g->consume(g, on_hit, &s) > 0)
		;
	long before = s.exits;
	sleep_ms(50);
	assert_true(g->consume(g, on_hit, &s) > 0);
	assert_true(s.exits > before);
	/* On this one it detaches, as at the end. */
	kill(g->tracer, SIGTERM);
	for (int i = 0; i < PATIENCE_MS && is_traced(pid); i++)
		sleep_ms(1);
	code_is_as_before(pid);
	g->close(g);
	end(pid, 0);
}

/* Stack memory is allocated when the thread touches it, also by an emulated push. */
static long deep(long n)
{
	volatile char room[3000];
	room[0] = room[2999] = (char)n;
	return n ? deep(n - 1) + probed_sum(n, -n) + room[0] - room[2999] : 0;
}

static void deep_stack(void)
{
	shared->ready = 1;
	while (!shared->stop)
		sleep_ms(1);
	shared->wrong += deep(2000) != 0;
}

static void stack_grows(void **state)
{
	(void)state;
	int kinds;
	pid_t pid = child(deep_stack);
	while (!shared->ready)
		sleep_ms(1);
	struct engine *g = open_engine();
	attach(g, pid, probed_ret);
	assert_int_equal(end_traced(g, pid, 0, &kinds), 2000);
	g->close(g);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(sums_are_seen, setup),
	    cmocka_unit_test_setup(comes_and_goes_under_load, setup),
	    cmocka_unit_test_setup(leaves_when_killed, setup),
	    cmocka_unit_test_setup(signals_pass, setup),
	    cmocka_unit_test_setup(what_is_stopped_stays_so, setup),
	    cmocka_unit_test_setup(stops_within_a_step, setup),
	    cmocka_unit_test_setup(threads_come_and_go, setup),
	    cmocka_unit_test_setup(ends_while_traced, setup),
	    cmocka_unit_test_setup(ends_when_looked_at, setup),
	    cmocka_unit_test_setup(execs_while_traced, setup),
	    cmocka_unit_test_setup(a_full_ring_loses_no_call, setup),
	    cmocka_unit_test_setup(forks_while_traced, setup),
	    cmocka_unit_test_setup(is_traced_already, setup),
	    cmocka_unit_test_setup(foreign_breakpoint, setup),
	    cmocka_unit_test_setup(tracer_is_killed, setup),
	    cmocka_unit_test_setup(survives_a_killed_tracer, setup),
	    cmocka_unit_test_setup(one_hit_restores_all, setup),
	    cmocka_unit_test_setup(threads_that_block_sigtrap, setup),
	    cmocka_unit_test_setup(own_handler_stays, setup),
	    cmocka_unit_test_setup(another_sigtrap_ends_it, setup),
	    cmocka_unit_test_setup(tracer_ignores_the_terminal, setup),
	    cmocka_unit_test_setup(stack_grows, setup),
	};
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return unit_run(tests, NULL, NULL);
}
