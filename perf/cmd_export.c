#include "base/commands.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/options.h"
#include "perf/export/export.h"
#include "perf/trace/trace_read.h"
#include "perf/trace/trace_span.h"

/* Opening it for writing would empty the trace before it is read. */
static bool same_file(const char *a, const char *b)
{
	struct stat x, y;
	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* NULL with *e. */
static FILE *open_output(const char *path, const char *output, struct err *e)
{
	if (!output)
		return stdout;
	if (same_file(path, output)) {
		err_set(e, -EINVAL, "cannot write %s: it is the trace itself", output);
		err_hint(e, "name another file: -o FILE");
		return NULL;
	}
	FILE *f = fopen(output, "we");
	if (f)
		return f;
	err_set(e, -errno, "cannot write %s: %s", output, strerror(errno));
	err_hint(e, "name a file in a directory where you may write: -o FILE");
	return NULL;
}

enum { TO_CSV, TO_CHROME, TO_FOLDED, TO_SPEEDSCOPE, TO_SQLITE };

struct export_job {
	int format;
	const char *output;
	struct export_in in;
	struct trace_when when;
	struct trace_span span;
};

/* As trace_read_next at the end of the file. */
static int write_stream(struct export_job *x, FILE *f, struct err *e)
{
	switch (x->format) {
	case TO_CHROME:
		return export_chrome(&x->in, f, e);
	case TO_FOLDED:
		return export_folded(&x->in, f, e);
	case TO_SPEEDSCOPE:
		return x->in.samples ? export_speedscope_samples(&x->in, f, e)
				     : export_speedscope(&x->in, f, e);
	default:
		return x->in.samples ? export_csv_samples(&x->in, f, e) : export_csv(&x->in, f, e);
	}
}

static int write_output(struct export_job *x, FILE *f, struct err *e)
{
	int r = 0;
	if (x->format != TO_SQLITE)
		r = write_stream(x, f, e);
	if ((f == stdout ? fflush(f) : fclose(f)) && r >= 0)
		r = err_set(e, -errno, "cannot write %s: %s", x->output ? x->output : "the rows",
			    strerror(errno));
	return x->format == TO_SQLITE && !r ? export_sqlite(&x->in, x->output, e) : r;
}

/* What can be known to fail before a file to be written is touched. */
static int check(struct export_job *x, struct err *e)
{
	struct trace_reader *reader;
	if (x->format == TO_SQLITE && !x->output) {
		err_set(e, -EINVAL, "a database cannot be written to standard output");
		return err_hint(e, "name a file: -o FILE");
	}
	int r = trace_reader_open(x->in.path, &reader, e);
	if (r)
		return r;
	trace_reader_close(reader);
	x->in.samples = x->in.samples || trace_has_only_samples(x->in.path);
	x->in.both = !x->in.samples && (x->format == TO_CHROME || x->format == TO_SQLITE);
	r = trace_span_open(&x->span, x->in.path, e);
	return r ? r : trace_when_open(&x->when, x->in.path, e);
}

static int export_to(struct export_job *x)
{
	struct err e = {0};
	FILE *f = check(x, &e) ? NULL : open_output(x->in.path, x->output, &e);
	if (!f) {
		err_print(&e);
		return EXIT_FAILED;
	}
	int r = write_output(x, f, &e);
	trace_when_print(&x->when);
	return trace_end_print(x->in.path, r, &e, x->in.lost);
}

int cmd_export(int argc, char **argv)
{
	static const char *const formats[] = {"csv",	    "chrome", "folded",
					      "speedscope", "sqlite", NULL};
	struct export_job x = {.in.path = "ditrace.data", .in.when = &x.when, .in.span = &x.span};
	const struct option_def options[] = {
	    {0, "to", OPTION_CHOICE, &x.format, "FORMAT",
	     "csv (default), chrome, folded, speedscope or sqlite", formats},
	    {0, "when", OPTION_STRING, &x.when.text, "EXPR",
	     "only calls for which EXPR holds: 'self.dim() == 2'", NULL},
	    {0, "time", OPTION_STRING, &x.span.time, "A-B",
	     "only what started between, since the trace was begun: 3s-5s", NULL},
	    {0, "step", OPTION_STRING, &x.span.step, "N",
	     "only these training steps, counted from 1: 3 or 2-4", NULL},
	    {0, "step-op", OPTION_STRING, &x.span.step_op, "OP",
	     "a step ends with a call of OP (default: of the optimizer's step)", NULL},
	    {0, "samples", OPTION_FLAG, &x.in.samples, NULL,
	     "the samples alone (the default where there are no ops)", NULL},
	    {'o', "output", OPTION_STRING, &x.output, "FILE",
	     "write there instead of to standard output", NULL},
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
		"speedscope  https://www.speedscope.app\n"
		"sqlite      a database with the views \"calls\" and \"sampled\"\n"
		"Of a file with ops and samples chrome and sqlite have both, the others the ops.",
	    .max_operands = 1,
	};
	int status, first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	if (first < argc)
		x.in.path = argv[first];
	status = export_to(&x);
	trace_when_close(&x.when);
	trace_span_close(&x.span);
	return status;
}
