#define _GNU_SOURCE
#include "tracer/intervene/intervene.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
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

enum { PEERS = 256, PATIENCE_S = 2 };

/* A process that has the library in it. */
struct peer {
	struct worker link; /* the connection; its process is not our child */
	json_t *totals;	    /* as last reported */
	json_t *unseen;	    /* likewise: what it has that no mode sees */
	json_t *threads;    /* likewise: threads that run ops */
	bool greeted;
	struct intervene_call call; /* the one being judged */
	pid_t pid;
	double spent_ns, passed_ns; /* as in struct intervene_compare */
	bool save_failed;	    /* a file of the call being saved could not be written */
};

struct intervene {
	struct intervene_rules *rules;
	struct shim_listener *listener;
	pid_t entered; /* the injected process; 0: it was started with the library preloaded */
	struct peer *peers[PEERS];
	unsigned npeers, greeted;
	int shared; /* memfd of `control` */
	struct modes_control *control;
	struct intervene_totals totals;
	struct intervene_compare compare;
	struct intervene_times times;
	struct intervene_save save;
	struct intervene_found found;
	bool refused;
};

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
	struct peer *p = sock < 0 || v->npeers == PEERS ? NULL : calloc(1, sizeof(*p));
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

/* [[first, last], ..] */
static json_t *numbers_of(const struct ranges *r)
{
	json_t *list = json_array();
	for (size_t i = 0; i < r->n; i++) {
		uint64_t last = r->list[i].last < INT64_MAX ? r->list[i].last : INT64_MAX;
		json_array_append_new(
		    list, json_pack("[I, I]", (json_int_t)r->list[i].first, (json_int_t)last));
	}
	return list;
}

static json_t *settings(const struct intervene_rules *r)
{
	json_t *features = json_array();
	for (int i = 0; i < INTERVENE_FEATURES; i++)
		if (r->rule[i].on)
			json_array_append_new(features, json_string(intervene_names[i]));
	return json_pack("{so sO? ss? sI sI sI so sI sf ss sb sb so}", "features", features,
			 "casts", r->casts, "cast_text", r->cast_text, "sample",
			 (json_int_t)r->sample, "captures", (json_int_t)r->captures, "max_calls",
			 (json_int_t)r->max_calls, "nth", numbers_of(&r->nth), "pick",
			 (json_int_t)r->pick, "budget", r->budget, "level",
			 r->is_aten ? "aten" : "torch", "hold", r->holds, "stacks", r->stacks,
			 "functions", intervene_rules_functions(r));
}

static json_t *features_of(const struct intervene_rules *r, json_t *m)
{
	json_t *list = json_array(), *when = json_array();
	const char *name = json_text_of(m, "name"), *base = json_text_of(m, "base");
	for (int i = 0; i < INTERVENE_FEATURES; i++) {
		enum intervene_applied applied = intervene_rules_choose(r, i, name, base)
						     ? APPLIED_ALWAYS
						     : intervene_rules_apply(r, i, name, base);
		if (applied == APPLIED_NOT)
			continue;
		json_array_append_new(list, json_string(intervene_names[i]));
		if (applied == APPLIED_WHEN)
			json_array_append_new(when, json_string(intervene_names[i]));
	}
	return json_pack("{so so sO?}", "features", list, "when", when, "casts",
			 intervene_rules_op_casts(r, base));
}

/* Whether a condition holds for a call; null when that is not known. */
static json_t *does_hold(const struct intervene_rules *r, json_t *m)
{
	enum when_result w =
	    intervene_rules_hold(r, json_text_of(m, "feature"), json_text_of(m, "name"),
				 json_text_of(m, "base"), json_object_get(m, "args"));
	return json_pack("{so}", "holds",
			 w == WHEN_TRUE	   ? json_true()
			 : w == WHEN_FALSE ? json_false()
					   : json_null());
}

/* Handle a message of a call that is being judged. */
static int judge(struct intervene *v, struct peer *p, json_t *m, const char *event)
{
	if (!strcmp(event, "op"))
		return intervene_compare_op(&v->compare, &p->call, m);
	if (!strcmp(event, "judged"))
		return intervene_compare_end(&v->compare, &p->call);
	int r = intervene_compare_row(&v->compare, &p->call, m, &p->link);
	if (r || strcmp(event, "tensor") != 0)
		return r;
	return worker_send(&p->link, json_pack("{sb}", "go", 1));
}

static int save(struct intervene *v, struct peer *p, json_t *m)
{
	int r = intervene_save(&v->save, m, &p->link, p->pid, &p->save_failed);
	return r ? r
		 : worker_send(&p->link, json_pack("{sb sb}", "go", 1, "saved", !p->save_failed));
}

static bool is_judged(const char *event)
{
	static const char *const events[] = {"op", "tensor", "value", "mismatch", "skip", "judged"};
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (!strcmp(event, events[i]))
			return true;
	return false;
}

static json_t *status_of(const struct intervene *v)
{
	struct intervene_totals all = {0};
	json_t *status = intervene_ctl_status(v->rules), *threads;
	for (unsigned i = 0; i < v->npeers; i++)
		intervene_totals_unseen(&all, NULL, v->peers[i]->threads);
	threads = intervene_totals_threads(&all);
	if (threads)
		json_object_set_new(status, CTL_THREADS, threads);
	intervene_totals_free(&all);
	return status;
}

/* Carry out an order of `ditrace ctl`. */
static json_t *obey(struct intervene *v, json_t *m)
{
	enum { WORDS = 4 };
	const char *words[WORDS];
	struct err e = {0};
	json_t *list = json_object_get(m, "words");
	size_t n = json_array_size(list);
	for (size_t i = 0; i < n && i < WORDS; i++)
		words[i] = json_text_at(list, i);
	int r = intervene_ctl(v->rules, words, n < WORDS ? n : WORDS, &e);
	if (r > 0)
		atomic_fetch_add(&v->control->generation, 1);
	json_t *status = status_of(v);
	return r < 0 ? json_pack("{ss ss so}", "error", e.what, "hint", e.hint, "status", status)
		     : json_pack("{so}", "status", status);
}

static void take_spent(struct peer *p, json_t *pair)
{
	p->spent_ns = json_number_value(json_array_get(pair, 0));
	p->passed_ns = json_number_value(json_array_get(pair, 1));
}

/* --first-nan is done: programs run on unmeasured. */
static void stop_looking(struct intervene *v)
{
	intervene_found_over(&v->found, v->rules->holds);
	v->rules->rule[INTERVENE_FIRST_NAN].on = false;
	atomic_fetch_add(&v->control->generation, 1);
}

/* The first process tells, at its import of PyTorch, what of the options it does not have. */
static void know_names(struct intervene *v, const struct peer *p, json_t *names)
{
	struct err e = {0};
	bool first = !v->rules->names;
	json_decref(v->rules->names);
	v->rules->names = json_incref(names);
	if (!first || !intervene_names_check(v->rules, &e))
		return;
	err_print(&e);
	v->refused = true;
	if (v->entered || v->rules->keep_going || kill(p->pid, SIGTERM))
		return;
	fprintf(stderr, "ditrace: process %d is ended; --keep-going lets it run\n", p->pid);
}

/* False: the message violates the protocol. */
static bool handle(struct intervene *v, struct peer *p, json_t *m)
{
	const char *event = json_text_of(m, "event");
	if (!strcmp(event, "hello")) {
		v->greeted += !p->greeted;
		p->greeted = true;
		return !worker_send(&p->link, settings(v->rules));
	}
	if (!strcmp(event, "ctl"))
		return !worker_send(&p->link, obey(v, m));
	if (!strcmp(event, "settings"))
		return !worker_send(&p->link, settings(v->rules));
	if (!strcmp(event, "name"))
		return !worker_send(&p->link, features_of(v->rules, m));
	if (!strcmp(event, "facts"))
		return !worker_send(&p->link, does_hold(v->rules, m));
	if (!strcmp(event, "names")) {
		know_names(v, p, json_object_get(m, "names"));
		return true;
	}
	if (!strcmp(event, "compared"))
		return !intervene_compare_silent(&v->compare, json_object_get(m, "calls"));
	if (!strcmp(event, "timed"))
		return !intervene_times_add(&v->times, m);
	if (!strcmp(event, "save"))
		return !save(v, p, m);
	if (!strcmp(event, "found"))
		return !worker_send(
		    &p->link, json_pack("{sb}", "first", intervene_found_op(&v->found, m, p->pid)));
	if (!strcmp(event, "over") && v->found.pid == p->pid)
		stop_looking(v);
	else if (!strcmp(event, "passed"))
		intervene_found_passed(&v->found, m);
	else if (!strcmp(event, "tables"))
		intervene_tables_print(stderr, m, NULL);
	else if (!strcmp(event, "totals")) {
		json_decref(p->totals);
		p->totals = json_incref(json_object_get(m, "totals"));
		take_spent(p, json_object_get(m, "spent"));
		json_decref(p->unseen);
		p->unseen = json_incref(json_object_get(m, "unseen"));
		json_decref(p->threads);
		p->threads = json_incref(json_object_get(m, "threads"));
	} else
		return is_judged(event) && !judge(v, p, m, event);
	return true;
}

static void drop(struct intervene *v, unsigned i)
{
	struct peer *p = v->peers[i];
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
	struct peer *p = v->peers[i];
	json_t *m = NULL;
	int r = worker_receive(&p->link, &m);
	while (r == 1) {
		bool good = handle(v, p, m);
		json_decref(m);
		r = good ? worker_next(&p->link, &m) : -EPROTO;
	}
	if (r < 0)
		drop(v, i);
}

/* Whether anything happened within `ms`. */
static bool step(struct intervene *v, int ms)
{
	struct pollfd fds[PEERS + 1];
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
	step(v, ms);
}

void intervene_set_away(struct intervene *v, bool away)
{
	enum { QUIET_MS = 100, STEPS = 1000 };
	v->control->away = away;
	for (unsigned i = 0; away && i < STEPS && step(v, QUIET_MS); i++)
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
		step(v, STEP_MS);
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
	for (int i = 0; i < ROUNDS && step(v, 0); i++)
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
