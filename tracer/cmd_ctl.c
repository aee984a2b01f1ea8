#define _GNU_SOURCE
#include "base/commands.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/options.h"
#include "base/system.h"
#include "base/text.h"
#include "symbolizer/target/process.h"
#include "tracer/engine/shim/injector.h"
#include "tracer/intervene/intervene.h"

enum { FORMAT_TEXT, FORMAT_JSON };
static const char *const formats[] = {"text", "json", NULL};
static const char *const phases[] = {
    [SHIM_OUT] = "out of use",
    [SHIM_COMING] = "coming",
    [SHIM_IN] = "recording",
    [SHIM_GOING] = "going",
};

/* The status of the library in a process. */
struct status {
	pid_t pid;
	struct shim_state state;
	bool counted;	   /* the counts could be read */
	json_t *functions; /* intervene_ctl_status of the ditrace that intervenes; NULL: none */
	uint64_t hits, lost, mean_ns; /* of this connection; mean_ns 0: unknown */
};

static void read_counts(struct status *s)
{
	const struct shim_share *share = s->state.share;
	struct mem mem = mem_process(s->pid);
	struct shim_thread threads[SHIM_THREADS];
	uint64_t lost, at = (uint64_t)(uintptr_t)share;
	if (!share || mem_read_u64(&mem, at + offsetof(struct shim_share, lost), &lost) ||
	    mem_read(&mem, at + offsetof(struct shim_share, thread), threads, sizeof(threads)))
		return;
	const struct shim_counts c = shim_count(lost, threads);
	s->counted = true;
	s->hits = c.hits;
	s->lost = c.lost;
	s->mean_ns = c.sampled ? c.sampled_ns / c.sampled : 0;
}

static int read_status(pid_t pid, struct status *s, struct err *e)
{
	*s = (struct status){.pid = pid};
	int r = process_check(pid, e);
	r = r ? r : injector_state(pid, &s->state, e);
	if (r == -ENOENT)
		err_hint(e, "ditrace attach --engine shim %d brings it in", pid);
	else if (r == -EPROTO)
		err_hint(e, "use the ditrace that brought it in");
	if (r)
		return r;
	if (s->state.version != SHIM_VERSION || s->state.phase < SHIM_OUT ||
	    s->state.phase > SHIM_GOING) {
		err_set(e, -EPROTO, "the state of the library in process %d makes no sense", pid);
		return err_hint(e,
				"it may have been overwritten: check that the program still runs");
	}
	read_counts(s);
	return intervene_ctl_is_there(&s->state)
		   ? intervene_ctl_send(pid, (char *[]){"status"}, 1, &s->functions, e)
		   : 0;
}

/* Both are what the other side says. */
static void print_key(const char *name)
{
	char safe[64];
	text_safe(safe, sizeof(safe), name);
	printf("functions: %-8s  ", safe);
}

static void print_functions(const json_t *functions)
{
	const char *name;
	json_t *what;
	json_object_foreach((json_t *)functions, name, what)
	{
		if (!strcmp(name, CTL_THREADS))
			fputs("threads: ", stdout);
		else
			print_key(name);
		text_print_safe(stdout, json_is_string(what) ? json_string_value(what) : "?");
		putchar('\n');
	}
}

/* The library may intervene without ever having recorded. */
static void print_out_of_use(const struct status *s, const char *since)
{
	if (s->functions)
		puts("does not record and changes functions");
	else
		printf("%s%s%s; it stays mapped and does nothing\n", phases[SHIM_OUT],
		       s->state.since_ns ? " for " : "", s->state.since_ns ? since : "");
}

static void print_text(const struct status *s)
{
	char since[32], hits[32], lost[32], mean[32], stood[32];
	text_ns(since, sizeof(since), clock_ns(CLOCK_MONOTONIC) - s->state.since_ns);
	printf("process %d: ditrace's library is inside, ", s->pid);
	if (s->state.phase == SHIM_OUT) {
		print_out_of_use(s, since);
	} else {
		printf("%s for ditrace (process %d), for %s\n", phases[s->state.phase],
		       s->state.tracer, since);
		if (s->counted)
			printf("  now:    %s records, %s lost",
			       text_count(hits, sizeof(hits), s->hits),
			       text_count(lost, sizeof(lost), s->lost));
		else
			fputs("  now:    not known", stdout);
		if (s->mean_ns)
			printf(", %s each", text_ns(mean, sizeof(mean), s->mean_ns));
		putchar('\n');
	}
	if (s->state.stood_ns)
		printf("  to bring it in a thread stood still for %s\n",
		       text_ns(stood, sizeof(stood), s->state.stood_ns));
	printf("  before: %s records, %s lost\n", text_count(hits, sizeof(hits), s->state.hits),
	       text_count(lost, sizeof(lost), s->state.lost));
	print_functions(s->functions);
}

static int print_json(const struct status *s)
{
	const struct shim_state *x = &s->state;
	json_t *since = x->since_ns
			    ? json_integer((json_int_t)(clock_ns(CLOCK_MONOTONIC) - x->since_ns))
			    : json_null();
	json_t *now = x->phase == SHIM_OUT || !s->counted
			  ? json_null()
			  : json_pack("{s:i, s:I, s:I, s:I}", "ditrace", x->tracer, "records",
				      (json_int_t)s->hits, "lost", (json_int_t)s->lost, "mean_ns",
				      (json_int_t)s->mean_ns);
	json_t *root =
	    json_pack("{s:i, s:s, s:o, s:i, s:I, s:o, s:{s:I, s:I}, s:O?}", "pid", s->pid, "state",
		      phases[x->phase], "since_ns", since, "times", (int)x->came, "stood_ns",
		      (json_int_t)x->stood_ns, "now", now, "before", "records", (json_int_t)x->hits,
		      "lost", (json_int_t)x->lost, "functions", s->functions);
	int r = root ? json_dumpf(root, stdout, JSON_INDENT(2)) : -1;
	putchar('\n');
	json_decref(root);
	return r;
}

static int print(const struct status *s, int format, struct err *e)
{
	if (format == FORMAT_JSON)
		return print_json(s) ? err_set(e, -EIO, "cannot write the status") : 0;
	print_text(s);
	return 0;
}

static int run(pid_t pid, bool off, int format, struct err *e)
{
	struct status s;
	int r = read_status(pid, &s, e);
	if (!r && off)
		r = injector_take_out(pid, e);
	if (!r && off) {
		json_decref(s.functions);
		r = read_status(pid, &s, e);
	}
	r = r ? r : print(&s, format, e);
	json_decref(s.functions);
	return r;
}

/* Send an order to the ditrace that intervenes in the process. */
static int order(pid_t pid, char **words, int n, int format, struct err *e)
{
	json_t *functions;
	int r = intervene_ctl_send(pid, words, (size_t)n, &functions, e);
	if (r)
		return r;
	if (format == FORMAT_JSON) {
		json_dumpf(functions, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		print_functions(functions);
	}
	json_decref(functions);
	return 0;
}

static bool is_feature(const char *word)
{
	for (int f = 0; f < INTERVENE_FEATURES; f++)
		if (!strcmp(word, intervene_names[f]))
			return true;
	return false;
}

int cmd_ctl(int argc, char **argv)
{
	int format = FORMAT_TEXT, status;
	static const char *const whats[] = {"status",	"off",	   "fallback", "cast", "compare",
					    "overflow", "capture", "print",    "time", NULL};
	static const char *const hows[] = {"add", "remove", "all", "off", NULL};
	const struct option_def options[] = {
	    PID_OPTION,
	    {0, "format", OPTION_CHOICE, &format, "FORMAT", "how to print it: text or json",
	     formats},
	    {0},
	};
	const struct command command = {
	    .name = "ctl",
	    .operands = "PID [status | off | FEATURE ORDER]",
	    .about =
		"Show what ditrace's library does in a process, change what functions do there, "
		"or take it out.",
	    .options = options,
	    .notes = "FEATURE: fallback, cast, compare, overflow, capture, print or time.\n"
		     "ORDER: add LIST, remove LIST, all or off.",
	    .min_operands = 1,
	    .max_operands = 4,
	    .operand_words = {NULL, whats, hows},
	};
	int first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	signal(SIGPIPE, SIG_IGN); /* of who hangs up */
	struct err e = {0};
	pid_t pid = 0;
	const char *word = first + 1 < argc ? argv[first + 1] : "status";
	bool off = !strcmp(word, "off");
	int r = process_parse_pid(argv[first], &pid, &e);
	bool orders = is_feature(word);
	if (!r && !orders && ((!off && strcmp(word, "status")) || argc - first > 2)) {
		r = err_set(&e, -EINVAL, "\"%s\" is nothing that ctl can do", argv[argc - 1]);
		err_hint(&e, "status shows what is inside, off takes it out; fallback, cast, "
			     "compare and the like change what functions do");
	}
	if (r) {
		err_print(&e);
		return EXIT_USAGE;
	}
	r = orders ? order(pid, &argv[first + 1], argc - first - 1, format, &e)
		   : run(pid, off, format, &e);
	if (r)
		err_print(&e);
	return r ? EXIT_FAILED : EXIT_GOOD;
}
