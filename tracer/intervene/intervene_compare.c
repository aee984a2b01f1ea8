#define _GNU_SOURCE
#include "tracer/intervene/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/table.h"
#include "base/text.h"

#define FOLDER "op_tools_results/op_autocompare_result"

static int add_place(struct intervene_compare *c, const char *op, const char *file, int64_t line,
		     const char *function, int64_t id)
{
	struct capture_places *p = &c->places;
	if (array_grow(&p->list, &p->size, p->n + 1, sizeof(*p->list)) ||
	    array_grow(&c->tallies, &c->tallies_room, p->n + 1, sizeof(*c->tallies)))
		return -ENOMEM;
	p->list[p->n] = (struct capture_place){.dir = strdup(""),
					       .op = strdup(op),
					       .file = strdup(file),
					       .function = strdup(function),
					       .line = line,
					       .pid = -1,
					       .id = id};
	c->tallies[p->n] = (struct intervene_tally){0};
	const struct capture_place *x = &p->list[p->n++];
	return x->dir && x->op && x->file && x->function ? 0 : -ENOMEM;
}

/* The place of a function at [file, line, function]; `id` is used for a new one. 0 or -ENOMEM. */
static int place_of(struct intervene_compare *c, const char *op, json_t *const where[3], int64_t id,
		    size_t *out)
{
	const char *file = json_text(where[0]);
	int64_t line = json_integer_value(where[1]);
	size_t i = 0;
	while (i < c->places.n &&
	       (c->places.list[i].line != line || strcmp(c->places.list[i].op, op) ||
		strcmp(c->places.list[i].file, file)))
		i++;
	*out = i;
	return i < c->places.n ? 0 : add_place(c, op, file, line, json_text(where[2]), id);
}

int intervene_compare_op(struct intervene_compare *c, struct intervene_call *call, json_t *m)
{
	json_t *where = json_object_get(m, "where");
	intervene_compare_drop(call);
	*call = (struct intervene_call){.number = json_integer_value(json_object_get(m, "id"))};
	int r = place_of(c, json_text_of(m, "name"),
			 (json_t *[]){json_array_get(where, 0), json_array_get(where, 1),
				      json_array_get(where, 2)},
			 call->number, &call->place);
	if (r)
		return r;
	call->open = true;
	json_t *shown = json_object_get(m, "shown");
	if (json_is_object(shown))
		call->results = table_new();
	if (call->results) {
		call->shown = json_incref(shown);
		intervene_result_columns(call->results);
	}
	bool backward = json_is_true(json_object_get(m, "backward"));
	c->tallies[call->place].calls += !backward;
	c->tallies[call->place].judged_grads += backward;
	return 0;
}

static uint64_t count_at(json_t *list, size_t i)
{
	return (uint64_t)json_integer_value(json_array_get(list, i));
}

int intervene_compare_silent(struct intervene_compare *c, json_t *calls)
{
	for (size_t i = 0; i < json_array_size(calls); i++) {
		json_t *x = json_array_get(calls, i);
		size_t place;
		int r = place_of(
		    c, json_text_at(x, 0),
		    (json_t *[]){json_array_get(x, 1), json_array_get(x, 2), json_array_get(x, 3)},
		    0, &place);
		if (r)
			return r;
		c->tallies[place].calls += count_at(x, 4);
		c->tallies[place].judged_grads += count_at(x, 5);
		c->tallies[place].not_judged += count_at(x, 7);
		c->tensors += count_at(x, 6);
		c->not_judged += count_at(x, 7);
	}
	return 0;
}

/* The row kept for this result; NULL: none. */
static struct replay_row *kept(struct intervene_compare *c, size_t place,
			       const struct replay_row *r)
{
	for (size_t i = 0; i < c->rows.n; i++) {
		struct replay_row *x = &c->rows.list[i];
		if (x->place == place && !strcmp(x->role, r->role) && !strcmp(x->index, r->index) &&
		    !strcmp(x->dtype, r->dtype))
			return x;
	}
	return NULL;
}

static void print_failure(const struct intervene_compare *c, const struct replay_row *r,
			  int64_t number)
{
	const struct capture_place *p = &c->places.list[r->place];
	text_print_safe(stderr, p->op);
	fputs("  WRONG  ", stderr);
	text_print_safe(stderr, p->file);
	fprintf(stderr, ":%" PRId64 " ", p->line);
	text_print_safe(stderr, p->function);
	fprintf(stderr, "  forward_id: %" PRId64 "  ", number);
	text_print_safe(stderr, r->dtype);
	fputs(r->device[0] ? ", " : "", stderr);
	text_print_safe(stderr, r->device);
	fputs(strcmp(r->role, "grad") ? "\n  result" : "\n  gradient of input", stderr);
	fputs(r->index[0] ? " " : "", stderr);
	text_print_safe(stderr, r->index);
	fputs(": ", stderr);
	text_print_safe(stderr, r->why);
	fputs("\n\n", stderr);
	fflush(stderr);
}

/* Whether `r` is worse than the row kept. */
static bool is_worse(const struct replay_row *r, const struct replay_row *than)
{
	struct replay_row a = *r, b = *than;
	a.place = b.place = a.number = b.number = 0;
	return row_order(&a, &b) < 0 || (r->verdict == than->verdict && r->worst > than->worst);
}

static struct replay_row *add_row(struct intervene_compare *c)
{
	if (array_grow(&c->numbers, &c->numbers_room, c->rows.n + 1, sizeof(*c->numbers)))
		return NULL;
	return rows_add(&c->rows);
}

static int compare_keep_call(struct intervene_compare *c, struct intervene_call *call,
			     const struct replay_row *r)
{
	struct replay_row *x = kept(c, call->place, r);
	if (r->verdict == VERDICT_WRONG && (!x || x->verdict != VERDICT_WRONG)) {
		call->newly_wrong = true;
		print_failure(c, r, call->number);
	}
	if (x && !is_worse(r, x))
		return 0;
	if (r->verdict == VERDICT_WRONG)
		c->places.list[call->place].id = call->number;
	size_t number = x ? x->number : 0;
	if (!x) {
		x = add_row(c);
		if (!x)
			return -ENOMEM;
		number = x->number;
	}
	*x = *r;
	x->number = number;
	c->numbers[number] = call->number;
	return 0;
}

int intervene_compare_row(struct intervene_compare *c, struct intervene_call *call, json_t *m,
			  struct worker *w)
{
	struct replay_row r = {.place = call->place};
	const struct row_rules rules = {0}; /* variables of ditorch's still apply */
	struct err e = {0};
	if (!call->open)
		return -EPROTO;
	int rc = row_fill(&r, c->places.list[call->place].op, m, w, &rules, &e);
	if (rc)
		return rc;
	c->tensors += r.verdict != VERDICT_NOT_JUDGED;
	c->not_judged += r.verdict == VERDICT_NOT_JUDGED;
	c->tallies[call->place].not_judged += r.verdict == VERDICT_NOT_JUDGED;
	call->wrong |= r.verdict == VERDICT_WRONG;
	if (call->results)
		intervene_result_cells(call->results, c->places.list[call->place].op, &r);
	return compare_keep_call(c, call, &r);
}

int intervene_compare_end(struct intervene_compare *c, struct intervene_call *call)
{
	if (!call->open)
		return -EPROTO;
	c->tallies[call->place].wrong += call->wrong;
	call->open = false;
	if (call->newly_wrong && call->shown)
		intervene_tables_print(stderr, call->shown, call->results);
	intervene_compare_drop(call);
	return 0;
}

void intervene_compare_drop(struct intervene_call *call)
{
	json_decref(call->shown);
	table_free(call->results);
	call->shown = NULL;
	call->results = NULL;
}

static void print_table(const struct intervene_compare *c)
{
	struct table *t = table_new();
	struct file_names files = {0};
	size_t last = SIZE_MAX;
	char text[640];
	if (!t)
		return;
	table_columns(t, ">Wrong|>Calls|Function|Result|Where|Worst");
	for (size_t i = 0; i < c->places.n; i++)
		file_names_add(&files, c->places.list[i].file);
	for (size_t i = 0; i < c->rows.n && c->rows.list[i].verdict == VERDICT_WRONG; i++) {
		const struct replay_row *r = &c->rows.list[i];
		const struct capture_place *p = &c->places.list[r->place];
		const struct intervene_tally *n = &c->tallies[r->place];
		table_cell(t, text_count(text, sizeof(text), n->wrong));
		table_cell(t, text_count(text, sizeof(text), n->calls));
		table_cell(t, p->op);
		table_cell(t, intervene_result_name(text, r));
		snprintf(text, sizeof(text), "%s:%" PRId64, file_names_short(&files, p->file),
			 p->line);
		table_cell(t, text);
		table_cell(t, r->why);
		last = i;
	}
	if (last != SIZE_MAX)
		table_print(t, stderr, terminal_of(stderr).width, false);
	table_free(t);
	file_names_free(&files);
}

static void write_csv(const struct intervene_compare *c)
{
	char when[32], path[128];
	time_t now = time(NULL);
	struct tm tm;
	strftime(when, sizeof(when), "%Y-%m-%d-%H-%M-%S", localtime_r(&now, &tm));
	snprintf(path, sizeof(path), FOLDER "/op_autocompare_info_pid%d_%s.csv", (int)getpid(),
		 when);
	struct err e = {0};
	struct new_file to;
	if (folders_make(FOLDER, &e) || new_file_open(&to, path, 0, &e)) {
		err_print(&e);
		return;
	}
	FILE *f = new_file_stream(&to);
	int r = f ? intervene_result_csv(f, &c->places, &c->rows, c->numbers) : -errno;
	if (f && fclose(f) && !r)
		r = -errno;
	r = new_file_end(&to, r);
	if (!r) {
		fprintf(stderr, "ditrace: the worst of each is in %s\n", path);
		return;
	}
	err_set(&e, r, "cannot write %s: %s", path, strerror(-r));
	err_hint(&e, "run it in a folder with room");
	err_print(&e);
}

/* Of all functions if `name` is NULL. */
struct intervene_tally intervene_compare_of(const struct intervene_compare *c, const char *name)
{
	struct intervene_tally all = {0};
	for (size_t i = 0; i < c->places.n; i++) {
		const struct intervene_tally *x = &c->tallies[i];
		if (name && strcmp(c->places.list[i].op, name) != 0)
			continue;
		all.calls += x->calls;
		all.judged_grads += x->judged_grads;
		all.wrong += x->wrong;
		all.not_judged += x->not_judged;
	}
	return all;
}

const char *intervene_compare_why(const struct intervene_compare *c, const char *name)
{
	for (size_t i = 0; i < c->rows.n; i++) {
		const struct replay_row *r = &c->rows.list[i];
		if (r->verdict == VERDICT_NOT_JUDGED && !strcmp(c->places.list[r->place].op, name))
			return r->why;
	}
	return "";
}

void intervene_compare_print_verdict(const struct intervene_compare *c)
{
	char a[32], b[40];
	const struct intervene_tally n = intervene_compare_of(c, NULL);
	uint64_t all = n.calls + n.judged_grads, wrong_places = 0;
	for (size_t i = 0; i < c->places.n; i++)
		wrong_places += c->tallies[i].wrong > 0;
	fputs("ditrace: compare: ", stderr);
	if (n.wrong)
		fprintf(stderr, "%s of %s at their lines wrong\n",
			text_count(a, sizeof(a), wrong_places),
			text_counted(b, sizeof(b), c->places.n, "function"));
	else if (!all)
		fputs("nothing was compared\n", stderr);
	else if (n.not_judged)
		fprintf(stderr, "none of %s wrong, and %s not judged\n",
			text_count(a, sizeof(a), all),
			text_counted(b, sizeof(b), n.not_judged, "tensor"));
	else
		fprintf(stderr, "all %s right\n", text_count(a, sizeof(a), all));
}

/* The share of the time from which on comparing fewer calls is suggested. */
#define SLOW 0.5

static void print_share(const struct intervene_compare *c, double budget)
{
	double share = c->spent_ns / c->passed_ns;
	fprintf(stderr, "ditrace: compare: it took %.3g %% of the time", 100 * share);
	if (budget > 0)
		fprintf(stderr, ", of %g %% that it may take", 100 * budget);
	putc('\n', stderr);
	if (budget > 0 && share > budget)
		fputs("  it is more: what a call takes is known when it is done, and the end came "
		      "before calls\n"
		      "  that were left alone had made up for it; longer runs come closer\n",
		      stderr);
	if (!budget && share > SLOW)
		fputs(
		    "  hint: --budget 10% compares as many calls as a tenth of the time is enough "
		    "for, --every 10\n"
		    "  every tenth call of each function\n",
		    stderr);
}

/* Results of which all say that kernels were allowed the same, once each. */
static void print_allowed(const struct rows *rows)
{
	static const char begin[] = "allowed: ";
	char text[32];
	for (size_t i = 0; i < rows->n; i++) {
		const char *note = rows->list[i].note;
		size_t before = 0, same = 0;
		if (strncmp(note, begin, sizeof(begin) - 1))
			continue;
		while (before < i && strcmp(rows->list[before].note, note) != 0)
			before++;
		for (size_t k = before; before == i && k < rows->n; k++)
			same += !strcmp(rows->list[k].note, note);
		if (same)
			fprintf(stderr, "ditrace: compare: %s, of %s\n", note,
				text_counted(text, sizeof(text), same, "result"));
	}
}

void intervene_compare_print(struct intervene_compare *c, double budget)
{
	const struct intervene_tally n = intervene_compare_of(c, NULL);
	char a[32], b[40], d[32];
	if (c->rows.n)
		qsort(c->rows.list, c->rows.n, sizeof(*c->rows.list), row_order);
	print_table(c);
	/* How many calls were compared is said above, of each function. */
	fprintf(stderr, "ditrace: compare: %s backward, %s judged, %s not\n",
		text_count(a, sizeof(a), n.judged_grads),
		text_counted(b, sizeof(b), c->tensors, "tensor"),
		text_count(d, sizeof(d), c->not_judged));
	print_allowed(&c->rows);
	if (c->passed_ns > 0)
		print_share(c, budget);
	if (c->rows.n)
		write_csv(c);
}

void intervene_compare_free(struct intervene_compare *c)
{
	capture_places_free(&c->places);
	free(c->tallies);
	rows_free(&c->rows);
	free(c->numbers);
	*c = (struct intervene_compare){0};
}
