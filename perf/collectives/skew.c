#include "perf/collectives/internal.h"

#include <errno.h>
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

static int compare_leads(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x < y) - (x > y);
}

/* 5 % of the mean time between two calls, without the leads that are left out. */
static uint64_t least_lead(const struct skew_group *s)
{
	return s->n > 1 ? s->span_ns / (s->n - 1) * SKEW_PERCENT_MIN / 100 : 0;
}

/* From the first call compared to the last. */
static uint64_t skew_span(const struct skew_group *s)
{
	return s->n ? s->entries[s->n - 1].last_ns - s->entries[0].first_ns : 0;
}

/* What comes once, such as the start of a rank, would outweigh in a mean what comes each time, and
 * many small leads, of several calls in a step, in a count what matters. `leads` is sorted, the
 * longest first. */
static void find_usual(struct skew_group *s, const uint64_t *leads)
{
	const uint64_t often = s->n >= SKEW_CALLS_MIN ? leads[SKEW_CALLS_MIN - 1] : 0;
	uint64_t usual = 0, half = 0;
	size_t first = 0, i;
	s->usual_most_ns = often * SKEW_USUAL;
	for (s->span_ns = skew_span(s); first < s->n && leads[first] > s->usual_most_ns; first++)
		s->span_ns -= leads[first];
	if (often <= least_lead(s)) {
		s->usual_most_ns = UINT64_MAX;
		s->span_ns = skew_span(s);
		first = 0;
	}
	for (i = first; i < s->n; i++)
		usual += leads[i];
	for (i = first; i < s->n && half < usual / 2; i++)
		half += leads[i];
	s->waited_least_ns = i ? leads[i - 1] / SKEW_USUAL : 0;
	if (s->waited_least_ns < least_lead(s))
		s->waited_least_ns = least_lead(s);
}

/* How many of `leads`, sorted, the longest first, are that long. */
static size_t at_least(const uint64_t *leads, size_t n, uint64_t ns)
{
	size_t low = 0;
	for (size_t high = n; low < high;) {
		const size_t middle = low + (high - low) / 2;
		if (leads[middle] >= ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int count_waited_call(struct skew_group *s, struct skew_rank *last, const uint64_t *leads,
			     uint64_t ns)
{
	const double weight =
	    (double)(at_least(leads, s->n, s->waited_least_ns) - at_least(leads, s->n, ns + 1));
	s->waited++;
	s->weight += weight;
	s->weight_squares += weight * weight;
	last->waited++;
	last->weight += weight;
	return histogram_add(&last->leads_ns, ns);
}

static int count_call(struct skew_group *s, size_t i, const uint64_t *leads)
{
	const uint64_t ns = lead_of(s, i);
	struct skew_rank *last = &s->ranks[s->entries[i].last];
	if (!is_usual(s, i)) {
		s->unusual++;
		return 0;
	}
	s->usual += i > 0;
	last->usual_ns += ns;
	return ns < s->waited_least_ns ? 0 : count_waited_call(s, last, leads, ns);
}

static int count_waited(struct skew_group *s)
{
	uint64_t *leads = malloc((s->n + 1) * sizeof(*leads));
	int r = leads ? 0 : -ENOMEM;
	for (size_t i = 0; i < s->n && leads; i++)
		leads[i] = lead_of(s, i);
	if (leads && s->n) {
		qsort(leads, s->n, sizeof(*leads), compare_leads);
		find_usual(s, leads);
	}
	for (size_t i = 0; i < s->n && !r; i++)
		r = count_call(s, i, leads);
	free(leads);
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

/* Of SKEW_DATA the op is none of what is told. */
static struct skew_row *skew_row_of(struct skew_group *s, const struct op_desc *op,
				    const struct py_frame *f, enum skew_kind kind)
{
	bool is_new;
	const int64_t key[5] = {kind == SKEW_DATA ? -1 : string_id(s, op->name), kind,
				f ? f->line : -1, f ? string_id(s, f->file) : -1,
				f ? string_id(s, f->function) : -1};
	int64_t id = intern(&s->keys, key, sizeof(key), &is_new);
	if (id < 0 || !is_new)
		return id < 0 ? NULL : &s->rows[id];
	uint64_t *ns = calloc(2 * s->world->nranks, sizeof(*ns));
	if (!ns || array_grow(&s->rows, &s->rows_room, s->nrows + 1, sizeof(*s->rows))) {
		free(ns);
		return NULL;
	}
	s->rows[s->nrows] = (struct skew_row){.op = op, .where = f, .kind = kind, .ns = ns};
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

static int add_time(struct skew_group *s, size_t place, const struct op_event *ev,
		    enum skew_kind kind, uint64_t ns)
{
	const struct py_frame *where =
	    py_stack_where(kind == SKEW_OP ? ev->where_stack : ev->stack);
	const struct py_frame *asks =
	    kind != SKEW_GAP || s->ranks[place].in_data ? breakdown_asks_for_data(ev->stack) : NULL;
	/* What the program's own code does to load data has its own lines. */
	if (asks && !breakdown_passes(ev->stack, "torch/utils/data/_utils/fetch.py")) {
		kind = SKEW_DATA;
		where = asks;
	}
	struct skew_row *row = skew_row_of(s, ev->op, where, kind);
	if (!row)
		return -ENOMEM;
	add_ns(row, place, ns);
	row->ns[s->world->nranks + place]++;
	return 0;
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
	uint64_t ns = gap.end_ns - from - waited(s, rank, from, gap.end_ns);
	s->ranks[rank].gaps_ns += ns;
	return add_time(s, rank, ev, SKEW_GAP, ns);
}

static bool is_within(const struct skew_group *s, const struct op_event *ev)
{
	return ev->end_ns && ev->start_ns >= s->entries[0].first_ns &&
	       is_usual_time(s, ev->start_ns);
}

/* When the latest call of a group began whose Work has that address, by then; 0: none. */
static uint64_t called_ns(const struct collective_group *g, uint64_t work, uint64_t ns)
{
	enum { MOST = 64 }; /* that are under way at once */
	const struct collective_calls *calls = &g->calls[NUMBERED];
	const size_t n = array_up_to(calls->all, calls->n, sizeof(*calls->all), ns);
	for (size_t i = n; i > 0 && n - i < MOST; i--)
		if (calls->all[i - 1].work == work)
			return calls->all[i - 1].start_ns;
	return 0;
}

/* Whether a wait is for a call of this group, or for one that is not known. Addresses are used
 * again. */
static bool is_own_wait(const struct skew_group *s, size_t place, const struct op_event *ev)
{
	const struct collective_group *own = &s->c->groups[s->world->groups[place]];
	uint64_t work = ev->nargs && ev->args[0].kind == VALUE_WORK ? ev->args[0].work.address : 0;
	uint64_t called = called_ns(own, work, ev->start_ns), others = 0;
	for (uint32_t i = s->c->processes[own->process].first1; i && work;
	     i = s->c->groups[i - 1].next1) {
		uint64_t ns = called_ns(&s->c->groups[i - 1], work, ev->start_ns);
		others = ns > others ? ns : others;
	}
	return called == others;
}

/* Whether a wait, or the call itself, is of this group, or it is not known of which. */
static bool is_own_collective(const struct skew_group *s, size_t place, const struct op_event *ev)
{
	const struct collective_calls *calls =
	    &s->c->groups[s->world->groups[place]].calls[NUMBERED];
	struct collective what;
	if (collective_is_wait(ev->op))
		return is_own_wait(s, place, ev);
	const size_t n = array_up_to(calls->all, calls->n, sizeof(*calls->all), ev->start_ns);
	return !collective_of(ev, &what) || !what.group ||
	       (n && calls->all[n - 1].start_ns == ev->start_ns);
}

int skew_group_see(struct skew_group *s, size_t place, const struct op_event *ev)
{
	int r = see_gap(s, place, ev);
	s->is_judged = false;
	if (ev->tid == ev->pid)
		s->ranks[place].in_data = breakdown_asks_for_data(ev->stack) != NULL;
	bool is_collective = !strncmp(ev->op->name, "c10d::", 6);
	if (r || !is_within(s, ev) || (is_collective && is_own_collective(s, place, ev)))
		return r;
	uint64_t ns = ev->end_ns - ev->start_ns;
	ns -= ev->child_ns < ns ? ev->child_ns : ns;
	*(is_collective ? &s->ranks[place].elsewhere_ns : &s->ranks[place].ops_ns) += ns;
	return add_time(s, place, ev, SKEW_OP, ns);
}

/* Adds how far a counter went; false if it went back. */
static bool counter_add(uint64_t *sum, uint64_t from, uint64_t to)
{
	return to >= from && !__builtin_add_overflow(*sum, to - from, sum);
}

/* The time ends at a count that cannot be. */
static void usage_add(struct skew_usage *sum, const struct trace_usage *from,
		      const struct trace_usage *to)
{
	struct trace_usage *s = &sum->of;
	sum->is_wrong |= !counter_add(&s->ns, from->ns, to->ns) ||
			 !counter_add(&s->run_ns, from->run_ns, to->run_ns) ||
			 !counter_add(&s->wait_ns, from->wait_ns, to->wait_ns) ||
			 !counter_add(&s->minor_faults, from->minor_faults, to->minor_faults) ||
			 !counter_add(&s->major_faults, from->major_faults, to->major_faults);
	sum->is_throttled_unknown |=
	    !from->is_throttled_known || !to->is_throttled_known ||
	    !counter_add(&s->throttled_ns, from->throttled_ns, to->throttled_ns);
	s->throttled_is_least |= from->throttled_is_least | to->throttled_is_least;
}

/* A wait counts when it is over, so that there may be some of before. */
const struct trace_usage *skew_used(const struct skew_rank *r)
{
	static const struct trace_usage none;
	const uint64_t FAULT_NS = 10, BEFORE_NS = 1000000000, PROCESSORS_MOST = 1 << 16;
	const struct trace_usage *u = &r->used.of;
	uint64_t busy, faults;
	return r->used.is_wrong || __builtin_add_overflow(u->run_ns, u->wait_ns, &busy) ||
		       (busy > u->ns && busy - u->ns > BEFORE_NS) ||
		       __builtin_add_overflow(u->minor_faults, u->major_faults, &faults) ||
		       faults > u->ns / FAULT_NS || u->throttled_ns / PROCESSORS_MOST > u->ns
		   ? &none
		   : u;
}

void skew_group_see_usage(struct skew_group *s, size_t place, const struct trace_usage *u)
{
	struct skew_rank *r = &s->ranks[place];
	const struct trace_usage last = r->usage;
	r->usage = *u;
	s->is_judged = false;
	if (!last.ns || last.pid != u->pid || last.ns < s->entries[0].first_ns ||
	    !is_usual_time(s, u->ns) || u->ns < last.ns)
		return;
	usage_add(&r->used, &last, u);
}
