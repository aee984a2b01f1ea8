#define _GNU_SOURCE
#include "base/commands.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/options.h"
#include "base/terminal.h"
#include "base/text.h"
#include "symbolizer/target/process.h"
#include "tracer/doctor_target.h"
#include "tracer/engine/engine.h"
#include "tracer/engine/shim/injector.h"

static const char *const words[] = {
    [CHECK_OK] = "ok", [CHECK_WARN] = "warn", [CHECK_FAIL] = "fail"};

enum { FORMAT_TEXT, FORMAT_JSON };
static const char *const formats[] = {"text", "json", NULL};

struct engines {
	bool bpf, shim, ptrace;
};

/* The one that --engine auto takes. */
static const char *taken(const struct engines *g)
{
	return g->bpf ? "bpf" : g->shim ? "shim" : g->ptrace ? "ptrace" : NULL;
}

/* Whether the engine opens is the last word on it. */
static bool check_engine(struct checks *c)
{
	struct engine *g;
	struct err e = {0};
	if (engine_bpf_open(1, &g, &e)) {
		c->of_bpf = true;
		checks_add(c, CHECK_FAIL, e.what, e.hint);
		c->of_bpf = false;
		return false;
	}
	g->close(g);
	return true;
}

/* Whether the engine shim can come into what `run` starts. */
static bool check_listener(struct checks *c)
{
	struct shim_listener *d;
	struct err e = {0};
	if (shim_listener_open(0, &d, &e)) {
		checks_add(c, CHECK_WARN, e.what, e.hint);
		return false;
	}
	shim_listener_close(d);
	return true;
}

/* Whether it can come into a process that runs. */
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

/* The remedy on the same line where there is room, else on one of its own. */
static void print_check(const struct check *x, size_t column, size_t width, bool colored)
{
	const char *color = colored ? color_of(x->status) : "";
	printf("%s%-4s%s  ", color, words[x->status], *color ? "\033[0m" : "");
	text_print_safe(stdout, x->text);
	size_t used = 6 + text_width(x->text), fix = text_width(x->fix) + 7;
	if (*x->fix) {
		if (used < column && column + fix <= width)
			printf("%*s", (int)(column - used), "");
		else if (used + fix <= width)
			printf("  ");
		else
			printf("\n      ");
		printf("fix: ");
		text_print_safe(stdout, x->fix);
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
		print_check(&c->list[i], column, width, t.color);
	printf("engines: bpf %s, shim %s, ptrace %s", g->bpf ? "yes" : "no", g->shim ? "yes" : "no",
	       g->ptrace ? "yes" : "no");
	printf(taken(g) ? "; --engine auto takes %s\n" : "\n", taken(g));
}

static json_t *json_check(const struct check *x)
{
	/* Names from the target may hold bytes that are not UTF-8. */
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
	g.shim = pid ? target && check_entering(pid, c) : check_listener(c);
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
	    {0, "format", OPTION_CHOICE, &format, "FORMAT", "how to print it: text or json",
	     formats},
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
