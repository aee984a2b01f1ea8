#define _GNU_SOURCE
#include "base/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/options.h"
#include "symbolizer/target/process.h"
#include "tracer/proc/thread_facts.h"
#include "tracer/session/session.h"
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

/* `place`, if not NULL, is where it is. */
static int show(struct stack_snapshot_view *v, unsigned times, uint64_t interval, int format,
		struct stack_place *place)
{
	struct err e = {0};
	int r = stack_reader_open(v->pid, v->native, &v->stack_reader, &e);
	if (!r)
		r = take_looks(v, times, interval, &e);
	if (!r && place)
		stack_place_of(v, place);
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

static int compare_ranks(const void *a, const void *b)
{
	const struct stack_place *x = a, *y = b;
	if (x->rank.rank != y->rank.rank)
		return x->rank.rank < y->rank.rank ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* The stacks of each, and then all beside each other. One that fails does not hide the others. */
static int show_all(const struct stack_snapshot_view *v, const struct process_list *pids,
		    unsigned times, uint64_t interval, int format)
{
	struct stack_place *places = calloc(pids->n, sizeof(*places));
	size_t n = 0;
	int status = places ? EXIT_GOOD : EXIT_FAILED;
	for (size_t i = 0; places && i < pids->n; i++) {
		struct stack_snapshot_view one = *v;
		one.pid = pids->pids[i];
		int failed = show(&one, times, interval, format, &places[n]);
		n += !failed;
		status = failed ? failed : status;
		if (format == FORMAT_TEXT)
			putchar('\n');
	}
	if (n)
		qsort(places, n, sizeof(*places), compare_ranks);
	if (n > 1 && format == FORMAT_TEXT &&
	    stack_places_print(places, n, stdout, terminal_of(stdout)))
		status = EXIT_FAILED;
	free(places);
	return status;
}

/* Of a tree those that have loaded PyTorch: a launcher may be none of them. */
static int find_pids(char **words, int n, bool tree, struct process_list *out, struct err *e)
{
	size_t kept = 0;
	for (int i = 0; i < n; i++) {
		pid_t pid;
		int r = process_parse_pid(words[i], &pid, e);
		if (!r && process_list_add(out, pid))
			r = err_set(e, -ENOMEM, "no memory");
		if (r)
			return r;
	}
	if (!tree)
		return 0;
	int r = process_list_add_below(out);
	if (r)
		return err_set(e, r, "no memory");
	for (size_t i = 0; i < out->n; i++)
		if (session_has_torch(out->pids[i]))
			out->pids[kept++] = out->pids[i];
	if (kept)
		out->n = kept;
	return 0;
}

int cmd_stack(int argc, char **argv)
{
	enum { MOST = 1000000 };
	int format = FORMAT_TEXT, status;
	uint64_t times = 1, interval = 0;
	bool no_native = false, all = false, tree = false;
	struct process_list pids = {0};
	const struct option_def options[] = {
	    PID_OPTION,
	    {0, "count", OPTION_COUNT, &times, "N", "look so many times, and show the last", NULL},
	    {0, "interval", OPTION_DURATION, &interval, "TIME",
	     "between two looks, 1s if not given", NULL},
	    {0, "tree", OPTION_FLAG, &tree, NULL, "and what they have started, as torchrun does",
	     NULL},
	    {0, "no-native", OPTION_FLAG, &no_native, NULL,
	     "Python stacks only: no thread is stopped", NULL},
	    {0, "all", OPTION_FLAG, &all, NULL, "frames of torch and of the interpreter, too",
	     NULL},
	    {0, "format", OPTION_CHOICE, &format, "FORMAT", "how to print it: text or json",
	     formats},
	    COLOR_OPTION,
	    {0},
	};
	const struct command command = {
	    .name = "stack",
	    .operands = "PID...",
	    .about = "Show what every thread of running processes is doing at this moment.",
	    .options = options,
	    .notes = "Each thread stands still while its stack is copied, less than a millisecond.",
	    .min_operands = 1,
	    .max_operands = -1,
	};
	int first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	struct stack_snapshot_view view = {.native = !no_native, .all = all};
	struct err e = {0};
	int r = find_pids(argv + first, argc - first, tree, &pids, &e);
	if (!r && (!times || times > MOST)) {
		r = err_set(&e, -EINVAL, "--count takes a number from 1 to %d", MOST);
		err_hint(&e, "two looks tell which threads move: --count 2");
	}
	if (!r && interval && times == 1) {
		r = err_set(&e, -EINVAL, "--interval does nothing without --count");
		err_hint(&e, "say how often to look: --count 2");
	}
	if (r) {
		err_print(&e);
		return EXIT_USAGE;
	}
	trace_loop_note_files();
	interval = interval ? interval : 1000000000;
	view.pid = pids.pids[0];
	status = pids.n == 1 ? show(&view, (unsigned)times, interval, format, NULL)
			     : show_all(&view, &pids, (unsigned)times, interval, format);
	process_list_free(&pids);
	return status;
}
