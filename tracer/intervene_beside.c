/* Interventions beside a trace: in a thread of their own, as judging a call may take longer than
 * the engine's records can wait. */
#include "tracer/trace_loop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/intervene/intervene.h"

struct intervene_beside {
	struct intervene *v;
	struct intervene_rules rules;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool running, stop, away, is_away; /* under the lock */
	bool attached;
};

/* False: it is time to stop. */
static bool obey(struct intervene_beside *b)
{
	pthread_mutex_lock(&b->lock);
	bool stop = b->stop;
	if (b->away != b->is_away) {
		intervene_set_away(b->v, b->away);
		b->is_away = b->away;
		pthread_cond_signal(&b->changed);
	}
	pthread_mutex_unlock(&b->lock);
	return !stop;
}

static void *work(void *arg)
{
	enum { LOOK_MS = 20 };
	struct intervene_beside *b = arg;
	while (obey(b)) {
		intervene_step(b->v, LOOK_MS);
		fflush(stderr); /* see intervene_prepare */
	}
	return NULL;
}

static int start(struct intervene_beside *b, struct err *e)
{
	sigset_t all, was;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &was);
	int r = pthread_create(&b->thread, NULL, work, b);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	b->running = !r;
	return r ? err_set(e, -r, "cannot start a thread: %s", strerror(r)) : 0;
}

static int check_level(const struct intervene_rules *r, struct err *e)
{
	if (!r->is_aten)
		return 0;
	if (r->rule[INTERVENE_FIRST_NAN].on) {
		err_set(e, -EINVAL,
			"--first-nan from inside of the process does not go together with a trace");
		return err_hint(e, "leave out what asks for one: -o, --print, --count");
	}
	err_set(e, -EINVAL,
		"--level aten does not go together with a trace: an operator is met within its "
		"call, which would be recorded twice, and what ditrace computes would be part of "
		"the times of the calls around it");
	return err_hint(e, "leave --level out, so that functions are met before they call "
			   "operators (softmax, not aten::_softmax); or trace in a run of its own");
}

int intervene_beside_open(struct intervene_opts *change, const struct session_opts *o, pid_t pid,
			  struct intervene_beside **out, struct err *e)
{
	struct intervene_beside *b = calloc(1, sizeof(*b));
	if (!b)
		return err_set(e, -ENOMEM, "no memory");
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->changed, NULL);
	b->attached = pid;
	*out = b;
	int r = intervene_prepare(change, o, &b->rules, e);
	r = r ? r : check_level(&b->rules, e);
	if (!r)
		r = pid ? intervene_enter(&b->rules, pid, &b->v, e)
			: intervene_open(&b->rules, o->user, &b->v, e);
	return r ? r : start(b, e);
}

void intervene_beside_set_away(struct intervene_beside *b, bool away)
{
	if (!b)
		return;
	pthread_mutex_lock(&b->lock);
	b->away = away;
	while (b->is_away != b->away)
		pthread_cond_wait(&b->changed, &b->lock);
	pthread_mutex_unlock(&b->lock);
}

static void stop(struct intervene_beside *b)
{
	pthread_mutex_lock(&b->lock);
	b->stop = true;
	pthread_mutex_unlock(&b->lock);
	pthread_join(b->thread, NULL);
	if (b->attached)
		intervene_leave(b->v);
	intervene_finish(b->v);
}

bool intervene_beside_close(struct intervene_beside *b)
{
	if (!b)
		return false;
	if (b->running)
		stop(b);
	bool refused = b->v && intervene_refused(b->v);
	if (b->v)
		intervene_close(b->v);
	intervene_rules_free(&b->rules);
	pthread_cond_destroy(&b->changed);
	pthread_mutex_destroy(&b->lock);
	free(b);
	return refused;
}
