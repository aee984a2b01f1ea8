#define _GNU_SOURCE
#include "tracer/capture/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "replay/capture/capture_files.h"
#include "replay/numbers/numbers.h"
#include "tracer/capture/internal.h"
#include "tracer/engine/engine.h"

static struct stats_call *take_unused(struct stats_calls *c)
{
	struct stats_call *m = c->unused;
	if (!m)
		return calloc(1, sizeof(*m));
	c->unused = m->next;
	m->n = 0;
	return m;
}

struct stats_call *stats_call_begin(struct stats_calls *c, uint64_t id)
{
	struct stats_call *m = take_unused(c), **slot = &c->slot[id % STATS_SLOTS];
	if (!m)
		return NULL;
	m->id = id;
	m->next = *slot;
	*slot = m;
	return m;
}

struct stats_call *stats_call_find(const struct stats_calls *c, uint64_t id)
{
	struct stats_call *m = c->slot[id % STATS_SLOTS];
	while (m && m->id != id)
		m = m->next;
	return m;
}

struct tensor_stats *stats_call_row(struct stats_call *m, const struct tensor_place *place)
{
	if (array_grow(&m->rows, &m->room, m->n + 1, sizeof(*m->rows)))
		return NULL;
	struct tensor_stats *row = &m->rows[m->n++];
	*row = (struct tensor_stats){.place = *place};
	return row;
}

void stats_call_end(struct stats_calls *c, struct stats_call *m)
{
	struct stats_call **at = &c->slot[m->id % STATS_SLOTS];
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	snapshot_clear(&m->before);
	m->next = c->unused;
	c->unused = m;
}

void stats_call_choose(struct stats_calls *c, uint64_t id)
{
	if (!c->chosen)
		c->chosen = calloc(CHOSEN_MAX, sizeof(*c->chosen));
	if (c->chosen)
		c->chosen[c->nchosen++ % CHOSEN_MAX] = id;
}

bool stats_was_chosen(const struct stats_calls *c, uint64_t id)
{
	uint64_t low = c->nchosen > CHOSEN_MAX ? c->nchosen - CHOSEN_MAX : 0, high = c->nchosen;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (c->chosen[middle % CHOSEN_MAX] < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < c->nchosen && c->chosen[low % CHOSEN_MAX] == id;
}

static void free_list(struct stats_call *m)
{
	while (m) {
		struct stats_call *next = m->next;
		snapshot_free(&m->before);
		free(m->rows);
		free(m);
		m = next;
	}
}

void stats_call_free(struct stats_calls *c)
{
	for (unsigned i = 0; i < STATS_SLOTS; i++)
		free_list(c->slot[i]);
	free_list(c->unused);
	free(c->chosen);
	*c = (struct stats_calls){0};
}

/* Limit on copies of the arguments of all running ops; beyond it they are read in place. */
static const size_t KEPT_MAX = (size_t)1 << 30;

struct stats_collector {
	struct observer observer;
	const struct when *when;
	struct engine *engine;
	struct selections selections;
	struct stats_calls calls;
	struct ordinary_keys keys;
	struct first_nan *first_nan; /* NULL: not asked for */
	FILE *tells;		     /* where to print what was found, at the end; NULL: nowhere */
	size_t kept;		     /* bytes in snapshots */
	struct stats_call *last;     /* the call whose statistics the last event has */
	struct event_stats last_stats;
};

static int open_first_nan(struct stats_collector *m, const struct stats_opts *o, const char *dir,
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

/* Backward nodes are selected with the call of their forward op. */
static bool is_selected(struct stats_collector *m, const struct op_event *ev, bool wanted)
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
		return stats_was_chosen(&m->calls, ev->forward_id);
	if (selection_choose(s, ev, (struct call_count){0}) != SELECTION_YES)
		return false;
	stats_call_choose(&m->calls, ev->id);
	return true;
}

static bool may_stop(const struct stats_collector *m, const struct op_event *ev)
{
	return when_decide(m->when, ev, WHEN_AT_ENTRY, NULL) != WHEN_NO;
}

struct stats_collector_look {
	struct stats_collector *m;
	struct stats_call *call;
	const struct source *src;
	bool keep; /* copy the bytes, too */
};

static const char *why_not(int r, enum refusal refusal)
{
	if (r == -ENOTSUP)
		return refusal_text(refusal);
	return r == -ENOMEM ? "no memory for it" : "its memory could not be read";
}

static void look_at(const struct tensor *t, const struct tensor_place *place, void *arg)
{
	struct stats_collector_look *l = arg;
	struct source_tensor more = {0};
	enum refusal refusal = REFUSED_LAZY;
	struct tensor_stats *row = stats_call_row(l->call, place);
	int r = -ENOTSUP;
	if (!row)
		return;
	if (l->keep && l->m->kept < KEPT_MAX)
		snapshot_add(&l->call->before, t, &l->call->before.live,
			     l->call->before.len + (KEPT_MAX - l->m->kept));
	if (l->src->more)
		l->src->more(l->src->ctx, t, &more);
	/* With the negative bit, the values have the opposite sign of those in memory. */
	if (!more.neg && !more.may_be_lazy)
		r = stats_tensor(t, l->src, &row->stats, &refusal, NULL);
	if (r)
		row->why = why_not(r, refusal);
}

/* Measure the tensors of one side; not the values that an op may have changed meanwhile. */
static void measure(struct stats_collector_look *l, const struct op_event *ev, bool results)
{
	size_t before = l->call->n;
	struct engine *g = l->m->engine;
	event_each_tensor(ev, results, look_at, l);
	if (g->stood && !g->stood(g))
		for (size_t i = before; i < l->call->n; i++)
			l->call->rows[i].why = "ditrace was stopped while it was read";
}

static void measure_arguments(struct stats_collector *m, struct target *t, struct stats_call *call,
			      const struct op_event *ev)
{
	struct capture_source place = {.target = t, .keys = &m->keys};
	const struct source live = capture_source(&place);
	const struct source before = snapshot_source(&call->before, &live);
	struct stats_collector_look l = {.m = m, .call = call, .src = &live, .keep = m->first_nan};
	if (l.keep)
		l.src = &before;
	measure(&l, ev, false);
	m->kept += call->before.len;
}

static bool collector_is_over(const struct observer *o)
{
	const struct stats_collector *m = (const struct stats_collector *)o;
	return m->first_nan && first_nan_found(m->first_nan);
}

static void collector_on_start(struct observer *o, struct target *t, const struct op_event *ev,
			       bool wanted)
{
	struct stats_collector *m = (struct stats_collector *)o;
	if (!is_selected(m, ev, wanted) || !t || !may_stop(m, ev) || collector_is_over(o))
		return;
	struct stats_call *call = stats_call_begin(&m->calls, ev->id);
	if (call)
		measure_arguments(m, t, call, ev);
}

static void forget_last(struct stats_collector *m)
{
	if (!m->last)
		return;
	m->kept -= m->last->before.len;
	stats_call_end(&m->calls, m->last);
	m->last = NULL;
}

static void collector_on_end(struct observer *o, struct target *t, struct op_event *ev)
{
	struct stats_collector *m = (struct stats_collector *)o;
	forget_last(m);
	struct stats_call *call = m->last = stats_call_find(&m->calls, ev->id);
	if (!call)
		return;
	struct capture_source place = {.target = t, .keys = &m->keys};
	const struct source live = capture_source(&place);
	struct stats_collector_look l = {.m = m, .call = call, .src = &live};
	if (t && ev->end_ns && !ev->thrown)
		measure(&l, ev, true);
	m->last_stats = (struct event_stats){.rows = call->rows, .n = call->n};
	ev->stats = &m->last_stats;
}

static void collector_on_event(struct observer *o, struct target *t, const struct op_event *ev)
{
	struct stats_collector *m = (struct stats_collector *)o;
	if (!m->last || !m->first_nan || !t)
		return;
	struct capture_source place = {.target = t, .keys = &m->keys};
	const struct source live = capture_source(&place);
	const struct source before = snapshot_source(&m->last->before, &live);
	first_nan_judge(m->first_nan, t, ev, &before, &live);
}

/* Whether this op began after the one that --first-nan found, before the thread could be released
 * for good. */
static bool collector_is_past(const struct observer *o, const struct op_event *ev)
{
	const struct stats_collector *m = (const struct stats_collector *)o;
	return collector_is_over(o) && ev->id > first_nan_found(m->first_nan);
}

static void collector_summary(struct observer *o, FILE *f, const struct report_opts *r)
{
	struct stats_collector *m = (struct stats_collector *)o;
	m->tells = r ? f : NULL;
}

/* The finding stands behind all that is printed. */
static void collector_finish(struct observer *o)
{
	struct stats_collector *m = (struct stats_collector *)o;
	if (!m->tells || !m->first_nan)
		return;
	putc('\n', m->tells);
	first_nan_summary(m->first_nan, m->tells);
}

static int collector_status(const struct observer *o)
{
	const struct stats_collector *m = (const struct stats_collector *)o;
	if (collector_is_over(o))
		return EXIT_FOUND;
	return m->first_nan && first_nan_unsure(m->first_nan) ? EXIT_FAILED : EXIT_GOOD;
}

static int registers(void *arg, pid_t tid, uint64_t *out)
{
	struct engine *g = arg;
	return g->registers(g, tid, out);
}

static int collector_begin(struct observer *o, struct engine *g, struct err *e)
{
	struct stats_collector *m = (struct stats_collector *)o;
	(void)e;
	m->engine = g;
	if (m->first_nan)
		first_nan_registers(m->first_nan, registers, g);
	return 0;
}

static void collector_forget_process(struct observer *o, pid_t pid)
{
	selections_forget(&((struct stats_collector *)o)->selections, pid);
}

static void collector_close(struct observer *o)
{
	struct stats_collector *m = (struct stats_collector *)o;
	first_nan_free(m->first_nan);
	stats_call_free(&m->calls);
	selections_free(&m->selections);
	free(m);
}

int stats_collector_open(const struct stats_opts *o, const struct capture_opts *selection,
			 const struct when *when, FILE *log, struct observer **out, struct err *e)
{
	struct stats_collector *m = calloc(1, sizeof(*m));
	if (!m)
		return err_set(e, -ENOMEM, "no memory");
	m->observer = (struct observer){
	    .stops = o->first_nan ? "--first-nan" : "--stats",
	    .needs = o->first_nan ? OBSERVER_REGISTERS : 0,
	    .begin = collector_begin,
	    .on_start = collector_on_start,
	    .on_end = collector_on_end,
	    .is_past = collector_is_past,
	    .on_event = collector_on_event,
	    .is_over = collector_is_over,
	    .summary = collector_summary,
	    .finish = collector_finish,
	    .status = collector_status,
	    .forget_process = collector_forget_process,
	    .close = collector_close,
	};
	m->when = when;
	int r = selections_read(&m->selections, selection, &selection_overflow, e);
	r = r ? r : open_first_nan(m, o, selection->dir, log, e);
	if (r) {
		collector_close(&m->observer);
		return r;
	}
	if (m->selections.policy.steps.n)
		m->observer.needs |= OBSERVER_ALL;
	*out = &m->observer;
	return 0;
}
