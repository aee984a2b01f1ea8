#define _GNU_SOURCE
#include "tracer/engine/shim/jumps.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/system.h"
#include "symbolizer/target/process.h"
#include "tracer/proc/spawn.h"

/* The sites of one jumps_add. */
struct jumped {
	struct jumped *next;
	struct jump_work work;
	uint64_t start_ticks;
};

static size_t round_size(uint32_t n)
{
	return sizeof(struct jump_round) + n;
}

static void jumped_free(struct jumped *x)
{
	if (x->work.mem >= 0)
		close(x->work.mem);
	munmap(x->work.round, round_size(x->work.n));
	free((void *)x->work.sites);
	free(x);
}

/* The process is the one that it was. (If it has executed another program, what `mem` is open on
 * is gone.) */
static bool is_there(const struct jumped *x)
{
	struct process p;
	return !process_read(x->work.pid, &p, NULL) && p.start_ticks == x->start_ticks;
}

/* One try. */

typedef void round_fn(const struct jump_work *w, unsigned timeout_ms);

/* Wait for the end of a child; false: it does not come. */
static bool await_end(pid_t child, uint64_t until)
{
	const struct timespec most = {.tv_nsec = 100 * 1000 * 1000};
	sigset_t chld;
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	while (!waitpid(child, NULL, WNOHANG)) {
		if (clock_ns(CLOCK_MONOTONIC) >= until)
			return false;
		sigtimedwait(&chld, NULL, &most);
	}
	return true;
}

static uint64_t after_ms(unsigned ms)
{
	return clock_ns(CLOCK_MONOTONIC) + ms * UINT64_C(1000000);
}

/* In a process of its own, since nothing but its end lets threads go that do not stop; and what
 * that process reads may make it wait for the target, which stands. */
static int one_round(const struct jump_work *w, round_fn *round, unsigned timeout_ms)
{
	enum { GRACE_MS = 10000, KILLED_MS = 1000 };
	w->round->result = -EINTR;
	w->round->e = (struct err){0};
	pid_t child = spawn_part(SIGKILL);
	if (child < 0)
		return err_set(&w->round->e, -errno, "cannot fork: %s", strerror(errno));
	if (!child) {
		thread_hurry(true); /* the process stands meanwhile */
		round(w, timeout_ms);
		_exit(0);
	}
	if (!await_end(child, after_ms(timeout_ms + GRACE_MS))) {
		kill(child, SIGKILL);
		await_end(child, after_ms(KILLED_MS));
	}
	if (w->round->result == -EINTR)
		err_set(&w->round->e, -EINTR,
			"what was to change the code of process %d was killed", w->pid);
	return w->round->result;
}

/* As often as it takes. Each time that threads did not stop, the others stood. */
static int rounds(const struct jump_work *w, round_fn *round)
{
	enum { STOPS = 6, FIRST_MS = 250, MOST_MS = 1000, BUSY = 10, PAUSE_MS = 3 };
	unsigned stops = 0, busy = 0, timeout_ms = FIRST_MS;
	int r;
	do {
		r = one_round(w, round, timeout_ms);
		if (r == -ETIMEDOUT) {
			stops++;
			timeout_ms = timeout_ms < MOST_MS / 2 ? 2 * timeout_ms : MOST_MS;
		}
		busy += r == -EAGAIN;
		if (r == -ETIMEDOUT || r == -EAGAIN)
			nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000 * 1000}, NULL);
	} while ((r == -EAGAIN && busy < BUSY) || (r == -ETIMEDOUT && stops < STOPS));
	if (r == -ETIMEDOUT)
		err_hint(&w->round->e,
			 "a thread waits in the kernel, for a disk or a child of vfork: try again, "
			 "or trace with: --engine bpf, as root");
	/* Some sites stay as they are. */
	return busy && r != -EINTR && r != -ESRCH ? 0 : r;
}

/* 0: none are left, or the process has none any more. */
static int jumped_take_out(const struct jumped *x)
{
	int r = is_there(x) ? rounds(&x->work, jump_round_remove) : 0;
	return r == -ESRCH ? 0 : r;
}

/* Requests. */

static int open_mem(pid_t pid, struct err *e)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	return fd >= 0 ? fd : process_error(pid, -errno, "write into the memory of", e);
}

/* NULL without memory. */
static struct jumped *jumped_new(const struct jump_request *q)
{
	struct jumped *x = calloc(1, sizeof(*x));
	struct jump_round *round =
	    mmap(NULL, round_size(q->n), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct jump_site *sites = malloc(q->n * sizeof(*sites));
	round = round == MAP_FAILED ? NULL : round;
	if (x && round && sites) {
		x->work = (struct jump_work){.pid = q->pid, .mem = -1, .pool = q->pool, .n = q->n};
		x->work.sites = sites;
		x->work.round = round;
		return x;
	}
	if (round)
		munmap(round, round_size(q->n));
	free(sites);
	free(x);
	return NULL;
}

static int jumped_open(struct jumped *x)
{
	struct process p;
	struct err *e = &x->work.round->e;
	if (process_read(x->work.pid, &p, e))
		return -ESRCH;
	/* A child of vfork(2), whose parent's memory it has. */
	if (process_shares_memory(x->work.pid, p.status.ppid))
		return err_set(e, -EBUSY, "process %d has the memory of its parent", x->work.pid);
	x->start_ticks = p.start_ticks;
	x->work.mem = open_mem(x->work.pid, e);
	return x->work.mem < 0 ? x->work.mem : 0;
}

static int jumped_add(struct jumped *x)
{
	struct jump_round *round = x->work.round;
	int r = jumped_open(x);
	r = r ? r : rounds(&x->work, jump_round_add);
	const struct err e = round->e;
	/* It may have been killed in the middle. */
	if (r == -EINTR)
		jumped_take_out(x);
	round->e = e;
	if (r == -ESRCH)
		process_error(x->work.pid, r, "trace", &round->e);
	if (r && !round->e.code)
		err_set(&round->e, r, "cannot write jumps into process %d: %s", x->work.pid,
			strerror(-r));
	return r;
}

static bool serve_add(int sock, struct jumped **all, const struct jump_request *q)
{
	struct jumped *x = jumped_new(q);
	if (!x)
		return false;
	if (!helper_receive(sock, (void *)x->work.sites, q->n * sizeof(*x->work.sites))) {
		jumped_free(x);
		return false;
	}
	const struct jump_round *round = x->work.round;
	const int r = jumped_add(x);
	const struct jump_answer a = {r, round->stood_ns, round->e};
	bool ok =
	    helper_send(sock, &a, sizeof(a)) && (a.result || helper_send(sock, round->state, q->n));
	if (a.result) {
		jumped_free(x);
	} else {
		x->next = *all;
		*all = x;
	}
	return ok;
}

static int remove_of(struct jumped **all, pid_t pid)
{
	int failed = 0;
	for (struct jumped **at = all; *at;) {
		struct jumped *x = *at;
		int r = !pid || x->work.pid == pid ? jumped_take_out(x) : -EINVAL;
		if (!r) {
			*at = x->next;
			jumped_free(x);
			continue;
		}
		failed = !pid || x->work.pid == pid ? r : failed;
		at = &x->next;
	}
	return failed;
}

static bool serve(int sock, struct jumped **all)
{
	struct jump_request q;
	if (!helper_receive(sock, &q, sizeof(q)))
		return false;
	if (!q.remove)
		return serve_add(sock, all, &q);
	const struct jump_answer a = {.result = remove_of(all, q.pid)};
	return helper_send(sock, &a, sizeof(a));
}

void jumps_serve(int sock, void *none)
{
	struct jumped *all = NULL;
	(void)none;
	helper_begin(JUMPS_NAME, sock);
	while (serve(sock, &all))
		;
	remove_of(&all, 0);
}
