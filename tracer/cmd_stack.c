#define _GNU_SOURCE
#include "base/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/options.h"
#include "base/text.h"
#include "perf/trace/trace_read.h"
#include "symbolizer/target/process.h"
#include "tracer/proc/thread_facts.h"
#include "tracer/session/session.h"
#include "tracer/stack/hang.h"
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

/* The processes to look at, and what there is besides. */
struct stack_views {
	struct stack_snapshot_view *all;
	size_t n;
	bool ranked; /* the last look is also taken of the ranks that they are */
	struct hang_ranks ranks;
	int status;
};

/* One that fails does not hide the others. */
static void fail(struct stack_views *s, struct stack_snapshot_view *v, const struct err *e)
{
	err_print(e);
	stack_reader_close(v->stack_reader);
	*v = (struct stack_snapshot_view){0};
	s->status = EXIT_FAILED;
}

static void open_all(struct stack_views *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct stack_snapshot_view *v = &s->all[i];
		struct err e = {0};
		if (stack_reader_open(v->pid, v->native, &v->stack_reader, &e))
			fail(s, v, &e);
	}
}

static int take_look(struct stack_views *s, struct stack_snapshot_view *v, bool last, struct err *e)
{
	struct hang_rank rank;
	if (!s->ranked || !last)
		return stack_reader_take(v->stack_reader, &v->look, e);
	int r = stack_place_take(v, &rank, e);
	if (r)
		return r;
	return hang_ranks_add(&s->ranks, &rank) ? err_set(e, -ENOMEM, "no memory") : 0;
}

static void take_looks(struct stack_views *s, unsigned times, uint64_t interval)
{
	size_t left = s->n;
	for (unsigned look = 0; look < times && left; look++) {
		if (look)
			pause_ns(interval);
		left = 0;
		for (size_t i = 0; i < s->n; i++) {
			struct stack_snapshot_view *v = &s->all[i];
			struct err e = {0};
			if (!v->stack_reader)
				continue;
			if (take_look(s, v, look + 1 == times, &e)) {
				fail(s, v, &e);
				continue;
			}
			left++;
			v->first_ns = v->looks++ ? v->first_ns : v->look->at_ns;
		}
	}
}

static void no_output(struct stack_views *s, int r)
{
	struct err e = {0};
	if (!r && !fflush(stdout) && !ferror(stdout))
		return;
	err_set(&e, r ? r : -EIO, "cannot write the stacks");
	err_print(&e);
	s->status = EXIT_FAILED;
}

/* What does not match, and where all are, with those that traces say have ended. */
static void compare(struct stack_views *s, const struct hang_ranks *traced, int format)
{
	int r = 0;
	for (size_t i = 0; i < traced->n && !r; i++)
		if (traced->all[i].state == HANG_ENDED)
			r = hang_ranks_add(&s->ranks, &traced->all[i]);
	r = r ? r : hang_ranks_add_absent(&s->ranks);
	char *text = r ? NULL : hang_explain(&s->ranks);
	if (!r && !text)
		r = -ENOMEM;
	if (!r && format == FORMAT_TEXT && text[0])
		printf("%s\n", text);
	if (!r && format == FORMAT_TEXT) {
		r = hang_print_places(&s->ranks, stdout, terminal_of(stdout));
		putchar('\n');
	} else if (!r) {
		r = hang_print_json(&s->ranks, text, stdout);
	}
	free(text);
	no_output(s, r);
}

static void show_stacks(struct stack_views *s, int format)
{
	bool first = true;
	for (size_t i = 0; i < s->n; i++) {
		if (!s->all[i].look)
			continue;
		if (!first && format == FORMAT_TEXT)
			putchar('\n');
		first = false;
		no_output(s, format == FORMAT_JSON ? stack_snapshot_json(&s->all[i], stdout)
						   : stack_snapshot_print(&s->all[i], stdout));
	}
}

static bool is_trace(const char *word)
{
	return !text_number(word, &(uint64_t){0}) && trace_query_can_read(word);
}

/* The processes of the ranks in traces that run. */
static int find_traced(const char *path, struct hang_ranks *traced, struct process_list *out,
		       struct err *e)
{
	size_t had = traced->n;
	int r = hang_traces_read(path, traced, e);
	for (size_t i = had; i < traced->n && !r; i++)
		if (traced->all[i].state == HANG_HERE && process_list_add(out, traced->all[i].pid))
			r = err_set(e, -ENOMEM, "no memory");
	if (!r && !out->n) {
		r = err_set(e, -ESRCH, "all processes of %s have ended", path);
		err_hint(e, "what they did: ditrace report --collectives %s", path);
	}
	return r;
}

/* Of a tree those that have loaded PyTorch: a launcher may be none of them. */
static int find_pids(char **words, int n, bool tree, struct hang_ranks *traced,
		     struct process_list *out, struct err *e)
{
	size_t kept = 0;
	for (int i = 0; i < n; i++) {
		pid_t pid;
		if (is_trace(words[i])) {
			int failed = find_traced(words[i], traced, out, e);
			if (failed)
				return failed;
			continue;
		}
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
		if (process_has_torch(out->pids[i]))
			out->pids[kept++] = out->pids[i];
	if (kept)
		out->n = kept;
	return 0;
}

struct stack_options {
	int format;
	uint64_t times, interval; /* interval 0: not given */
	bool no_native, all, tree;
};

static int check_times(const struct stack_options *o, struct err *e)
{
	enum { MOST = 1000000 };
	if (!o->times || o->times > MOST) {
		err_set(e, -EINVAL, "--count takes a number from 1 to %d", MOST);
		return err_hint(e, "two looks tell which threads move: --count 2");
	}
	if (o->interval && o->times == 1) {
		err_set(e, -EINVAL, "--interval does nothing without --count");
		return err_hint(e, "say how often to look: --count 2");
	}
	return 0;
}

static int look_at(const struct process_list *pids, const struct hang_ranks *traced,
		   const struct stack_options *o)
{
	struct stack_views views = {.all = calloc(pids->n + 1, sizeof(*views.all)), .n = pids->n};
	for (size_t i = 0; views.all && i < pids->n; i++)
		views.all[i] = (struct stack_snapshot_view){
		    .pid = pids->pids[i], .native = !o->no_native, .all = o->all};
	views.n = views.all ? views.n : 0;
	views.ranked = views.n > 1 || traced->n;
	open_all(&views);
	take_looks(&views, (unsigned)o->times, o->interval ? o->interval : 1000000000);
	if (views.ranked)
		compare(&views, traced, o->format);
	show_stacks(&views, o->format);
	for (size_t i = 0; i < views.n; i++)
		stack_reader_close(views.all[i].stack_reader);
	free(views.all);
	hang_ranks_free(&views.ranks);
	return views.status;
}

static int stack(const struct stack_options *o, char **words, int n)
{
	struct process_list pids = {0};
	struct hang_ranks traced = {0};
	struct err e = {0};
	int r = find_pids(words, n, o->tree, &traced, &pids, &e), status;
	r = r ? r : check_times(o, &e);
	if (r) {
		err_print(&e);
		status = r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	} else {
		trace_loop_note_files();
		status = look_at(&pids, &traced, o);
	}
	free(traced.all);
	process_list_free(&pids);
	return status;
}

int cmd_stack(int argc, char **argv)
{
	int status;
	struct stack_options o = {.format = FORMAT_TEXT, .times = 1};
	const struct option_def options[] = {
	    PID_OPTION,
	    {0, "count", OPTION_COUNT, &o.times, "N", "look so many times, and show the last",
	     NULL},
	    {0, "interval", OPTION_DURATION, &o.interval, "TIME",
	     "between two looks, 1s if not given", NULL},
	    {0, "tree", OPTION_FLAG, &o.tree, NULL, "and what they have started, as torchrun does",
	     NULL},
	    {0, "no-native", OPTION_FLAG, &o.no_native, NULL,
	     "Python stacks only: no thread is stopped", NULL},
	    {0, "all", OPTION_FLAG, &o.all, NULL, "frames of torch and of the interpreter, too",
	     NULL},
	    {0, "format", OPTION_CHOICE, &o.format, "FORMAT", "how to print it: text or json",
	     formats},
	    COLOR_OPTION,
	    {0},
	};
	const struct command command = {
	    .name = "stack",
	    .operands = "PID...|DIR",
	    .about = "Show what every thread of running processes is doing at this moment, and of "
		     "ranks, which collective they wait in and what does not match.",
	    .options = options,
	    .notes = "Each thread stands still while its stack is copied, less than a millisecond.",
	    .min_operands = 1,
	    .max_operands = -1,
	};
	int first = options_start(&command, argc, argv, &status);
	return first ? stack(&o, argv + first, argc - first) : status;
}
