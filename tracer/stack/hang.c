/* What ranks wait for, compared, in sentences. */
#define _GNU_SOURCE

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/stack/internal.h"

static int compare_ranks(const void *a, const void *b)
{
	const struct hang_rank *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Sentences. */

static void put_rank(const struct hang *h, const struct hang_rank *r)
{
	if (r->rank >= 0)
		fprintf(h->out, "rank %" PRId32, r->rank);
	else
		fprintf(h->out, "process %d", r->pid);
}

/* "rank 3", "ranks 0-2, 5": those of which in[] is true. */
static void put_ranks(const struct hang *h, const bool *in)
{
	size_t n = 0, last = 0;
	const char *comma = "";
	for (size_t i = 0; i < h->n; i++) {
		n += in[i];
		last = in[i] ? i : last;
	}
	if (n == 1) {
		put_rank(h, &h->ranks[last]);
		return;
	}
	fputs(h->ranks[last].rank >= 0 ? "ranks " : "processes ", h->out);
	for (size_t i = 0; i < h->n; i++) {
		size_t k = i;
		if (!in[i])
			continue;
		while (k + 1 < h->n && in[k + 1] && h->ranks[i].rank >= 0 &&
		       h->ranks[k + 1].rank == h->ranks[k].rank + 1)
			k++;
		fprintf(h->out, "%s%d", comma,
			h->ranks[i].rank >= 0 ? h->ranks[i].rank : h->ranks[i].pid);
		if (k > i)
			fprintf(h->out, "%s%d", k > i + 1 ? "-" : ", ", h->ranks[k].rank);
		comma = ", ";
		i = k;
	}
}

/* "all_reduce #12 of group 0 (float32 (1024,)) at train.py:30" */
static void put_call(const struct hang *h, const struct hang_group *g, const struct hang_call *c,
		     const char *place)
{
	text_print_safe(h->out, c ? c->kind : "collective");
	if (!c || c->number)
		fprintf(h->out, " #%" PRIu64, c ? c->number : g->count);
	fputs(" of group ", h->out);
	text_print_safe(h->out, g->name);
	if (c && c->tensors[0])
		fprintf(h->out, " (%s)", c->tensors);
	if (place && place[0]) {
		fputs(" at ", h->out);
		text_print_safe(h->out, place);
	}
}

/* Where a rank is, "it is in forward at ...", or `many` ranks are. */
static void put_place(const struct hang *h, const struct hang_rank *r, bool many)
{
	const char *it = many ? "they are" : "it is";
	const struct hang_group *g = hang_waits_in(r);
	if (r->state == HANG_ENDED)
		fprintf(h->out, "its process (%d) has ended", r->pid);
	else if (r->state == HANG_ABSENT)
		fprintf(h->out, "%s ended, or %s elsewhere", many ? "they have" : "it has",
			many ? "run" : "runs");
	else if (g) {
		fputs(many ? "they wait in " : "it waits in ", h->out);
		put_call(h, g, &g->calls[0], r->place);
	} else if (r->place[0]) {
		fputs(it, h->out);
		if (r->in[0]) {
			fputs(" in ", h->out);
			text_print_safe(h->out, r->in);
		}
		fputs(" at ", h->out);
		text_print_safe(h->out, r->place);
		fputs(" (", h->out);
		text_print_safe(h->out, r->doing);
		fputc(')', h->out);
	} else {
		fputs(many ? "each " : "it ", h->out);
		text_print_safe(h->out, r->doing[0] ? r->doing : "has no Python stack");
	}
	if (r->last[0]) {
		fputs("; its last collective recorded: ", h->out);
		text_print_safe(h->out, r->last);
	}
}

/* What differs between two calls: "shapes", "dtypes". */
static const char *difference(const struct hang_call *a, const struct hang_call *b)
{
	size_t x = strcspn(a->tensors, " "), y = strcspn(b->tensors, " ");
	if (strcmp(a->kind, b->kind) != 0)
		return "collectives";
	if (x == y && !strncmp(a->tensors, b->tensors, x))
		return "shapes";
	return strcmp(a->tensors + x, b->tensors + y) != 0 ? "tensors" : "dtypes";
}

/* The ranks that have called it, as one, or each kind of call by itself. */
static void put_callers(const struct hang *h, const struct hang_stuck *s, bool *in, bool each)
{
	const char *sep = "";
	bool *seen = calloc(h->n, sizeof(*seen));
	for (size_t i = 0; seen && i < h->n; i++) {
		const struct hang_call *c = hang_call_of(&h->ranks[i], s);
		const char *place = h->ranks[i].place;
		bool waits = true;
		size_t n = 0;
		if (seen[i] || hang_part_of(&h->ranks[i], s) != PART_CALLS)
			continue;
		for (size_t k = 0; k < h->n; k++) {
			const struct hang_call *d = hang_call_of(&h->ranks[k], s);
			in[k] = !seen[k] && hang_part_of(&h->ranks[k], s) == PART_CALLS &&
				(!each || !c || !d || hang_same_call(c, d));
			seen[k] |= in[k];
			n += in[k];
			waits &= !in[k] || h->ranks[k].in_collective;
			if (in[k] && strcmp(h->ranks[k].place, h->ranks[i].place) != 0)
				place = "";
		}
		fputs(sep, h->out);
		put_ranks(h, in);
		fputs(!waits ? " called " : n > 1 ? " wait in " : " waits in ", h->out);
		if (!c) {
			fprintf(h->out, "collective #%" PRIu64 " of group ", s->number);
			text_print_safe(h->out, s->group->name);
		} else {
			put_call(h, s->group, c, waits ? place : NULL);
		}
		sep = "; ";
	}
	free(seen);
}

/* Those that do not come, each with its place; equal ones together. */
static void put_others(const struct hang *h, const struct hang_stuck *s, enum hang_part part,
		       bool *in)
{
	bool *seen = calloc(h->n, sizeof(*seen));
	for (size_t i = 0; seen && i < h->n; i++) {
		const struct hang_rank *r = &h->ranks[i];
		if (seen[i] || hang_part_of(r, s) != part)
			continue;
		size_t n = 0;
		for (size_t k = 0; k < h->n; k++) {
			const struct hang_rank *x = &h->ranks[k];
			in[k] = !seen[k] && hang_part_of(x, s) == part && x->state == r->state &&
				!strcmp(x->doing, r->doing) && !strcmp(x->where, r->where) &&
				!strcmp(x->last, r->last) && (k == i || r->state != HANG_ENDED);
			seen[k] |= in[k];
			n += in[k];
		}
		fputs("; ", h->out);
		put_ranks(h, in);
		fprintf(h->out, "%s %s: ", n > 1 ? " are" : " is",
			part == PART_UNSEEN ? "none of these processes" : "not there");
		put_place(h, r, n > 1);
	}
	free(seen);
}

static size_t count_part(const struct hang *h, const struct hang_stuck *s, enum hang_part part)
{
	size_t n = 0;
	for (size_t i = 0; i < h->n; i++)
		n += hang_part_of(&h->ranks[i], s) == part;
	return n;
}

static void put_stuck(struct hang *h, struct hang_stuck *s)
{
	const struct hang_call *a, *b;
	bool *in = calloc(h->n, sizeof(*in)), differ = hang_differs(h, s, &a, &b);
	size_t missing = count_part(h, s, PART_BEHIND) + count_part(h, s, PART_GONE) +
			 count_part(h, s, PART_UNSEEN);
	s->told = true;
	if (!in || (!differ && !missing && count_part(h, s, PART_PAST))) {
		free(in);
		return;
	}
	if (differ)
		fprintf(h->out, "%s differ: ", difference(a, b));
	put_callers(h, s, in, differ);
	if (!differ && !missing)
		fputs("; all are there and nothing differs, so it is under way, or held up below "
		      "PyTorch",
		      h->out);
	put_others(h, s, PART_BEHIND, in);
	put_others(h, s, PART_GONE, in);
	put_others(h, s, PART_UNSEEN, in);
	fputc('\n', h->out);
	h->any = true;
	free(in);
}

/* Ranks that wait for each other in a circle. */

static void put_circle(struct hang *h, size_t first)
{
	size_t at = first;
	fputs("deadlock, as groups are not used in one order: ", h->out);
	put_rank(h, &h->ranks[first]);
	do {
		struct hang_stuck *s = hang_stuck_of(h, &h->ranks[at]);
		const struct hang_group *g = hang_group_of(&h->ranks[at], s->group);
		fputs(at == first ? " waits in " : ", which waits in ", h->out);
		put_call(h, g, hang_call_of(&h->ranks[at], s), h->ranks[at].place);
		fputs(" for ", h->out);
		at = hang_waits_for(h, at);
		put_rank(h, &h->ranks[at]);
		s->told = true;
	} while (at != first);
	fputc('\n', h->out);
	h->any = true;
}

static void find_circle(struct hang *h)
{
	for (size_t i = 0; i < h->n; i++) {
		size_t at = hang_waits_for(h, i);
		const struct hang_stuck *s = hang_stuck_of(h, &h->ranks[i]);
		for (size_t steps = 0; at < h->n && at != i && steps < h->n; steps++)
			at = hang_waits_for(h, at);
		if (at == i && !s->told)
			put_circle(h, i);
	}
}

/* Where the groups are not known: the functions that the ranks are in. */
static void put_functions(struct hang *h)
{
	bool *in = calloc(h->n + 1, sizeof(*in));
	size_t waiting = 0;
	bool differ = false;
	const char *first = NULL, *sep = "";
	for (size_t i = 0; i < h->n; i++) {
		const struct hang_rank *r = &h->ranks[i];
		waiting += r->in_collective;
		differ |= r->in_collective && first && strcmp(first, r->collective) != 0;
		first = r->in_collective && !first ? r->collective : first;
	}
	for (size_t i = 0; in && waiting && (differ || waiting < h->n) && i < h->n; i++) {
		const struct hang_rank *r = &h->ranks[i];
		bool seen = false;
		for (size_t k = 0; k < h->n; k++) {
			const struct hang_rank *x = &h->ranks[k];
			in[k] = x->state == r->state && x->in_collective == r->in_collective &&
				!strcmp(x->collective, r->collective) &&
				!strcmp(x->place, r->place) && !strcmp(x->doing, r->doing) &&
				x->state == HANG_HERE;
			seen |= k < i && in[k];
		}
		in[i] = true;
		if (seen)
			continue;
		fputs(sep, h->out);
		put_ranks(h, in);
		if (r->in_collective) {
			fputs(" in ", h->out);
			text_print_safe(h->out, r->collective);
			fprintf(h->out, "%s", r->place[0] ? " at " : "");
			text_print_safe(h->out, r->place);
		} else {
			fputs(" in no collective: ", h->out);
			put_place(h, r, false);
		}
		sep = "; ";
		h->any = true;
	}
	if (h->any)
		fputc('\n', h->out);
	free(in);
}

/* Ranks whose process is not there, where no collective waits for them. */
static void put_gone(struct hang *h)
{
	for (size_t i = 0; i < h->n; i++) {
		const struct hang_rank *r = &h->ranks[i];
		if (r->state == HANG_HERE)
			continue;
		put_rank(h, r);
		fprintf(h->out, " is %s: ",
			r->state == HANG_ABSENT ? "none of these processes" : "not there");
		put_place(h, r, false);
		fputc('\n', h->out);
	}
}

static void explain(struct hang *h)
{
	for (size_t i = 0; i < h->n; i++)
		for (size_t k = 0; k < h->ranks[i].ngroups; k++)
			hang_find_stuck(h, &h->ranks[i].groups[k]);
	find_circle(h);
	for (unsigned causes = 2; causes--;)
		for (size_t i = 0; i < h->nstuck; i++)
			if (!h->stuck[i].told && hang_has_cause(h, &h->stuck[i]) == (bool)causes)
				put_stuck(h, &h->stuck[i]);
	if (!h->any)
		put_functions(h);
	if (!h->any)
		put_gone(h);
}

char *hang_explain(struct hang_ranks *ranks)
{
	char *text = NULL;
	size_t size, groups = 0;
	if (ranks->n)
		qsort(ranks->all, ranks->n, sizeof(*ranks->all), compare_ranks);
	struct hang h = {.ranks = ranks->all, .n = ranks->n};
	for (size_t i = 0; i < h.n; i++)
		groups += h.ranks[i].ngroups;
	h.stuck = calloc(groups + 1, sizeof(*h.stuck));
	h.out = h.stuck ? open_memstream(&text, &size) : NULL;
	if (h.out) {
		explain(&h);
		if (fclose(h.out)) {
			free(text);
			text = NULL;
		}
	}
	free(h.stuck);
	return text;
}
