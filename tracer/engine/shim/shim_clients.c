#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/system.h"
#include "symbolizer/target/process.h"
#include "tracer/engine/shim/injector.h"
#include "tracer/engine/shim/internal.h"

struct inside *inside_find(struct engine_shim *m, pid_t pid)
{
	for (struct inside *i = m->all; i; i = i->next)
		if (i->pid == pid && !i->gone)
			return i;
	return NULL;
}

int inside_share(struct inside *i)
{
	int fd = memfd_create("ditrace-shim", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	void *at = MAP_FAILED;
	/* Sealed: access beyond the end of a truncated file is a SIGBUS. */
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

void shim_clients_wake(const struct engine_shim *m, int sock)
{
	struct epoll_event e = {.events = EPOLLIN};
	epoll_ctl(m->engine.wake, EPOLL_CTL_ADD, sock, &e);
}

static void hear(const struct engine_shim *m, struct inside *i, int sock)
{
	i->sock = sock;
	shim_clients_wake(m, sock);
}

/* Polling first is several times cheaper than an accept that finds nobody. */
static bool is_called(int listener)
{
	struct pollfd fd = {.fd = listener, .events = POLLIN};
	return poll(&fd, 1, 0) > 0;
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
	struct inside *i = good ? inside_find(m, who.pid) : NULL;
	if (i && i->sock < 0) {
		hear(m, i, fd);
		return;
	}
	i = good ? calloc(1, sizeof(*i)) : NULL;
	if (!i) {
		close(fd);
		return;
	}
	*i = (struct inside){.next = m->all, .pid = who.pid, .memory = -1};
	hear(m, i, fd);
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

/* Whether only wake-ups have come, and no end of file. */
static bool only_wakes(struct inside *i)
{
	char said[64];
	ssize_t n = recv(i->sock, said, sizeof(said), MSG_DONTWAIT);
	for (ssize_t k = 0; k < n; k++)
		if (said[k] != SHIM_WAKE)
			return false;
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Whether jumps at boxed calls were to be written, and were not. */
static bool lacks_boxed(const struct inside *i)
{
	const uint32_t op = i->share->op[SHIM_CALL];
	bool wanted = false;
	for (size_t k = 0; i->file.elf && k < i->file.nsites && !wanted; k++)
		wanted = i->file.sites[k].kind == SITE_ENTRY && i->file.sites[k].op == op;
	return wanted && !i->share->jumped[op];
}

static void jump_or_say(struct engine_shim *m, struct inside *i)
{
	struct err why = {0};
	int r = shim_jumps_write(m, i, &why);
	i->no_blocks = r || lacks_boxed(i);
	if (!r || m->engine.trouble.code)
		return;
	err_set(&m->engine.trouble, why.code,
		"no jumps into process %d, whose ops are observed instead, which may cost twice as "
		"much: %s",
		i->pid, why.what);
	if (why.hint[0])
		err_hint(&m->engine.trouble, "%s", why.hint);
}

static bool has_hung_up(const struct inside *i)
{
	char c;
	return !recv(i->sock, &c, 1, MSG_PEEK | MSG_DONTWAIT);
}

/* The process did not wait for an answer any longer. */
static void say_unanswered(struct engine_shim *m, const struct inside *i)
{
	m->engine.missed++;
	if (m->engine.trouble.code)
		return;
	err_set(&m->engine.trouble, -ETIMEDOUT,
		"process %d is not traced: ditrace, stopped or without a processor, did not answer "
		"it in time",
		i->pid);
	err_hint(&m->engine.trouble, "trace it now, as it runs, with: ditrace attach %d", i->pid);
}

/* Messages on the socket: the greeting, then SHIM_WAKE now and then, until end of file. */
static void listen_to(struct engine_shim *m, struct inside *i, follow_fn *fn, void *arg)
{
	struct shim_hello hello;
	if (i->greeted) {
		i->gone = !only_wakes(i);
		return;
	}
	ssize_t n = recv(i->sock, &hello, sizeof(hello), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != sizeof(hello) || hello.version != SHIM_VERSION || hello.unused ||
	    hello.bytes != sizeof(struct shim_share)) {
		i->gone = true;
		return;
	}
	if (has_hung_up(i)) {
		say_unanswered(m, i);
		i->gone = true;
		return;
	}
	i->greeted = true;
	i->jumps = hello.jumps;
	i->nnear = hello.nnear < SHIM_NEAR ? (unsigned)hello.nnear : SHIM_NEAR;
	memcpy(i->near, hello.near, i->nnear * sizeof(*i->near));
	const struct follow_event ev = {
	    .kind = FOLLOW_MAP, .pid = i->pid, .tid = i->pid, .path = ""};
	if (!i->share)
		fn(&ev, arg);
	if (i->share)
		jump_or_say(m, i);
	answer(i);
}

void shim_clients_await(struct engine_shim *m, struct inside *i, const struct shim_listener *d)
{
	enum { PATIENCE_MS = 3000, LOOK_MS = 50 };
	const uint64_t until = clock_ns(CLOCK_MONOTONIC) + PATIENCE_MS * UINT64_C(1000000);
	struct process p;
	while (!i->greeted && !i->gone && clock_ns(CLOCK_MONOTONIC) < until &&
	       !process_read(i->pid, &p, NULL) && p.status.state != 'T') {
		struct pollfd fd = {.fd = i->sock < 0 ? d->sock : i->sock, .events = POLLIN};
		if (poll(&fd, 1, LOOK_MS) <= 0)
			continue;
		if (i->sock < 0)
			greet(m, d->sock);
		else
			listen_to(m, i, NULL, NULL);
	}
}

/* The stub, the saving of registers, what the observer is told in vain, and the caches, which the
 * program has to fill again, are not in what is measured, so that its most is not known. */
void inside_count(const struct inside *i, struct engine_counters *c)
{
	const struct shim_counts now = shim_count(i->share->lost, i->share->thread);
	c->hits += now.hits;
	c->probe_ns += now.sampled ? now.hits * (now.sampled_ns / now.sampled) : 0;
	c->lost += now.lost;
	c->no_blocks += i->no_blocks;
}

void inside_add_turn(const struct inside *i, uint32_t turn, struct turn_spent *sum)
{
	for (unsigned k = 0; k < SHIM_THREADS; k++) {
		const struct shim_turn *t = &i->share->thread[k].turn[turn];
		sum->cpu_ns += t->cpu_ns;
		sum->ops += t->ops;
		sum->idle_ns += t->idle_ns;
		sum->entered += t->entered;
	}
}

void inside_drop(struct engine_shim *m, struct inside *i)
{
	if (i->sock >= 0)
		close(i->sock);
	if (i->memory >= 0)
		close(i->memory);
	if (i->share) {
		inside_count(i, &m->past);
		for (uint32_t k = 0; k <= TURNS_LAST; k++)
			inside_add_turn(i, k, &m->past_turns[k]);
		munmap(i->share, sizeof(*i->share));
	}
	for (unsigned k = 0; k < SHIM_THREADS; k++) {
		free(i->sums[k]);
		free(i->brief[k]);
	}
	free(i);
}

/* Drop processes that have gone once their rings have been drained, and report their exit. */
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
		inside_drop(m, i);
	}
}

/* Report a process that was injected but does not connect. */
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
	bool known = !injector_state(i->pid, &s, NULL) && s.failed;
	err_set(&m->engine.trouble, -ETIMEDOUT,
		"the library in process %d does not call ditrace%s%s", i->pid, known ? ": " : "",
		known ? strerror(s.failed) : "");
	err_hint(&m->engine.trouble, "trace it with --engine bpf or --engine ptrace");
}

/* --wait: report the process as soon as it has the needed libraries. */
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

int shim_clients_follow(struct engine *g, follow_fn *fn, void *arg)
{
	struct engine_shim *m = (struct engine_shim *)g;
	for (const struct shim_listener *d = m->listeners; d; d = d->next)
		if (is_called(d->sock))
			greet(m, d->sock);
	look_at_watched(m, fn, arg);
	for (struct inside *i = m->all; i; i = i->next) {
		if (!i->gone && i->sock >= 0)
			listen_to(m, i, fn, arg);
		else if (!i->gone)
			wait_for_call(m, i);
	}
	bury(m, fn, arg);
	return 0;
}

void shim_clients_await_leaving(struct engine_shim *m)
{
	enum { PATIENCE_MS = 2000 };
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + PATIENCE_MS * 1000000ULL;
	for (struct inside *i = m->all; i; i = i->next)
		if (i->sock >= 0)
			shutdown(i->sock, SHUT_WR);
	for (struct inside *i = m->all; i; i = i->next) {
		struct process p;
		struct pollfd fd = {.fd = i->sock, .events = POLLIN};
		struct frozen f = {0};
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (i->sock < 0 || now >= until || process_read(i->pid, &p, NULL) ||
		    p.status.state == 'T' || p.status.state == 't' || frozen_find(i->pid, &f))
			continue;
		poll(&fd, 1, (int)((until - now) / 1000000) + 1);
	}
}

/* Thread IDs of processes in another PID namespace: the library knows those of its own. */

static pid_t find_tid(pid_t pid, pid_t inner)
{
	pid_t *tids, found = 0;
	ssize_t n = process_threads(pid, &tids);
	for (ssize_t i = 0; i < n && !found; i++) {
		struct process p;
		if (!process_read(tids[i], &p, NULL) && p.status.ns_pid == inner)
			found = tids[i];
	}
	if (n > 0)
		free(tids);
	return found;
}

uint32_t shim_tid(struct inside *i, unsigned slot, uint32_t inner)
{
	struct shim_tid *t = &i->tids[slot];
	struct process p;
	if (!i->pids_known) {
		i->pids_known = true;
		i->other_pids = !process_read(i->pid, &p, NULL) && p.ns_known && p.other_pid_ns;
	}
	if (!i->other_pids)
		return inner;
	if (t->inner != inner) {
		pid_t outer = find_tid(i->pid, (pid_t)inner);
		*t = (struct shim_tid){inner, outer ? (uint32_t)outer : inner};
	}
	return t->outer;
}
