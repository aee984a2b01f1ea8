#include "tui/model/top.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/commands.h"
#include "base/options.h"
#include "base/system.h"
#include "base/text.h"
#include "symbolizer/target/process.h"
#include "tracer/trace_loop.h"
#include "tui/actions/actions.h"

enum { MS = 1000000, REFRESH_NS = 500 * MS, SLICE_NS = 50 * MS };

static int fill_lines(struct top *t, size_t height)
{
	int r = t->panel == TOP_HELP   ? panel_help(t)
		: t->panel == TOP_TEXT ? panel_text(t)
				       : panel_detail(t);
	if (t->scroll + height > t->lines.n)
		t->scroll = t->lines.n > height ? t->lines.n - height : 0;
	return r;
}

static int draw(struct top *t)
{
	int height = screen_height(), body = height - TOP_HEAD_LINES - 1, r = 0;
	screen_begin();
	panel_head(t);
	if (body > 0 && t->panel == TOP_TABLE) {
		panel_table(t, TOP_HEAD_LINES, body);
	} else if (body > 0) {
		r = fill_lines(t, (size_t)body);
		lines_draw(&t->lines, t->scroll, t->left, TOP_HEAD_LINES, body);
	}
	panel_status(t, height - 1);
	screen_show();
	return r;
}

static int top_take_items(struct top *t, uint64_t until)
{
	enum player_state before;
	if (t->paused || !t->player)
		return 0;
	before = player_state(t->player);
	int r = player_take(t->player, t->view, until);
	if (player_state(t->player) == PLAYER_BROKEN && before != PLAYER_BROKEN)
		top_say(t, "%s", player_trouble(t->player)->what);
	return r;
}

/* Whether reading stopped for lack of time, not of events. */
static bool is_behind(const struct top *t, uint64_t until)
{
	return t->player && !t->paused && player_state(t->player) == PLAYER_GOES_ON &&
	       clock_ns(CLOCK_MONOTONIC) >= until;
}

/* Run the view until the user quits; the screen is open. 0 or -errno with *e. */
static int top_run(struct top *t, struct err *e)
{
	uint64_t shown = 0;
	int r = 0, y, x;
	while (!r && !t->quit && !screen_end_signal()) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC), until = now + SLICE_NS;
		r = t->live ? live_look(t->live, t->view) : 0;
		r = r ? r : top_take_items(t, until);
		int key = screen_key(is_behind(t, until) ? 0 : SLICE_NS / MS, &y, &x);
		if (!r && key != SCREEN_NO_KEY)
			r = keys_press(t, key, y, x);
		now = clock_ns(CLOCK_MONOTONIC);
		if (r || (key == SCREEN_NO_KEY && now - shown < REFRESH_NS))
			continue;
		r = t->live ? live_tick(t->live, t) : 0;
		actions_tick(t);
		r = r ? r : draw(t);
		shown = now;
	}
	return r ? err_set(e, r, "no memory to show more") : 0;
}

struct top_opts {
	struct live_opts live;
	const char *file; /* NULL: a live process */
	const char *pid;  /* of -p */
	const char *speed_text;
	double speed;
};

/* All digits, and no file of that name exists. */
static bool is_pid(const char *word)
{
	return strspn(word, "0123456789") == strlen(word) && access(word, F_OK);
}

static int read_speed(struct top_opts *o, struct err *e)
{
	char *end;
	o->speed = 1;
	if (!o->speed_text)
		return 0;
	o->speed = strtod(o->speed_text, &end);
	if (end != o->speed_text && !*end && o->speed >= 0 && o->speed <= 1e9)
		return 0;
	err_set(e, -EINVAL, "--speed: \"%s\" is no speed", o->speed_text);
	return err_hint(e, "--speed 2 is twice as fast as recorded, 0 as fast as it can be read");
}

static int choose(struct top_opts *o, int n, char **operands, bool is_command, struct err *e)
{
	if (is_command && !o->pid) {
		o->live.background.argv = operands;
		if (!o->live.background.program_output)
			o->live.background.program_output = "ditrace-top.out";
		return 0;
	}
	if (!n && o->pid)
		return process_parse_pid(o->pid, &o->live.background.pid, e);
	if (n == 1 && !o->pid && is_pid(operands[0]))
		return process_parse_pid(operands[0], &o->live.background.pid, e);
	o->file = n ? operands[0] : "ditrace.data";
	if (n <= 1 && !o->pid)
		return 0;
	err_set(e, -EINVAL, "ditrace top takes one file or process");
	return err_hint(e, "for a program: ditrace top -- %s ...", operands[0]);
}

/* Options that only a process has, or only a file. */
static int check_partners(const struct top_opts *o, bool has_limit, struct err *e)
{
	const struct session_opts *s = &o->live.background.session;
	const char *of_process = s->output			  ? "--trace"
				 : has_limit			  ? "--trace-limit"
				 : s->ops			  ? "--ops"
				 : s->not_ops			  ? "--not-ops"
				 : s->when			  ? "--when"
				 : s->phase			  ? "--phase"
				 : s->engine			  ? "--engine"
				 : s->depth != SESSION_ALL_LEVELS ? "--depth"
								  : NULL;
	bool has_output = o->live.background.program_output && !o->live.background.argv;
	if (o->file && of_process) {
		err_set(e, -EINVAL, "%s is of a process that is traced, and %s is a recorded file",
			of_process, o->file);
		return err_hint(e, "leave it out, or name a process: ditrace top PID");
	}
	if (!o->file && o->speed_text) {
		err_set(e, -EINVAL, "--speed is of a recorded file, not of a process");
		return err_hint(e, "leave it out, or name a file: ditrace top ditrace.data");
	}
	if (!has_output)
		return 0;
	err_set(e, -EINVAL, "--output is of a program that ditrace top starts");
	return err_hint(e, "ditrace top -o FILE -- python3 train.py; a trace is kept with --trace");
}

static int open_events(struct top *t, const struct top_opts *o, struct err *e)
{
	t->view = view_new();
	t->acts = o->file ? NULL : actions_new();
	if (!t->view || (!o->file && !t->acts) ||
	    (o->live.background.session.ops && view_show_marks(t->view)))
		return err_set(e, -ENOMEM, "no memory");
	return o->file ? player_open(o->file, o->speed, &t->player, e)
		       : live_open(&o->live, &t->live, e);
}

static int show(struct top *t, const struct top_opts *o, struct err *e)
{
	int r = screen_check(e);
	r = r ? r : open_events(t, o, e);
	r = r ? r : screen_open(e);
	if (r)
		return r;
	if (o->live.background.argv)
		top_say(t, "what the program prints goes to %s", o->live.background.program_output);
	r = top_run(t, e);
	screen_close();
	return r;
}

static int top(const struct top_opts *o)
{
	struct top t = {0};
	struct err e = {0};
	int r = show(&t, o, &e);
	actions_free(t.acts);
	live_close(t.live, screen_end_signal() != SIGHUP);
	player_close(t.player);
	view_free(t.view);
	file_names_free(&t.files);
	lines_free(&t.lines);
	if (r)
		err_print(&e);
	int sig = screen_end_signal();
	return r ? EXIT_FAILED : sig ? 128 + sig : EXIT_GOOD;
}

int cmd_top(int argc, char **argv)
{
	const uint64_t NOT_GIVEN = UINT64_MAX, LIMIT = (uint64_t)2 << 30;
	struct top_opts o = {0};
	uint64_t limit = NOT_GIVEN;
	struct session_opts *s = &o.live.background.session;
	const struct option_def options[] = {
	    {'p', "pid", OPTION_STRING, &o.pid, "PID", "the process, as without -p", NULL},
	    {0, "speed", OPTION_STRING, &o.speed_text, "N",
	     "replay N seconds of a file per second (default 1), 0: as fast as possible", NULL},
	    {'o', "output", OPTION_STRING, &o.live.background.program_output, "FILE",
	     "write the program's output to FILE (default ditrace-top.out)", NULL},
	    {0, "trace", OPTION_STRING, &s->output, "FILE", "keep the trace in FILE", NULL},
	    {0, "trace-limit", OPTION_SIZE, &limit, "SIZE",
	     "at SIZE (default 2G) start a new file, and count from zero; 0: no limit", NULL},
	    {0, "ops", OPTION_LIST, &s->ops, "LIST", "trace these ops only", NULL},
	    {0, "not-ops", OPTION_LIST, &s->not_ops, "LIST", "leave these ops out", NULL},
	    {0, "when", OPTION_ONCE, &s->when, "EXPR",
	     "show only calls for which EXPR holds: 'self.dim() == 2'", NULL},
	    {0, "depth", OPTION_COUNT, &s->depth, "N", "trace the outermost N levels of ops only",
	     NULL},
	    {0, "phase", OPTION_CHOICE, &s->phase, "all|forward|backward|recompute",
	     "trace one phase only", trace_phases},
	    {0, "engine", OPTION_CHOICE, &s->engine, "auto|bpf|ptrace|shim", "how to trace",
	     engine_names},
	    COLOR_OPTION,
	    {0},
	};
	const struct command command = {
	    .name = "top",
	    .operands = "[PID | -- PROGRAM [ARGUMENT...] | FILE]",
	    .about =
		"Show which ops take the time, live, of a process or of a trace file (default: "
		"ditrace.data).",
	    .options = options,
	    .notes = "Keys: ? lists them, q quits; a traced process keeps running.",
	    .stop_at_operand = true,
	    .max_operands = -1,
	};
	struct err e = {0};
	int status;
	s->depth = SESSION_ALL_LEVELS;
	spawn_caller_save(&o.live.background.caller);
	int first = options_start(&command, argc, argv, &status);
	if (!first)
		return status;
	bool is_command = first > 1 && first < argc && !strcmp(argv[first - 1], "--");
	bool has_limit = limit != NOT_GIVEN;
	o.live.limit = has_limit ? limit : LIMIT;
	if (read_speed(&o, &e) || trace_options_check(s, &e) ||
	    choose(&o, argc - first, argv + first, is_command, &e) ||
	    check_partners(&o, has_limit, &e)) {
		err_print(&e);
		return EXIT_USAGE;
	}
	return top(&o);
}
