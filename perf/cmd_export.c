#include "base/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/options.h"
#include "base/run_python.h"
#include "base/system.h"
#include "base/text.h"
#include "perf/export/export.h"
#include "perf/trace/trace_read.h"

/* Nobody means to replace the trace by what is made of it. */
static bool same_file(const char *a, const char *b)
{
	struct stat x, y;
	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int open_output(const char *path, const char *output, struct new_file *to, struct err *e)
{
	if (!same_file(path, output))
		return new_file_open(to, output, 0, e);
	err_set(e, -EINVAL, "cannot write %s: it is the trace itself", output);
	return err_hint(e, "name another file: -o FILE");
}

enum {
	TO_CSV,
	TO_CHROME,
	TO_FOLDED,
	TO_HTML,
	TO_PARQUET,
	TO_PERFETTO,
	TO_SPEEDSCOPE,
	TO_SQLITE,
	TO_SVG
};

struct export_job {
	int format;
	const char *output;
	const char *python; /* of parquet; NULL: the first on the PATH that has pyarrow */
	char found[PATH_MAX];
	struct parquet_notes *notes;
	bool samples;
	struct trace_choice choice;
	struct export_in in;
	FILE *out; /* what is written to; NULL: not a stream */
	struct read_progress progress;
	bool has_warned;
};

/* Viewers, and JSON parsers in browsers, load no more. */
static const uint64_t most_json = (uint64_t)2 << 30;

static volatile sig_atomic_t stopped_by;

static void on_stop(int signal)
{
	stopped_by = signal;
}

/* Until the file has its name a signal ends the export as an error does; a second one at once. */
static void stop_by_signals(void)
{
	const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction old,
		    act = {.sa_handler = on_stop, .sa_flags = SA_RESTART | SA_RESETHAND};
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &act, NULL);
	}
}

/* Warn of JSON that will be too large, as soon as its size can be told from what there is so far.
 */
static void check_size(struct export_job *x, double share)
{
	char size[32];
	off_t at = x->out ? ftello(x->out) : 0;
	double all = ((at > 0 ? (double)at : 0) + (double)x->in.watch.bytes) / share;
	bool is_json = x->format == TO_CHROME || x->format == TO_SPEEDSCOPE;
	if (x->has_warned || !is_json || share < 0.02 || all < (double)most_json)
		return;
	progress_hide(&x->progress);
	fprintf(
	    stderr,
	    "ditrace: this becomes about %s of JSON, more than most viewers load\n"
	    "  hint: a part of it: --step 100-110, or --time 10s-12s; for a whole run: --to html\n",
	    text_bytes(size, sizeof(size), (uint64_t)all));
	x->has_warned = true;
}

static int look(void *arg, double share)
{
	struct export_job *x = arg;
	progress_show(&x->progress, x->in.path, share);
	check_size(x, share);
	return stopped_by ? -EINTR : 0;
}

/* Returns like trace_query_next at the end of the file. */
static int write_stream(struct export_job *x, FILE *f, struct err *e)
{
	bool samples = trace_query_of_samples(x->in.query);
	switch (x->format) {
	case TO_CHROME:
		return export_chrome(&x->in, f, e);
	case TO_FOLDED:
		return export_folded(&x->in, f, e);
	case TO_HTML:
		return export_html(&x->in, f, e);
	case TO_PERFETTO:
		return export_perfetto(&x->in, f, e);
	case TO_SVG:
		return export_svg(&x->in, f, e);
	case TO_SPEEDSCOPE:
		return samples ? export_speedscope_samples(&x->in, f, e)
			       : export_speedscope(&x->in, f, e);
	default:
		return samples ? export_csv_samples(&x->in, f, e) : export_csv(&x->in, f, e);
	}
}

/* What could be read of a trace that is cut, damaged or still being written is kept. */
static bool could_write(int r)
{
	return r >= 0 || r == -EAGAIN || r == -EBADMSG || r == -ENODATA;
}

/* `f` may be NULL, with errno. */
static int write_rows(struct export_job *x, FILE *f, struct err *e)
{
	x->out = f;
	int r = f ? write_stream(x, f, e) : 0;
	bool failed = !f || (f == stdout ? fflush(f) : fclose(f));
	if (failed && could_write(r))
		r = err_set(e, -errno, "cannot write %s: %s", x->output ? x->output : "the rows",
			    strerror(errno));
	return r;
}

static bool is_gzip(const char *name)
{
	size_t n = name ? strlen(name) : 0;
	return n > 3 && !strcmp(name + n - 3, ".gz");
}

static FILE *open_stream(const struct export_job *x, const struct new_file *to)
{
	if (!is_gzip(x->output))
		return new_file_stream(to);
	int fd = fcntl(to->fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? NULL : export_gzip(fd);
}

static int write_file(struct export_job *x, struct err *e)
{
	struct new_file to;
	int r = open_output(x->in.path, x->output, &to, e);
	if (r)
		return r;
	stop_by_signals();
	r = x->format == TO_SQLITE ? export_sqlite(&x->in, to.fd, x->output, e)
				   : write_rows(x, open_stream(x, &to), e);
	if (stopped_by)
		r = err_set(e, -EINTR, "stopped: %s was not written", x->output);
	int named = new_file_end(&to, could_write(r) ? 0 : r);
	if (!could_write(r) || !named)
		return r;
	return err_set(e, named, "cannot write %s: %s", x->output, strerror(-named));
}

/* Like write_file, of a folder. */
static int write_folder(struct export_job *x, struct err *e)
{
	stop_by_signals();
	int r = export_parquet(&x->in, x->notes, x->python, x->output, e);
	return stopped_by ? err_set(e, -EINTR, "stopped: nothing was written to %s", x->output) : r;
}

static int find_python(struct export_job *x, struct err *e)
{
	python_drop_empty_folders();
	if (x->python)
		return 0;
	int r = python_find("pyarrow", x->found, sizeof(x->found), e);
	x->python = x->found;
	return r ? err_hint(e, "Parquet is written by pyarrow, of any Python: python3 -m pip "
			       "install pyarrow; or name one that has it: --python PATH")
		 : 0;
}

/* Of a file with ops and samples. */
static bool has_both(int format)
{
	return format == TO_CHROME || format == TO_HTML || format == TO_SQLITE;
}

/* The first pass finds the steps. */
static bool has_steps(int format)
{
	return format == TO_CHROME || format == TO_PERFETTO;
}

/* It tells of marks by itself, as the blocks that they begin and end. */
static bool has_blocks(int format)
{
	return format == TO_CHROME || format == TO_PERFETTO || format == TO_SQLITE ||
	       format == TO_PARQUET || format == TO_HTML;
}

static int open_query(struct export_job *x, struct err *e)
{
	const struct trace_query_opts opts = {.choice = x->choice,
					      .kinds = x->format == TO_PARQUET ? TRACE_OPS
						       : x->samples	       ? TRACE_SAMPLES
						       : has_both(x->format) ? TRACE_OPS_AND_SAMPLES
									     : TRACE_OPS_OR_SAMPLES,
					      .by_start = true,
					      .no_marks = true,
					      .mark_events = has_blocks(x->format),
					      .unchosen = x->format == TO_CSV,
					      .first = x->samples	      ? NULL
						       : x->format == TO_CSV  ? export_csv_note
						       : x->notes	      ? export_parquet_note
						       : has_steps(x->format) ? export_chrome_note
									      : NULL,
					      .first_arg = x->notes ? (void *)x->notes : &x->in};
	int r = trace_query(x->in.path, &opts, &x->in.query, e);
	if (r || x->format != TO_PERFETTO || !trace_query_of_samples(x->in.query))
		return r;
	err_set(e, -EINVAL, "perfetto has no samples, and %s",
		x->samples ? "that is what is asked for" : "the file has nothing else");
	return err_hint(e, "chrome has, and Perfetto reads it: --to chrome");
}

static int check_export(const struct export_job *x, struct err *e)
{
	if (x->format == TO_SQLITE && is_gzip(x->output)) {
		err_set(e, -EINVAL, "%s: a database cannot be read compressed", x->output);
		return err_hint(e, "name it without .gz, and compress it afterwards: gzip FILE");
	}
	if (x->in.devices && (x->samples || (x->format != TO_FOLDED && x->format != TO_SVG))) {
		err_set(e, -EINVAL, "--devices goes with --to folded and svg%s",
			x->samples ? ", not with --samples" : "");
		return err_hint(e,
				"chrome, html, perfetto and sqlite have it without; see: ditrace "
				"export --help");
	}
	if (x->format == TO_PARQUET && x->samples) {
		err_set(e, -EINVAL, "--samples: parquet has no samples");
		return err_hint(e, "csv and sqlite have: --to sqlite");
	}
	if (x->format == TO_PARQUET && !x->output) {
		err_set(e, -EINVAL, "--to parquet writes a folder");
		return err_hint(e, "name it: -o DIR");
	}
	if (x->python && x->format != TO_PARQUET) {
		err_set(e, -EINVAL, "--python goes with --to parquet");
		return err_hint(e, "leave it out");
	}
	if (x->format != TO_SQLITE || x->output)
		return trace_choice_check(&x->choice, e);
	err_set(e, -EINVAL, "a database cannot be written to standard output");
	return err_hint(e, "name a file: -o FILE");
}

/* Everything that can fail early does so before the output file is touched. */
static int export_to(struct export_job *x)
{
	struct err e = {0};
	int r = x->format == TO_PARQUET ? find_python(x, &e) : 0;
	if (!r && x->format == TO_PARQUET && !(x->notes = parquet_notes_new()))
		r = err_set(&e, -ENOMEM, "no memory");
	r = r ? r : open_query(x, &e);
	if (r)
		return trace_query_end(x->in.query, 0, r, &e);
	bool has_sums = x->format == TO_FOLDED || x->format == TO_SVG || x->format == TO_HTML;
	r = x->format == TO_PARQUET ? write_folder(x, &e)
	    : x->output		    ? write_file(x, &e)
				    : write_rows(x, stdout, &e);
	progress_hide(&x->progress);
	if (x->in.devices && !trace_query_activities(x->in.query))
		fputs("ditrace: the trace has nothing that devices did, of what was chosen\n",
		      stderr);
	return trace_query_end(x->in.query,
			       TRACE_SAY_LEFT_OUT | TRACE_SAY_LOST | TRACE_SAY_CLOCKS |
				   (has_sums ? 0 : TRACE_SAY_SUMMED),
			       r, &e);
}

/* export --to parquet DIR: the only name on the line is of what is made, unless it is a trace. */
static bool is_folder_to_make(const struct export_job *x, const char *name)
{
	return x->format == TO_PARQUET && !x->output && !trace_query_can_read(name);
}

/* What is read and what is written, of the operand, NULL if there is none, and -o. */
static void take_names(struct export_job *x, const char *operand)
{
	if (operand && is_folder_to_make(x, operand))
		x->output = operand;
	else if (operand)
		x->in.path = operand;
	if (x->output && !strcmp(x->output, "-"))
		x->output = NULL;
}

int cmd_export(int argc, char **argv)
{
	static const char *const formats[] = {"csv",	  "chrome",	"folded", "html", "parquet",
					      "perfetto", "speedscope", "sqlite", "svg",  NULL};
	struct export_job x = {.in.path = "ditrace.data"};
	x.in.choice = &x.choice;
	x.in.watch = (struct export_watch){.look = look, .arg = &x};
	const struct option_def options[] = {
	    {0, "to", OPTION_CHOICE, &x.format, "FORMAT",
	     "csv (default), chrome, folded, html, parquet, perfetto, speedscope, sqlite or svg",
	     formats},
	    {0, "format", OPTION_CHOICE, &x.format, "FORMAT", "the same as --to", formats},
	    QUERY_OPTIONS(x.choice),
	    {0, "samples", OPTION_FLAG, &x.samples, NULL,
	     "the samples alone (the default where there are no ops)", NULL},
	    {0, "devices", OPTION_FLAG, &x.in.devices, NULL,
	     "folded, svg: the time on devices, by the ops that launched it", NULL},
	    {'o', "output", OPTION_STRING, &x.output, "FILE",
	     "write there instead of to standard output (-); FILE.gz: compressed", NULL},
	    {0, "python", OPTION_STRING, &x.python, "PATH",
	     "parquet: an interpreter that has pyarrow (default: the first on the PATH)", NULL},
	    {0},
	};
	const struct command command = {
	    .name = "export",
	    .operands = "[FILE]",
	    .about =
		"Turn a trace file (default: ditrace.data) into a form that other programs read.",
	    .options = options,
	    .notes =
		"csv         a row a forward op, with its times and arguments; or a sample\n"
		"chrome      Trace Event JSON: https://ui.perfetto.dev, chrome://tracing\n"
		"folded      stacks and ns for flamegraph.pl\n"
		"html        a page for a browser: steps, flame graphs, a timeline, tables\n"
		"parquet     a partitioned data set in the folder of -o, for DuckDB, Spark, "
		"pandas\n"
		"perfetto    protobuf for https://ui.perfetto.dev, smaller than chrome\n"
		"speedscope  https://www.speedscope.app\n"
		"sqlite      a database with the views \"calls\", \"on_devices\" and \"sampled\"\n"
		"svg         a flame graph alone\n"
		"Of a file with ops and samples chrome, html and sqlite have both, the others "
		"the ops. What devices did is in chrome, html, perfetto and sqlite.",
	    .max_operands = 1,
	};
	int status, first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	take_names(&x, first < argc ? argv[first] : NULL);
	struct err e = {0};
	if (check_export(&x, &e)) {
		err_print(&e);
		return EXIT_USAGE;
	}
	status = export_to(&x);
	export_notes_free(x.in.notes);
	parquet_notes_free(x.notes);
	if (stopped_by)
		raise(stopped_by);
	return status;
}
