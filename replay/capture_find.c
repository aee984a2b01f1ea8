#define _GNU_SOURCE
#include "replay/replay.h"

#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/internal.h"
#include "symbolizer/event/event.h"
#include "symbolizer/ops/filter.h"
#include "symbolizer/target/target_files.h"

enum { PARTS_MAX = 256 };

/* Take pid, id and op from a path .../OP/PID/ID/TIME, or .../OP/PID/autocompare/ID/TIME/device as
 * ditorch's comparison writes it. From other paths they stay unknown. */
static void read_path(struct capture_place *p, char *path)
{
	char *parts[PARTS_MAX] = {NULL}, *save = NULL, *end;
	int n = 0;
	for (char *s = strtok_r(path, "/", &save); s && n < PARTS_MAX;
	     s = strtok_r(NULL, "/", &save))
		parts[n++] = s;
	if (n && (!strcmp(parts[n - 1], "device") || !strcmp(parts[n - 1], "cpu")))
		n--;
	int id = n - 2, pid = n - 3;
	if (pid > 0 && !strcmp(parts[pid], "autocompare"))
		pid--;
	if (pid < 1)
		return;
	int64_t id_value = strtoll(parts[id], &end, 10);
	if (*end || end == parts[id])
		return;
	int64_t pid_value = strtoll(parts[pid], &end, 10);
	if (*end || end == parts[pid])
		return;
	p->id = id_value;
	p->pid = pid_value;
	free(p->op);
	p->op = strdup(parts[pid - 1]);
}

static char *text_of(json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s ? strdup(s) : NULL;
}

/* The JSON beside the inputs, or NULL. */
static json_t *load_json(const char *dir)
{
	enum { LONGEST = 64 << 20 };
	char *path = NULL;
	struct stat st;
	json_t *o = NULL;
	if (asprintf(&path, "%s/input.pth.json", dir) < 0)
		return NULL;
	int fd = regular_open(path);
	free(path);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r"); /* json_loadfd reads a byte at a time */
	if (f && !fstat(fd, &st) && st.st_size <= LONGEST)
		o = json_loadf(f, 0, NULL);
	if (f)
		fclose(f);
	else if (fd >= 0)
		close(fd);
	return o;
}

/* Read the JSON beside the inputs; a damaged one is ignored. */
static void read_json(struct capture_place *p)
{
	json_t *o = load_json(p->dir);
	char *op = text_of(o, "op");
	if (op) {
		free(p->op);
		p->op = op;
	}
	p->file = text_of(o, "file");
	p->function = text_of(o, "function");
	p->python = text_of(o, "python");
	p->python_changed = text_of(o, "python_changed");
	if (!p->python || !p->python_changed) {
		free(p->python);
		free(p->python_changed);
		p->python = p->python_changed = NULL;
	}
	p->line = json_integer_value(json_object_get(o, "line"));
	p->collective = capture_of_collective_new(json_object_get(o, "collective"));
	json_decref(o);
}

static int places_add(struct capture_places *all, const char *dir)
{
	if (array_grow(&all->list, &all->size, all->n + 1, sizeof(*all->list)))
		return -ENOMEM;
	char *copy = strdup(dir);
	struct capture_place *p = &all->list[all->n];
	*p = (struct capture_place){
	    .dir = strdup(dir), .op = strdup(""), .pid = -1, .id = -1, .rank = -1};
	if (copy && p->dir && p->op) {
		all->n++;
		capture_place_read_rank(p);
		read_path(p, copy);
		read_json(p);
	}
	free(copy);
	return p->dir && p->op ? 0 : -ENOMEM;
}

static int by_call(const void *a, const void *b)
{
	const struct capture_place *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return strcmp(x->dir, y->dir);
}

static int places_visit(FTSENT *f, const char *root, struct capture_places *out, struct err *e)
{
	if (f->fts_info == FTS_ERR || f->fts_info == FTS_DNR || f->fts_info == FTS_NS) {
		err_set(e, -f->fts_errno, "cannot read %s: %s", f->fts_path,
			strerror(f->fts_errno));
		return err_hint(e, "name a folder with captures, such as "
				   "op_tools_results/op_capture_results");
	}
	if (f->fts_info != FTS_F || strcmp(f->fts_name, "input.pth") != 0)
		return 0;
	f->fts_path[f->fts_pathlen - f->fts_namelen - 1] = '\0';
	int r = places_add(out, f->fts_pathlen > f->fts_namelen + 1 ? f->fts_path : root);
	f->fts_path[f->fts_pathlen - f->fts_namelen - 1] = '/';
	return r ? err_set(e, r, "no memory for the list of captures") : 0;
}

int capture_find(const char *root, struct capture_places *out, struct err *e)
{
	char *roots[] = {(char *)root, NULL};
	FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
	size_t before = out->n;
	int r = 0;
	FTSENT *f;
	if (!tree)
		return err_set(e, -errno, "cannot read %s: %s", root, strerror(errno));
	while (!r && (f = fts_read(tree)))
		r = places_visit(f, root, out, e);
	fts_close(tree);
	if (r)
		return r;
	if (out->n == before) {
		err_set(e, -ENOENT, "there is no capture in %s", root);
		return err_hint(e, "a capture is a folder with an input.pth; name one, or a folder "
				   "that has them somewhere below");
	}
	qsort(out->list + before, out->n - before, sizeof(*out->list), by_call);
	return 0;
}

static void free_place(struct capture_place *p)
{
	free(p->dir);
	free(p->op);
	free(p->file);
	free(p->function);
	free(p->python);
	free(p->python_changed);
	free(p->start);
	capture_of_collective_free(p->collective);
}

void capture_places_choose(struct capture_places *p, const bool *keep)
{
	size_t kept = 0;
	for (size_t i = 0; i < p->n; i++) {
		if (keep[i])
			p->list[kept++] = p->list[i];
		else
			free_place(&p->list[i]);
	}
	p->n = kept;
}

void capture_places_free(struct capture_places *p)
{
	for (size_t i = 0; i < p->n; i++)
		free_place(&p->list[i]);
	free(p->list);
	*p = (struct capture_places){0};
}

enum { NAME_SIZE = 512 };

/* The operator of a capture's name, "aten::add"; `out` is the buffer for it. */
static const char *operator_name(const char *name, char *out)
{
	const char *dot;
	if (strstr(name, "::"))
		return name;
	if (!strncmp(name, "torch.ops.", 10) && (dot = strchr(name + 10, '.'))) {
		snprintf(out, NAME_SIZE, "%.*s::%s", (int)(dot - name - 10), name + 10, dot + 1);
		return out;
	}
	dot = strrchr(name, '.');
	const char *last = dot ? dot + 1 : name;
	size_t n = strlen(last);
	if (n > 4 && !strncmp(last, "__", 2) && !strcmp(last + n - 2, "__"))
		snprintf(out, NAME_SIZE, "aten::%.*s", (int)n - 4, last + 2);
	else
		snprintf(out, NAME_SIZE, "aten::%s", last);
	return out;
}

static bool names(const struct filter *f, const char *op)
{
	char name[NAME_SIZE];
	struct op_desc desc = {
	    .kind = OP_DISPATCHED, .name = operator_name(op, name), .schema = ""};
	return filter_match(f, &desc);
}

int capture_choose(struct capture_places *p, const char *ops, const char *not_ops, struct err *e)
{
	struct filter yes = {0}, no = {0};
	size_t all = p->n;
	bool *keep = calloc(all + 1, sizeof(*keep));
	int r = keep ? 0 : err_set(e, -ENOMEM, "no memory for %zu captures", all);
	r = r || !ops ? r : filter_compile("--ops", ops, &yes, e);
	r = r || !not_ops ? r : filter_compile("--not-ops", not_ops, &no, e);
	for (size_t i = 0; i < all && !r; i++)
		keep[i] =
		    (!ops || names(&yes, p->list[i].op)) && !(not_ops && names(&no, p->list[i].op));
	if (!r)
		capture_places_choose(p, keep);
	free(keep);
	filter_free(&yes);
	filter_free(&no);
	if (r || p->n)
		return r;
	err_set(e, -ENOENT, "none of the %zu captures is of a selected op", all);
	return err_hint(e, "folders are named by their ops");
}

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
