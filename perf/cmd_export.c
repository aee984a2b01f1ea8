#include "perf/cmd_export.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/options.h"
#include "perf/export_csv.h"
#include "perf/trace_end.h"
#include "perf/trace_read.h"
#include "perf/trace_when.h"

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

static int export_to(const char *path, const char *output, struct trace_when *when)
{
	struct err e = {0};
	uint64_t lost = 0;
	struct trace_reader *reader;
	/* Looked at first, so that a file to be written is not touched for a trace that cannot be
	 * read. */
	if (trace_reader_open(path, &reader, &e)) {
		err_print(&e);
		return EXIT_FAILED;
	}
	trace_reader_close(reader);
	if (trace_when_open(when, path, &e)) {
		err_print(&e);
		return EXIT_FAILED;
	}
	FILE *f = open_output(path, output, &e);
	if (!f) {
		err_print(&e);
		return EXIT_FAILED;
	}
	int r = export_csv(path, f, when, &lost, &e);
	if ((f == stdout ? fflush(f) : fclose(f)) && r >= 0)
		r = err_set(&e, -errno, "cannot write %s: %s", output ? output : "the rows",
			    strerror(errno));
	trace_when_print(when);
	return trace_end_print(path, r, &e, lost);
}

int cmd_export(int argc, char **argv)
{
	static const char *const formats[] = {"csv", NULL};
	const char *output = NULL, *path = "ditrace.data";
	struct trace_when when = {0};
	int format = 0;
	const struct option_def options[] = {
	    {0, "to", OPTION_CHOICE, &format, "FORMAT",
	     "csv (default): a row an op, with its times and arguments", formats},
	    {0, "when", OPTION_STRING, &when.text, "EXPR",
	     "only rows of calls for which EXPR holds: 'self.dim() == 2'", NULL},
	    {'o', "output", OPTION_STRING, &output, "FILE",
	     "write there instead of to standard output", NULL},
	    {0},
	};
	const struct command command = {
	    .name = "export",
	    .operands = "[FILE]",
	    .about =
		"Turn a trace file (default: ditrace.data) into a form that other programs read.",
	    .options = options,
	    .notes = "Columns of csv: name, forward_id, forward_elapsed, backward_elapsed, unit, "
		     "input, output,\n"
		     "grad_inputs, grad_outputs; the last four are JSON.",
	    .max_operands = 1,
	};
	int status, first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	status = export_to(first < argc ? argv[first] : path, output, &when);
	trace_when_close(&when);
	return status;
}
