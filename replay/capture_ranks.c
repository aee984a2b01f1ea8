/* Captures of several ranks: the folders that are theirs, and the calls of a collective, matched.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "replay/internal.h"

enum { RANKS_MAX = 1 << 20 };

/* The number behind `prefix` at the start of a component; NULL: it is none. */
static const char *number_behind(const char *s, const char *prefix, int64_t *out)
{
	size_t n = strlen(prefix);
	char *end;
	if (strncmp(s, prefix, n) != 0 || s[n] < '0' || s[n] > '9')
		return NULL;
	*out = strtoll(s + n, &end, 10);
	return *out < RANKS_MAX ? end : NULL;
}

/* Of "RUN/rank1.2/op_tools_results/...": rank 1, start "RUN/.2". */
void capture_place_read_rank(struct capture_place *p)
{
	static const char results[] = "/op_tools_results/";
	const char *end = strstr(p->dir, results), *at = end;
	int64_t rank, nth = 0;
	while (at && at > p->dir && at[-1] != '/')
		at--;
	const char *behind = at ? number_behind(at, "rank", &rank) : NULL;
	const char *rest = behind && *behind == '.' ? number_behind(behind, ".", &nth) : behind;
	if (!rest || rest != end ||
	    asprintf(&p->start, "%.*s.%" PRId64, (int)(at - p->dir), p->dir, nth) < 0)
		return;
	p->rank = (int32_t)rank;
}

static int64_t number_or(json_t *o, const char *key, int64_t otherwise)
{
	json_t *n = json_object_get(o, key);
	int64_t v = json_is_integer(n) ? json_integer_value(n) : otherwise;
	return v < 0 ? otherwise : v;
}

static char *text_or_none(json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s ? strdup(s) : NULL;
}

static void read_ranks(struct capture_of_collective *c, json_t *ranks)
{
	size_t n = json_array_size(ranks);
	c->ranks = n && n < RANKS_MAX ? calloc(n, sizeof(*c->ranks)) : NULL;
	for (; c->ranks && c->nranks < n; c->nranks++)
		c->ranks[c->nranks] = json_integer_value(json_array_get(ranks, c->nranks));
}

struct capture_of_collective *capture_of_collective_new(json_t *o)
{
	struct capture_of_collective *c = json_is_object(o) ? calloc(1, sizeof(*c)) : NULL;
	if (!c)
		return NULL;
	*c = (struct capture_of_collective){.kind = text_or_none(o, "kind"),
					    .group = text_or_none(o, "group"),
					    .reduce_op = text_or_none(o, "reduce_op"),
					    .root = number_or(o, "root", -1),
					    .rank = number_or(o, "rank", -1),
					    .size = number_or(o, "size", -1),
					    .number = number_or(o, "number", 0)};
	read_ranks(c, json_object_get(o, "ranks"));
	if (c->kind && c->rank < c->size && (!c->ranks || (int64_t)c->nranks == c->size))
		return c;
	capture_of_collective_free(c);
	return NULL;
}

void capture_of_collective_free(struct capture_of_collective *c)
{
	if (!c)
		return;
	free(c->kind);
	free(c->group);
	free(c->reduce_op);
	free(c->ranks);
	free(c);
}

const char *capture_place_name(char *out, size_t size, const struct capture_place *p)
{
	const struct capture_of_collective *c = p->collective;
	size_t n = (size_t)snprintf(out, size, "%s", p->op);
	if (c && c->number && c->group && n < size)
		n += (size_t)snprintf(out + n, size - n, " #%" PRId64 " of group %s", c->number,
				      c->group);
	if (p->rank >= 0 && n < size)
		snprintf(out + n, size - n, ", rank %" PRId32, p->rank);
	return out;
}

static int compare_texts(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

static int compare_numbers(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

bool capture_is_numbered(const struct capture_place *p)
{
	return p->collective && p->collective->group && p->collective->number;
}

/* By the ranks of the group, too: groups of one name may differ in them. */
int capture_compare_collectives(const struct capture_place *x, const struct capture_place *y)
{
	const struct capture_of_collective *a = x->collective, *b = y->collective;
	int r = strcmp(a->group, b->group);
	r = r ? r : compare_numbers(a->number, b->number);
	r = r ? r : compare_numbers((int64_t)a->nranks, (int64_t)b->nranks);
	return r || !a->nranks ? r : memcmp(a->ranks, b->ranks, a->nranks * sizeof(*a->ranks));
}

static bool is_matched(const struct capture_place *p)
{
	return p->start && capture_is_numbered(p) && p->collective->ranks;
}

static int compare_calls(const struct capture_place *x, const struct capture_place *y)
{
	int r = compare_texts(x->start, y->start);
	return r ? r : capture_compare_collectives(x, y);
}

/* What is matched comes last. */
static int by_job(const void *a, const void *b, void *arg)
{
	const struct capture_places *p = arg;
	const size_t i = *(const size_t *)a, k = *(const size_t *)b;
	const struct capture_place *x = &p->list[i], *y = &p->list[k];
	bool both = is_matched(x) && is_matched(y);
	int r = is_matched(x) - is_matched(y);
	r = r || !both ? r : compare_calls(x, y);
	r = r || !both ? r : compare_numbers(x->collective->rank, y->collective->rank);
	return r ? r : compare_numbers((int64_t)i, (int64_t)k);
}

/* A rank that is there twice is of another run. */
static bool is_same_job(const struct capture_place *x, const struct capture_place *y)
{
	return is_matched(x) && is_matched(y) && !compare_calls(x, y) &&
	       x->collective->rank != y->collective->rank;
}

int replay_jobs_make(const struct capture_places *p, struct replay_jobs *out)
{
	*out = (struct replay_jobs){.list = calloc(p->n + 1, sizeof(*out->list)),
				    .order = calloc(p->n + 1, sizeof(*out->order))};
	if (!out->list || !out->order)
		return -ENOMEM;
	for (size_t i = 0; i < p->n; i++)
		out->order[i] = i;
	qsort_r(out->order, p->n, sizeof(*out->order), by_job, (void *)p);
	for (size_t i = 0; i < p->n; i++) {
		if (i && is_same_job(&p->list[out->order[i - 1]], &p->list[out->order[i]]))
			out->list[out->n - 1].n++;
		else
			out->list[out->n++] = (struct replay_job){i, 1};
	}
	return 0;
}

void replay_jobs_free(struct replay_jobs *j)
{
	free(j->list);
	free(j->order);
	*j = (struct replay_jobs){0};
}

static json_t *text_or_null(const char *s)
{
	return s ? json_string(s) : json_null();
}

static json_t *member(const struct capture_place *p)
{
	const struct capture_of_collective *c = p->collective;
	return json_pack("{s:s, s:I, s:s, s:o, s:I}", "dir", p->dir, "rank", (json_int_t)c->rank,
			 "kind", c->kind, "reduce_op", text_or_null(c->reduce_op), "root",
			 (json_int_t)c->root);
}

json_t *replay_collective_request(const struct capture_places *p, const struct replay_jobs *jobs,
				  size_t job)
{
	const struct replay_job *j = &jobs->list[job];
	const struct capture_place *first = &p->list[jobs->order[j->first]];
	const struct capture_of_collective *c = first->collective;
	json_t *members = json_array(), *names = json_array();
	for (size_t i = 0; i < j->n; i++)
		json_array_append_new(members, member(&p->list[jobs->order[j->first + i]]));
	for (size_t i = 0; i < c->nranks; i++)
		json_array_append_new(names, json_integer(c->ranks[i]));
	return json_pack("{s:s, s:s, s:s, s:o, s:I, s:I, s:b, s:o, s:o}", "cmd", "collective", "op",
			 first->op, "kind", c->kind, "reduce_op", text_or_null(c->reduce_op),
			 "root", (json_int_t)c->root, "size", (json_int_t)c->size, "matched",
			 is_matched(first), "members", members, "names", names);
}
