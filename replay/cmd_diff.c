#include "base/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "base/table.h"
#include "base/text.h"
#include "replay/internal.h"
#include "replay/numbers/numbers.h"

enum { FORMAT_TABLE, FORMAT_JSON, FORMAT_CSV };
enum { EXIT_NOT_READ = 2 };

struct diff {
	int format, verdict;
	struct caution caution;
	uint64_t jobs;
	const char *python, *ops, *not_ops, *condition;
	struct when *when;
	struct capture_places a, b;
	struct diff_match match;
	struct python_choice chosen;
	struct pool pool;
	struct replay_report report; /* of the calls of the first run */
	struct row_rules rules;
	struct when_counts left_out; /* of both runs together */
	bool of_ranks;		     /* A and B are two ranks, not two runs */
};

static const char *sides(const struct diff *d)
{
	return d->of_ranks ? "ranks" : "runs";
}

static json_t *request(void *ctx, size_t i)
{
	struct diff *d = ctx;
	const struct diff_pair *p = &d->match.pairs[i];
	const struct capture_of_collective *c = d->a.list[p->a].collective;
	return request_with(json_pack("{s:s, s:s, s:s, s:s}", "cmd", "pair", "dir",
				      d->a.list[p->a].dir, "other", d->b.list[p->b].dir, "of_ranks",
				      d->of_ranks && c ? c->kind : ""),
			    &d->caution);
}

static int message(void *ctx, size_t i, struct worker *w, json_t *m, struct err *e)
{
	struct diff *d = ctx;
	const char *event = json_string_value(json_object_get(m, "event"));
	size_t place = d->match.pairs[i].a;
	if (!event || !strcmp(event, "done"))
		return 0;
	struct replay_row *row = rows_add(&d->report.rows);
	if (!row)
		return err_set(e, -ENOMEM, "no memory for the results");
	row->place = place;
	return row_fill(row, d->a.list[place].op, m, w, &d->rules, e);
}

static void ended(void *ctx, size_t i, const char *how, const char *why)
{
	struct diff *d = ctx;
	struct outcome *o = &d->report.outcomes[d->match.pairs[i].a];
	d->report.done++;
	if (!strcmp(how, "done"))
		return;
	o->kind = strcmp(how, "skipped") ? OUTCOME_NOT_RUN : OUTCOME_SKIPPED;
	o->why = strdup(why);
}

static bool is_part(const struct replay_row *r, bool beyond)
{
	return beyond ? r->verdict == VERDICT_WRONG : !r->equal && r->verdict != VERDICT_NOT_JUDGED;
}

static bool is_backward(const struct replay_row *r)
{
	return !strncmp(r->role, "grad", 4);
}

/* In order of computation: the forward of all calls, then the backward from the last call to the
 * first. */
static int by_time(const void *a, const void *b)
{
	const struct replay_row *x = a, *y = b;
	if (is_backward(x) != is_backward(y))
		return is_backward(x) ? 1 : -1;
	if (x->place != y->place)
		return (x->place < y->place) != is_backward(x) ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

/* Whether they are calls of one collective, of different ranks perhaps. */
static bool is_same_collective(const struct capture_place *x, const struct capture_place *y)
{
	return capture_is_numbered(x) && capture_is_numbered(y) &&
	       !capture_compare_collectives(x, y);
}

/* What a rank got may differ because of what another one gave, whose call began later. */
static const struct replay_row *given_before(const struct diff *d, const struct replay_row *of,
					     bool beyond)
{
	const struct capture_place *p = &d->a.list[of->place];
	for (size_t i = 0; i < d->report.rows.n; i++) {
		const struct replay_row *r = &d->report.rows.list[i];
		if (!strcmp(r->role, "input") && is_part(r, beyond) &&
		    is_same_collective(&d->a.list[r->place], p))
			return r;
	}
	return of;
}

static const struct replay_row *first_part(const struct diff *d, bool beyond)
{
	for (size_t i = 0; i < d->report.rows.n; i++)
		if (is_part(&d->report.rows.list[i], beyond))
			return given_before(d, &d->report.rows.list[i], beyond);
	return NULL;
}

/* Whether an input of the row's call differs, or a grad_output for a row of the backward. */
static bool inputs_differ(const struct diff *d, const struct replay_row *of)
{
	const char *role = is_backward(of) ? "grad_output" : "input";
	for (size_t i = 0; i < d->report.rows.n; i++) {
		const struct replay_row *r = &d->report.rows.list[i];
		if (r->place == of->place && !strcmp(r->role, role) && is_part(r, false))
			return true;
	}
	return false;
}

static size_t partner(const struct diff *d, size_t place)
{
	for (size_t i = 0; i < d->match.n; i++)
		if (d->match.pairs[i].a == place)
			return d->match.pairs[i].b;
	return 0;
}

static void print_first(const struct diff *d, const struct replay_row *r, const char *what)
{
	const struct capture_place *p = &d->a.list[r->place];
	char name[1024];
	printf("%s: ", what);
	text_print_safe(stdout, capture_place_name(name, sizeof(name), p));
	if (p->file) {
		fputs("  ", stdout);
		text_print_safe(stdout, p->file);
		printf(":%" PRId64, p->line);
	}
	printf("  call %" PRId64 " against %" PRId64 ", %s%s%s%s", p->id,
	       d->b.list[partner(d, r->place)].id, r->role, r->index[0] ? "[" : "", r->index,
	       r->index[0] ? "]" : "");
	if (r->has_figures)
		printf(": max_abs_diff %.3g, %.3g ULP", r->max_abs, r->ulp);
	fputs(inputs_differ(d, r) ? "; what it takes differs already\n"
				  : "; what it takes is equal\n",
	      stdout);
	if (r->why[0]) {
		fputs("  ", stdout);
		text_print_safe(stdout, r->why);
		putchar('\n');
	}
}

static void print_people(struct diff *d)
{
	const struct replay_row *any = first_part(d, false), *beyond = first_part(d, true);
	struct replay_counts c;
	char n[32];
	replay_count(&d->report, &c);
	if (beyond)
		print_first(d, beyond,
			    d->of_ranks ? "first op where the two ranks part"
					: "first op where the two runs part");
	else
		printf("the two %s %s\n", sides(d),
		       any ? "differ by rounding only" : "are equal, bit by bit");
	if (any && any != beyond)
		print_first(d, any, "first difference of any size");
	printf("%s op calls in both", text_count(n, sizeof(n), d->match.n));
	printf(", %s only in the first", text_count(n, sizeof(n), d->match.only_a));
	printf(", %s only in the second", text_count(n, sizeof(n), d->match.only_b));
	printf("; %s tensors agree", text_count(n, sizeof(n), c.right));
	printf(", %s differ beyond rounding in ", text_count(n, sizeof(n), c.wrong));
	printf("%s calls", text_count(n, sizeof(n), c.wrong_calls));
	if (c.skipped)
		printf("; %s calls not compared, of which each rank gets something else",
		       text_count(n, sizeof(n), c.skipped));
	putchar('\n');
}

static void print_unread(FILE *f, const struct diff *d)
{
	for (size_t i = 0; i < d->a.n; i++) {
		if (d->report.outcomes[i].kind != OUTCOME_NOT_RUN)
			continue;
		fputs("not compared: ", f);
		text_print_safe(f, d->a.list[i].dir);
		fputs("\n  ", f);
		text_print_safe(f, d->report.outcomes[i].why);
		putc('\n', f);
	}
}

/* The rows that differ, in order of computation. */
static int print_rows(struct diff *d, const struct terminal *t, struct err *e)
{
	struct replay_report part = d->report;
	struct rows all = d->report.rows;
	part.rows = (struct rows){0};
	int r = 0;
	for (size_t i = 0; i < all.n && !r; i++) {
		if (!is_part(&all.list[i], false))
			continue;
		struct replay_row *row = rows_add(&part.rows);
		if (row)
			*row = all.list[i];
		else
			r = -ENOMEM;
	}
	r = r ? r : replay_print_rows(stdout, &part, t->width, t->color);
	rows_free(&part.rows);
	return r ? err_set(e, r, "cannot write the results: %s", strerror(-r)) : 0;
}

static int print(struct diff *d, struct err *e)
{
	int r = 0;
	signal(SIGPIPE, SIG_DFL);
	qsort(d->report.rows.list, d->report.rows.n, sizeof(*d->report.rows.list), by_time);
	if (d->format == FORMAT_JSON)
		r = replay_print_json(stdout, &d->report);
	else if (d->format == FORMAT_CSV)
		r = replay_print_csv(stdout, &d->report);
	if (r)
		return err_set(e, r, "cannot write the results: %s", strerror(-r));
	const struct terminal t = terminal_of(stdout);
	if (d->format == FORMAT_TABLE)
		pager_start();
	print_unread(d->format == FORMAT_TABLE ? stdout : stderr, d);
	if (d->format == FORMAT_TABLE) {
		print_people(d);
		r = print_rows(d, &t, e);
	}
	if (!r && fflush(stdout))
		r = err_set(e, -errno, "cannot write the results: %s", strerror(errno));
	pager_wait();
	return r;
}

static int load(struct diff *d, char **dirs, struct err *e)
{
	int r = capture_find(dirs[0], &d->a, e);
	r = r ? r : capture_find(dirs[1], &d->b, e);
	r = r ? r : capture_choose(&d->a, d->ops, d->not_ops, e);
	r = r ? r : capture_choose(&d->b, d->ops, d->not_ops, e);
	if (r)
		return r;
	d->report.places = &d->a;
	d->report.outcomes = calloc(d->a.n + 1, sizeof(*d->report.outcomes));
	if (!d->report.outcomes || diff_match(&d->a, &d->b, &d->match))
		return err_set(e, -ENOMEM, "no memory for %zu captures", d->a.n + d->b.n);
	d->of_ranks = diff_is_of_ranks(&d->a, &d->b);
	if (d->a.list[d->a.n - 1].rank >= 0 && diff_order_by_time(&d->a, &d->match))
		return err_set(e, -ENOMEM, "no memory for %zu captures", d->a.n);
	if (d->match.n)
		return 0;
	err_set(e, -ENOENT, "no op call of %s is also in %s", dirs[0], dirs[1]);
	return err_hint(e, "calls match if they have the same op and source line, and the same "
			   "number among the calls there");
}

/* Keep the pairs for which the condition holds in either run, and count such calls without a
 * partner. */
static int choose_pairs(struct diff *d, const bool *a, const bool *b, struct err *e)
{
	struct diff_match *m = &d->match;
	size_t kept = 0, all = m->n;
	m->only_a = m->only_b = 0;
	for (size_t i = 0; i < d->a.n; i++)
		m->only_a += a[i];
	for (size_t i = 0; i < d->b.n; i++)
		m->only_b += b[i];
	for (size_t i = 0; i < all; i++) {
		m->only_a -= a[m->pairs[i].a];
		m->only_b -= b[m->pairs[i].b];
		if (a[m->pairs[i].a] || b[m->pairs[i].b])
			m->pairs[kept++] = m->pairs[i];
	}
	m->n = kept;
	return kept ? 0 : capture_when_none(all, &d->left_out, e);
}

static int choose_by_condition(struct diff *d, struct err *e)
{
	bool *a = calloc(d->a.n + 1, sizeof(*a)), *b = calloc(d->b.n + 1, sizeof(*b));
	int r = a && b ? 0 : err_set(e, -ENOMEM, "no memory for %zu captures", d->a.n + d->b.n);
	r = r ? r : capture_when(&d->a, d->when, &d->pool, &d->caution, a, &d->left_out, e);
	r = r ? r : capture_when(&d->b, d->when, &d->pool, &d->caution, b, &d->left_out, e);
	r = r ? r : choose_pairs(d, a, b, e);
	free(a);
	free(b);
	return r;
}

static int start_python(struct diff *d, char **dirs, struct err *e)
{
	char *const *before = NULL;
	int r = choose_python(d->python, &d->a, &d->chosen, e);
	r = r ? r : caution_before(&d->caution, d->chosen.path, dirs, 2, &before, e);
	if (r)
		return r;
	python_choice_say(&d->chosen, stderr);
	d->pool = (struct pool){.python = d->chosen.path,
				.before = before,
				.jobs = (unsigned)d->jobs,
				.ctx = d,
				.request = request,
				.message = message,
				.ended = ended};
	return pool_open(&d->pool, e);
}

static int diff_run(struct diff *d, char **dirs, struct err *e)
{
	int r = d->condition ? capture_when_compile(d->condition, &d->when, e) : 0;
	r = r ? r : load(d, dirs, e);
	r = r ? r : start_python(d, dirs, e);
	r = r || !d->when ? r : choose_by_condition(d, e);
	d->pool.count = d->match.n;
	r = r ? r : pool_run(&d->pool, e);
	pool_close(&d->pool);
	return r ? r : print(d, e);
}

static int diff(struct diff *d, char **dirs)
{
	struct err e = {0};
	struct replay_counts c = {0};
	signal(SIGPIPE, SIG_IGN);
	d->rules.by_allclose = d->verdict == 1 || tolerance_in_env();
	int r = diff_run(d, dirs, &e);
	if (r)
		err_print(&e);
	else
		replay_count(&d->report, &c);
	/* A rank may be in groups that another one is not in. */
	bool differs = c.wrong || (!d->of_ranks && (d->match.only_a || d->match.only_b));
	int status = r		 ? EXIT_NOT_READ
		     : differs	 ? EXIT_FAILED
		     : c.not_run ? EXIT_NOT_READ
				 : EXIT_GOOD;
	replay_report_free(&d->report);
	diff_match_free(&d->match);
	capture_places_free(&d->a);
	capture_places_free(&d->b);
	when_free(d->when);
	sandbox_free(&d->caution.sandbox);
	return status;
}

int cmd_diff(int argc, char **argv)
{
	static const char *const formats[] = {"table", "json", "csv", NULL};
	static const char *const verdicts[] = {"sharp", "allclose", NULL};
	struct diff d = {.jobs = 1, .caution.max_bytes = CAUTION_BYTES};
	const struct option_def options[] = {
	    {0, "ops", OPTION_LIST, &d.ops, "LIST", "only these ops, as for ditrace run", NULL},
	    {0, "not-ops", OPTION_LIST, &d.not_ops, "LIST", "all but these", NULL},
	    {0, "when", OPTION_ONCE, &d.condition, "EXPR",
	     "only calls for which this holds in one of the runs, see ditrace(1)", NULL},
	    {0, "verdict", OPTION_CHOICE, &d.verdict, "RULE",
	     "sharp (default) or allclose, ditorch's tolerances", verdicts},
	    {0, "python", OPTION_STRING, &d.python, "PATH",
	     "the interpreter (default: that of the captures, else the first on the PATH that has "
	     "torch)",
	     NULL},
	    {'j', "jobs", OPTION_COUNT, &d.jobs, "N", "number of Python processes (default 1)",
	     NULL},
	    {0, "format", OPTION_CHOICE, &d.format, "FORMAT", "table (default), json or csv",
	     formats},
	    COLOR_OPTION,
	    PAGER_OPTION,
	    {0, "detail", OPTION_FLAG, &d.report.detail, NULL,
	     "json and csv: also the figures of the verdict, and the capture's folder", NULL},
	    {0, "trust", OPTION_FLAG, &d.caution.trust, NULL,
	     "load files that hold more than numbers: they can run any code", NULL},
	    {0, "sandbox", OPTION_FLAG, &d.caution.sandboxed, NULL,
	     "run Python in a sandbox (bwrap): for captures of strangers", NULL},
	    {0, "max-bytes", OPTION_SIZE, &d.caution.max_bytes, "N",
	     "the memory that a file may ask for, if it is more than its size (default 1G)", NULL},
	    {0},
	};
	const struct command command = {
	    .name = "diff",
	    .operands = "A B",
	    .about =
		"Compare the numbers of two captured runs: where do they diverge first? A and B "
		"are captures, or contain captures.",
	    .options = options,
	    .notes =
		"Nothing is run. Exit status: 1 when the runs differ beyond rounding or have "
		"other calls, 2 when something could not be read.\n"
		"Two traces are compared with other options: ditrace diff --help A.data B.data",
	    .min_operands = 2,
	    .max_operands = 2,
	};
	int status, first = options_start(&command, argc, argv, &status);
	return first ? diff(&d, argv + first) : status;
}
