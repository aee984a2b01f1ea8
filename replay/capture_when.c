#include "replay/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "replay/capture_find.h"

struct capture_look {
	const struct capture_places *places;
	const struct caution *caution;
	struct arena arena;
	struct op_event *events; /* one for each place; op is NULL if it could not be read */
};

static json_t *request(void *ctx, size_t i)
{
	struct capture_look *l = ctx;
	return request_with(
	    json_pack("{s:s, s:s}", "cmd", "describe", "dir", l->places->list[i].dir), l->caution);
}

static int message(void *ctx, size_t i, struct worker *w, json_t *m, struct err *e)
{
	struct capture_look *l = ctx;
	const char *event = json_string_value(json_object_get(m, "event"));
	(void)w;
	if (!event || strcmp(event, "described") != 0)
		return 0;
	int r = described_event(m, &l->places->list[i], &l->arena, &l->events[i]);
	if (r == -EPROTO)
		l->events[i].op = NULL;
	return r == -ENOMEM ? err_set(e, r, "no memory for the captures") : 0;
}

static void ended(void *ctx, size_t i, const char *how, const char *why)
{
	(void)ctx;
	(void)i;
	(void)how;
	(void)why;
}

static int look_at_all(struct capture_look *l, struct pool *pool, struct err *e)
{
	const struct pool before = {.count = pool->count,
				    .ctx = pool->ctx,
				    .request = pool->request,
				    .message = pool->message,
				    .ended = pool->ended};
	pool->count = l->places->n;
	pool->ctx = l;
	pool->request = request;
	pool->message = message;
	pool->ended = ended;
	int r = pool_run(pool, e);
	pool->count = before.count;
	pool->ctx = before.ctx;
	pool->request = before.request;
	pool->message = before.message;
	pool->ended = before.ended;
	return r;
}

static bool same_op(const struct op_desc *a, const struct op_desc *b)
{
	return !strcmp(a->name, b->name) && !strcmp(a->schema, b->schema) && a->nargs == b->nargs;
}

static int check(const struct capture_look *l, struct when *w, struct err *e)
{
	const struct op_desc **ops = malloc((l->places->n + 1) * sizeof(*ops));
	size_t n = 0;
	if (!ops)
		return err_set(e, -ENOMEM, "no memory");
	for (size_t i = 0; i < l->places->n; i++) {
		const struct op_desc *op = l->events[i].op;
		size_t k = 0;
		while (op && k < n && !same_op(ops[k], op))
			k++;
		if (op && k == n)
			ops[n++] = op;
	}
	int r = n ? when_check(w, ops, n, false, e) : 0;
	free(ops);
	if (r || !n || !when_needs_exit(w))
		return r;
	err_set(e, -EINVAL,
		"--when cannot ask for results here: it is for arguments of captured calls");
	return err_hint(e, "use arguments only");
}

int capture_when(const struct capture_places *p, struct when *w, struct pool *pool,
		 const struct caution *caution, bool *keep, struct when_counts *counts,
		 struct err *e)
{
	struct capture_look l = {
	    .places = p, .caution = caution, .events = calloc(p->n + 1, sizeof(*l.events))};
	int r = l.events ? look_at_all(&l, pool, e) : err_set(e, -ENOMEM, "no memory");
	r = r ? r : check(&l, w, e);
	for (size_t i = 0; i < p->n && !r; i++)
		keep[i] = when_decide(l.events[i].op ? w : NULL, &l.events[i], WHEN_ENTRY_ONLY,
				      counts) == WHEN_YES;
	arena_free(&l.arena);
	free(l.events);
	return r;
}

int capture_when_none(size_t all, const struct when_counts *counts, struct err *e)
{
	if (!counts->unknown) {
		err_set(e, -ENOENT, "--when holds for none of the %zu captures", all);
		return err_hint(e, "the .json next to an input.pth shows its arguments");
	}
	err_set(e, -ENOENT,
		"--when holds for none of the %zu captures; of %" PRIu64
		" it uses values that are unknown",
		all, counts->unknown);
	return err_hint(e, "captures have no addresses, for example; use other values");
}

int capture_when_compile(const char *text, struct when **out, struct err *e)
{
	static const char *const not_kept[] = {"depth",	 "phase",   "tid",     "thread", "elapsed",
					       "thrown", "results", "outputs", NULL};
	int r = when_compile("--when", text, out, e);
	if (r)
		return r;
	r = when_refuse(*out, not_kept, "a capture does not keep",
			"ask for what the call was given, or for "
			"op, overload, id, pid, file, line and function",
			e);
	if (r) {
		when_free(*out);
		*out = NULL;
	}
	return r;
}
