/* Pythons that run captures: which one, and a pool of runners in it. */
#define _GNU_SOURCE
#include "replay/internal.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/run_python.h"
#include "base/text.h"
#include "replay/capture/capture_files.h"

static int python_on_the_path(struct python_choice *out, struct err *e)
{
	int r = python_find("torch", out->path, sizeof(out->path), e);
	return r ? err_hint(e, "name the interpreter of the training: --python PATH") : 0;
}

static bool same_python(const struct capture_place *a, const struct capture_place *b)
{
	return !strcmp(a->python, b->python) && !strcmp(a->python_changed, b->python_changed);
}

/* The first capture of the most common interpreter, or NULL if none names one; *kinds is the number
 * of different interpreters. */
static const struct capture_place *commonest_python(const struct capture_places *p, size_t *kinds)
{
	const struct capture_place *best = NULL;
	size_t most = 0, seen = 0;
	for (size_t i = 0; i < p->n && (!i || seen < p->n); i++) {
		size_t n = 0;
		bool before = !p->list[i].python;
		for (size_t k = 0; k < i && !before; k++)
			before = p->list[k].python && same_python(&p->list[k], &p->list[i]);
		for (size_t k = i; k < p->n && !before; k++)
			n += p->list[k].python && same_python(&p->list[k], &p->list[i]);
		*kinds += n > 0;
		seen += n;
		if (n > most) {
			most = n;
			best = &p->list[i];
		}
	}
	return best;
}

/* Choose the interpreter of the captures; `p` is the first of the most common one. */
static int python_as_captured(const struct capture_place *p, size_t kinds,
			      struct python_choice *out, struct err *e)
{
	bool there = interpreter_is_there(p->python, p->python_changed);
	if (there && python_has(p->python, "torch")) {
		snprintf(out->path, sizeof(out->path), "%s", p->python);
		if (kinds > 1)
			snprintf(out->note, sizeof(out->note),
				 "the captures are of %zu interpreters; all are run with %s, the "
				 "commonest",
				 kinds, p->python);
		return 0;
	}
	int r = python_on_the_path(out, e);
	if (!r)
		snprintf(out->note, sizeof(out->note),
			 "the captures are of %s, which %s; they are run with %s", p->python,
			 there ? "has no torch now" : "is not here, or has changed since",
			 out->path);
	return r;
}

int choose_python(const char *given, const struct capture_places *captures,
		  struct python_choice *out, struct err *e)
{
	size_t kinds = 0;
	*out = (struct python_choice){0};
	python_drop_empty_folders();
	if (given &&
	    (size_t)snprintf(out->path, sizeof(out->path), "%s", given) >= sizeof(out->path))
		return err_set(e, -ENAMETOOLONG, "--python: the path is too long");
	if (given)
		return 0;
	const struct capture_place *p = commonest_python(captures, &kinds);
	return p ? python_as_captured(p, kinds, out, e) : python_on_the_path(out, e);
}

void python_choice_say(const struct python_choice *c, FILE *f)
{
	if (!c->note[0])
		return;
	fputs("ditrace: ", f);
	text_print_safe(f, c->note);
	putc('\n', f);
}

enum { NO_JOB = -1 };

static const char *event_of(json_t *m)
{
	const char *s = json_string_value(json_object_get(m, "event"));
	return s ? s : "";
}

static unsigned threads_each(const struct pool *p)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	return cpus > (long)p->jobs ? (unsigned)cpus / p->jobs : 1;
}

/* Start a runner and wait for its hello. */
static int greet(struct pool *p, struct pool_worker *pw, struct err *e)
{
	const struct worker_how how = {.python = p->python,
				       .before = p->before,
				       .threads = threads_each(p),
				       .runners = p->jobs};
	char why[128] = "it broke the connection";
	json_t *m = NULL;
	int r = worker_start(&pw->w, &how, e);
	pw->job = SIZE_MAX;
	if (r)
		return r;
	while (!(r = worker_receive(&pw->w, &m)))
		;
	if (r < 0) {
		worker_stop(&pw->w, why, sizeof(why));
		err_set(e, -ENOENT, "%s cannot run ops: %s", p->python, why);
		return err_hint(e, p->before ? "above is what it or bwrap said of it; bwrap needs "
					       "user namespaces, or root"
					     : "name an interpreter that has PyTorch: --python "
					       "PATH");
	}
	snprintf(p->torch, sizeof(p->torch), "%s", json_string_value(json_object_get(m, "torch")));
	snprintf(p->version, sizeof(p->version), "%s",
		 json_string_value(json_object_get(m, "python")));
	json_decref(m);
	return 0;
}

int pool_open(struct pool *p, struct err *e)
{
	p->jobs = p->jobs < 1 ? 1 : p->jobs > POOL_MAX ? POOL_MAX : p->jobs;
	int r = greet(p, &p->workers[0], e);
	p->nworkers = r ? 0 : 1;
	return r;
}

void pool_close(struct pool *p)
{
	for (unsigned i = 0; i < p->nworkers; i++)
		worker_stop(&p->workers[i].w, NULL, 0);
	p->nworkers = 0;
}

static bool ends_job(const char *event)
{
	return !strcmp(event, "done") || !strcmp(event, "skipped") || !strcmp(event, "refused") ||
	       !strcmp(event, "damaged") || !strcmp(event, "error");
}

/* The worker is gone: fail its job and start another. */
static int replace(struct pool *p, struct pool_worker *pw, struct err *e)
{
	char why[128] = "it broke the connection", text[192];
	worker_stop(&pw->w, why, sizeof(why));
	snprintf(text, sizeof(text), "the op ended the Python process: %s", why);
	if (pw->job != SIZE_MAX)
		p->ended(p->ctx, pw->job, "died", text);
	return greet(p, pw, e);
}

static int handle(struct pool *p, struct pool_worker *pw, json_t *m, struct err *e)
{
	const char *event = event_of(m);
	int r = 0;
	if (ends_job(event)) {
		const char *why = json_string_value(json_object_get(m, "reason"));
		if (!strcmp(event, "done"))
			r = p->message(p->ctx, pw->job, &pw->w, m, e);
		p->ended(p->ctx, pw->job, event, why ? why : "");
		pw->job = SIZE_MAX;
		return r;
	}
	r = p->message(p->ctx, pw->job, &pw->w, m, e);
	if (!r && !strcmp(event, "tensor"))
		worker_send(&pw->w, json_pack("{s:b}", "go",
					      1)); /* if it has died, the next read sees it */
	return r;
}

/* Handle the messages of a runner. One whose device is broken after an op is replaced. */
static int serve(struct pool *p, struct pool_worker *pw, struct err *e)
{
	json_t *m = NULL;
	int r = worker_receive(&pw->w, &m);
	if (r == -EPIPE || r == -EPROTO || r == -EMSGSIZE)
		return replace(p, pw, e);
	while (r > 0) {
		bool broken = json_is_true(json_object_get(m, "broken"));
		r = handle(p, pw, m, e);
		json_decref(m);
		if (!r && broken) {
			worker_stop(&pw->w, NULL, 0);
			return greet(p, pw, e);
		}
		if (r)
			return r;
		if (!memchr(pw->w.text, '\n', pw->w.len))
			return 0;
		r = worker_receive(&pw->w, &m);
	}
	return r;
}

/* Give the runner the next job that can be sent; jobs that cannot have failed. */
static void give_jobs(struct pool *p, struct pool_worker *pw, size_t *next)
{
	while (*next < p->count) {
		size_t job = (*next)++;
		pw->job = job;
		/* If the worker has died, the next read sees it. */
		if (worker_send(&pw->w, p->request(p->ctx, job)) != -ENOMEM)
			return;
		pw->job = SIZE_MAX;
		p->ended(p->ctx, job, "error", "its path, or a word of the options, is not UTF-8");
	}
}

static int give_work(struct pool *p, size_t *next, struct err *e)
{
	for (unsigned i = 0; i < p->jobs && *next < p->count; i++) {
		struct pool_worker *pw = &p->workers[i];
		if (i >= p->nworkers) {
			int r = greet(p, pw, e);
			if (r)
				return r;
			p->nworkers = i + 1;
		}
		if (pw->job != SIZE_MAX)
			continue;
		give_jobs(p, pw, next);
	}
	return 0;
}

int pool_run(struct pool *p, struct err *e)
{
	struct pollfd fds[POOL_MAX];
	size_t next = 0;
	for (;;) {
		int r = give_work(p, &next, e), busy = 0;
		if (r)
			return r;
		for (unsigned i = 0; i < p->nworkers; i++) {
			bool has = p->workers[i].job != SIZE_MAX;
			busy += has;
			fds[i] = (struct pollfd){has ? p->workers[i].w.replies : NO_JOB, POLLIN, 0};
		}
		if (!busy)
			return 0;
		if (poll(fds, p->nworkers, -1) < 0 && errno != EINTR)
			return err_set(e, -errno, "cannot wait for the runners: %s",
				       strerror(errno));
		for (unsigned i = 0; i < p->nworkers; i++)
			if (fds[i].revents && (r = serve(p, &p->workers[i], e)))
				return r;
	}
}
