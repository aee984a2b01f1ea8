#define _GNU_SOURCE
#include "tracer/capture/measuring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/capture/snapshot.h"
#include "replay/numbers/stats.h"
#include "tracer/capture/capture_source.h"
#include "tracer/capture/measured.h"
#include "tracer/capture/selections.h"

/* Memory for the arguments of all ops that run at a moment; what is beyond is looked at where it
 * is. */
static const size_t KEPT_MAX = (size_t)1 << 30;

struct measuring {
	const struct when *when;
	struct selections selections;
	struct measured_calls calls;
	struct ordinary_keys keys;
	struct first_nan *first_nan; /* NULL: not asked for */
	size_t kept;		     /* bytes in snapshots */
	struct measured *last;	     /* that measuring_exit gave */
	struct event_stats last_stats;
};

static int open_first_nan(struct measuring *m, const struct measuring_opts *o, const char *dir,
			  FILE *log, struct err *e)
{
	if (!o->first_nan)
		return 0;
	bool hold = !strcmp(o->first_nan, "hold");
	if (o->first_nan[0] && !hold) {
		err_set(e, -EINVAL, "--first-nan=%s: there is only --first-nan=hold", o->first_nan);
		return err_hint(e, "without a word, the program runs on");
	}
	m->first_nan = first_nan_new(dir && dir[0] ? dir : ".", hold, log);
	return m->first_nan ? 0 : err_set(e, -ENOMEM, "no memory");
}

int measuring_open(const struct measuring_opts *o, const struct capturing_opts *selection,
		   const struct when *when, FILE *log, struct measuring **out, struct err *e)
{
	*out = NULL;
	if (!o->stats && !o->first_nan)
		return 0;
	struct measuring *m = calloc(1, sizeof(*m));
	if (!m)
		return err_set(e, -ENOMEM, "no memory");
	m->when = when;
	int r = selections_read(&m->selections, selection, e);
	r = r ? r : selection_environment(&m->selections.policy, &selection_overflow, e);
	r = r ? r : open_first_nan(m, o, selection->dir, log, e);
	if (r) {
		measuring_free(m);
		return r;
	}
	*out = m;
	return 0;
}

void measuring_registers(struct measuring *m, first_nan_registers_fn *fn, void *arg)
{
	if (m->first_nan)
		first_nan_registers(m->first_nan, fn, arg);
}

bool measuring_needs_all(const struct measuring *m)
{
	return m->selections.policy.steps.n > 0;
}

/* Gradients belong to the call of their forward op. */
static bool is_selected(struct measuring *m, const struct op_event *ev, bool wanted)
{
	struct selection *s = selections_of(&m->selections, ev->pid);
	if (!selections_restrict(&m->selections))
		return wanted;
	if (!s)
		return false;
	selection_see(s, ev);
	if (!wanted)
		return false;
	if (ev->op->kind == OP_BACKWARD)
		return measured_was_chosen(&m->calls, ev->forward_id);
	if (selection_choose(s, ev, (struct call_count){0}) != SELECTION_YES)
		return false;
	measured_choose(&m->calls, ev->id);
	return true;
}

static bool may_hold(const struct measuring *m, const struct op_event *ev)
{
	enum when_result r = m->when ? when_eval(m->when, ev, WHEN_AT_ENTRY) : WHEN_TRUE;
	return r == WHEN_TRUE || r == WHEN_LATER;
}

struct measuring_look {
	struct measuring *m;
	struct measured *call;
	const struct source *src;
	bool keep; /* the bytes, too */
};

static const char *why_not(int r, enum refusal refusal)
{
	if (r == -ENOTSUP)
		return refusal_text(refusal);
	return r == -ENOMEM ? "no memory for it" : "its memory could not be read";
}

static void look_at(const struct tensor *t, const struct tensor_place *place, void *arg)
{
	struct measuring_look *l = arg;
	struct source_tensor more = {0};
	enum refusal refusal = REFUSED_LAZY;
	struct tensor_stats *row = measured_row(l->call, place);
	int r = -ENOTSUP;
	if (!row)
		return;
	if (l->keep && l->m->kept < KEPT_MAX)
		snapshot_add(&l->call->before, t, &l->call->before.live,
			     l->call->before.len + (KEPT_MAX - l->m->kept));
	if (l->src->more)
		l->src->more(l->src->ctx, t, &more);
	/* A negative bit turns the signs of all that is in memory. */
	if (!more.neg && !more.may_be_lazy)
		r = stats_tensor(t, l->src, &row->stats, &refusal, NULL);
	if (r)
		row->why = why_not(r, refusal);
}

static void measure_arguments(struct measuring *m, struct target *t, struct measured *call,
			      const struct op_event *ev)
{
	struct capture_source place = {.target = t, .keys = &m->keys};
	const struct source live = capture_source(&place);
	const struct source before = snapshot_source(&call->before, &live);
	struct measuring_look l = {.m = m, .call = call, .src = &live, .keep = m->first_nan};
	if (l.keep)
		l.src = &before;
	event_each_tensor(ev, false, look_at, &l);
	m->kept += call->before.len;
}

void measuring_entry(struct measuring *m, struct target *t, const struct op_event *ev, bool wanted)
{
	if (!is_selected(m, ev, wanted) || !t || !may_hold(m, ev) || measuring_is_over(m))
		return;
	struct measured *call = measured_begin(&m->calls, ev->id);
	if (call)
		measure_arguments(m, t, call, ev);
}

const struct event_stats *measuring_exit(struct measuring *m, struct target *t,
					 const struct op_event *ev)
{
	struct measured *call = m->last = measured_find(&m->calls, ev->id);
	if (!call)
		return NULL;
	struct capture_source place = {.target = t, .keys = &m->keys};
	const struct source live = capture_source(&place);
	struct measuring_look l = {.m = m, .call = call, .src = &live};
	if (t && ev->end_ns && !ev->thrown)
		event_each_tensor(ev, true, look_at, &l);
	m->last_stats = (struct event_stats){.rows = call->rows, .n = call->n};
	return &m->last_stats;
}

static void judge(struct measuring *m, struct target *t, const struct op_event *ev)
{
	struct capture_source place = {.target = t, .keys = &m->keys};
	const struct source live = capture_source(&place);
	const struct source before = snapshot_source(&m->last->before, &live);
	first_nan_judge(m->first_nan, t, ev, &before, &live);
}

void measuring_done(struct measuring *m, struct target *t, const struct op_event *ev, bool recorded)
{
	if (!m->last)
		return;
	if (m->first_nan && t && recorded)
		judge(m, t, ev);
	m->kept -= m->last->before.len;
	measured_end(&m->calls, m->last);
	m->last = NULL;
}

bool measuring_is_over(const struct measuring *m)
{
	return m->first_nan && first_nan_found(m->first_nan);
}

bool measuring_is_past(const struct measuring *m, const struct op_event *ev)
{
	return measuring_is_over(m) && ev->id > first_nan_found(m->first_nan);
}

void measuring_summary(const struct measuring *m, FILE *f)
{
	if (m->first_nan)
		first_nan_summary(m->first_nan, f);
}

void measuring_forget(struct measuring *m, pid_t pid)
{
	selections_forget(&m->selections, pid);
}

void measuring_free(struct measuring *m)
{
	if (!m)
		return;
	first_nan_free(m->first_nan);
	measured_free(&m->calls);
	selections_free(&m->selections);
	free(m);
}
