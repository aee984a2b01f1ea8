#define _GNU_SOURCE
#include <errno.h>
#include <linux/kcmp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/system.h"
#include "symbolizer/code/arch_x86_64.h"
#include "tracer/engine/engine.h"
#include "tracer/engine/ptrace/internal.h"
#include "tracer/proc/spawn.h"

enum { ENDING_MOST = 64 };

/* A process that is about to exit, held until its last records have been consumed. */
struct ending {
	pid_t tid;
	unsigned rounds; /* calls of consume since then that took all there was */
};

/* ditrace's side of the engine ptrace: the requests to its tracing process (tracer_main.c) and what
 * comes back. */
struct engine_ptrace {
	struct engine engine;
	struct share *share;
	size_t share_bytes;
	struct share_reader sums;
	int sock;
	pid_t tracer; /* the tracing process */
	pid_t keeper; /* repairs the code when that is killed */
	pthread_t guard;
	bool guarded;
	_Atomic bool closing, dead;
	uint64_t trap_ns;
	bool told_missing;
	struct ending ending[ENDING_MOST];
	unsigned nending;
};

static struct engine_ptrace *of(struct engine *g)
{
	return (struct engine_ptrace *)g;
}

/* When the tracing process is killed, the kernel detaches its tracees but the breakpoints stay. So
 * restore the code at once. While it is stopped, its tracees stand at their breakpoints: let it go
 * on. */
static void *guard_main(void *arg)
{
	struct engine_ptrace *p = arg;
	for (siginfo_t info = {0};;) {
		if (waitid(P_PID, (id_t)p->tracer, &info, WEXITED | WSTOPPED) && errno == EINTR)
			continue;
		if (info.si_code != CLD_STOPPED)
			break;
		kill(p->tracer, SIGCONT);
	}
	share_repair(p->share);
	p->dead = true;
	return NULL;
}

static int start_guard(struct engine_ptrace *p)
{
	int r = thread_start(&p->guard, guard_main, p);
	p->guarded = !r;
	return r;
}

/* Send a request with the payloads `a` and `b` (either may be NULL) and wait for its reply. */
static int ask(struct engine_ptrace *p, struct request q, const void *a, size_t na, const void *b,
	       size_t nb, struct err *e)
{
	struct reply r;
	q.len = (uint32_t)(na + nb);
	if (!helper_send(p->sock, &q, sizeof(q)) || (na && !helper_send(p->sock, a, na)) ||
	    (nb && !helper_send(p->sock, b, nb)) || !helper_receive(p->sock, &r, sizeof(r)))
		return err_set(e, -ECHILD, "the tracing process has ended");
	if (r.code && e)
		*e = r.err;
	if (r.code && e && !e->code)
		err_set(e, r.code, "the tracing process refuses: %s", strerror(-r.code));
	return r.code;
}

static int set_plans(struct engine *g, uint32_t first, const struct op_plan *plans, uint32_t n,
		     struct err *e)
{
	struct request q = {.kind = REQUEST_PLANS, .first = first, .n = n};
	int r = ask(of(g), q, plans, n * sizeof(*plans), NULL, 0, e);
	return r == -E2BIG ? err_set(e, r, "too many ops for one session (%u)", first + n) : r;
}

static int set_proc(struct engine *g, uint16_t proc, const struct proc_conf *conf)
{
	struct request q = {.kind = REQUEST_PROC, .proc = proc};
	return ask(of(g), q, conf, sizeof(*conf), NULL, 0, NULL);
}

static int attach(struct engine *g, pid_t pid, uint16_t proc, const struct probe_file *file,
		  struct err *e)
{
	char path[4096 + 8] = "";
	size_t len = strlen(file->path) + 1, padded = (len + 7) & ~(size_t)7;
	struct request q = {.kind = REQUEST_ATTACH,
			    .pid = pid,
			    .proc = proc,
			    .path_len = (uint16_t)padded,
			    .n = (uint32_t)file->nsites};
	if (padded > sizeof(path))
		return err_set(e, -ENAMETOOLONG, "the path %s is too long", file->path);
	memcpy(path, file->path, len);
	return ask(of(g), q, path, padded, file->sites, file->nsites * sizeof(*file->sites), e);
}

static void detach(struct engine *g, uint16_t proc)
{
	ask(of(g), (struct request){.kind = REQUEST_DETACH, .proc = proc}, NULL, 0, NULL, 0, NULL);
}

static int watch(struct engine *g, pid_t pid, struct err *e)
{
	return ask(of(g), (struct request){.kind = REQUEST_WATCH, .pid = pid}, NULL, 0, NULL, 0, e);
}

static void set_away(struct engine *g, bool away)
{
	const struct request q = {.kind = REQUEST_AWAY, .n = away};
	ask(of(g), q, NULL, 0, NULL, 0, NULL);
}

void engine_ptrace_hold_signalled(struct engine *g)
{
	of(g)->share->standing = 1;
}

void engine_ptrace_release(struct engine *g, pid_t tid, int sig)
{
	const struct request q = {.kind = REQUEST_RELEASE, .pid = tid, .sig = sig};
	ask(of(g), q, NULL, 0, NULL, 0, NULL);
}

static void release(struct engine_ptrace *p, pid_t tid)
{
	engine_ptrace_release(&p->engine, tid, 0);
}

static int registers(struct engine *g, pid_t tid, uint64_t *out)
{
	struct engine_ptrace *p = of(g);
	int r = ask(p, (struct request){.kind = REQUEST_REGS, .pid = tid}, NULL, 0, NULL, 0, NULL);
	if (!r)
		memcpy(out, p->share->regs, ARCH_REGS * sizeof(*out));
	return r;
}

/* Two rounds, since records are held back for one until their successors are known. */
static void release_ending(struct engine_ptrace *p)
{
	enum { ROUNDS = 2 };
	for (unsigned i = p->nending; i-- > 0;) {
		if (p->ending[i].rounds < ROUNDS)
			continue;
		release(p, p->ending[i].tid);
		p->ending[i] = p->ending[--p->nending];
	}
}

static void pass_on(struct engine_ptrace *p, const struct news *news, follow_fn *fn, void *arg)
{
	const struct follow_event ev = {
	    .kind = news->kind,
	    .pid = news->pid,
	    .tid = news->tid,
	    .parent = news->parent,
	    .path = "",
	};
	if (news->kind == FOLLOW_EXIT && news->held && p->nending < ENDING_MOST) {
		p->ending[p->nending++] = (struct ending){.tid = news->tid};
		return;
	}
	if (news->kind != FOLLOW_EXIT || !news->held)
		fn(&ev, arg);
	if (news->held)
		release(p, news->tid);
}

static int follow(struct engine *g, follow_fn *fn, void *arg)
{
	struct engine_ptrace *p = of(g);
	struct share *s = p->share;
	int n = 0;
	release_ending(p);
	for (uint32_t tail; (tail = s->news_tail) != s->news_head; n++) {
		const struct news news = s->news[tail % SHARE_NEWS];
		s->news_tail = tail + 1;
		pass_on(p, &news, fn, arg);
	}
	return n;
}

static void tell_missing(struct engine_ptrace *p)
{
	uint32_t missing = p->share->missing;
	if (!missing || p->told_missing)
		return;
	p->told_missing = true;
	err_set(&p->engine.trouble, -EBUSY,
		"the kernel removed %u breakpoints from process %d; they are set again, but ops "
		"are missing",
		missing, p->share->missing_in);
	err_hint(&p->engine.trouble,
		 "this process had eBPF probes before, and others have some in the same library "
		 "now: end those, or use --engine bpf");
}

/* From time to time, where nothing more will come, and for processes that wait for that. `freed`:
 * as the counter was before the ring was found `empty`: a record of freed code that was lost is not
 * waited for. */
static int consume_sums(struct engine_ptrace *p, bool empty, uint32_t freed, engine_hit_fn *fn,
			void *arg)
{
	enum { EVERY_NS = 50 * 1000 * 1000 };
	const uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct sums_code *code = &p->share->code;
	if (empty)
		sums_code_known(code, freed);
	if (!empty && !p->nending && now - p->sums.read_ns < EVERY_NS)
		return 0;
	p->sums.read_ns = now;
	const unsigned which =
	    (sums_code_is_known(code) ? 0 : SUMS_BARE) | (p->dead ? SUMS_ENDED : 0);
	return share_read_sums(p->share, &p->sums, which, fn, arg);
}

static void give(struct engine_ptrace *p, const struct hit *h, engine_hit_fn *fn, void *arg)
{
	/* What was summed up before may have that code in its stack. */
	if (h->kind == HIT_CODE_FREED)
		share_read_sums(p->share, &p->sums, 0, fn, arg);
	fn(h, arg);
	if (h->kind == HIT_CODE_FREED)
		sums_code_known(&p->share->code, (uint32_t)h->seq);
}

static int consume(struct engine *g, engine_hit_fn *fn, void *arg)
{
	enum { AT_ONCE = ENGINE_AT_ONCE };
	struct engine_ptrace *p = of(g);
	bool dead = p->dead;
	const uint32_t freed = p->share->code.freed;
	const struct hit *h;
	eventfd_t wakes;
	eventfd_read(p->share->wake, &wakes);
	tell_missing(p);
	int n = 0;
	for (; n < AT_ONCE && (h = share_next(p->share)); n++) {
		pid_t held = h->flags & HIT_STOPPED ? (pid_t)h->tid : 0;
		give(p, h, fn, arg);
		share_drop(p->share, h);
		if (held)
			release(p, held);
	}
	for (unsigned i = 0; i < p->nending; i++)
		p->ending[i].rounds += n < AT_ONCE;
	n += consume_sums(p, !n, freed, fn, arg);
	return dead && !n && !p->closing ? -ECHILD : n;
}

static void count_dispatch(struct engine *g, int on)
{
	of(g)->share->counting = on;
}

static void counters(struct engine *g, struct engine_counters *out)
{
	struct share *s = of(g)->share;
	const uint64_t stopped = of(g)->trap_ns ? s->sampled_ns + s->sampled * of(g)->trap_ns : 0;
	*out = (struct engine_counters){
	    .hits = s->hits,
	    .lost = s->lost,
	    .probe_ns = stopped,
	    .probe_is_stop = true,
	    .dispatched = s->dispatched,
	    .dispatched_seen = s->dispatched_seen,
	};
}

/* Child of calibrate: does nothing but stop. */
static void stop_often(unsigned n)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	for (unsigned i = 0; i < n; i++)
		__asm__ volatile("int3");
	_exit(0);
}

/* The cost of a stop to the thread, without the work done during it. */
static void calibrate(struct engine *g)
{
	enum { STOPS = 500 };
	struct timespec a, b;
	int status;
	unsigned n = 0;
	pid_t pid = spawn_part(SIGKILL); /* dies with ditrace, lest init become its tracer */
	if (!pid)
		stop_often(STOPS);
	clock_gettime(CLOCK_MONOTONIC, &a);
	while (pid > 0 && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		n += WSTOPSIG(status) == SIGTRAP;
		ptrace(PTRACE_CONT, pid, NULL, NULL);
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	if (n)
		of(g)->trap_ns =
		    (uint64_t)((b.tv_sec - a.tv_sec) * 1000000000LL + b.tv_nsec - a.tv_nsec) / n;
}

static void engine_close(struct engine *g)
{
	struct engine_ptrace *p = of(g);
	const struct request leave = {.kind = REQUEST_LEAVE};
	p->closing = true;
	if (p->sock >= 0) {
		helper_send(p->sock, &leave, sizeof(leave));
		close(p->sock);
	}
	if (p->guarded)
		pthread_join(p->guard, NULL);
	else if (p->tracer > 0)
		waitpid(p->tracer, NULL, 0);
	if (p->keeper > 0)
		waitpid(p->keeper, NULL, 0);
	if (p->share && p->share->wake > 0)
		close(p->share->wake);
	if (p->share)
		munmap(p->share, p->share_bytes);
	share_reader_free(&p->sums);
	free(p);
}

static int no_kcmp(struct err *e)
{
	int r = -errno;
	err_set(e, r, "kcmp(2) does not work here: %s", strerror(-r));
	return err_hint(e,
			"boot a kernel with CONFIG_KCMP; in a container, allow it in the seccomp "
			"profile");
}

static int map_share(struct engine_ptrace *p, const struct engine_wanted *w, struct err *e)
{
	const uint64_t ring = engine_ring_bytes(w->buffer, SHARE_RING) & ~7ULL;
	p->share_bytes = sizeof(*p->share) + ring;
	p->share = mmap(NULL, p->share_bytes, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p->share == MAP_FAILED) {
		p->share = NULL;
		return err_set(e, -ENOMEM, "no memory");
	}
	p->share->ring_bytes = (uint32_t)ring;
	p->share->may_sum = w->may_sum;
	return 0;
}

static int start_tracer(struct engine_ptrace *p, const struct engine_wanted *w, struct err *e)
{
	int sock[2], life[2];
	pid_t self = getpid();
	if (syscall(SYS_kcmp, self, self, KCMP_VM, 0, 0))
		return no_kcmp(e);
	int r = map_share(p, w, e);
	if (r)
		return r;
	p->share->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->share->wake < 0)
		return err_set(e, -errno, "cannot start a tracing process: %s", strerror(errno));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock))
		return err_set(e, -errno, "cannot start a tracing process: %s", strerror(errno));
	p->sock = sock[0];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life)) {
		r = -errno;
		close(sock[1]);
		return err_set(e, r, "cannot start a tracing process: %s", strerror(-r));
	}
	p->tracer = fork();
	if (!p->tracer) {
		close(sock[0]);
		close(life[0]);
		tracer_main(p->share, sock[1], self, w->nplans, w->interesting);
		_exit(0);
	}
	close(sock[1]);
	close(life[1]);
	r = p->tracer < 0 ? -errno : 0;
	if (!r) {
		p->keeper = keeper_start(p->share, life[0], &p->sock, 1);
		r = p->keeper < 0 ? -errno : 0;
	}
	close(life[0]);
	if (r)
		return err_set(e, r, "cannot start a tracing process: %s", strerror(-r));
	r = start_guard(p);
	return r ? err_set(e, r, "cannot start a thread: %s", strerror(-r)) : 0;
}

int engine_ptrace_open(const struct engine_wanted *w, struct engine **out, struct err *e)
{
	struct engine_ptrace *p = calloc(1, sizeof(*p));
	if (!p)
		return err_set(e, -ENOMEM, "no memory");
	p->sock = -1;
	p->engine = (struct engine){
	    .name = "ptrace",
	    .gone = "the tracing process of ditrace was killed",
	    .gone_hint = "the traced processes run on, and their code was restored; attach again",
	    .set_plans = set_plans,
	    .set_proc = set_proc,
	    .attach = attach,
	    .detach = detach,
	    .consume = consume,
	    .registers = registers,
	    .count_dispatch = count_dispatch,
	    .counters = counters,
	    .calibrate = calibrate,
	    .set_away = set_away,
	    .watch = watch,
	    .follow = follow,
	    .close = engine_close,
	};
	int r = start_tracer(p, w, e);
	if (r) {
		engine_close(&p->engine);
		return r;
	}
	p->engine.tracer = p->tracer;
	p->engine.wake = p->share->wake;
	*out = &p->engine;
	return 0;
}
