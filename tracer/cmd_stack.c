#define _GNU_SOURCE
#include "base/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/options.h"
#include "symbolizer/target/process.h"
#include "tracer/stack/stack_snapshot.h"
#include "tracer/trace_loop.h"

enum { FORMAT_TEXT, FORMAT_JSON };
static const char *const formats[] = {"text", "json", NULL};

static void pause_ns(uint64_t ns)
{
	struct timespec left = {.tv_sec = (time_t)(ns / 1000000000),
				.tv_nsec = (long)(ns % 1000000000)};
	nanosleep(&left, NULL);
}

static int take_looks(struct stack_snapshot_view *v, unsigned times, uint64_t interval,
		      struct err *e)
{
	for (; v->looks < times; v->looks++) {
		if (v->looks)
			pause_ns(interval);
		int r = stack_reader_take(v->stack_reader, &v->look, e);
		if (r)
			return r;
		if (!v->looks)
			v->first_ns = v->look->at_ns;
	}
	return 0;
}

static int show(struct stack_snapshot_view *v, unsigned times, uint64_t interval, int format)
{
	struct err e = {0};
	int r = stack_reader_open(v->pid, v->native, &v->stack_reader, &e);
	if (!r)
		r = take_looks(v, times, interval, &e);
	if (!r) {
		r = format == FORMAT_JSON ? stack_snapshot_json(v, stdout)
					  : stack_snapshot_print(v, stdout);
		if (!r && fflush(stdout))
			r = -1;
		if (r)
			err_set(&e, r, "cannot write the stacks");
	}
	stack_reader_close(v->stack_reader);
	if (r)
		err_print(&e);
	return r ? EXIT_FAILED : EXIT_GOOD;
}

int cmd_stack(int argc, char **argv)
{
	enum { MOST = 1000000 };
	int format = FORMAT_TEXT, status;
	uint64_t times = 1, interval = 0;
	bool no_native = false, all = false;
	const struct option_def options[] = {
	    {0, "repeat", OPTION_COUNT, &times, "N", "look so many times, and show the last", NULL},
	    {0, "interval", OPTION_DURATION, &interval, "TIME",
	     "between two looks, 1s if not given", NULL},
	    {0, "no-native", OPTION_FLAG, &no_native, NULL,
	     "Python stacks only: no thread is stopped", NULL},
	    {0, "all", OPTION_FLAG, &all, NULL, "frames of torch and of the interpreter, too",
	     NULL},
	    {0, "format", OPTION_CHOICE, &format, "FORMAT", "how to print it: text or json",
	     formats},
	    {0},
	};
	const struct command command = {
	    .name = "stack",
	    .operands = "PID",
	    .about = "Show what every thread of a running process is doing at this moment.",
	    .options = options,
	    .notes = "Each thread stands still while its stack is copied, less than a millisecond.",
	    .min_operands = 1,
	    .max_operands = 1,
	};
	int first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	struct stack_snapshot_view view = {.native = !no_native, .all = all};
	struct err e = {0};
	int r = process_parse_pid(argv[first], &view.pid, &e);
	if (!r && (!times || times > MOST)) {
		r = err_set(&e, -EINVAL, "--repeat takes a number from 1 to %d", MOST);
		err_hint(&e, "two looks tell which threads move: --repeat 2");
	}
	if (!r && interval && times == 1) {
		r = err_set(&e, -EINVAL, "--interval does nothing without --repeat");
		err_hint(&e, "say how often to look: --repeat 2");
	}
	if (r) {
		err_print(&e);
		return EXIT_USAGE;
	}
	trace_loop_note_files();
	return show(&view, (unsigned)times, interval ? interval : 1000000000, format);
}
