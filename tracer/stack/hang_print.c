/* Ranks by the place where they are. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/table.h"
#include "tracer/stack/hang.h"

static bool same_place(const struct hang_rank *a, const struct hang_rank *b)
{
	return a->state == b->state && !strcmp(a->doing, b->doing) && !strcmp(a->where, b->where) &&
	       !strcmp(a->last, b->last);
}

static void add_text(char *out, size_t size, const char *format, int n)
{
	size_t at = strlen(out);
	snprintf(out + at, size - at, format, n);
}

/* The ranks at the place of rank `i` and behind it: "0-2, 5", and their processes. */
static void row_names(const struct hang_rank *r, size_t n, size_t i, char *ranks, char *pids,
		      size_t size)
{
	size_t more = 0;
	ranks[0] = pids[0] = '\0';
	for (size_t k = i; k < n; k++) {
		if (!same_place(&r[i], &r[k]))
			continue;
		size_t last = k;
		while (last + 1 < n && same_place(&r[i], &r[last + 1]) && r[k].rank >= 0 &&
		       r[last + 1].rank == r[last].rank + 1)
			last++;
		if (r[k].rank >= 0)
			add_text(ranks, size, ranks[0] ? ", %d" : "%d", r[k].rank);
		if (last > k)
			add_text(ranks, size, last > k + 1 ? "-%d" : ", %d", r[last].rank);
		more += last - k + 1;
		k = last;
	}
	if (!ranks[0])
		add_text(ranks, size, "-", 0);
	if (r[i].pid > 0)
		add_text(pids, size, "%d", r[i].pid);
	if (more > 1 && r[i].pid > 0)
		add_text(pids, size, " and %d more", (int)more - 1);
}

static void doing_text(const struct hang_rank *r, char *out, size_t size)
{
	const char *state = r->state == HANG_ENDED    ? "has ended"
			    : r->state == HANG_ABSENT ? "none of these processes"
						      : r->doing;
	snprintf(out, size, "%s", state);
}

int hang_print_places(const struct hang_ranks *all, FILE *f, struct terminal terminal)
{
	const struct hang_rank *ranks = all->all;
	size_t n = all->n;
	char names[512], pids[512], doing[256];
	struct table *t = table_new();
	if (!t)
		return -ENOMEM;
	table_columns(t, ">Rank|>PID|Doing|Where");
	for (size_t i = 0; i < n; i++) {
		bool seen = false;
		for (size_t k = 0; k < i; k++)
			seen |= same_place(&ranks[k], &ranks[i]);
		if (seen)
			continue;
		row_names(ranks, n, i, names, pids, sizeof(names));
		doing_text(&ranks[i], doing, sizeof(doing));
		table_cell(t, names);
		table_cell(t, pids);
		table_cell(t, doing);
		table_cell(t, ranks[i].state == HANG_HERE ? ranks[i].where : ranks[i].last);
	}
	int r = table_print(t, f, terminal.width, terminal.color);
	table_free(t);
	return r ? r : ferror(f) ? -EIO : 0;
}

static void number(struct json_out *j, const char *key, bool known, int64_t n)
{
	if (known)
		json_i64(j, key, n);
	else
		json_nothing(j, key);
}

static void print_group(struct json_out *j, const struct hang_group *g)
{
	json_open(j, NULL, '{');
	json_text(j, "group", g->name);
	json_text(j, "backend", g->backend[0] ? g->backend : NULL);
	json_open(j, "ranks", '[');
	for (size_t i = 0; i < g->nranks; i++)
		json_i64(j, NULL, g->ranks[i]);
	json_close(j, ']');
	number(j, "called", g->counted, (int64_t)g->count);
	json_open(j, "waiting", '[');
	for (size_t i = 0; i < g->ncalls; i++) {
		json_open(j, NULL, '{');
		json_text(j, "collective", g->calls[i].kind);
		number(j, "number", g->calls[i].number, (int64_t)g->calls[i].number);
		json_text(j, "tensors", g->calls[i].tensors[0] ? g->calls[i].tensors : NULL);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

int hang_print_json(const struct hang_ranks *ranks, const char *explained, FILE *f)
{
	static const char *const states[] = {"here", "ended", "absent"};
	struct json_out j = {.f = f};
	json_open(&j, NULL, '{');
	json_text(&j, "explained", explained);
	json_open(&j, "ranks", '[');
	for (size_t i = 0; i < ranks->n; i++) {
		const struct hang_rank *r = &ranks->all[i];
		json_open(&j, NULL, '{');
		number(&j, "rank", r->rank >= 0, r->rank);
		number(&j, "pid", r->pid > 0, r->pid);
		json_text(&j, "state", states[r->state]);
		json_text(&j, "doing", r->doing[0] ? r->doing : NULL);
		json_text(&j, "where", r->where[0] ? r->where : NULL);
		json_text(&j, "collective", r->in_collective ? r->collective : NULL);
		json_text(&j, "last_recorded", r->last[0] ? r->last : NULL);
		json_open(&j, "groups", '[');
		for (size_t k = 0; k < r->ngroups; k++)
			print_group(&j, &r->groups[k]);
		json_close(&j, ']');
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
	putc('\n', f);
	return ferror(f) ? -EIO : 0;
}
