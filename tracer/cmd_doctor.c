#define _GNU_SOURCE

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/commands.h"
#include "base/err.h"
#include "base/options.h"
#include "base/text.h"
#include "symbolizer/target/process.h"
#include "tracer/engine/engine.h"
#include "tracer/engine/shim/injector.h"
#include "tracer/session/internal.h"
#include "tracer/trace_loop.h"

static void check_python(const struct target *t, struct checks *c)
{
	struct err why = {0};
	struct py_runtime *py = NULL;
	if (t->py) {
		checks_addf(c, CHECK_OK, "", "CPython %s", python_version(t->py));
	} else if (python_open(t->pid, &t->mem, &py, &why)) {
		checks_addf(c, CHECK_WARN, why.hint, "no Python lines will be shown: %s", why.what);
	}
	python_close(py);
}

static void check_ops(const struct op_table *t, struct checks *c)
{
	char calls[32], nodes[32], slow[32];
	checks_addf(c, CHECK_OK, "", "%s and %s; with a slow, single-stepped end probe: %s",
		    text_counted(calls, sizeof(calls), t->ncalls, "op"),
		    text_counted(nodes, sizeof(nodes), t->nnodes, "backward node"),
		    t->ret_exits ? text_count(slow, sizeof(slow), t->ret_exits) : "none");
	if (t->no_values)
		checks_addf(c, CHECK_WARN, "", "the arguments of %s cannot be decoded",
			    text_counted(calls, sizeof(calls), t->no_values, "op"));
}

/* Whether jumps fit the ops, for the engine shim. */
static void check_windows(struct op_table *t, struct checks *c)
{
	struct func_windows *w = calloc(t->n + 1, sizeof(*w));
	char calls[32], nodes[32];
	unsigned fit[2] = {0};
	if (w && !op_table_windows(t, w)) {
		for (uint32_t i = 0; i < t->n; i++)
			if (t->ops[i].role == ROLE_CALL || t->ops[i].role == ROLE_NODE)
				fit[t->ops[i].role == ROLE_NODE] += w[i].entry.len && w[i].nexits;
		checks_addf(c, CHECK_OK, "",
			    "jumps of the engine shim fit %s of the ops, and %s of the nodes",
			    text_count(calls, sizeof(calls), fit[0]),
			    text_count(nodes, sizeof(nodes), fit[1]));
	}
	free(w);
}

static void check_layout(const struct target *t, struct checks *c)
{
	if (t->layout.solved)
		checks_addf(c, CHECK_OK, "", "tensor layout found and checked: %s",
			    t->layout.source);
	else
		checks_add(c, CHECK_WARN,
			   "no op ran meanwhile: the layout of tensors will be found when one does",
			   "");
}

static void check_share(struct session *s, struct checks *c)
{
	struct engine_counters n;
	s->engine->counters(s->engine, &n);
	if (n.dispatched < DISPATCH_LEAST)
		return;
	double share = 100.0 * (double)n.dispatched_seen / (double)n.dispatched;
	checks_addf(c, share < 99.5 ? CHECK_WARN : CHECK_OK, "",
		    "%.1f %% of the dispatched ops are seen", share);
}

static void trace_a_moment(struct session *s)
{
	enum { TURNS = 400 };
	const struct timespec turn = {.tv_nsec = 1000 * 1000};
	for (unsigned i = 0; i < TURNS && session_step(s, NULL) == 0; i++)
		nanosleep(&turn, NULL);
}

/* cmd_doctor.c: check process `pid`, which has loaded PyTorch and may be traced, by tracing it
 * briefly; append checks of its Python, its ops, the layout of its tensors, and the share of its
 * ops that the probes see. */
static void doctor_target(pid_t pid, struct checks *c)
{
	/* Not the engine shim: it would leave its library in the process. */
	struct session_opts o = {.depth = SESSION_ALL_LEVELS, .attach = pid, .engine = ENGINE_BPF};
	struct session *s;
	struct err e = {0};
	int r = session_open(&o, &s, &e);
	if (r) {
		o.engine = ENGINE_PTRACE;
		r = session_open(&o, &s, &e);
	}
	if (r) {
		checks_add(c, CHECK_FAIL, e.what, e.hint);
		return;
	}
	if (session_add(s, pid, &e)) {
		checks_add(c, CHECK_FAIL, e.what, e.hint);
	} else {
		const struct proc *p = session_proc(s, pid);
		trace_a_moment(s);
		check_python(p->target, c);
		check_ops(s->ops, c);
		check_windows(s->ops, c);
		check_layout(p->target, c);
		check_share(s, c);
	}
	session_close(s);
}

static const char *const words[] = {
    [CHECK_OK] = "ok", [CHECK_WARN] = "warn", [CHECK_FAIL] = "fail"};

enum { FORMAT_TEXT, FORMAT_JSON };
static const char *const formats[] = {"text", "json", NULL};

struct engines {
	bool bpf, shim, ptrace;
};

/* The engine that --engine auto would use. */
static const char *taken(const struct engines *g)
{
	return g->shim ? "shim" : g->bpf ? "bpf" : g->ptrace ? "ptrace" : NULL;
}

/* The real test: try to open the engine. */
static bool check_engine(struct checks *c)
{
	struct engine *g;
	struct err e = {0};
	if (engine_bpf_open(&(struct engine_wanted){.nplans = 1}, &g, &e)) {
		c->of_bpf = true;
		checks_add(c, CHECK_FAIL, e.what, e.hint);
		c->of_bpf = false;
		return false;
	}
	g->close(g);
	return true;
}

static bool check_fits(pid_t pid, struct checks *c)
{
	struct err e = {0};
	if (engine_shim_fits(pid, &e)) {
		char text[600];
		snprintf(text, sizeof(text), "the engine shim is not taken: %s", e.what);
		checks_add(c, CHECK_WARN, text, e.hint);
		return false;
	}
	return true;
}

/* Whether the engine shim can be preloaded into what `run` starts. */
static bool check_listener(struct checks *c)
{
	struct shim_listener *d;
	struct err e = {0};
	if (shim_listener_open(0, NULL, &d, &e)) {
		checks_add(c, CHECK_WARN, e.what, e.hint);
		return false;
	}
	shim_listener_close(d);
	return true;
}

/* Whether the engine shim can be injected into a running process. */
static bool check_entering(pid_t pid, struct checks *c)
{
	struct err e = {0};
	if (injector_check(pid, INJECTOR_RECORDS, &e)) {
		checks_add(c, CHECK_WARN, e.what, e.hint);
		return false;
	}
	checks_add(c, CHECK_OK,
		   "its C library can load another: the engine shim can enter it, by ptrace", "");
	return true;
}

static const char *color_of(enum check_status s)
{
	return s == CHECK_OK ? "" : s == CHECK_FAIL ? "\033[31m" : "\033[33m";
}

/* Print the fix on the same line if there is room, otherwise on the next. */
static void print_check(const struct check *x, size_t column, size_t width, struct terminal t)
{
	const char *color = t.color ? color_of(x->status) : "";
	const size_t limit = width == (size_t)t.width ? width : 0;
	printf("%s%-4s%s  ", color, words[x->status], *color ? "\033[0m" : "");
	text_print_words(stdout, x->text, 6, 6, limit);
	size_t used = 6 + text_width(x->text), fix = text_width(x->fix) + 7;
	if (*x->fix) {
		if (used < column && column + fix <= width)
			printf("%*s", (int)(column - used), "");
		else if (used + fix <= width)
			printf("  ");
		else
			printf("\n      ");
		printf("fix: ");
		text_print_words(stdout, x->fix, 11, 11, used + fix <= width ? 0 : limit);
	}
	putchar('\n');
}

static void print_text(const struct checks *c, const struct engines *g)
{
	enum { NARROWEST = 20, NOT_KNOWN = 120 };
	const struct terminal t = terminal_of(stdout);
	size_t width = t.width > NARROWEST ? (size_t)t.width : NOT_KNOWN, column = 0;
	for (size_t i = 0; i < c->n; i++) {
		size_t w = *c->list[i].fix ? 8 + text_width(c->list[i].text) : 0;
		column = w > column && w < width / 2 ? w : column;
	}
	for (size_t i = 0; i < c->n; i++)
		print_check(&c->list[i], column, width, t);
	printf("engines: bpf %s, shim %s, ptrace %s", g->bpf ? "yes" : "no", g->shim ? "yes" : "no",
	       g->ptrace ? "yes" : "no");
	printf(taken(g) ? "; --engine auto takes %s\n" : "\n", taken(g));
}

static json_t *json_check(const struct check *x)
{
	/* Strings from the target may be invalid UTF-8. */
	char text[8192], fix[2048];
	text_safe(text, sizeof(text), x->text);
	text_safe(fix, sizeof(fix), x->fix);
	return json_pack("{s:s, s:s, s:s}", "status", words[x->status], "text", text, "fix", fix);
}

static int print_json(const struct checks *c, const struct engines *g)
{
	json_t *list = json_array();
	for (size_t i = 0; i < c->n; i++)
		json_array_append_new(list, json_check(&c->list[i]));
	json_t *root = json_pack("{s:o, s:{s:b, s:b, s:b}, s:s?, s:b}", "checks", list, "engines",
				 "bpf", g->bpf, "shim", g->shim, "ptrace", g->ptrace, "auto",
				 taken(g), "ok", !c->failed);
	int r = root ? json_dumpf(root, stdout, JSON_INDENT(2)) : -1;
	putchar('\n');
	json_decref(root);
	return r;
}

static struct engines run_checks(pid_t pid, struct checks *c)
{
	struct check_env env;
	check_env_init(&env);
	env.attach = pid;
	checks_machine(&env, c);
	struct engines g = {.ptrace = !env.ptrace};
	bool hopeless = false;
	for (size_t i = 0; i < c->n; i++)
		hopeless |= c->list[i].of_bpf && c->list[i].status == CHECK_FAIL;
	g.bpf = !hopeless && check_engine(c);
	env.ptrace_only = !g.bpf;
	bool target = pid && checks_process(&env, pid, c);
	g.shim = (!pid || target) && check_fits(pid, c) &&
		 (pid ? check_entering(pid, c) : check_listener(c));
	if (!g.bpf && (g.ptrace || g.shim))
		checks_spare_bpf(c);
	if (target && !c->failed)
		doctor_target(pid, c);
	return g;
}

int cmd_doctor(int argc, char **argv)
{
	int format = FORMAT_TEXT, status;
	const struct option_def options[] = {
	    PID_OPTION,
	    {0, "format", OPTION_CHOICE, &format, "FORMAT", "how to print it: text or json",
	     formats},
	    COLOR_OPTION,
	    {0},
	};
	const struct command command = {
	    .name = "doctor",
	    .operands = "[PID]",
	    .about = "Check what ditrace needs of this machine and, with PID, of that process.",
	    .options = options,
	    .notes = "The exit status is 0 only when tracing will work.",
	    .max_operands = 1,
	};
	int first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	pid_t pid = 0;
	struct err e = {0};
	if (first < argc && process_parse_pid(argv[first], &pid, &e)) {
		err_print(&e);
		return EXIT_USAGE;
	}
	struct checks c = {0};
	struct engines engines = run_checks(pid, &c);
	status = c.failed ? EXIT_FAILED : EXIT_GOOD;
	if (format == FORMAT_TEXT)
		print_text(&c, &engines);
	else if (print_json(&c, &engines))
		status = EXIT_FAILED;
	checks_free(&c);
	return status;
}
