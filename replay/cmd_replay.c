#include "base/commands.h"

#include <errno.h>
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
#include "replay/replay.h"
#include "symbolizer/event/names.h"

enum { FORMAT_TABLE, FORMAT_JSON, FORMAT_CSV };
enum { OF_AUTO, OF_CAPTURED, OF_RERUN };
enum { EXIT_NOT_RUN = 2, RUNS_SHOWN = 200 };

struct replay {
	bool acc_check, only_forward, measure;
	struct caution caution;
	uint64_t run_times, jobs;
	int of, format, verdict;
	const char *device, *dtype, *python, *ops, *not_ops, *condition;
	struct when *when;
	struct capture_places places;
	struct replay_jobs jobs_of; /* what is run or judged together */
	struct python_choice chosen;
	struct pool pool;
	struct replay_report report;
	struct times_list times;
	struct row_rules rules;
	struct when_counts left_out;
	bool shows_progress;
};

static const char *const of_names[] = {"auto", "captured", "rerun", NULL};

static json_t *text_or_null(const char *s)
{
	return s ? json_string(s) : json_null();
}

/* The first call of a job. */
static size_t place_of(const struct replay *r, size_t job)
{
	return r->jobs_of.order[r->jobs_of.list[job].first];
}

/* The one that a message is about; SIZE_MAX: it is of no call. */
static size_t place_told(const struct replay *r, size_t job, json_t *m)
{
	const struct replay_job *j = &r->jobs_of.list[job];
	json_int_t member = json_integer_value(json_object_get(m, "member"));
	return member < 0 || (size_t)member >= j->n ? SIZE_MAX
						    : r->jobs_of.order[j->first + (size_t)member];
}

static json_t *request(void *ctx, size_t job)
{
	struct replay *r = ctx;
	const size_t i = place_of(r, job);
	if (r->places.list[i].collective)
		return request_with(replay_collective_request(&r->places, &r->jobs_of, job),
				    &r->caution);
	json_t *q = json_pack("{s:s, s:s, s:b, s:b, s:I, s:o, s:o, s:o}", "cmd", "replay", "dir",
			      r->places.list[i].dir, "acc", r->acc_check, "forward_only",
			      r->only_forward, "times", (json_int_t)(r->measure ? r->run_times : 0),
			      "of", text_or_null(r->of == OF_AUTO ? NULL : of_names[r->of]),
			      "device", text_or_null(r->device), "dtype", text_or_null(r->dtype));
	return request_with(q, &r->caution);
}

/* The name in the pickled inputs is more precise than that of the folder. */
static int take_name(struct capture_place *p, json_t *m)
{
	const char *name = json_string_value(json_object_get(m, "name"));
	char *copy = name ? strdup(name) : NULL;
	if (!copy)
		return name ? -ENOMEM : 0;
	free(p->op);
	p->op = copy;
	return 0;
}

static int message(void *ctx, size_t job, struct worker *w, json_t *m, struct err *e)
{
	struct replay *r = ctx;
	const char *event = json_string_value(json_object_get(m, "event"));
	const size_t i = place_told(r, job, m);
	if (i == SIZE_MAX)
		return err_set(e, -EPROTO, "the runner sent a result of no call");
	if (!event || !strcmp(event, "done"))
		return 0;
	if (!strcmp(event, "op"))
		return take_name(&r->places.list[i], m);
	if (!strcmp(event, "times"))
		return times_add(&r->times, i, m);
	struct replay_row *row = rows_add(&r->report.rows);
	if (!row)
		return err_set(e, -ENOMEM, "no memory for the results");
	row->place = i;
	return row_fill(row, r->places.list[i].op, m, w, &r->rules, e);
}

static void progress(const struct replay *r)
{
	char done[32], all[32];
	if (r->shows_progress)
		fprintf(stderr, "\r%s of %s op calls",
			text_count(done, sizeof(done), r->report.done),
			text_count(all, sizeof(all), r->places.n));
}

static void ended(void *ctx, size_t job, const char *how, const char *why)
{
	struct replay *r = ctx;
	const struct replay_job *j = &r->jobs_of.list[job];
	r->report.done += j->n;
	progress(r);
	for (size_t k = 0; k < j->n && strcmp(how, "done") != 0; k++) {
		struct outcome *o = &r->report.outcomes[r->jobs_of.order[j->first + k]];
		o->kind = strcmp(how, "skipped") ? OUTCOME_NOT_RUN : OUTCOME_SKIPPED;
		o->why = strdup(why);
	}
}

static int print_times(struct replay *r, FILE *f, struct err *e)
{
	char path[256];
	int rc = 0;
	size_t runs = 0;
	for (size_t i = 0; i < r->times.n; i++)
		runs += r->times.list[i].nforward;
	const struct terminal t = terminal_of(f);
	if (runs && runs <= RUNS_SHOWN)
		rc = times_print_runs(f, &r->times, &r->places);
	if (runs && !rc)
		rc = times_print_summary(f, &r->times, &r->places, t.width, t.color);
	if (rc)
		return err_set(e, rc, "cannot write the times: %s", strerror(-rc));
	if (!runs)
		return 0;
	rc = times_write_csv(&r->times, &r->places, path, sizeof(path), e);
	if (!rc)
		fprintf(f, "op elasped info saved to %s\n", path);
	return rc;
}

static int print(struct replay *r, struct err *e)
{
	FILE *people = r->format == FORMAT_TABLE ? stdout : stderr;
	char text[160];
	int rc = 0;
	signal(SIGPIPE, SIG_DFL);
	if (r->shows_progress)
		fputs("\r\033[K", stderr);
	const struct terminal t = terminal_of(stdout);
	if (r->acc_check && r->format == FORMAT_TABLE)
		rc = replay_print_table(stdout, &r->report, t.width, t.color);
	else if (r->format == FORMAT_JSON)
		rc = replay_print_json(stdout, &r->report);
	else if (r->format == FORMAT_CSV)
		rc = replay_print_csv(stdout, &r->report);
	if (rc)
		return err_set(e, rc, "cannot write the results: %s", strerror(-rc));
	rc = r->measure ? print_times(r, people, e) : 0;
	replay_print_summary(people, &r->report);
	if (r->when)
		fprintf(people, "%s\n", when_counts_text(text, sizeof(text), &r->left_out));
	if (!rc && fflush(stdout))
		rc = err_set(e, -errno, "cannot write the results: %s", strerror(errno));
	return rc;
}

static int status_of(const struct replay *r)
{
	struct replay_counts c;
	replay_count(&r->report, &c);
	return c.wrong ? EXIT_FAILED : c.not_run ? EXIT_NOT_RUN : EXIT_GOOD;
}

/* --dtype and --device need a new run. */
static int check_options(struct replay *r, struct err *e)
{
	bool captured = r->of == OF_CAPTURED;
	if (r->dtype && number_of(names_dtype_code(r->dtype))->kind != NUMBER_FLOAT) {
		err_set(e, -EINVAL, "--dtype: \"%s\" is no floating-point dtype", r->dtype);
		return err_hint(e, "such as float16, bfloat16, float32 or float64");
	}
	if (captured && (r->dtype || r->device)) {
		err_set(e, -EINVAL, "--of captured and --%s exclude each other",
			r->dtype ? "dtype" : "device");
		return err_hint(e, "without --of captured the op is run again");
	}
	if (r->dtype && r->of == OF_AUTO)
		r->of = OF_RERUN;
	return 0;
}

static int find_all(struct replay *r, char **dirs, int n, struct err *e)
{
	int rc = check_options(r, e);
	if (!rc && r->condition)
		rc = capture_when_compile(r->condition, &r->when, e);
	for (int i = 0; i < n && !rc; i++)
		rc = capture_find(dirs[i], &r->places, e);
	return rc ? rc : capture_choose(&r->places, r->ops, r->not_ops, e);
}

static int start_python(struct replay *r, char **dirs, size_t n, struct err *e)
{
	char *const *before = NULL;
	int rc = choose_python(r->python, &r->places, &r->chosen, e);
	rc = rc ? rc : caution_before(&r->caution, r->chosen.path, dirs, n, &before, e);
	if (rc)
		return rc;
	python_choice_say(&r->chosen, stderr);
	r->pool = (struct pool){.python = r->chosen.path,
				.before = before,
				.jobs = (unsigned)r->jobs,
				.ctx = r,
				.request = request,
				.message = message,
				.ended = ended};
	return pool_open(&r->pool, e);
}

static int choose_by_condition(struct replay *r, struct err *e)
{
	size_t all = r->places.n;
	bool *keep = calloc(all + 1, sizeof(*keep));
	int rc = keep ? 0 : err_set(e, -ENOMEM, "no memory for %zu captures", all);
	rc = rc ? rc
		: capture_when(&r->places, r->when, &r->pool, &r->caution, keep, &r->left_out, e);
	if (!rc)
		capture_places_choose(&r->places, keep);
	free(keep);
	return rc || r->places.n ? rc : capture_when_none(all, &r->left_out, e);
}

static void describe_run(struct replay *r)
{
	r->report.places = &r->places;
	r->report.torch = r->pool.torch;
	r->report.python = r->pool.version;
	r->report.interpreter = r->chosen.path;
	bool all = true;
	for (size_t i = 0; i < r->places.n; i++)
		all &= r->places.list[i].collective != NULL;
	r->report.judged = !r->acc_check		 ? NULL
			   : r->of == OF_CAPTURED || all ? "the results in the captures"
			   : r->of == OF_RERUN		 ? "results of a new run"
					       : "results of a new run where the device is here, "
						 "else the captured ones";
}

static int run_all(struct replay *r, struct err *e)
{
	if (replay_jobs_make(&r->places, &r->jobs_of))
		return err_set(e, -ENOMEM, "no memory for %zu captures", r->places.n);
	r->pool.count = r->jobs_of.n;
	r->report.outcomes = calloc(r->places.n + 1, sizeof(*r->report.outcomes));
	if (!r->report.outcomes)
		return err_set(e, -ENOMEM, "no memory for %zu captures", r->places.n);
	return pool_run(&r->pool, e);
}

static int replay_run(struct replay *r, char **dirs, int n, struct err *e)
{
	int rc = find_all(r, dirs, n, e);
	rc = rc ? rc : start_python(r, dirs, (size_t)n, e);
	rc = rc || !r->when ? rc : choose_by_condition(r, e);
	describe_run(r);
	rc = rc ? rc : run_all(r, e);
	pool_close(&r->pool);
	return rc ? rc : print(r, e);
}

/* Accept ditorch's spelling with underscores: --run_times. */
static void take_underscores(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strncmp(argv[i], "--", 2))
			for (char *s = argv[i]; *s && *s != '='; s++)
				*s = *s == '_' ? '-' : *s;
}

static int replay(struct replay *r, char **dirs, int n)
{
	struct err e = {0};
	signal(SIGPIPE, SIG_IGN);
	r->acc_check = r->acc_check || !r->measure;
	r->rules.by_allclose = r->verdict == 1 || tolerance_in_env();
	r->shows_progress = isatty(STDERR_FILENO);
	int rc = replay_run(r, dirs, n, &e);
	int status = rc ? EXIT_NOT_RUN : status_of(r);
	if (rc)
		err_print(&e);
	replay_report_free(&r->report);
	times_free(&r->times);
	replay_jobs_free(&r->jobs_of);
	capture_places_free(&r->places);
	when_free(r->when);
	sandbox_free(&r->caution.sandbox);
	return status;
}

static void add_run(struct option_list *to, struct replay *r)
{
	const struct option_def some[] = {
	    {0, "acc-check", OPTION_FLAG, &r->acc_check, NULL,
	     "judge the numbers against float64 on the CPU (default without --sync-time-measure)",
	     NULL},
	    {0, "of", OPTION_CHOICE, &r->of, "WHAT",
	     "judge the results that were captured, or those of a rerun; auto (default): of a "
	     "rerun "
	     "where the device is here",
	     of_names},
	    {0, "sync-time-measure", OPTION_FLAG, &r->measure, NULL,
	     "measure the time of forward and backward", NULL},
	    {0, "run-times", OPTION_POSITIVE, &r->run_times, "N", "measure N runs (default 100)",
	     NULL},
	    {0, "only-run-forward", OPTION_FLAG, &r->only_forward, NULL, "leave out the backward",
	     NULL},
	    {0, "device", OPTION_STRING, &r->device, "DEVICE",
	     "run the op there: cpu, cuda, npu, lazy ... (default: where it was captured)", NULL},
	    {0, "dtype", OPTION_STRING, &r->dtype, "DTYPE",
	     "run it with floating-point inputs of this dtype: float16, bfloat16, float32 ...",
	     NULL},
	    {0, "python", OPTION_STRING, &r->python, "PATH",
	     "the interpreter (default: that of the captures, else the first on the PATH that has "
	     "torch)",
	     NULL},
	};
	options_add(to, some, sizeof(some) / sizeof(some[0]));
}

static void add_choice(struct option_list *to, struct replay *r)
{
	const struct option_def some[] = {
	    {0, "ops", OPTION_LIST, &r->ops, "LIST", "only these ops, as for ditrace run", NULL},
	    {0, "not-ops", OPTION_LIST, &r->not_ops, "LIST", "all but these", NULL},
	    {0, "when", OPTION_ONCE, &r->condition, "EXPR",
	     "only calls for which this holds: 'self.dtype == float16', see ditrace(1)", NULL},
	};
	options_add(to, some, sizeof(some) / sizeof(some[0]));
}

static void add_output(struct option_list *to, struct replay *r)
{
	static const char *const formats[] = {"table", "json", "csv", NULL};
	static const char *const verdicts[] = {"sharp", "allclose", NULL};
	const struct option_def some[] = {
	    {0, "verdict", OPTION_CHOICE, &r->verdict, "RULE",
	     "sharp (default) or allclose, ditorch's tolerances", verdicts},
	    {'j', "jobs", OPTION_COUNT, &r->jobs, "N", "number of Python processes (default 1)",
	     NULL},
	    {0, "format", OPTION_CHOICE, &r->format, "FORMAT", "table (default), json or csv",
	     formats},
	    COLOR_OPTION,
	    {0, "detail", OPTION_FLAG, &r->report.detail, NULL,
	     "json and csv: also the figures of the verdict, and the capture's folder", NULL},
	};
	options_add(to, some, sizeof(some) / sizeof(some[0]));
}

static void add_caution(struct option_list *to, struct replay *r)
{
	const struct option_def some[] = {
	    {0, "import", OPTION_LIST, &r->caution.import, "LIST",
	     "first import these modules, which register operators: torchvision,torchao", NULL},
	    {0, "trust", OPTION_FLAG, &r->caution.trust, NULL,
	     "load files that hold more than numbers: they can run any code", NULL},
	    {0, "sandbox", OPTION_FLAG, &r->caution.sandboxed, NULL,
	     "run Python in a sandbox (bwrap): for captures of strangers", NULL},
	    {0, "max-bytes", OPTION_SIZE, &r->caution.max_bytes, "N",
	     "the memory that a file may ask for, if it is more than its size (default 1G)", NULL},
	};
	options_add(to, some, sizeof(some) / sizeof(some[0]));
}

int cmd_replay(int argc, char **argv)
{
	struct replay r = {.run_times = 100, .jobs = 1, .caution.max_bytes = CAUTION_BYTES};
	struct option_list options = {.n = 0};
	add_run(&options, &r);
	add_choice(&options, &r);
	add_output(&options, &r);
	add_caution(&options, &r);
	const struct command command = {
	    .name = "replay",
	    .operands = "DIR...",
	    .about = "Run captured op calls again: are they right, and how fast are they? DIR is a "
		     "capture, or contains captures.",
	    .options = options.of,
	    .notes = "Exit status: 1 when something is wrong, 2 when something could not be run.",
	    .min_operands = 1,
	    .max_operands = -1,
	};
	int status;
	take_underscores(argc, argv);
	int first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	return replay(&r, argv + first, argc - first);
}
