/* Which rank the others wait for: whether one holds the others of its group up, and what it does
 * meanwhile; and of all groups, which says most. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "perf/collectives/internal.h"

uint64_t skew_more(const struct skew_row *r, size_t place)
{
	uint64_t others = place == r->most ? r->second_ns : r->ns[r->most];
	return r->ns[place] > others ? r->ns[place] - others : 0;
}

/* What comes less often than a rank must be late to be named is none of its habits. */
static bool is_often(const struct skew_group *s, const struct skew_row *r, size_t rank)
{
	const size_t least = s->usual / 4 < SKEW_CALLS_MIN ? s->usual / 4 : SKEW_CALLS_MIN;
	return r->ns[s->world->nranks + rank] >= least;
}

const struct skew_row *skew_most(const struct skew_group *s, size_t rank)
{
	const struct skew_row *most = NULL;
	uint64_t ns = 0;
	for (size_t i = 0; i < s->nrows; i++) {
		uint64_t more = skew_more(&s->rows[i], rank);
		if (more <= ns || !is_often(s, &s->rows[i], rank))
			continue;
		most = &s->rows[i];
		ns = more;
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

static double delayed(const struct skew_rank *r)
{
	const struct trace_usage *u = skew_used(r);
	return u->ns ? (double)u->wait_ns / (double)u->ns : 0;
}

/* The time of the quota is that of all processors on which the group has threads: the one thread
 * waited no longer for that, but maybe less long. */
static enum skew_cause cause_of(const struct skew_rank *r)
{
	const struct trace_usage *u = skew_used(r);
	const bool is_much = u->throttled_ns >= u->wait_ns / 4;
	if (r->used.is_throttled_unknown || (u->throttled_is_least && !is_much))
		return SKEW_UNKNOWN;
	if (!is_much)
		return SKEW_OTHERS;
	return u->throttled_is_least || u->throttled_ns >= u->wait_ns / 4 * 3 ? SKEW_QUOTA
									      : SKEW_BOTH;
}

static double throttled(const struct skew_rank *r)
{
	const struct trace_usage *u = skew_used(r);
	return u->ns ? (double)u->throttled_ns / (double)u->ns : 0;
}

static double more_delayed(const struct skew_group *s, size_t rank)
{
	double others = 0;
	for (size_t i = 0; i < s->world->nranks; i++)
		others += i == rank ? 0 : delayed(&s->ranks[i]);
	return delayed(&s->ranks[rank]) - others / (double)(s->world->nranks - 1);
}

/* Whether a rank lacks a processor for longer than the others, by half of what it is late, and
 * much: processors are never shared quite evenly. */
static bool is_short_of_processor(const struct skew_verdict *v)
{
	return v->more_delayed * 100 >= v->percent / 2 &&
	       v->more_delayed * 100 >= SKEW_PERCENT_SPREAD;
}

static uint64_t own_ns(const struct skew_rank *r)
{
	return r->ops_ns + r->gaps_ns + r->elsewhere_ns;
}

/* Whether a rank is for longer in what is its own: a line explains half of what it is late; or,
 * where it could be what a processor happens to be slower, all of its time most of it, and if that
 * is much. Else it only goes on later after the collective before, as of two ranks one is always
 * told first, which takes long where processors are short. */
static bool is_own_time(const struct skew_group *s, const struct skew_verdict *v)
{
	const uint64_t late = s->ranks[v->rank].usual_ns, own = own_ns(&s->ranks[v->rank]);
	uint64_t others = 0;
	for (size_t i = 0; i < s->world->nranks; i++)
		others += i == v->rank ? 0 : own_ns(&s->ranks[i]);
	others /= s->world->nranks > 1 ? s->world->nranks - 1 : 1;
	return !s->nrows || v->explains ||
	       (v->percent >= SKEW_PERCENT_SPREAD && own > others && own - others >= late / 4 * 3);
}

/* Whether `last` of `all`, a sum of weights whose squares sum up to `squares`, is more than half
 * and more than chance by SKEW_DEVIATIONS standard deviations, were each equally likely to be of
 * any rank, each of which has this part. */
static bool is_beyond_chance(double last, double all, double squares, double part)
{
	return last > all / 2 &&
	       last >= all * part + SKEW_DEVIATIONS * sqrt(squares * part * (1 - part));
}

/* A rank is named if it comes last in more than half of the calls that were waited for and more
 * often than chance, by number or with each weighed by its place by length (as Wilcoxon's signed
 * ranks; F. Wilcoxon, Biometrics Bulletin 1, 1945), as what makes it late may be longer than what
 * makes any rank late, if it is longer in what is its own or without a processor, and if the others
 * wait for it for a part of the time that matters, and for longer than what is not known of the
 * hosts' clocks. */
static struct skew_verdict judge(const struct skew_group *s)
{
	struct skew_verdict v = {0};
	const double n = (double)s->waited, part = 1.0 / (double)s->world->nranks;
	for (size_t i = 1; i < s->world->nranks; i++)
		v.rank = s->ranks[i].usual_ns > s->ranks[v.rank].usual_ns ? i : v.rank;
	const struct skew_rank *r = &s->ranks[v.rank];
	if (s->n < 2 || s->world->nranks < 2)
		return v;
	v.percent = s->span_ns ? 100.0 * (double)r->usual_ns / (double)s->span_ns : 0;
	v.median_ns = histogram_quantile(&r->leads_ns, 0.5);
	v.is_late = s->waited >= SKEW_CALLS_MIN &&
		    (is_beyond_chance((double)r->waited, n, n, part) ||
		     is_beyond_chance(r->weight, s->weight, s->weight_squares, part)) &&
		    v.percent >= SKEW_PERCENT_MIN && v.median_ns > doubt(s->c);
	v.delayed = delayed(r);
	v.more_delayed = more_delayed(s, v.rank);
	v.has_no_processor = v.is_late && is_short_of_processor(&v);
	v.row = skew_most(s, v.rank);
	uint64_t more = v.row ? skew_more(v.row, v.rank) : 0;
	v.more_ns = r->waited ? more / r->waited : 0;
	v.explains = v.row && more >= r->usual_ns / 2;
	v.is_named = v.is_late && (v.has_no_processor || is_own_time(s, &v));
	v.cause = cause_of(r);
	v.throttled = throttled(r);
	return v;
}

const struct skew_verdict *skew_verdict(struct skew_group *s)
{
	if (!s->is_judged)
		s->verdict = judge(s);
	s->is_judged = true;
	return &s->verdict;
}

static int add_group(struct skew *s, const struct collective_world *w)
{
	struct skew_group *g = skew_group_new(s->c, w);
	if (!g)
		return -ENOMEM;
	if (!g->n) {
		skew_group_free(g);
		return 0;
	}
	s->groups[s->ngroups++] = g;
	s->nplaces += w->nranks;
	return 0;
}

/* The groups of each rank: places sorted by rank. */
static int find_places(struct skew *s)
{
	const size_t nranks = s->c->nranks;
	s->places = calloc(s->nplaces + 1, sizeof(*s->places));
	s->first = calloc(nranks + 2, sizeof(*s->first));
	s->rank_of = malloc((s->c->nprocesses + 1) * sizeof(*s->rank_of));
	if (!s->places || !s->first || !s->rank_of)
		return -ENOMEM;
	memset(s->rank_of, 0xff, s->c->nprocesses * sizeof(*s->rank_of));
	for (size_t i = 0; i < nranks; i++)
		s->rank_of[s->c->ranks[i]] = i;
	for (size_t i = 0; i < s->ngroups; i++)
		for (size_t k = 0; k < s->groups[i]->world->nranks; k++)
			s->first[s->groups[i]->world->ranks[k] + 2]++;
	for (size_t i = 0; i < nranks; i++)
		s->first[i + 2] += s->first[i + 1];
	/* first[r + 1]: where the next place of rank r goes; at last, where those of r + 1 begin */
	for (size_t i = 0; i < s->ngroups; i++)
		for (size_t k = 0; k < s->groups[i]->world->nranks; k++)
			s->places[s->first[s->groups[i]->world->ranks[k] + 1]++] =
			    (struct skew_place){s->groups[i], k};
	return 0;
}

struct skew *skew_new(const struct collectives *c)
{
	struct skew *s = calloc(1, sizeof(*s));
	int r = s ? 0 : -ENOMEM;
	if (s) {
		s->c = c;
		s->groups = calloc(c->nworlds + 1, sizeof(struct skew_group *));
		r = s->groups ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < c->nworlds && !r; i++)
		r = add_group(s, &c->worlds[i]);
	r = r ? r : find_places(s);
	if (!r)
		return s;
	skew_free(s);
	return NULL;
}

void skew_free(struct skew *s)
{
	if (!s)
		return;
	for (size_t i = 0; s->groups && i < s->ngroups; i++)
		skew_group_free(s->groups[i]);
	free(s->groups);
	free(s->places);
	free(s->first);
	free(s->rank_of);
	free(s);
}

/* The rank of a process that is compared; SIZE_MAX: none. */
static size_t rank_of(const struct skew *s, int32_t pid, uint32_t rank1)
{
	int64_t process = s->ngroups ? collective_process_of(s->c, pid, rank1) : -1;
	return process < 0 ? SIZE_MAX : s->rank_of[process];
}

int skew_see(struct skew *s, const struct op_event *ev)
{
	size_t rank = rank_of(s, ev->pid, ev->rank1);
	int r = 0;
	if (rank == SIZE_MAX)
		return 0;
	for (size_t i = s->first[rank]; i < s->first[rank + 1] && !r; i++)
		r = skew_group_see(s->places[i].group, s->places[i].place, ev);
	return r;
}

void skew_see_usage(struct skew *s, const struct trace_usage *u, uint32_t rank1)
{
	size_t rank = rank_of(s, u->pid, rank1);
	for (size_t i = rank == SIZE_MAX ? 0 : s->first[rank];
	     rank != SIZE_MAX && i < s->first[rank + 1]; i++)
		skew_group_see_usage(s->places[i].group, s->places[i].place, u);
}

/* A rank that is late in one group may only have waited in another one. */
const struct skew_group *skew_held_in(const struct skew *all, const struct skew_group *of,
				      size_t rank)
{
	for (size_t i = all->first[rank]; i < all->first[rank + 1]; i++) {
		struct skew_group *g = all->places[i].group;
		if (g == of)
			continue;
		const struct skew_verdict *v = skew_verdict(g);
		if (v->is_named && v->rank != all->places[i].place)
			return g;
	}
	return NULL;
}

/* How long all others waited for it, all together. */
static uint64_t lost_ns(const struct skew_group *s, const struct skew_verdict *v)
{
	return s->ranks[v->rank].usual_ns * (s->world->nranks - 1);
}

/* A group, what it says, and whether the rank that it names waits itself in another one. */
struct said {
	struct skew_group *group;
	const struct skew_verdict *v;
	bool is_held;
};

static struct said what_says(const struct skew *all, struct skew_group *g)
{
	struct said s = {.group = g, .v = skew_verdict(g)};
	s.is_held = s.v->is_named && skew_held_in(all, g, g->world->ranks[s.v->rank]);
	return s;
}

static bool says_more(const struct said *a, const struct said *b)
{
	const struct skew_verdict *v = a->v, *w = b->v;
	if (v->is_named != w->is_named)
		return v->is_named;
	if (a->is_held != b->is_held)
		return b->is_held;
	if (v->is_named && v->explains != w->explains)
		return v->explains;
	return v->is_named ? lost_ns(a->group, v) > lost_ns(b->group, w)
			   : a->group->n > b->group->n;
}

struct skew_group *skew_first(const struct skew *s)
{
	struct said first = {0};
	for (size_t i = 0; i < s->ngroups; i++) {
		const struct said said = what_says(s, s->groups[i]);
		if (!first.group || says_more(&said, &first))
			first = said;
	}
	return first.group;
}
