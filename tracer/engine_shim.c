#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tracer/carrier.h"
#include "tracer/engine.h"
#include "tracer/process.h"
#include "tracer/shim_door.h"

enum { PROCS = 256, RECORD_MAX = 32 << 10, RINGS_MAX = 1024 };

/* One process that has the library in it, and has called or is going to. */
struct inside {
	struct inside *next;
	pid_t pid;
	int sock; /* -1: it has not called yet */
	int memory;
	uint64_t since; /* is expected to call */
	uint16_t proc;
	bool greeted, gone, told;
	bool broken;		  /* its rings cannot be believed any more */
	unsigned rounds;	  /* of consume since it is gone */
	struct shim_share *share; /* NULL: not traced */
};

/* A ring to read. */
struct source {
	struct inside *whose;
	struct shim_thread *thread;
	const uint8_t *data;
};

/* The engine shim: a library that `run` preloads into what it starts, or that is brought into a
 * process that runs, and which calls once there is a libtorch. */
struct engine_shim {
	struct engine engine;
	struct shim_door *doors;
	interesting_fn *interesting;
	pid_t target;  /* runs and is to be entered, once; 0: none */
	pid_t watched; /* that, while it has no libtorch; 0: none */
	struct inside *all;
	struct proc_conf conf[PROCS];
	uint32_t nplans;
	struct op_plan *plans;
	struct engine_counters past; /* of processes that have ended */
	struct source rings[RINGS_MAX];
	unsigned nrings;
	uint64_t record[RECORD_MAX / 8];
};

static struct engine_shim *of(struct engine *g)
{
	return (struct engine_shim *)g;
}

static int set_plans(struct engine *g, uint32_t first, const struct op_plan *plans, uint32_t n,
		     struct err *e)
{
	struct engine_shim *m = of(g);
	if (first > m->nplans || n > m->nplans - first)
		return err_set(e, -E2BIG, "too many ops for one session (%u)", first + n);
	memcpy(&m->plans[first], plans, n * sizeof(*plans));
	return 0;
}

static void give_conf(struct shim_share *s, const struct proc_conf *conf)
{
	atomic_fetch_add(&s->conf_seq, 1);
	memcpy(&s->conf, conf, sizeof(*conf));
	atomic_fetch_add(&s->conf_seq, 1);
}

static int set_proc(struct engine *g, uint16_t proc, const struct proc_conf *conf)
{
	struct engine_shim *m = of(g);
	if (proc >= PROCS)
		return -E2BIG;
	m->conf[proc] = *conf;
	for (struct inside *i = m->all; i; i = i->next)
		if (i->share && i->proc == proc)
			give_conf(i->share, conf);
	return 0;
}

static int new_share(struct inside *i)
{
	int fd = memfd_create("ditrace-shim", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	void *at = MAP_FAILED;
	/* Sealed, since what reads behind the end of a file that was cut short gets SIGBUS. */
	if (!ftruncate(fd, sizeof(struct shim_share)) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		at = mmap(NULL, sizeof(struct shim_share), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (at == MAP_FAILED) {
		int r = -errno;
		close(fd);
		return r;
	}
	i->memory = fd;
	i->share = at;
	return 0;
}

static struct inside *find(struct engine_shim *m, pid_t pid)
{
	for (struct inside *i = m->all; i; i = i->next)
		if (i->pid == pid && !i->gone)
			return i;
	return NULL;
}

/* It will call when its thread runs, which one that is stopped does not do. */
static int bring_in(struct engine_shim *m, pid_t pid, struct inside **out, struct err *e)
{
	struct shim_door *d = NULL;
	struct inside *i = calloc(1, sizeof(*i));
	if (!i)
		return err_set(e, -ENOMEM, "no memory");
	m->target = 0;
	int r = shim_door_open(pid, &d, e);
	r = r ? r : carrier_enter(pid, d, e);
	if (r) {
		shim_door_close(d);
		free(i);
		return r;
	}
	d->next = m->doors;
	m->doors = d;
	*i = (struct inside){.next = m->all,
			     .pid = pid,
			     .sock = -1,
			     .memory = -1,
			     .since = clock_ns(CLOCK_MONOTONIC)};
	m->all = i;
	*out = i;
	return 0;
}

static void begin(struct engine_shim *m, struct inside *i)
{
	struct shim_share *s = i->share;
	for (unsigned k = 0; k < SHIM_OPS; k++)
		s->plan[k] = m->plans[s->op[k]];
	s->proc = i->proc;
	give_conf(s, &m->conf[i->proc]);
	s->on = 1;
}

static int attach(struct engine *g, pid_t pid, uint16_t proc, const struct probe_file *file,
		  struct err *e)
{
	struct engine_shim *m = of(g);
	struct inside *i = find(m, pid);
	if (!i && pid != m->target)
		return err_set(e, -ENOTCONN, "the library in process %d is out of use", pid);
	int r = i ? 0 : bring_in(m, pid, &i, e);
	if (r)
		return r;
	for (size_t k = 0; k < file->nsites; k++)
		if (file->sites[k].kind == SITE_CODE_FREED && i->share)
			i->share->code_freed = 1;
	if (i->share || !file->nsites || file->sites[0].kind != SITE_OBSERVED)
		return 0;
	r = new_share(i);
	if (r)
		return err_set(e, r, "cannot make memory to share with process %d: %s", pid,
			       strerror(-r));
	i->proc = proc;
	for (size_t k = 0; k < file->nsites && k < SHIM_OPS; k++)
		i->share->op[k] = file->sites[k].op;
	begin(m, i);
	return 0;
}

static void detach(struct engine *g, uint16_t proc)
{
	for (struct inside *i = of(g)->all; i; i = i->next)
		if (i->share && (proc == ENGINE_ALL_PROCS || i->proc == proc))
			i->share->on = 0;
}

static int watch(struct engine *g, pid_t pid, struct err *e)
{
	(void)e;
	of(g)->watched = pid == of(g)->target ? pid : 0;
	return 0;
}

static void greet(struct engine_shim *m, int listener)
{
	struct ucred who;
	socklen_t len = sizeof(who);
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	bool good = !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) &&
		    (who.uid == geteuid() || !geteuid());
	struct inside *i = good ? find(m, who.pid) : NULL;
	if (i && i->sock < 0) {
		i->sock = fd;
		return;
	}
	i = good ? calloc(1, sizeof(*i)) : NULL;
	if (!i) {
		close(fd);
		return;
	}
	*i = (struct inside){.next = m->all, .pid = who.pid, .sock = fd, .memory = -1};
	m->all = i;
}

static void answer(struct inside *i)
{
	struct shim_answer a = {.code = i->share ? 0 : -ENOENT};
	struct iovec iov = {&a, sizeof(a)};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	if (i->share) {
		m.msg_control = control.bytes;
		m.msg_controllen = sizeof(control.bytes);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
				      .cmsg_level = SOL_SOCKET,
				      .cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(c), &i->memory, sizeof(int));
	}
	sendmsg(i->sock, &m, MSG_NOSIGNAL);
	if (i->memory >= 0)
		close(i->memory);
	i->memory = -1;
}

/* What comes on the socket: first the greeting, then nothing until its end. */
static void listen_to(struct inside *i, follow_fn *fn, void *arg)
{
	struct shim_hello hello;
	ssize_t n = recv(i->sock, &hello, sizeof(hello), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	const struct shim_hello ours = {.version = SHIM_VERSION,
					.bytes = sizeof(struct shim_share)};
	if (i->greeted || n != sizeof(hello) || memcmp(&hello, &ours, sizeof(ours))) {
		i->gone = true;
		return;
	}
	i->greeted = true;
	if (i->share) {
		answer(i);
		return;
	}
	const struct follow_event ev = {
	    .kind = FOLLOW_MAP, .pid = i->pid, .tid = i->pid, .path = ""};
	fn(&ev, arg);
	answer(i);
}

static void count(struct engine_counters *c, const struct shim_share *s)
{
	const struct shim_counts now = shim_count(s->lost, s->thread);
	uint64_t hits = c->hits + now.hits;
	uint64_t mean = now.sampled ? now.sampled_ns / now.sampled : 0;
	c->mean_ns = hits ? (c->mean_ns * c->hits + mean * now.hits) / hits : 0;
	c->hits = hits;
	c->lost += now.lost;
}

static void drop(struct engine_shim *m, struct inside *i)
{
	if (i->sock >= 0)
		close(i->sock);
	if (i->memory >= 0)
		close(i->memory);
	if (i->share) {
		count(&m->past, i->share);
		munmap(i->share, sizeof(*i->share));
	}
	free(i);
}

/* A process that is gone goes when all that it left in its rings has been taken. */
static void bury(struct engine_shim *m, follow_fn *fn, void *arg)
{
	enum { ROUNDS = 2 };
	for (struct inside **at = &m->all, *i; (i = *at);) {
		if (!i->gone || i->rounds < ROUNDS) {
			at = &i->next;
			continue;
		}
		const struct follow_event ev = {
		    .kind = FOLLOW_EXIT, .pid = i->pid, .tid = i->pid, .path = ""};
		*at = i->next;
		if (i->share)
			fn(&ev, arg);
		drop(m, i);
	}
}

/* A process that was entered and does not call. */
static void wait_for_call(struct engine_shim *m, struct inside *i)
{
	const uint64_t patience = SHIM_PATIENCE_S * 1000000000ULL;
	struct shim_state s;
	struct process p;
	if (clock_ns(CLOCK_MONOTONIC) - i->since < patience)
		return;
	i->since = clock_ns(CLOCK_MONOTONIC);
	if (process_read(i->pid, &p, NULL)) {
		i->gone = true;
		return;
	}
	if (p.status.state == 'T' || i->told)
		return;
	i->told = true;
	bool known = !carrier_state(i->pid, &s, NULL) && s.failed;
	err_set(&m->engine.trouble, -ETIMEDOUT,
		"the library in process %d does not call ditrace%s%s", i->pid, known ? ": " : "",
		known ? strerror(s.failed) : "");
	err_hint(&m->engine.trouble, "trace it with --engine bpf or --engine ptrace");
}

/* --wait: the process is entered as soon as it has what is needed. */
static void look_at_watched(struct engine_shim *m, follow_fn *fn, void *arg)
{
	enum { EVERY_NS = 20 * 1000 * 1000 };
	static uint64_t looked;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (!m->watched || now - looked < EVERY_NS)
		return;
	looked = now;
	if (!m->interesting(m->watched))
		return;
	const struct follow_event ev = {
	    .kind = FOLLOW_MAP, .pid = m->watched, .tid = m->watched, .path = ""};
	m->watched = 0;
	fn(&ev, arg);
}

static int follow(struct engine *g, follow_fn *fn, void *arg)
{
	struct engine_shim *m = of(g);
	for (const struct shim_door *d = m->doors; d; d = d->next)
		greet(m, d->listener);
	look_at_watched(m, fn, arg);
	for (struct inside *i = m->all; i; i = i->next) {
		if (!i->gone && i->sock >= 0)
			listen_to(i, fn, arg);
		else if (!i->gone)
			wait_for_call(m, i);
	}
	bury(m, fn, arg);
	return 0;
}

static void broken(struct engine_shim *m, struct inside *i)
{
	i->broken = true;
	i->share->on = 0;
	err_set(&m->engine.trouble, -EPROTO, "process %d has written over its records", i->pid);
	err_hint(&m->engine.trouble, "it runs on untraced; the trace has what came before");
}

/* The threads that have rings; those whose thread has ended and whose ring is empty are given back.
 */
static void find_rings(struct engine_shim *m)
{
	m->nrings = 0;
	for (struct inside *i = m->all; i; i = i->next) {
		for (unsigned k = 0; i->share && !i->broken && k < SHIM_THREADS; k++) {
			struct shim_thread *t = &i->share->thread[k];
			if (!t->tid || m->nrings == RINGS_MAX)
				continue;
			if (t->ended && t->records.head == t->records.tail) {
				t->ended = 0;
				t->tid = 0;
				continue;
			}
			m->rings[m->nrings++] = (struct source){i, t, i->share->ring[k]};
		}
	}
}

/* The ring whose next record is the oldest, NULL: all are empty. */
static struct source *oldest(struct engine_shim *m)
{
	struct source *best = NULL;
	uint64_t ts = UINT64_MAX;
	for (unsigned k = 0; k < m->nrings; k++) {
		struct source *x = &m->rings[k];
		int bad = 0;
		const struct hit *h =
		    x->whose->broken ? NULL
				     : ring_next(&x->thread->records, x->data, SHIM_RING, &bad);
		if (h && h->ts < ts) {
			ts = h->ts;
			best = x;
		}
		if (bad)
			broken(m, x->whose);
	}
	return best;
}

/* Copied before it is looked at: the traced process could write there meanwhile. */
static bool take(struct engine_shim *m, struct source *x, engine_hit_fn *fn, void *arg)
{
	struct hit *copy = (struct hit *)m->record;
	const struct hit *h = ring_next(&x->thread->records, x->data, SHIM_RING, NULL);
	uint32_t size = h ? h->size : 0;
	if (size < sizeof(*h) || size > sizeof(m->record) ||
	    size > SHIM_RING - ((const uint8_t *)h - x->data)) {
		broken(m, x->whose);
		return false;
	}
	memcpy(copy, h, size);
	ring_drop(&x->thread->records, h);
	copy->size = size;
	copy->proc = x->whose->proc;
	fn(copy, arg);
	return true;
}

static void look_after(struct engine_shim *m)
{
	static const char *const why[] = {
	    [SHIM_NO_SYMBOLS] = "its libtorch lacks a function that an observer needs",
	    [SHIM_NO_LAYOUT] = "what its libtorch tells observers does not look as it must",
	};
	for (struct inside *i = m->all; i; i = i->next) {
		int32_t refusal = i->share ? i->share->refusal : SHIM_FINE;
		if (refusal <= SHIM_FINE || refusal > SHIM_NO_LAYOUT || i->told)
			continue;
		i->told = true;
		err_set(&m->engine.trouble, -ENOTSUP, "process %d is not traced: %s", i->pid,
			why[refusal]);
		err_hint(&m->engine.trouble, "try --engine bpf or --engine ptrace");
	}
}

static int consume(struct engine *g, engine_hit_fn *fn, void *arg)
{
	struct engine_shim *m = of(g);
	struct source *x;
	int n = 0;
	look_after(m);
	find_rings(m);
	while (n < ENGINE_AT_ONCE && (x = oldest(m)) && take(m, x, fn, arg))
		n++;
	for (struct inside *i = m->all; i; i = i->next)
		i->rounds += i->gone && n < ENGINE_AT_ONCE;
	return n;
}

static void count_dispatch(struct engine *g, int on)
{
	(void)g, (void)on;
}

static void counters(struct engine *g, struct engine_counters *out)
{
	*out = of(g)->past;
	for (struct inside *i = of(g)->all; i; i = i->next)
		if (i->share)
			count(out, i->share);
}

static void calibrate(struct engine *g)
{
	(void)g;
}

/* Those that run take the library out of use; what they have open is closed then. */
static void await_leaving(struct engine_shim *m)
{
	enum { PATIENCE_MS = 2000 };
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + PATIENCE_MS * 1000000ULL;
	for (struct inside *i = m->all; i; i = i->next)
		if (i->sock >= 0)
			shutdown(i->sock, SHUT_WR);
	for (struct inside *i = m->all; i; i = i->next) {
		struct process p;
		struct pollfd fd = {.fd = i->sock, .events = POLLIN};
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (i->sock < 0 || now >= until || process_read(i->pid, &p, NULL) ||
		    p.status.state == 'T' || p.status.state == 't')
			continue;
		poll(&fd, 1, (int)((until - now) / 1000000) + 1);
	}
}

static void engine_close(struct engine *g)
{
	struct engine_shim *m = of(g);
	detach(g, ENGINE_ALL_PROCS);
	await_leaving(m);
	while (m->all) {
		struct inside *i = m->all;
		m->all = i->next;
		drop(m, i);
	}
	while (m->doors) {
		struct shim_door *d = m->doors;
		m->doors = d->next;
		shim_door_close(d);
	}
	free(m->plans);
	free(m);
}

/* Into what this process starts. */
static int prepare(struct engine_shim *m, struct err *e)
{
	int r = shim_door_open(0, &m->doors, e);
	return r ? r : shim_door_environment(m->doors, SHIM_SOCKET, e);
}

int engine_shim_open(const struct engine_wanted *w, struct engine **out, struct err *e)
{
	struct engine_shim *m = calloc(1, sizeof(*m));
	if (!m)
		return err_set(e, -ENOMEM, "no memory");
	m->interesting = w->interesting;
	m->target = w->pid;
	m->nplans = w->nplans;
	m->plans = calloc(w->nplans, sizeof(*m->plans));
	m->engine = (struct engine){
	    .name = "shim",
	    .wake = -1,
	    .observes = true,
	    .set_plans = set_plans,
	    .set_proc = set_proc,
	    .attach = attach,
	    .detach = detach,
	    .consume = consume,
	    .count_dispatch = count_dispatch,
	    .counters = counters,
	    .calibrate = calibrate,
	    .watch = watch,
	    .follow = follow,
	    .close = engine_close,
	};
	struct inside *i;
	int r = m->plans ? 0 : err_set(e, -ENOMEM, "no memory");
	if (!r && !w->pid)
		r = prepare(m, e);
	else if (!r && w->interesting(w->pid))
		r = bring_in(m, w->pid, &i, e);
	else if (!r)
		r = carrier_check(w->pid, e);
	if (r) {
		engine_close(&m->engine);
		return r;
	}
	*out = &m->engine;
	return 0;
}
