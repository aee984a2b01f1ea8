#include "perf/collectives/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"

static int compare_calls(const void *a, const void *b)
{
	const struct collective_call *x = a, *y = b;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static void sort_calls(struct collective_calls *calls)
{
	if (calls->n)
		qsort(calls->all, calls->n, sizeof(*calls->all), compare_calls);
}

/* Files are read in the order of their names. */
static bool is_started_later(const struct collective_process *p, const struct collective_process *q)
{
	return p->rank.restarts != q->rank.restarts ? p->rank.restarts > q->rank.restarts
						    : p->first_ns > q->first_ns;
}

/* The last started process of the rank that has collectives, and how many have; -ENOENT: none. */
static int64_t process_of_rank(const struct collectives *c, int32_t rank, size_t *starts)
{
	int64_t found = -ENOENT;
	*starts = 0;
	for (size_t i = 0; i < c->nprocesses; i++) {
		const struct collective_process *p = &c->processes[i];
		if (p->worker || p->rank.rank != rank || !p->groups)
			continue;
		if (!(*starts)++ || is_started_later(p, &c->processes[found]))
			found = (int64_t)i;
	}
	return found;
}

static int32_t world_size(const struct collectives *c)
{
	int32_t size = -1;
	for (size_t i = 0; i < c->nprocesses; i++)
		if (c->processes[i].groups && c->processes[i].rank.world_size > size)
			size = c->processes[i].rank.world_size;
	return size;
}

/* Whether times of all processes can be compared; else c->why says why not. Hosts are no clocks:
 * containers of one have names of their own. */
static bool has_clocks(struct collectives *c)
{
	for (size_t i = 0; i < c->nclocks && !c->as_clocks_are; i++)
		if (!c->clocks[i]->is_found) {
			trace_clock_text(c->why, sizeof(c->why), c->clocks[i]);
			return false;
		}
	return true;
}

/* Whether the process can be compared with the others; else c->why says why not. */
static bool is_comparable(struct collectives *c, int64_t i, int32_t rank, size_t starts)
{
	const struct collective_process *p = i < 0 ? NULL : &c->processes[i];
	char n[48];
	if (i == -ENOENT)
		snprintf(c->why, sizeof(c->why), "there are no collectives of rank %" PRId32, rank);
	else if (starts != c->starts)
		snprintf(c->why, sizeof(c->why),
			 "rank %" PRId32 " was started %zu times, and rank 0 %zu times", rank,
			 starts, c->starts);
	else if (!p->whole)
		snprintf(c->why, sizeof(c->why),
			 "rank %" PRId32
			 " was not recorded from its start, so which of its calls is which of the "
			 "others' is not known; ditrace run records from the start",
			 rank);
	else if (p->unnamed)
		snprintf(c->why, sizeof(c->why), "the group of %s of rank %" PRId32 " is not known",
			 text_counted(n, sizeof(n), p->unnamed, "call"), rank);
	else
		return has_clocks(c);
	return false;
}

/* What of the recording stands against numbering calls. */
static bool is_whole(struct collectives *c)
{
	char n[48];
	if (c->lost)
		snprintf(c->why, sizeof(c->why), "%s lost while recording",
			 text_counted(n, sizeof(n), c->lost, "event"));
	else if (c->summed)
		snprintf(c->why, sizeof(c->why), "there are only sums of %s; record with --no-loss",
			 text_counted(n, sizeof(n), c->summed, "call"));
	else
		return true;
	return false;
}

static int find_ranks(struct collectives *c)
{
	int32_t size = world_size(c);
	if (c->blind && c->ngroups)
		snprintf(c->why, sizeof(c->why),
			 "only the engine shim sees of which group a call is");
	else if (size < 0 && c->ngroups)
		snprintf(c->why, sizeof(c->why),
			 "they are not known: no RANK and WORLD_SIZE in the environment that the "
			 "processes were started with");
	if (size < 2 || c->blind || !is_whole(c))
		return 0;
	c->ranks = calloc(c->nprocesses + 1, sizeof(*c->ranks));
	if (!c->ranks)
		return -ENOMEM;
	for (int32_t rank = 0; rank < size; rank++) {
		size_t starts;
		int64_t i = process_of_rank(c, rank, &starts);
		c->starts = rank ? c->starts : starts;
		if (!is_comparable(c, i, rank, starts)) {
			c->nranks = 0;
			return 0;
		}
		c->ranks[c->nranks++] = (size_t)i;
	}
	return 0;
}

struct collective_entry collective_entered(const struct collectives *c,
					   const struct collective_world *w, size_t k)
{
	struct collective_entry e = {.first_ns = UINT64_MAX};
	for (size_t i = 0; i < w->nranks; i++) {
		uint64_t ns = collective_call_of(c, w, k, i)->start_ns;
		if (ns < e.first_ns) {
			e.first_ns = ns;
			e.first = i;
		}
		if (ns >= e.last_ns) {
			e.last_ns = ns;
			e.last = i;
		}
	}
	for (size_t i = 0; i < w->nranks; i++) {
		uint64_t ns = collective_waits_from(c, collective_call_of(c, w, k, i));
		if (i != e.last && ns > e.second_ns)
			e.second_ns = ns < e.last_ns ? ns : e.last_ns;
	}
	return e;
}

/* What ranks give to an all-to-all may differ, and what is not known of one is no difference. */
static bool same(const struct collective *a, const struct collective *b)
{
	const bool sizes = strcmp(a->name, "alltoall") && a->has_bytes && b->has_bytes;
	return !strcmp(a->name, b->name) &&
	       (a->reduce_op == b->reduce_op || !a->reduce_op || !b->reduce_op) &&
	       (a->root == b->root || a->root < 0 || b->root < 0) &&
	       (!sizes || (a->bytes == b->bytes && a->dtype == b->dtype));
}

/* "barrier at train.py:14 on rank 3" */
static void call_text(char *out, size_t size, const struct collective_row *r, size_t rank)
{
	char at[160] = "";
	if (r->where)
		snprintf(at, sizeof(at), " at %.128s:%" PRId32, text_base_name(r->where->file),
			 r->where->line);
	snprintf(out, size, "%s%s on rank %zu", r->what.name, at, rank);
}

const char *collective_group_text(char *out, size_t size, const struct group_desc *of,
				  uint32_t number)
{
	enum { SHOWN = 6 };
	uint32_t shown = 0, i = 0;
	if (!of) {
		snprintf(out, size, "%" PRIu32, number);
		return out;
	}
	size_t n = (size_t)snprintf(out, size, "%.32s (ranks", of->name);
	for (uint32_t to; i < of->n && n < size && shown < SHOWN; shown++, i = to + 1) {
		for (to = i; to + 1 < of->n && of->ranks[to + 1] == of->ranks[to] + 1;)
			to++;
		n += (size_t)snprintf(out + n, size - n, "%s%" PRId32, shown ? ", " : " ",
				      of->ranks[i]);
		if (to > i && n < size)
			n += (size_t)snprintf(out + n, size - n, "%s%" PRId32,
					      to > i + 1 ? "-" : ", ", of->ranks[to]);
	}
	if (i < of->n && n < size)
		n += (size_t)snprintf(out + n, size - n, " and %" PRIu32 " more", of->n - i);
	if (n < size)
		snprintf(out + n, size - n, ")");
	return out;
}

static void tell_difference(struct collectives *c, const struct collective_world *w, size_t rank,
			    const struct collective_row *a, const struct collective_row *b)
{
	char n[32], one[200], other[200], group[96];
	if (c->differ[0])
		return;
	call_text(one, sizeof(one), a, w->ranks[0]);
	call_text(other, sizeof(other), b, w->ranks[rank]);
	collective_group_text(group, sizeof(group), w->of, c->groups[w->groups[0]].number);
	snprintf(c->differ, sizeof(c->differ),
		 "in group %s collective %s differs: %s, %s; from there on its ranks are not "
		 "compared",
		 group, text_count(n, sizeof(n), w->n + 1), one, other);
}

/* How many calls are the same on all ranks. One that ends earlier than the others is no difference:
 * a recording may be cut off. */
static void match_world(struct collectives *c, struct collective_world *w)
{
	for (w->n = 0;; w->n++) {
		const struct collective_call *own = collective_call_of(c, w, w->n, 0);
		for (size_t i = 0; i < w->nranks; i++) {
			const struct collective_call *other = collective_call_of(c, w, w->n, i);
			if (!own || !other)
				return;
			const struct collective_row *a = &c->rows[own->row],
						    *b = &c->rows[other->row];
			if (!same(&a->what, &b->what)) {
				tell_difference(c, w, i, a, b);
				return;
			}
		}
	}
}

/* A group with places for so many ranks; NULL when out of memory. */
static struct collective_world *add_world(struct collectives *c, const struct group_desc *of,
					  size_t nranks)
{
	struct collective_world *all = realloc(c->worlds, (c->nworlds + 1) * sizeof(*all));
	if (!all)
		return NULL;
	c->worlds = all;
	struct collective_world *w = &all[c->nworlds++];
	*w = (struct collective_world){.of = of,
				       .ranks = calloc(nranks, sizeof(*w->ranks)),
				       .groups = malloc(nranks * sizeof(*w->groups)),
				       .nranks = nranks};
	if (!w->ranks || !w->groups)
		return NULL;
	memset(w->groups, 0xff, nranks * sizeof(*w->groups));
	for (size_t i = 0; i < nranks; i++)
		w->ranks[i] = of ? (size_t)of->ranks[i] : i;
	return w;
}

/* A process's group among those of all ranks. */
static int place_group(struct collectives *c, struct map *by_id, size_t rank, size_t group)
{
	const struct collective_group *g = &c->groups[group];
	int64_t at = map_get(by_id, (uint64_t)g->id);
	struct collective_world *w = at >= 0 ? &c->worlds[at] : add_world(c, g->of, g->of->n);
	if (!w || (at < 0 && map_put(by_id, (uint64_t)g->id, (uint32_t)c->nworlds - 1)))
		return -ENOMEM;
	for (size_t i = 0; i < w->nranks; i++)
		if (w->ranks[i] == rank)
			w->groups[i] = group;
	return 0;
}

static int add_known(struct collectives *c)
{
	struct map by_id = {0};
	int r = 0;
	for (size_t rank = 0; rank < c->nranks; rank++)
		for (uint32_t i = c->processes[c->ranks[rank]].first1; i && !r;
		     i = c->groups[i - 1].next1)
			if (c->groups[i - 1].id >= 0 && c->groups[i - 1].of->n > 1)
				r = place_group(c, &by_id, rank, i - 1);
	map_free(&by_id);
	return r;
}

/* The `nth` group of all ranks that the process uses; -ENOENT: it uses fewer. */
static int64_t world_group(const struct collectives *c, size_t process, size_t nth)
{
	for (size_t i = 0; i < c->ngroups; i++)
		if (c->groups[i].process == process && c->groups[i].size == (int32_t)c->nranks &&
		    c->groups[i].rank == c->processes[process].rank.rank && !nth--)
			return (int64_t)i;
	return -ENOENT;
}

/* Where it is not known what the groups are, those of all ranks are taken for equal in the order of
 * their first use. */
static int add_unknown(struct collectives *c)
{
	for (size_t nth = 0;; nth++) {
		struct collective_world *w = add_world(c, NULL, c->nranks);
		if (!w)
			return -ENOMEM;
		for (size_t i = 0; i < c->nranks; i++) {
			int64_t g = world_group(c, c->ranks[i], nth);
			if (g < 0)
				return 0;
			w->groups[i] = (size_t)g;
		}
	}
}

static bool is_complete(const struct collective_world *w)
{
	for (size_t i = 0; i < w->nranks; i++)
		if (w->groups[i] == SIZE_MAX)
			return false;
	return true;
}

/* A group of which some rank's process told nothing. */
static void tell_incomplete(struct collectives *c, const struct collective_world *w, size_t more)
{
	char group[96], others[48] = "";
	size_t i = 0;
	while (w->groups[i] != SIZE_MAX)
		i++;
	if (more)
		snprintf(others, sizeof(others), ", nor are %zu others", more);
	snprintf(c->left_out, sizeof(c->left_out),
		 "group %s is not compared: rank %zu called nothing of it that is known to be "
		 "of it%s",
		 collective_group_text(group, sizeof(group), w->of, 0), w->ranks[i], others);
}

static size_t count_incomplete(const struct collectives *c, const struct collective_world **first)
{
	size_t n = 0;
	for (size_t i = c->nworlds; i-- > 0;)
		if (c->worlds[i].of && !is_complete(&c->worlds[i])) {
			*first = &c->worlds[i];
			n++;
		}
	return n;
}

/* Of groups that are known on some ranks only, and on none. */
static void tell_left_out(struct collectives *c)
{
	const struct collective_world *first = NULL;
	size_t n = count_incomplete(c, &first);
	if (n) {
		tell_incomplete(c, first, n - 1);
		return;
	}
	for (size_t i = 0; i < c->ngroups; i++)
		n += c->groups[i].id < 0 && c->groups[i].address && c->groups[i].calls[NUMBERED].n;
	if (n && c->descs.used)
		snprintf(c->left_out, sizeof(c->left_out),
			 "%zu group%s not compared: which ranks have %s could not be read from "
			 "the process",
			 n, n > 1 ? "s are" : " is", n > 1 ? "them" : "it");
}

static void match_worlds(struct collectives *c)
{
	size_t n = 0;
	tell_left_out(c);
	for (size_t i = 0; i < c->nworlds; i++) {
		struct collective_world *w = &c->worlds[i];
		if (!is_complete(w)) {
			free(w->groups);
			free(w->ranks);
			continue;
		}
		match_world(c, w);
		c->worlds[n++] = *w;
	}
	c->nworlds = n;
}

int collectives_match(struct collectives *c)
{
	int r;
	for (size_t i = 0; i < c->ngroups; i++) {
		sort_calls(&c->groups[i].calls[NOT_NUMBERED]);
		sort_calls(&c->groups[i].calls[NUMBERED]);
	}
	if ((r = collectives_join_works(c)))
		return r;
	collectives_join_kernels(c);
	if ((r = find_ranks(c)) || !c->nranks)
		return r;
	r = c->descs.used ? add_known(c) : add_unknown(c);
	if (!r)
		match_worlds(c);
	if (!r && !c->nworlds)
		snprintf(c->why, sizeof(c->why),
			 "which ranks the groups have could not be read from the processes");
	return r;
}
