#define _GNU_SOURCE
#include "tracer/intervene/intervene.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "replay/replay.h"
#include "tracer/engine/shim/injector.h"
#include "tracer/engine/shim/shim_share.h"
#include "tracer/intervene/internal.h"

enum { PATIENCE_S = 2 };

static int open_control(struct intervene *v, struct err *e)
{
	v->shared = memfd_create("ditrace", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (v->shared >= 0 && !ftruncate(v->shared, sizeof(*v->control)) &&
	    !fcntl(v->shared, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		v->control = mmap(NULL, sizeof(*v->control), PROT_READ | PROT_WRITE, MAP_SHARED,
				  v->shared, 0);
	if (v->control && v->control != MAP_FAILED)
		return 0;
	v->control = NULL;
	return err_set(e, -errno, "no memory to share: %s", strerror(errno));
}

static int open_for(struct intervene_rules *rules, pid_t pid, const struct spawn_user *user,
		    struct intervene **out, struct err *e)
{
	struct intervene *v = calloc(1, sizeof(*v));
	if (!v)
		return err_set(e, -ENOMEM, "no memory");
	v->rules = rules;
	v->entered = pid;
	v->save.files =
	    (struct capture_files){.root = rules->folder, .max_bytes = rules->max_bytes};
	int r = open_control(v, e);
	r = r ? r : shim_listener_open(pid, user, &v->listener, e);
	if (!r)
		r = pid ? injector_enter(pid, INJECTOR_MODES, v->listener, e)
			: shim_listener_environment(v->listener, MODES_SOCKET, e);
	if (r)
		intervene_close(v);
	else
		*out = v;
	return r;
}

int intervene_open(struct intervene_rules *rules, const struct spawn_user *user,
		   struct intervene **out, struct err *e)
{
	return open_for(rules, 0, user, out, e);
}

int intervene_enter(struct intervene_rules *rules, pid_t pid, struct intervene **out, struct err *e)
{
	return open_for(rules, pid, NULL, out, e);
}

/* Send the descriptors of the memory for tensors and of struct modes_control, with the first byte
 * of the connection. */
static bool give_memory(int sock, const int memory[2])
{
	char byte = 0;
	struct iovec iov = {&byte, 1};
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(2 * sizeof(int)),
			      .cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(c), memory, 2 * sizeof(int));
	return sendmsg(sock, &m, MSG_NOSIGNAL) == 1;
}

/* One that does not read its answers is not waited for. */
static void greet(struct intervene *v)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct ucred who;
	socklen_t len = sizeof(who);
	int sock = accept4(v->listener->sock, NULL, NULL, SOCK_CLOEXEC);
	struct intervene_peer *p =
	    sock < 0 || v->npeers == INTERVENE_PEERS ? NULL : calloc(1, sizeof(*p));
	bool own =
	    p && !getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len) &&
	    (who.uid == geteuid() || who.uid == v->listener->user || (v->entered && !geteuid()));
	if (!own) {
		free(p);
		if (sock >= 0)
			close(sock);
		return;
	}
	p->link = (struct worker){
	    .requests = sock, .replies = fcntl(sock, F_DUPFD_CLOEXEC, 0), .arena = worker_arena()};
	p->pid = who.pid;
	v->peers[v->npeers++] = p;
	if (p->link.arena < 0 ||
	    setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) ||
	    !give_memory(sock, (int[]){p->link.arena, v->shared}))
		shutdown(sock, SHUT_RDWR); /* dropped at the next step */
}

static void drop(struct intervene *v, unsigned i)
{
	struct intervene_peer *p = v->peers[i];
	intervene_totals_add(&v->totals, p->totals);
	v->compare.spent_ns += p->spent_ns;
	v->compare.passed_ns += p->passed_ns;
	intervene_totals_unseen(&v->totals, p->unseen, p->threads);
	json_decref(p->totals);
	json_decref(p->unseen);
	json_decref(p->threads);
	intervene_compare_drop(&p->call);
	worker_stop(&p->link, NULL, 0);
	free(p);
	v->peers[i] = v->peers[--v->npeers];
}

/* Handle all messages that one read has brought, so that no peer starves the others. */
static void hear(struct intervene *v, unsigned i)
{
	struct intervene_peer *p = v->peers[i];
	json_t *m = NULL;
	int r = worker_receive(&p->link, &m);
	while (r == 1) {
		bool good = intervene_handle(v, p, m);
		json_decref(m);
		r = good ? worker_next(&p->link, &m) : -EPROTO;
	}
	if (r < 0)
		drop(v, i);
}

/* Whether anything happened within `ms`. */
static bool step_within(struct intervene *v, int ms)
{
	struct pollfd fds[INTERVENE_PEERS + 1];
	unsigned n = v->npeers;
	for (unsigned i = 0; i < n; i++)
		fds[i] = (struct pollfd){.fd = v->peers[i]->link.replies, .events = POLLIN};
	fds[n] = (struct pollfd){.fd = v->listener->sock, .events = POLLIN};
	if (poll(fds, n + 1, ms) <= 0)
		return false;
	for (unsigned i = n; i-- > 0;)
		if (fds[i].revents)
			hear(v, i);
	if (fds[n].revents)
		greet(v);
	return true;
}

void intervene_step(struct intervene *v, int ms)
{
	step_within(v, ms);
}

void intervene_set_away(struct intervene *v, bool away)
{
	enum { QUIET_MS = 100, STEPS = 1000 };
	v->control->away = away;
	for (unsigned i = 0; away && i < STEPS && step_within(v, QUIET_MS); i++)
		;
}

static bool is_in(pid_t pid)
{
	struct shim_state s;
	return pid && !injector_state(pid, &s, NULL) && s.modes != SHIM_OUT;
}

void intervene_leave(struct intervene *v)
{
	enum { STEP_MS = 10, STEPS = 200 };
	for (unsigned i = 0; i < v->npeers; i++)
		shutdown(v->peers[i]->link.requests, SHUT_WR);
	for (unsigned i = 0; i < STEPS && (v->npeers || is_in(v->entered)); i++)
		step_within(v, STEP_MS);
}

static void print_all(struct intervene *v)
{
	intervene_totals_print(&v->totals, v->rules, &v->compare);
	intervene_times_print(&v->times);
	if (v->rules->rule[INTERVENE_COMPARE].used)
		intervene_compare_print(&v->compare, v->rules->budget);
	intervene_save_print(&v->save, v->rules->rule[INTERVENE_CAPTURE].used ||
					       v->rules->rule[INTERVENE_FIRST_NAN].used
					   ? 0
					   : v->rules->captures);
	if (v->rules->rule[INTERVENE_FIRST_NAN].used)
		intervene_found_print(&v->found, &v->totals);
}

void intervene_finish(struct intervene *v)
{
	enum { ROUNDS = 10000 };
	for (int i = 0; i < ROUNDS && step_within(v, 0); i++)
		;
	while (v->npeers)
		drop(v, v->npeers - 1);
	if (intervene_refused(v))
		return;
	if (v->greeted)
		print_all(v);
	else if (v->entered)
		fprintf(
		    stderr,
		    "ditrace: process %d did not answer; nothing was changed\n"
		    "  hint: its standard error may tell why, or it stands still: ditrace stack "
		    "%d\n",
		    v->entered, v->entered);
	else
		fprintf(
		    stderr,
		    "ditrace: no process of this program imported PyTorch; nothing was changed\n"
		    "  hint: check that it runs the Python that has torch: ditrace doctor\n");
}

uint64_t intervene_began(const struct intervene *v)
{
	return v->began_ns;
}

bool intervene_is_over(const struct intervene *v)
{
	return v->found.over || v->refused;
}

bool intervene_refused(const struct intervene *v)
{
	return v->refused && !v->rules->keep_going;
}

int intervene_status(const struct intervene *v)
{
	if (intervene_refused(v))
		return EXIT_USAGE;
	return v->rules->rule[INTERVENE_FIRST_NAN].used
		   ? intervene_found_status(&v->found, &v->totals)
		   : EXIT_GOOD;
}

void intervene_close(struct intervene *v)
{
	while (v->npeers)
		drop(v, v->npeers - 1);
	shim_listener_close(v->listener);
	intervene_totals_free(&v->totals);
	intervene_compare_free(&v->compare);
	intervene_times_free(&v->times);
	if (v->control)
		munmap(v->control, sizeof(*v->control));
	if (v->shared >= 0)
		close(v->shared);
	free(v);
}
