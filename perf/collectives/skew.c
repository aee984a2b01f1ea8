#include "perf/collectives/internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

/* Calls for which all wait for all: being late for another one need not hold anybody up. */
static bool all_wait(const struct skew_group *s, const struct collective_world *w, size_t k)
{
	const struct collective_call *call = collective_call_of(s->c, w, k, 0);
	return call->chosen && s->c->rows[call->row].what.waits_for_all;
}

/* Whether all others had called the next one before the last rank called this one: then they did
 * not wait for this one, but for the last of several that are under way, as the buckets of DDP. */
static bool is_passed(const struct skew_group *s, const struct collective_world *w, size_t k)
{
	const struct collective_entry e = collective_entered(s->c, w, k);
	if (++k == w->n)
		return false;
	for (size_t i = 0; i < s->world->nranks; i++)
		if (i != e.last && collective_call_of(s->c, w, k, i)->start_ns > e.last_ns)
			return false;
	return all_wait(s, w, k);
}

static bool counts(const struct skew_group *s, const struct collective_world *w, size_t k)
{
	return all_wait(s, w, k) && !is_passed(s, w, k);
}

static int add_call(struct skew_group *s, size_t k)
{
	if (array_grow(&s->calls, &s->room, s->n + 1, sizeof(*s->calls)) ||
	    array_grow(&s->entries, &s->entries_room, s->n + 1, sizeof(*s->entries)))
		return -ENOMEM;
	struct collective_entry e = collective_entered(s->c, s->world, k);
	/* Several may be under way: until all had entered the one before, they waited for that. */
	uint64_t before_ns = s->n ? s->entries[s->n - 1].last_ns : 0;
	before_ns = before_ns < e.last_ns ? before_ns : e.last_ns;
	e.second_ns = e.second_ns > before_ns ? e.second_ns : before_ns;
	s->ranks[e.last].last++;
	s->ranks[e.last].lead_ns += e.last_ns - e.second_ns;
	for (size_t i = 0; i < s->world->nranks; i++) {
		const struct collective_call *call = collective_call_of(s->c, s->world, k, i);
		uint64_t from = collective_waits_from(s->c, call);
		from = from > before_ns ? from : before_ns;
		s->ranks[i].waits_ns += e.last_ns > from ? e.last_ns - from : 0;
		if (histogram_add(&s->ranks[i].late_ns, call->start_ns - e.first_ns))
			return -ENOMEM;
	}
	s->calls[s->n] = k;
	s->entries[s->n++] = e;
	return 0;
}

static uint64_t lead_of(const struct skew_group *s, size_t i)
{
	return s->entries[i].last_ns - s->entries[i].second_ns;
}

static bool is_usual(const struct skew_group *s, size_t i)
{
	return lead_of(s, i) <= s->usual_most_ns;
}

/* What comes once, such as the start of a rank, would outweigh in a mean what comes each time. */
static void count_usual(struct skew_group *s, uint64_t median_ns)
{
	s->usual_most_ns = s->waited ? median_ns * SKEW_USUAL : UINT64_MAX;
	for (size_t i = 0; i < s->n; i++) {
		struct skew_rank *last = &s->ranks[s->entries[i].last];
		if (!is_usual(s, i)) {
			s->unusual++;
			continue;
		}
		s->usual += i > 0;
		last->usual_ns += lead_of(s, i);
		last->usual_waited += lead_of(s, i) >= s->waited_least_ns;
	}
}

static int count_waited(struct skew_group *s)
{
	struct histogram leads = {0};
	uint64_t least = s->n > 1 ? skew_span(s) / (s->n - 1) * SKEW_PERCENT_MIN / 100 : 0;
	int r = 0;
	s->waited_least_ns = least;
	for (size_t i = 0; i < s->n && !r; i++) {
		uint64_t ns = lead_of(s, i);
		struct skew_rank *last = &s->ranks[s->entries[i].last];
		if (ns < least)
			continue;
		s->waited++;
		last->waited++;
		r = histogram_add(&last->leads_ns, ns);
		r = r ? r : histogram_add(&leads, ns);
	}
	count_usual(s, histogram_quantile(&leads, 0.5));
	histogram_free(&leads);
	return r;
}

static int skew_fill(struct skew_group *s)
{
	s->ranks = calloc(s->world->nranks + 1, sizeof(*s->ranks));
	if (!s->ranks)
		return -ENOMEM;
	for (size_t k = 0; k < s->world->n; k++)
		if (counts(s, s->world, k) && add_call(s, k))
			return -ENOMEM;
	return count_waited(s);
}

struct skew_group *skew_group_new(const struct collectives *c, const struct collective_world *w)
{
	struct skew_group *s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->c = c;
	s->world = w;
	if (!skew_fill(s))
		return s;
	skew_group_free(s);
	return NULL;
}

void skew_group_free(struct skew_group *s)
{
	if (!s)
		return;
	for (size_t i = 0; s->ranks && i < s->world->nranks; i++) {
		histogram_free(&s->ranks[i].late_ns);
		histogram_free(&s->ranks[i].leads_ns);
	}
	for (size_t i = 0; i < s->nrows; i++)
		free(s->rows[i].ns);
	gaps_free(&s->gaps);
	intern_free(&s->keys);
	intern_free(&s->strings);
	free(s->rows);
	free(s->ranks);
	free(s->calls);
	free(s->entries);
	free(s);
}

static int64_t string_id(struct skew_group *s, const char *text)
{
	bool is_new;
	return intern(&s->strings, text, (uint32_t)strlen(text), &is_new);
}

static struct skew_row *skew_row_of(struct skew_group *s, const struct op_desc *op,
				    const struct py_frame *f, bool gap)
{
	bool is_new;
	const int64_t key[5] = {string_id(s, op->name), gap, f ? f->line : -1,
				f ? string_id(s, f->file) : -1, f ? string_id(s, f->function) : -1};
	int64_t id = intern(&s->keys, key, sizeof(key), &is_new);
	if (id < 0 || !is_new)
		return id < 0 ? NULL : &s->rows[id];
	uint64_t *ns = calloc(s->world->nranks, sizeof(*ns));
	if (!ns || array_grow(&s->rows, &s->rows_room, s->nrows + 1, sizeof(*s->rows))) {
		free(ns);
		return NULL;
	}
	s->rows[s->nrows] = (struct skew_row){.op = op, .where = f, .gap = gap, .ns = ns};
	return &s->rows[s->nrows++];
}

static void add_ns(struct skew_row *r, size_t place, uint64_t ns)
{
	const uint64_t most = r->ns[r->most];
	ns = r->ns[place] += ns;
	if (place == r->most)
		return;
	if (ns > most) {
		r->second_ns = most;
		r->most = place;
	} else if (ns > r->second_ns) {
		r->second_ns = ns;
	}
}

/* The call, by index, that not all had called at that time; s->n: all had called all. */
static size_t call_after(const struct skew_group *s, uint64_t ns)
{
	size_t low = 0;
	for (size_t high = s->n; low < high;) {
		size_t middle = low + (high - low) / 2;
		if (s->entries[middle].last_ns <= ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_usual_time(const struct skew_group *s, uint64_t ns)
{
	size_t i = call_after(s, ns);
	return i < s->n && is_usual(s, i);
}

/* How long of from..to the rank waited for a collective that not all had called yet. The times of
 * both are in the order of calls. */
static uint64_t waited(const struct skew_group *s, size_t rank, uint64_t from, uint64_t to)
{
	uint64_t ns = 0;
	for (size_t i = call_after(s, from); i < s->n && from < to; i++) {
		const struct collective_call *call =
		    collective_call_of(s->c, s->world, s->calls[i], rank);
		uint64_t waits = collective_waits_from(s->c, call),
			 start = waits > from ? waits : from,
			 end = s->entries[i].last_ns < to ? s->entries[i].last_ns : to;
		if (call->start_ns >= to)
			break;
		if (end <= start)
			continue;
		ns += end - start;
		from = end;
	}
	return ns;
}

uint64_t skew_span(const struct skew_group *s)
{
	return s->n ? s->entries[s->n - 1].last_ns - s->entries[0].first_ns : 0;
}

static int see_gap(struct skew_group *s, size_t rank, const struct op_event *ev)
{
	struct op_event gap;
	if (ev->tid != ev->pid)
		return 0;
	int r = gaps_see(&s->gaps, ev, &gap);
	uint64_t from =
	    r > 0 && gap.start_ns > s->entries[0].first_ns ? gap.start_ns : s->entries[0].first_ns;
	if (r <= 0 || gap.end_ns <= from || !is_usual_time(s, from))
		return r < 0 ? r : 0;
	struct skew_row *row = skew_row_of(s, ev->op, py_stack_where(ev->stack), true);
	if (!row)
		return -ENOMEM;
	uint64_t ns = gap.end_ns - from - waited(s, rank, from, gap.end_ns);
	add_ns(row, rank, ns);
	s->ranks[rank].gaps_ns += ns;
	return 0;
}

static bool is_within(const struct skew_group *s, const struct op_event *ev)
{
	return ev->end_ns && ev->start_ns >= s->entries[0].first_ns &&
	       is_usual_time(s, ev->start_ns);
}

int skew_group_see(struct skew_group *s, size_t place, const struct op_event *ev)
{
	int r = see_gap(s, place, ev);
	if (r || !is_within(s, ev) || !strncmp(ev->op->name, "c10d::", 6))
		return r;
	struct skew_row *row = skew_row_of(s, ev->op, py_stack_where(ev->where_stack), false);
	if (!row)
		return -ENOMEM;
	uint64_t ns = ev->end_ns - ev->start_ns;
	ns -= ev->child_ns < ns ? ev->child_ns : ns;
	add_ns(row, place, ns);
	s->ranks[place].ops_ns += ns;
	return 0;
}

uint64_t skew_more(const struct skew_row *r, size_t place)
{
	uint64_t others = place == r->most ? r->second_ns : r->ns[r->most];
	return r->ns[place] > others ? r->ns[place] - others : 0;
}

const struct skew_row *skew_most(const struct skew_group *s, size_t rank)
{
	const struct skew_row *most = NULL;
	uint64_t ns = 0;
	for (size_t i = 0; i < s->nrows; i++) {
		uint64_t more = skew_more(&s->rows[i], rank);
		most = more > ns ? &s->rows[i] : most;
		ns = more > ns ? more : ns;
	}
	return most;
}

/* By how much times of two hosts may be wrongly compared. */
static uint64_t doubt(const struct collectives *c)
{
	uint64_t most = 0;
	for (size_t i = 0; i < c->nclocks; i++) {
		const struct trace_clock *k = c->clocks[i];
		uint64_t ns = k->spread_ns < k->known_ns ? k->spread_ns : k->known_ns;
		most = ns > most ? ns : most;
	}
	return most;
}

/* A rank is named if it comes last in more than half of the calls that were waited for and more
 * often than chance by four standard deviations (of a binomial distribution, were all ranks alike),
 * and if the others wait for it for a part of the time that matters, and for longer than what is
 * not known of the hosts' clocks. */
struct skew_verdict skew_verdict(const struct skew_group *s)
{
	struct skew_verdict v = {0};
	double n = (double)s->waited, part = 1.0 / (double)s->world->nranks;
	for (size_t i = 1; i < s->world->nranks; i++)
		v.rank = s->ranks[i].lead_ns > s->ranks[v.rank].lead_ns ? i : v.rank;
	const struct skew_rank *r = &s->ranks[v.rank];
	double waited = (double)r->waited,
	       chance = n * part + SKEW_DEVIATIONS * sqrt(n * part * (1 - part));
	if (s->n < 2)
		return v;
	v.percent = 100.0 * (double)r->lead_ns / (double)skew_span(s);
	v.median_ns = histogram_quantile(&r->leads_ns, 0.5);
	v.is_named = s->waited >= SKEW_CALLS_MIN && waited > n / 2 && waited >= chance &&
		     v.percent >= SKEW_PERCENT_MIN && v.median_ns > doubt(s->c);
	const struct skew_row *row = skew_most(s, v.rank);
	uint64_t more = row ? skew_more(row, v.rank) : 0;
	v.more_ns = r->usual_waited ? more / r->usual_waited : 0;
	v.row = more >= r->usual_ns / 2 ? row : NULL;
	return v;
}
