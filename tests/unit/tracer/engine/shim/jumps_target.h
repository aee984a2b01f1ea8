/* Processes whose threads run functions written by hand, and the jumps for these functions. */
#ifndef TESTS_UNIT_JUMPS_TARGET_H
#define TESTS_UNIT_JUMPS_TARGET_H

#include "tests/unit/windows_of.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tracer/engine/shim/jumps.h"

enum { THREADS = 4, ARGS = 4, FUNCTIONS = 9, SITES_MAX = 4 * FUNCTIONS, PATIENCE_MS = 120000 };

/* Keeps its second argument below the stack pointer until its window is over. */
CODE(red, "push rdi; pop rax; mov [rsp - 8], rsi; nop; red_x: add rax, 1; mov rdx, [rsp - 8];"
	  "add rax, rdx; ret")

/* Counts in target.hits[number]. */
CODE(handler, "push rax; push rcx; mov rax, [rsp + 24]; mov rcx, [rip + target_hits];"
	      "lock inc qword ptr [rcx + rax * 8]; pop rcx; pop rax; cmp rsp, 0; ret 8")
uint64_t *target_hits;

typedef uint64_t two_fn(uint64_t a, uint64_t b);

static const struct {
	const uint8_t *code, *end;
} target_code[FUNCTIONS] = {
    {framed, framed_end}, {guarded, guarded_end},   {popped, popped_end},
    {tail, tail_end},	  {two_ways, two_ways_end}, {leaf, leaf_end},
    {table, table_end},	  {canary, canary_end},	    {red, red_end},
};

/* What the processes share. */
static struct target_shared {
	uint64_t hits[2 * SITES_MAX]; /* by number */
	atomic_long rounds, wrong, signals, waiting;
	atomic_int stop, wait; /* wait: threads and signal handlers do */
	atomic_int fork, other;
} * target;

static struct jump_site target_site[SITES_MAX];
static uint32_t target_sites;
static struct jump_pool target_pool;
static uint64_t target_wants[FUNCTIONS][ARGS];
/* The first and last page of the functions, as they are without jumps. */
static uint8_t *target_text, *target_was;
static size_t target_text_len;

static inline void target_add_site(const uint8_t *code, const struct code_window *w, bool exit)
{
	struct jump_site *s = &target_site[target_sites];
	assert_true(target_sites < SITES_MAX && w->len <= JUMP_WINDOW_MAX);
	*s = (struct jump_site){
	    .addr = (uintptr_t)code + w->off,
	    .handler = (uintptr_t)handler,
	    .number = target_sites++,
	    .len = w->len,
	    .skips_red_zone = exit,
	};
	memcpy(s->bytes, code + w->off, w->len);
}

static inline void target_find_sites(void)
{
	for (unsigned i = 0; i < FUNCTIONS; i++) {
		struct func_windows w = windows_of(target_code[i].code, target_code[i].end);
		assert_true(w.entry.len && w.nexits);
		target_add_site(target_code[i].code, &w.entry, false);
		for (unsigned k = 0; k < w.nexits; k++)
			target_add_site(target_code[i].code, &w.exit[k], true);
		for (unsigned a = 0; a < ARGS; a++)
			target_wants[i][a] = ((two_fn *)(uintptr_t)target_code[i].code)(a, 5);
	}
}

static inline void target_keep_text(void)
{
	enum { PAGE = 4096 };
	uintptr_t low = UINTPTR_MAX, high = 0;
	for (unsigned i = 0; i < FUNCTIONS; i++) {
		uintptr_t a = (uintptr_t)target_code[i].code, b = (uintptr_t)target_code[i].end;
		low = a < low ? a : low;
		high = b > high ? b : high;
	}
	target_text = (uint8_t *)(low & ~(uintptr_t)(PAGE - 1));
	target_text_len = high - (uintptr_t)target_text;
	target_was = malloc(target_text_len);
	assert_non_null(target_was);
	memcpy(target_was, target_text, target_text_len);
}

/* Memory within reach that processes forked from now on have. */
static inline void target_map_pool(void)
{
	enum { STEP = 1 << 20 };
	void *p = MAP_FAILED;
	const size_t len = jump_pool_len(SITES_MAX);
	for (uintptr_t i = 16; i < 1024 && p == MAP_FAILED; i++)
		p = mmap((void *)(((uintptr_t)target_text & ~(uintptr_t)(STEP - 1)) + i * STEP),
			 len, PROT_READ | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	target_pool = (struct jump_pool){1, {{(uintptr_t)p, len}}};
}

static inline int target_setup(void **state)
{
	(void)state;
	target =
	    mmap(NULL, sizeof(*target), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(target, MAP_FAILED);
	target_hits = target->hits;
	target_find_sites();
	target_keep_text();
	target_map_pool();
	return 0;
}

static inline void target_call_all(unsigned long i)
{
	for (unsigned f = 0; f < FUNCTIONS; f++) {
		two_fn *fn = (two_fn *)(uintptr_t)target_code[f].code;
		if (fn(i % ARGS, 5) != target_wants[f][i % ARGS])
			target->wrong++;
	}
}

static inline void sleep_us(long us)
{
	nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

static inline void target_wait(void)
{
	if (!target->wait)
		return;
	target->waiting++;
	while (target->wait)
		sleep_us(100);
	target->waiting--;
}

static inline void target_on_signal(int sig)
{
	target->signals++;
	target_wait();
	target_call_all((unsigned long)sig);
}

/* Every second signal has a stack of its own. */
static inline void target_take_signals(void)
{
	struct sigaction on = {.sa_handler = target_on_signal, .sa_flags = SA_RESTART};
	sigaction(SIGUSR1, &on, NULL);
	on.sa_flags |= SA_ONSTACK;
	sigaction(SIGUSR2, &on, NULL);
}

static void *target_thread(void *arg)
{
	static _Thread_local uint8_t stack[64 << 10];
	sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof(stack)}, NULL);
	for (unsigned long i = (uintptr_t)arg; !target->stop; i++) {
		target_wait();
		target_call_all(i);
		target->rounds++;
	}
	sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
	return NULL;
}

/* A child of the process does the same, and the process waits for it. */
static inline void target_fork_on(void)
{
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		target->other = getpid();
		target_thread(NULL);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

/* The threads run, and get signals all the time. */
static inline void target_run(bool signals)
{
	pthread_t t[THREADS];
	target_take_signals();
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, target_thread, (void *)i))
			abort();
	for (unsigned n = 0; !target->stop; n++) {
		for (unsigned i = 0; i < THREADS && signals && !target->wait; i++)
			pthread_kill(t[i], (n + i) % 2 ? SIGUSR1 : SIGUSR2);
		if (atomic_exchange(&target->fork, 0))
			target_fork_on();
		sleep_us(signals ? 200 : 1000);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

/* A process that does so; it dies with the test. */
static inline pid_t target_fork(void (*body)(void))
{
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		body();
		_exit(target->wrong != 0);
	}
	assert_true(pid > 0);
	return pid;
}

static inline void target_reset(void)
{
	memset(target, 0, sizeof(*target));
}

static inline void await(const atomic_long *n, long least)
{
	for (int i = 0; i < PATIENCE_MS && *n < least; i++)
		sleep_us(1000);
	if (*n < least)
		fail_msg("%ld instead of %ld", *n, least);
}

/* It went on until now, and computed the right values. */
static inline void target_runs(void)
{
	await(&target->rounds, target->rounds + THREADS);
	assert_int_equal(target->wrong, 0);
}

static inline void target_end(pid_t pid)
{
	int status;
	target->stop = 1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(target->wrong, 0);
}

static inline void target_peek(pid_t pid, uint64_t addr, void *buf, size_t len)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, buf, len, (off_t)addr), len);
	close(fd);
}

/* Its functions have no jumps, nor anything else. */
static inline bool target_is_clean(pid_t pid)
{
	uint8_t *now = malloc(target_text_len);
	assert_non_null(now);
	target_peek(pid, (uintptr_t)target_text, now, target_text_len);
	bool clean = !memcmp(now, target_was, target_text_len);
	free(now);
	return clean;
}

static inline struct jumps *open_jumps(void)
{
	struct jumps *j;
	assert_int_equal(jumps_open(&j), 0);
	assert_true(jumps_alive(j));
	return j;
}

static inline struct jumps_done add_jumps(struct jumps *j, pid_t pid)
{
	struct jumps_done done;
	struct err e = {0};
	if (jumps_add(j, pid, &target_pool, target_site, target_sites, &done, &e))
		fail_msg("%s", e.what);
	return done;
}

static inline void target_with_signals(void)
{
	target_run(true);
}

static inline void target_without_signals(void)
{
	target_run(false);
}

static inline int target_begin(void **state)
{
	(void)state;
	target_reset();
	return 0;
}

/* Busy sites are tried again as often as it takes. */
static inline void add_all(struct jumps *j, pid_t pid)
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

static inline void target_stand(void)
{
	target->wait = 1;
	await(&target->waiting, THREADS);
}

#endif
