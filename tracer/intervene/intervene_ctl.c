#define _GNU_SOURCE
#include "tracer/intervene/intervene.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/system.h"
#include "base/text.h"
#include "replay/replay.h"
#include "tracer/engine/shim/injector.h"
#include "tracer/intervene/internal.h"

enum { PATIENCE_S = 20, LONGEST_REPLY = 1 << 20 };

static int find_feature(const char *name)
{
	int f = 0;
	while (f < INTERVENE_FIRST_NAN && strcmp(intervene_names[f], name))
		f++;
	return f;
}

static int usage(const char *word, struct err *e)
{
	err_set(e, -EINVAL, "\"%s\" is nothing that ctl can do here", word);
	return err_hint(e, "fallback, cast, compare, overflow, capture, print or time, then add "
			   "LIST, remove LIST, all or off; cast "
			   "'torch.float16->torch.float32' gives the dtypes; compare budget 10%%; "
			   "or status");
}

/* It might be meant to be the whole list, or to be added to it. */
static int only_a_list(const char *feature, const char *word, struct err *e)
{
	err_set(e, -EINVAL, "%s: \"%s\" is nothing that ctl can do here", feature, word);
	return err_hint(e,
			"a function is added by: %s add %s; else there are remove LIST, all, off",
			feature, word);
}

/* If nothing is left of a list, turn the feature off: an empty list would mean all. */
static int remove_ops(struct intervene_rule *x, const char *list, struct err *e)
{
	struct oplist gone;
	int r = oplist_compile("remove", list, &gone, e);
	if (r)
		return r;
	bool had = x->listed.n;
	oplist_subtract(&x->listed, &gone);
	if (had && !x->listed.n)
		x->on = false;
	oplist_free(&gone);
	return oplist_append("remove", list, &x->removed, e);
}

static int add_ops(struct intervene_rule *x, const char *list, struct err *e)
{
	struct oplist more;
	int r = oplist_compile("add", list, &more, e);
	if (r)
		return r;
	bool all = x->on && !x->listed.n;
	oplist_subtract(&x->removed, &more);
	oplist_free(&more);
	if (!x->on)
		oplist_free(&x->listed);
	x->on = x->used = true;
	return all ? 0 : oplist_append("add", list, &x->listed, e);
}

static int check_list(const char *list, bool is_aten, struct err *e)
{
	if (list && *list && (is_aten || !strstr(list, "::")))
		return 0;
	err_set(e, -EINVAL,
		list && *list ? "functions of Python are chosen here, not operators of "
				"the dispatcher"
			      : "the list is empty");
	return err_hint(e, is_aten ? "write aten::add.Tensor, or add for all overloads"
				   : "write it as Python does: torch.add, torch.Tensor.add, or add "
				     "for both");
}

static bool is_among(const json_t *names, const char *name)
{
	for (size_t i = 0; i < json_array_size(names); i++)
		if (!strcmp(json_text_at(names, i), name))
			return true;
	return false;
}

/* Whether the process may have the function: not if its module, or for a name alone any module, is
 * known and has none of that name. Offers those that are like it. */
static bool may_have(const json_t *all, const char *item, struct suggestions *near)
{
	const char *dot = strrchr(item, '.'), *module;
	json_t *names;
	bool known = !dot;
	json_object_foreach((json_t *)all, module, names)
	{
		size_t len = strlen(module);
		bool is_module = dot && (size_t)(dot - item) == len && !strncmp(item, module, len);
		known |= is_module;
		if ((!dot || is_module) && is_among(names, dot ? dot + 1 : item))
			return true;
		for (size_t i = 0; (!dot || is_module) && i < json_array_size(names); i++)
			suggestions_add(near, json_text_at(names, i));
	}
	return !known;
}

/* Refuse a name that the process does not have; what is an expression may match anything. */
static int check_items(const json_t *all, const struct oplist *items, struct err *e)
{
	char found[256];
	for (size_t i = 0; json_object_size(all) && i < items->n; i++) {
		const char *item = oplist_item(items, i), *dot = strrchr(item, '.');
		struct suggestions near = {.word = dot ? dot + 1 : item};
		if (strpbrk(item, "*+?()[]{}|^$\\") || may_have(all, item, &near))
			continue;
		err_set(e, -EINVAL, "the process has no function \"%s\"", item);
		return suggestions_list(&near, found, sizeof(found))
			   ? err_hint(e, "near it: %s", found)
			   : err_hint(e, "write it as Python does, and one of another package in "
					 "full: package.module.function");
	}
	return 0;
}

static int check_names(const json_t *all, const char *list, struct err *e)
{
	struct oplist items;
	int r = oplist_compile("add", list, &items, e);
	r = r ? r : check_items(all, &items, e);
	oplist_free(&items);
	return r;
}

int intervene_names_check(const struct intervene_rules *r, struct err *e)
{
	int rc = 0;
	for (int f = 0; f < INTERVENE_FEATURES && !rc && !r->is_aten; f++)
		rc = check_items(r->names, &r->rule[f].listed, e);
	for (size_t i = 0; i < r->napply && !rc && !r->is_aten; i++)
		rc = check_items(r->names, &r->apply[i].ops, e);
	return rc;
}

static int change(struct intervene_rules *r, int f, const char *word, const char *list,
		  struct err *e)
{
	struct intervene_rule *x = &r->rule[f];
	bool adds = !strcmp(word, "add"), removes = !strcmp(word, "remove"),
	     all = !strcmp(word, "all"), off = !strcmp(word, "off");
	if (f == INTERVENE_CAST && strstr(word, "->") && !list)
		return intervene_rules_cast(r, word, e);
	if (f == INTERVENE_COMPARE && !strcmp(word, "budget") && list)
		return intervene_rules_budget(r, list, e);
	if ((all || off) && list)
		return usage(list, e);
	if (!adds && !removes && !all && !off)
		return list ? usage(word, e) : only_a_list(intervene_names[f], word, e);
	if (f == INTERVENE_CAST && !r->casts && !off) {
		err_set(e, -EINVAL, "cast: there are no dtypes yet");
		return err_hint(e, "first: cast 'torch.float16->torch.float32'");
	}
	int rc = adds || removes ? check_list(list, r->is_aten, e) : 0;
	if (!rc && adds && !r->is_aten)
		rc = check_names(r->names, list, e);
	if (rc)
		return rc;
	if (adds)
		return add_ops(x, list, e);
	if (removes)
		return remove_ops(x, list, e);
	oplist_free(&x->listed);
	oplist_free(&x->removed);
	x->on = all;
	x->used |= all;
	return 0;
}

int intervene_ctl(struct intervene_rules *r, const char *const *words, size_t n, struct err *e)
{
	if (n == 1 && !strcmp(words[0], "status"))
		return 0;
	int f = n ? find_feature(words[0]) : INTERVENE_FIRST_NAN;
	if (f == INTERVENE_FIRST_NAN || n < 2 || n > 3)
		return usage(n ? words[n > 3 ? 3 : 0] : "", e);
	int rc = change(r, f, words[1], n > 2 ? words[2] : NULL, e);
	return rc ? rc : 1;
}

json_t *intervene_ctl_status(const struct intervene_rules *r)
{
	json_t *all = json_object();
	for (int f = 0; f < INTERVENE_FIRST_NAN; f++) {
		const struct intervene_rule *x = &r->rule[f];
		char *listed = oplist_text(&x->listed), *removed = oplist_text(&x->removed);
		char *text = NULL;
		char more[64] = "";
		if (x->on && f == INTERVENE_COMPARE && r->budget > 0)
			snprintf(more, sizeof(more), ", budget %g%%", 100 * r->budget);
		if (!listed || !removed ||
		    asprintf(&text, "%s%s%s%s%s%s",
			     !x->on    ? "off"
			     : *listed ? listed
				       : "all",
			     x->on && *removed ? " but " : "", x->on ? removed : "",
			     x->on && f == INTERVENE_CAST ? ", " : "",
			     x->on && f == INTERVENE_CAST ? r->cast_text : "", more) < 0)
			text = NULL;
		json_object_set_new(all, intervene_names[f], json_string(text ? text : "?"));
		free(text);
		free(listed);
		free(removed);
	}
	return all;
}

bool intervene_ctl_is_there(const struct shim_state *s)
{
	bool there = s->modes == SHIM_IN || (s->modes == SHIM_COMING && *s->modes_socket);
	return there && memchr(s->modes_socket, 0, sizeof(s->modes_socket));
}

/* Connect to the ditrace that intervenes in process `pid`, or will once it imports PyTorch. The
 * socket, or -errno with *e. */
static int dial(pid_t pid, struct err *e)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct shim_state s = {0};
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int r = injector_state(pid, &s, e);
	if (!r && !intervene_ctl_is_there(&s))
		r = err_set(e, -ENOENT, "no ditrace changes functions of process %d", pid);
	if (r)
		return r == -ENOENT
			   ? err_hint(e, "ditrace attach %d --fallback, --cast or --compare does",
				      pid)
			   : r;
	int n = snprintf(a.sun_path, sizeof(a.sun_path), "/proc/%d/root%s", pid, s.modes_socket);
	int sock =
	    n < (int)sizeof(a.sun_path) ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
	/* connect waits for as long as sending may take. */
	if (sock >= 0 && !setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) &&
	    !setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) &&
	    !connect(sock, (struct sockaddr *)&a, sizeof(a)))
		return sock;
	r = n >= (int)sizeof(a.sun_path) ? -ENAMETOOLONG : errno == EAGAIN ? -ETIMEDOUT : -errno;
	if (sock >= 0)
		close(sock);
	err_set(e, r, "cannot reach the ditrace of process %d: %s", pid, strerror(-r));
	return err_hint(e, "it may have ended: ditrace ctl %d status", pid);
}

/* Whether there is something to read before the deadline, ns of CLOCK_MONOTONIC. */
static bool comes(int fd, uint64_t deadline)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	for (;;) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		int n = now < deadline ? poll(&p, 1, (int)((deadline - now) / 1000000) + 1) : 0;
		if (n >= 0 || errno != EINTR)
			return n > 0;
	}
}

/* The reply, of at most LONGEST_REPLY bytes and within PATIENCE_S: whoever answers may be anybody.
 */
static int receive(struct worker *w, json_t **out)
{
	uint64_t deadline = clock_ns(CLOCK_MONOTONIC) + PATIENCE_S * 1000000000ull;
	char byte; /* the descriptors with it are discarded by the kernel */
	if (!comes(w->replies, deadline))
		return -ETIMEDOUT;
	if (recv(w->replies, &byte, 1, 0) != 1)
		return -EPIPE;
	for (;;) {
		if (!comes(w->replies, deadline))
			return -ETIMEDOUT;
		int r = worker_receive(w, out);
		if (r)
			return r < 0 ? r : 0;
		if (w->len > LONGEST_REPLY)
			return -EMSGSIZE;
	}
}

static int read_reply(json_t *m, json_t **out, struct err *e)
{
	const char *error = json_string_value(json_object_get(m, "error"));
	const char *hint = json_string_value(json_object_get(m, "hint"));
	*out = json_incref(json_object_get(m, "status"));
	if (!error)
		return *out ? 0 : err_set(e, -EPROTO, "the other ditrace is of another kind");
	err_set(e, -EINVAL, "%s", error);
	return err_hint(e, "%s", hint ? hint : "");
}

static int no_reply(pid_t pid, int r, struct err *e)
{
	if (r == -ETIMEDOUT)
		err_set(e, r, "the ditrace of process %d does not answer within %d s", pid,
			PATIENCE_S);
	else if (r == -EMSGSIZE)
		err_set(e, r, "the ditrace of process %d answers with more than %d bytes", pid,
			LONGEST_REPLY);
	else
		err_set(e, r, "the ditrace of process %d does not answer: %s", pid, strerror(-r));
	return err_hint(e, "it may have stopped, or be another program: ditrace stack %d", pid);
}

int intervene_ctl_send(pid_t pid, char *const *words, size_t n, json_t **out, struct err *e)
{
	json_t *list = json_array(), *m = NULL;
	int sock = dial(pid, e);
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_string(words[i]));
	json_t *order = json_pack("{ss so}", "event", "ctl", "words", list);
	if (sock < 0) {
		json_decref(order);
		return sock;
	}
	struct worker w = {.requests = sock, .replies = dup(sock), .arena = -1};
	int r = worker_send(&w, order);
	r = r ? r : receive(&w, &m);
	r = r ? no_reply(pid, r, e) : read_reply(m, out, e);
	json_decref(m);
	worker_stop(&w, NULL, 0);
	return r;
}
