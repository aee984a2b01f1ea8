#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "tracer/engine.h"
#include "tracer/shim_share.h"

enum { PROCS = 256, RECORD_MAX = 32 << 10, RINGS_MAX = 1024, PATH_LEN = 96 };

/* One process that has the library in it and has called. */
struct inside {
	struct inside *next;
	pid_t pid;
	int sock, memory;
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

/* The engine shim: a library that `run` preloads into what it starts, and which calls when its
 * process loads libtorch. */
struct engine_shim {
	struct engine engine;
	char dir[PATH_LEN - 32], library[PATH_LEN], socket[PATH_LEN];
	int listener;
	struct inside *all;
	struct proc_conf conf[PROCS];
	uint32_t nplans;
	struct op_plan *plans;
	struct engine_counters past; /* of processes that have ended */
	struct source rings[RINGS_MAX];
	unsigned nrings;
	uint64_t record[RECORD_MAX / 8];
};

extern const char _binary_libditrace_shim_so_start[], _binary_libditrace_shim_so_end[];

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
	int fd = memfd_create("ditrace-shim", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	void *at = MAP_FAILED;
	if (!ftruncate(fd, sizeof(struct shim_share)))
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

static int is_not_inside(pid_t pid, struct err *e)
{
	err_set(e, -ENOTCONN, "process %d was not started with ditrace's library in it", pid);
	return err_hint(e, "start it with: ditrace run --engine shim; or attach with --engine bpf");
}

static void begin(struct engine_shim *m, struct inside *i)
{
	struct shim_share *s = i->share;
	for (unsigned k = 0; k < SHIM_OPS; k++)
		s->plan[k] = m->plans[s->op[k]];
	s->proc = i->proc;
	give_conf(s, &m->conf[i->proc]);
	s->seen_ns = clock_ns(CLOCK_MONOTONIC);
	s->on = 1;
}

static int attach(struct engine *g, pid_t pid, uint16_t proc, const struct probe_file *file,
		  struct err *e)
{
	struct engine_shim *m = of(g);
	struct inside *i = find(m, pid);
	if (!i)
		return is_not_inside(pid, e);
	for (size_t k = 0; k < file->nsites; k++)
		if (file->sites[k].kind == SITE_CODE_FREED && i->share)
			i->share->code_freed = 1;
	if (i->share || !file->nsites || file->sites[0].kind != SITE_OBSERVED)
		return 0;
	int r = new_share(i);
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
	(void)g, (void)pid, (void)e;
	return 0;
}

static void greet(struct engine_shim *m)
{
	struct ucred who;
	socklen_t len = sizeof(who);
	int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct inside *i = fd < 0 ? NULL : calloc(1, sizeof(*i));
	if (!i || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) ||
	    (who.uid != geteuid() && geteuid())) {
		free(i);
		if (fd >= 0)
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
	const struct follow_event ev = {
	    .kind = FOLLOW_MAP, .pid = i->pid, .tid = i->pid, .path = ""};
	fn(&ev, arg);
	answer(i);
}

static void count(struct engine_counters *c, const struct shim_share *s)
{
	uint64_t hits = c->hits + s->hits;
	uint64_t mean = s->sampled ? s->sampled_ns / s->sampled : 0;
	c->mean_ns = hits ? (c->mean_ns * c->hits + mean * s->hits) / hits : 0;
	c->hits = hits;
	c->lost += s->lost;
}

static void drop(struct engine_shim *m, struct inside *i)
{
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

static int follow(struct engine *g, follow_fn *fn, void *arg)
{
	struct engine_shim *m = of(g);
	greet(m);
	for (struct inside *i = m->all; i; i = i->next)
		if (!i->gone)
			listen_to(i, fn, arg);
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
	if (size < sizeof(*h) || size > sizeof(m->record)) {
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
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	for (struct inside *i = m->all; i; i = i->next) {
		int32_t refusal = i->share ? i->share->refusal : SHIM_FINE;
		if (i->share)
			i->share->seen_ns = now;
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

static void engine_close(struct engine *g)
{
	struct engine_shim *m = of(g);
	detach(g, ENGINE_ALL_PROCS);
	while (m->all) {
		struct inside *i = m->all;
		m->all = i->next;
		drop(m, i);
	}
	if (m->listener >= 0)
		close(m->listener);
	if (m->socket[0])
		unlink(m->socket);
	if (m->library[0])
		unlink(m->library);
	if (m->dir[0])
		rmdir(m->dir);
	free(m->plans);
	free(m);
}

/* A directory of the user's own whose files may be executed. */
static int make_dir(struct engine_shim *m, struct err *e)
{
	const char *places[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp", "/dev/shm",
				"/var/tmp"};
	int r = -ENOENT;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct statvfs fs;
		if (!places[i] || statvfs(places[i], &fs) || fs.f_flag & ST_NOEXEC)
			continue;
		int n = snprintf(m->dir, sizeof(m->dir), "%s/ditrace-XXXXXX", places[i]);
		if (n > 0 && n < (int)sizeof(m->dir) && mkdtemp(m->dir))
			return 0;
		r = -errno;
		m->dir[0] = '\0';
	}
	err_set(e, r, "no directory for the library that goes into the program: %s", strerror(-r));
	return err_hint(e, "set TMPDIR to one that can be written and is not mounted noexec");
}

static int write_library(struct engine_shim *m)
{
	/* cppcheck-suppress comparePointers; the linker puts both around the same bytes */
	size_t n = (size_t)(_binary_libditrace_shim_so_end - _binary_libditrace_shim_so_start);
	snprintf(m->library, sizeof(m->library), "%s/libditrace_shim.so", m->dir);
	int fd = open(m->library, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0500);
	if (fd < 0)
		return -errno;
	int r = io_write_all(fd, _binary_libditrace_shim_so_start, n);
	return close(fd) && !r ? -errno : r;
}

static int start_listening(struct engine_shim *m)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	snprintf(m->socket, sizeof(m->socket), "%s/socket", m->dir);
	strcpy(a.sun_path, m->socket);
	m->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (m->listener < 0 || bind(m->listener, (struct sockaddr *)&a, sizeof(a)) ||
	    listen(m->listener, SOMAXCONN))
		return -errno;
	return 0;
}

/* For what this process starts. */
static int set_environment(const struct engine_shim *m)
{
	char preload[4096];
	const char *was = getenv("LD_PRELOAD");
	int n = snprintf(preload, sizeof(preload), "%s%s%s", m->library, was && *was ? ":" : "",
			 was ? was : "");
	if (n < 0 || n >= (int)sizeof(preload))
		return -E2BIG;
	return setenv("LD_PRELOAD", preload, 1) || setenv(SHIM_SOCKET, m->socket, 1) ? -errno : 0;
}

static int prepare(struct engine_shim *m, struct err *e)
{
	int r = make_dir(m, e);
	if (r)
		return r;
	r = write_library(m);
	r = r ? r : start_listening(m);
	r = r ? r : set_environment(m);
	return r ? err_set(e, r, "cannot prepare %s: %s", m->dir, strerror(-r)) : 0;
}

int engine_shim_open(uint32_t nplans, struct engine **out, struct err *e)
{
	struct engine_shim *m = calloc(1, sizeof(*m));
	if (!m)
		return err_set(e, -ENOMEM, "no memory");
	m->listener = -1;
	m->nplans = nplans;
	m->plans = calloc(nplans, sizeof(*m->plans));
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
	int r = m->plans ? prepare(m, e) : err_set(e, -ENOMEM, "no memory");
	if (r) {
		engine_close(&m->engine);
		return r;
	}
	*out = &m->engine;
	return 0;
}
