#define _GNU_SOURCE
#include "base/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/files.h"
#include "base/options.h"
#include "base/system.h"
#include "base/text.h"
#include "perf/trace/trace_read.h"
#include "symbolizer/target/process.h"
#include "tracer/proc/thread_facts.h"
#include "tracer/stack/hang.h"
#include "tracer/trace_loop.h"

enum { EXIT_HANG = 3 };

/* However short the steps, nothing is a hang before: a trace is written with a delay. */
static const uint64_t least_ns = 5000000000, look_ns = 500000000;

struct watch {
	int argc;
	char **argv;		/* what to watch, as it was given */
	uint64_t times, for_ns; /* for_ns 0: `times` the usual */
	int out;
	bool tree, hangs, has_hung;
	bool of_tree;		   /* what is watched are processes of a tree */
	uint64_t hung_ns;	   /* since when nothing moves */
	uint64_t found_ns, due_ns; /* when ranks were last found, and are to be looked for */
};

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	stop = sig;
}

static void pause_ns(uint64_t ns)
{
	struct timespec left = {.tv_nsec = (long)ns};
	nanosleep(&left, NULL);
}

/* After how long without a step it hangs; 0: not known. */
static uint64_t limit(const struct watch *w, const struct progress_of *p)
{
	uint64_t usual = progress_usual(p);
	if (w->for_ns || !usual)
		return usual || p->last_ns ? w->for_ns : 0;
	return usual * w->times > least_ns ? usual * w->times : least_ns;
}

/* The process that has not moved for too long, and longest; NULL: none. */
static const struct progress_of *find_hung(const struct watch *w, const struct progress *p,
					   uint64_t now)
{
	const struct progress_of *found = NULL;
	for (size_t i = 0; i < p->n; i++) {
		const struct progress_of *x = &p->all[i];
		uint64_t most = limit(w, x);
		if (!x->ended && most && now > x->last_ns && now - x->last_ns > most &&
		    (!found || x->last_ns < found->last_ns))
			found = x;
	}
	return found;
}

/* In a process of its own, so that whatever comes of it, the watch goes on. */
static void write_stacks(const struct watch *w)
{
	char tree[] = "--tree";
	int n = 0, status;
	char **argv = calloc((size_t)w->argc + 5, sizeof(*argv));
	if (!argv)
		return;
	argv[n++] = (char[]){"stack"};
	argv[n++] = (char[]){"--color=never"};
	if (w->tree)
		argv[n++] = tree;
	for (int i = 0; i < w->argc; i++)
		argv[n++] = w->argv[i];
	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		dup2(w->out, STDOUT_FILENO);
		_exit(cmd_stack(n, argv) || fflush(stdout) ? EXIT_FAILED : EXIT_GOOD);
	}
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	free(argv);
}

static void tell_hang(struct watch *w, const struct progress_of *x, uint64_t now)
{
	char time_text[64], since[32], ns[32], usual[64] = "", who[32] = "";
	time_t t = time(NULL);
	struct tm tm;
	strftime(time_text, sizeof(time_text), "%F %T", localtime_r(&t, &tm));
	if (x->rank >= 0)
		snprintf(who, sizeof(who), "rank %" PRId32, x->rank);
	else
		snprintf(who, sizeof(who), "process %d", x->pid);
	text_ns(since, sizeof(since), now - x->last_ns);
	if (progress_usual(x))
		snprintf(usual, sizeof(usual), ", usually one in %s",
			 text_ns(ns, sizeof(ns), progress_usual(x)));
	fprintf(stderr, "ditrace: %s: a hang: no %s of %s for %s%s\n", time_text, x->unit, who,
		since, usual);
	dprintf(w->out, "%s: no %s of %s for %s%s\n", time_text, x->unit, who, since, usual);
	w->hung_ns = x->last_ns;
	w->hangs = w->has_hung = true;
	write_stacks(w);
}

static void tell_moves(struct watch *w, uint64_t now)
{
	char since[32];
	fprintf(stderr, "ditrace: it moves again, after %s\n",
		text_ns(since, sizeof(since), now - w->hung_ns));
	w->hangs = false;
}

static bool all_ended(const struct progress *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (!p->all[i].ended)
			return false;
	return p->n;
}

/* Of a tree the ranks, without the workers that they have started and their launcher, which stays
 * where it is; if there are none, the `named` first ones, and false. */
static bool keep_ranks(struct process_list *l, size_t named)
{
	size_t kept = 0;
	for (size_t i = 0; i < l->n; i++) {
		struct process_rank rank;
		process_rank_read(l->pids[i], &rank);
		if (process_rank_role(l->pids[i], &rank) == RANK_OWN)
			l->pids[kept++] = l->pids[i];
	}
	l->n = kept ? kept : named;
	return kept;
}

/* *ranks: of a tree, and there are some. */
static int find_pids(const struct watch *w, struct process_list *out, bool *ranks, struct err *e)
{
	int r = attach_pids(w->argv, w->argc, false, out, e);
	const size_t named = out->n;
	if (!r && w->tree && process_list_add_below(out))
		r = err_set(e, -ENOMEM, "no memory");
	*ranks = !r && w->tree && keep_ranks(out, named);
	return r;
}

/* A launcher may still be starting them. Whether there are new ones. */
static bool find_ranks(struct watch *w, struct progress_reader *r)
{
	struct process_list pids = {0};
	bool ranks;
	bool any = w->of_tree && !find_pids(w, &pids, &ranks, NULL) && ranks &&
		   progress_keep_pids(r, pids.pids, pids.n);
	process_list_free(&pids);
	return any;
}

/* Ever more seldom while none comes. */
static void look_for_ranks(struct watch *w, struct progress_reader *r)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (now < w->due_ns)
		return;
	if (find_ranks(w, r))
		w->found_ns = now;
	w->due_ns = now + (now - w->found_ns) / 8;
}

static int watch(struct watch *w, struct progress_reader *r, struct err *e)
{
	const struct progress *p;
	int failed = 0;
	while (!stop && !failed) {
		look_for_ranks(w, r);
		failed = progress_look(r, &p, e);
		if (failed || (all_ended(p) && !find_ranks(w, r)))
			break;
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		const struct progress_of *x = find_hung(w, p, now);
		if (x && !w->hangs)
			tell_hang(w, x, now);
		else if (!x && w->hangs)
			tell_moves(w, now);
		pause_ns(look_ns);
	}
	return failed;
}

static int open_reader(struct watch *w, struct progress_reader **out, struct err *e)
{
	struct process_list pids = {0};
	bool ranks;
	if (w->argc == 1 && !text_number(w->argv[0], &(uint64_t){0}) &&
	    trace_query_can_read(w->argv[0]))
		return progress_open_trace(w->argv[0], out, e);
	w->of_tree = w->tree;
	w->found_ns = clock_ns(CLOCK_MONOTONIC);
	int r = find_pids(w, &pids, &ranks, e);
	r = r ? r : progress_open_pids(pids.pids, pids.n, out, e);
	process_list_free(&pids);
	return r;
}

static void catch_signals(void)
{
	const struct sigaction action = {.sa_handler = on_signal};
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

int cmd_watch(int argc, char **argv)
{
	int status;
	const char *output = NULL;
	struct watch w = {.times = 10, .out = STDOUT_FILENO};
	struct new_file file;
	struct progress_reader *reader = NULL;
	struct err e = {0};
	const struct option_def options[] = {
	    PID_OPTION,
	    {0, "tree", OPTION_FLAG, &w.tree, NULL,
	     "all ranks that they have started, as torchrun does", NULL},
	    {0, "times", OPTION_POSITIVE, &w.times, "N",
	     "a hang is no step for N times the usual, and 5 s at least; 10 if not given", NULL},
	    {0, "for", OPTION_DURATION, &w.for_ns, "TIME", "a hang is no step for so long", NULL},
	    {'o', "output", OPTION_STRING, &output, "FILE", "write the stacks there", NULL},
	    {0},
	};
	const struct command command = {
	    .name = "watch",
	    .operands = "DIR|PID...",
	    .about = "Wait until a training hangs, and then write the stacks of all its ranks.",
	    .options = options,
	    .min_operands = 1,
	    .max_operands = -1,
	};
	int first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	w.argc = argc - first;
	w.argv = argv + first;
	int r = open_reader(&w, &reader, &e);
	if (!r && output && (r = new_file_open(&file, output, 0, &e)) == 0) {
		w.out = file.fd;
		r = new_file_name(&file);
		if (r)
			err_set(&e, r, "cannot write %s", output);
	}
	catch_signals();
	trace_loop_note_files();
	r = r ? r : watch(&w, reader, &e);
	if (w.out != STDOUT_FILENO)
		new_file_close(&file);
	progress_close(reader);
	if (r)
		err_print(&e);
	return r == -EINVAL ? EXIT_USAGE : r ? EXIT_FAILED : w.has_hung ? EXIT_HANG : EXIT_GOOD;
}
