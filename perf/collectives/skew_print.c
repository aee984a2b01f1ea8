#include <errno.h>
#include <inttypes.h>

#include "base/json.h"
#include "base/table.h"
#include "base/text.h"
#include "perf/collectives/internal.h"
#include "perf/events/print_event.h"

static size_t rank_at(const struct skew_group *s, size_t place)
{
	return s->world->ranks[place];
}

static void put_in_group(const struct skew_group *s, FILE *f)
{
	char text[96];
	fputs("in group ", f);
	text_print_safe(f, collective_group_text(text, sizeof(text), s->world->of, 0));
}

/* Which group it is of, unless that is all ranks. */
static void put_group(const struct skew_group *s, FILE *f)
{
	if (s->world->nranks == s->c->nranks)
		return;
	put_in_group(s, f);
	fputs(" ", f);
}

/* A mean over the times before usual calls. */
static uint64_t each(const struct skew_group *s, uint64_t ns)
{
	return s->usual ? ns / s->usual : 0;
}

static void print_unusual(const struct skew_group *s, FILE *f)
{
	char n[48];
	if (s->unusual)
		fprintf(
		    f,
		    "; the times before %s are left out, for which a rank was so late fewer than %d times",
		    text_counted(n, sizeof(n), s->unusual, "collective"), SKEW_CALLS_MIN);
}

/* "aten::mm model.py:40 forward: ...", "no op, up to ...", "data at train.py:12 ...". */
static void row_text(char *out, size_t size, const struct skew_row *r,
		     const struct file_names *files)
{
	char where[WHERE_TEXT_MAX];
	snprintf(out, size, "%s%s %s", r->kind == SKEW_GAP ? "no op, up to " : "",
		 r->kind == SKEW_DATA ? "data at" : op_text(r->op->name),
		 where_text(where, sizeof(where), r->where, NULL, PHASE_FORWARD, files));
}

static void print_why(const char *why, FILE *f)
{
	fputs("ranks are not compared: ", f);
	text_print_safe(f, why);
	putc('\n', f);
}

static void print_why_not(const struct collectives *c, FILE *f)
{
	if (c->why[0])
		print_why(c->why, f);
	else if (!c->ngroups)
		fprintf(
		    f, "no collectives were recorded%s\n",
		    c->blind
			? "; only the engine shim sees those of PyTorch: ditrace run --engine shim"
			: "");
	else
		fputs(
		    "ranks are not compared: there are no two calls for which all ranks of a group wait\n",
		    f);
}

/* In which line it is meanwhile. */
static void print_meanwhile(const struct skew_group *s, const struct skew_verdict *v, FILE *f,
			    const struct file_names *files)
{
	char more[32], text[WHERE_TEXT_MAX];
	if (!v->explains)
		fputs("no line by itself explains half of that", f);
	if (!v->row) {
		putc('\n', f);
		return;
	}
	row_text(text, sizeof(text), v->row, files);
	fputs(!v->explains		  ? "; most of it is in "
	      : v->row->kind == SKEW_DATA ? "meanwhile it waits for "
					  : "meanwhile it is in ",
	      f);
	text_print_safe(f, text);
	fprintf(f, ", each time for %s more than ", text_ns(more, sizeof(more), v->more_ns));
	if (s->world->nranks == 2)
		fprintf(f, "rank %zu\n", rank_at(s, v->rank == 0));
	else
		fputs("any other\n", f);
}

static void print_no_processor(const struct skew_group *s, const struct skew_verdict *v, FILE *f)
{
	fprintf(f,
		"its main thread waits for a processor %.0f %% of the time, %.0f %% more than %s: ",
		v->delayed * 100, v->more_delayed * 100,
		s->world->nranks == 2 ? "the other's" : "the others' in the mean");
	switch (v->cause) {
	case SKEW_OTHERS:
		fputs("other threads run there\n", f);
		return;
	case SKEW_UNKNOWN:
		fputs("other threads run there, or its control group has used up its CPU quota\n",
		      f);
		return;
	case SKEW_QUOTA:
	case SKEW_BOTH:
		fprintf(
		    f,
		    "its control group has used up its CPU quota %s%.0f %% of the time, all processors together%s\n",
		    skew_used(&s->ranks[v->rank])->throttled_is_least ? "at least " : "",
		    v->throttled * 100,
		    v->cause == SKEW_BOTH ? ", and other threads run there" : "");
		return;
	}
}

static void print_named(const struct skew_group *s, const struct skew_verdict *v, FILE *f,
			const struct file_names *files)
{
	char ns[32], n[32], waited[32], all[32];
	put_group(s, f);
	fprintf(
	    f,
	    "rank %zu comes last in %s of the %s collectives that were waited for (of %s), by %s in the median: the others wait for it %.0f %% of the time\n",
	    rank_at(s, v->rank), text_count(n, sizeof(n), s->ranks[v->rank].waited),
	    text_count(waited, sizeof(waited), s->waited), text_count(all, sizeof(all), s->n),
	    text_ns(ns, sizeof(ns), v->median_ns), v->percent);
	if (v->has_no_processor)
		print_no_processor(s, v, f);
	print_meanwhile(s, v, f, files);
}

static void print_not_named(const struct skew_group *s, const struct skew_verdict *v, FILE *f)
{
	char n[32], waited[32], all[32];
	put_group(s, f);
	fprintf(
	    f,
	    "no rank holds the others up: longest, %.1f %% of the time, they wait for rank %zu, last in %s of the %s collectives that were waited for (of %s)\n",
	    v->percent, rank_at(s, v->rank), text_count(n, sizeof(n), s->ranks[v->rank].waited),
	    text_count(waited, sizeof(waited), s->waited), text_count(all, sizeof(all), s->n));
	if (v->is_late) {
		fputs(
		    "its operators and its own code take no longer than the others': it only resumes later after the previous collective\n",
		    f);
		return;
	}
	fprintf(
	    f,
	    "a rank is named if it comes last in more than half of at least %d such collectives, by number or weighed by length, more often than by chance (%d standard deviations), and is waited for %d %% of the time, or %d %% if no line explains it\n",
	    SKEW_CALLS_MIN, SKEW_DEVIATIONS, SKEW_PERCENT_MIN, SKEW_PERCENT_SPREAD);
}

static void add_rank(struct table *t, const struct skew_group *s, size_t rank,
		     const struct file_names *files)
{
	const struct skew_rank *r = &s->ranks[rank];
	const struct skew_row *most = skew_most(s, rank);
	char text[WHERE_TEXT_MAX];
	snprintf(text, sizeof(text), "%zu", rank_at(s, rank));
	table_cell(t, text);
	table_cell(t, text_count(text, sizeof(text), r->last));
	table_cell(t, text_ns(text, sizeof(text), histogram_quantile(&r->late_ns, 0.5)));
	table_cell(t, text_ns(text, sizeof(text), each(s, r->ops_ns)));
	table_cell(t, text_ns(text, sizeof(text), each(s, r->gaps_ns)));
	table_cell(t, text_ns(text, sizeof(text), r->waits_ns / s->n));
	table_cell(t, most ? text_ns(text, sizeof(text), each(s, skew_more(most, rank))) : "");
	if (most)
		row_text(text, sizeof(text), most, files);
	table_cell(t, most ? text : "");
}

static int print_table(const struct skew_group *s, FILE *f, const struct terminal *terminal,
		       const struct file_names *files)
{
	struct table *t = table_new();
	if (!t)
		return -ENOMEM;
	table_columns(t, ">Rank|>Last|>Late|>In ops|>In no op|>Waits|>More|Than the others in");
	for (size_t i = 0; i < s->world->nranks; i++)
		add_rank(t, s, i, files);
	int r = table_print(t, f, terminal->width, false);
	table_free(t);
	return r;
}

/* The other groups that name a rank. */
static void print_others(const struct skew *all, const struct skew_group *first, FILE *f)
{
	enum { MOST = 4 };
	char ns[32];
	size_t more = 0;
	for (size_t i = 0; i < all->ngroups; i++) {
		const struct skew_group *g = all->groups[i], *held;
		const struct skew_verdict *v = skew_verdict(all->groups[i]);
		if (g == first || !v->is_named || more++ >= MOST)
			continue;
		put_in_group(g, f);
		fprintf(f, " rank %zu, by %s in the median: %.0f %% of the time",
			rank_at(g, v->rank), text_ns(ns, sizeof(ns), v->median_ns), v->percent);
		if ((held = skew_held_in(all, g, rank_at(g, v->rank)))) {
			fputs("; it waits itself ", f);
			put_in_group(held, f);
		}
		fputs("\n", f);
	}
	if (more > MOST)
		fprintf(f, "and a rank in %zu more groups\n", more - MOST);
}

static int print_group(const struct skew *all, struct skew_group *s, FILE *f,
		       const struct terminal *t)
{
	struct file_names files = {0};
	const struct skew_verdict *v = skew_verdict(s);
	for (size_t i = 0; i < s->nrows; i++)
		if (file_names_add(&files, s->rows[i].where ? s->rows[i].where->file : NULL)) {
			file_names_free(&files);
			return -ENOMEM;
		}
	if (v->is_named)
		print_named(s, v, f, &files);
	else
		print_not_named(s, v, f);
	print_others(all, s, f);
	if (s->c->differ[0])
		fprintf(f, "%s\n", s->c->differ);
	collectives_print_compared(s->c, f);
	fputs(
	    "times are of one collective, in the mean, but Late, after the first rank, is a median; In no op is without the waits for others",
	    f);
	print_unusual(s, f);
	fputs("\n\n", f);
	int r = print_table(s, f, t, &files);
	file_names_free(&files);
	return r;
}

int skew_print(const struct skew *s, FILE *f, const struct terminal *t)
{
	struct skew_group *first = skew_first(s);
	if (first && first->n > 1)
		return print_group(s, first, f, t);
	print_why_not(s->c, f);
	return ferror(f) ? -EIO : 0;
}

static void json_more(struct json_out *j, const struct skew_group *s, size_t rank)
{
	const struct skew_row *r = skew_most(s, rank);
	if (!r) {
		json_nothing(j, "most");
		return;
	}
	json_open(j, "most", '{');
	json_u64(j, "more_ns", each(s, skew_more(r, rank)));
	json_text(j, "op", r->kind == SKEW_DATA ? NULL : r->op->name);
	json_bool(j, "in_no_op_before", r->kind == SKEW_GAP);
	json_bool(j, "for_data", r->kind == SKEW_DATA);
	json_text(j, "file", r->where ? r->where->file : NULL);
	json_i64(j, "line", r->where ? r->where->line : 0);
	json_close(j, '}');
}

static void json_usage(struct json_out *j, const struct skew_rank *r)
{
	const struct trace_usage *u = skew_used(r);
	json_number(j, "no_processor_ns", u->ns, (int64_t)u->wait_ns);
	json_number(j, "throttled_ns",
		    u->ns && !r->used.is_throttled_unknown && !u->throttled_is_least,
		    (int64_t)u->throttled_ns);
	json_number(j, "minor_faults", u->ns, (int64_t)u->minor_faults);
	json_number(j, "major_faults", u->ns, (int64_t)u->major_faults);
	json_number(j, "used_of_ns", u->ns, (int64_t)u->ns);
}

static void json_ranks(struct json_out *j, const struct skew_group *s)
{
	json_open(j, "ranks", '[');
	for (size_t i = 0; s && i < s->world->nranks; i++) {
		const struct skew_rank *r = &s->ranks[i];
		json_line(j);
		json_open(j, NULL, '{');
		json_u64(j, "rank", rank_at(s, i));
		json_u64(j, "last", r->last);
		json_u64(j, "waited_for", r->waited);
		json_u64(j, "late_p50_ns", histogram_quantile(&r->late_ns, 0.5));
		json_u64(j, "ops_ns", each(s, r->ops_ns));
		json_u64(j, "in_no_op_ns", each(s, r->gaps_ns));
		json_u64(j, "waits_ns", r->waits_ns / s->n);
		json_usage(j, r);
		json_more(j, s, i);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void json_group(struct json_out *j, struct skew_group *s)
{
	const struct skew_verdict *v = s ? skew_verdict(s) : NULL;
	const bool named = v && v->is_named;
	collective_json_group(j, s ? s->world->of : NULL);
	json_u64(j, "collectives", s ? s->n : 0);
	json_u64(j, "waited_for", s ? s->waited : 0);
	json_number(j, "named", named, named ? (int64_t)rank_at(s, v->rank) : 0);
}

int skew_print_json(const struct skew *s, FILE *f)
{
	struct json_out j = {.f = f};
	struct skew_group *first = skew_first(s);
	first = first && first->n > 1 ? first : NULL;
	json_open(&j, NULL, '{');
	json_text(&j, "not_compared", s->c->why[0] ? s->c->why : NULL);
	json_text(&j, "differs", s->c->differ[0] ? s->c->differ : NULL);
	trace_clocks_json(&j, s->c->clocks, s->c->nclocks);
	json_group(&j, first);
	json_ranks(&j, first);
	json_open(&j, "groups", '[');
	for (size_t i = 0; first && i < s->ngroups; i++) {
		json_line(&j);
		json_open(&j, NULL, '{');
		json_group(&j, s->groups[i]);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
	putc('\n', f);
	return ferror(f) ? -EIO : 0;
}
