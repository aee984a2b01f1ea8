#include "base/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/options.h"
#include "base/system.h"
#include "base/text.h"
#include "symbolizer/target/process.h"
#include "tui/model/top.h"
#include "tui/screen/screen.h"

enum { HEAD = 3, FOOT = 4, REFRESH_MS = 1000, KEY_MS = 50 };

struct picker {
	struct processes all;
	struct listed_process *shown[1024];
	size_t n, selected, first;
	pid_t chosen;	/* the selected one; 0: none */
	struct err why; /* why that cannot be opened; code 0: nothing to say */
	bool opens, quits;
};

static size_t rows_shown(void)
{
	int rows = screen_height() - HEAD - FOOT;
	return rows > 0 ? (size_t)rows : 0;
}

/* Stay on the process that was chosen; where it has ended, on its place. */
static void choose_shown(struct picker *p)
{
	p->n = 0;
	for (size_t i = 0; i < p->all.n && p->n < sizeof(p->shown) / sizeof(p->shown[0]); i++) {
		if (!p->all.list[i].torch)
			continue;
		if (p->all.list[i].pid == p->chosen)
			p->selected = p->n;
		p->shown[p->n++] = &p->all.list[i];
	}
	if (p->selected >= p->n)
		p->selected = p->n ? p->n - 1 : 0;
	p->chosen = p->n ? p->shown[p->selected]->pid : 0;
}

static const char *age_text(char *out, size_t size, uint64_t ns)
{
	uint64_t s = ns / 1000000000;
	if (s < 60)
		snprintf(out, size, "%" PRIu64 " s", s);
	else if (s < 3600)
		snprintf(out, size, "%" PRIu64 " min", s / 60);
	else if (s < 86400)
		snprintf(out, size, "%.1f h", (double)s / 3600);
	else
		snprintf(out, size, "%.1f d", (double)s / 86400);
	return out;
}

/* Where it is narrow, without the user. */
static void draw_columns(int y, const char *const texts[4], const char *command, enum style style)
{
	enum { USER = 10, GAP = 2, PID_WIDTH = 10, CPU_WIDTH = 5, AGE_WIDTH = 6, NARROW = 70 };
	int x = PID_WIDTH + GAP;
	screen_right(y, 0, PID_WIDTH, texts[0], style);
	if (screen_width() >= NARROW) {
		screen_text(y, x, USER, texts[1], style);
		x += USER + GAP;
	}
	screen_right(y, x, CPU_WIDTH, texts[2], style);
	x += CPU_WIDTH + GAP;
	screen_right(y, x, AGE_WIDTH, texts[3], style);
	x += AGE_WIDTH + GAP;
	screen_text(y, x, screen_width() - x, command, style);
}

static void draw_process(int y, const struct listed_process *x, bool selected)
{
	char pid[32], user[64], cpu[32] = "-", age[32];
	snprintf(pid, sizeof(pid), "%s%d", x->why.code ? "- " : "", x->pid);
	if (x->cpu_percent >= 0)
		snprintf(cpu, sizeof(cpu), "%.0f", x->cpu_percent);
	const char *const texts[] = {pid, process_user(x->uid, user, sizeof(user)), cpu,
				     age_text(age, sizeof(age), x->age_ns)};
	draw_columns(y, texts, x->command, x->why.code ? STYLE_DIM : STYLE_PLAIN);
	if (selected)
		screen_line(y, STYLE_SELECTED);
}

/* Draw `text` on as many lines as its words take, `lines` at most. Returns their number. */
static int draw_wrapped(int y, int lines, const char *text, enum style style)
{
	int drawn = 0;
	for (; *text && drawn < lines; drawn++) {
		char line[1024], *space;
		snprintf(line, sizeof(line), "%s", text);
		while (drawn + 1 < lines && (int)text_width(line) > screen_width() &&
		       (space = strrchr(line, ' ')))
			*space = '\0';
		screen_text(y + drawn, 0, screen_width(), line, style);
		text += strlen(line);
		text += strspn(text, " ");
	}
	return drawn;
}

static bool has_hidden(const struct picker *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->shown[i]->hidden)
			return true;
	return false;
}

static void draw_foot(const struct picker *p)
{
	int y = screen_height() - FOOT + 1;
	char hint[sizeof(p->why.hint) + 16];
	if (!p->why.code) {
		if (has_hidden(p))
			screen_text(
			    screen_height() - 2, 0, screen_width(),
			    "- a Python of another user: whether it runs PyTorch is not seen",
			    STYLE_DIM);
		screen_text(screen_height() - 1, 0, screen_width(),
			    p->n ? "Enter opens ditrace top  Up Down moves  q quits" : "q quits",
			    STYLE_DIM);
		return;
	}
	int drawn = draw_wrapped(y, 1, p->why.what, STYLE_BOLD);
	snprintf(hint, sizeof(hint), "hint: %s", p->why.hint);
	if (p->why.hint[0])
		draw_wrapped(y + drawn, 2, hint, STYLE_PLAIN);
}

static void draw(struct picker *p)
{
	static const char *const heads[] = {"PID", "User", "CPU %", "Age"};
	size_t rows = rows_shown();
	screen_begin();
	screen_text(0, 0, screen_width(), "ditrace   processes that run PyTorch", STYLE_PLAIN);
	screen_line(0, STYLE_BAR);
	if (p->n)
		draw_columns(HEAD - 1, heads, "Command", STYLE_BOLD);
	if (p->first > p->selected)
		p->first = p->selected;
	if (rows && p->selected >= p->first + rows)
		p->first = p->selected - rows + 1;
	for (size_t i = p->first; i < p->n && i - p->first < rows; i++)
		draw_process(HEAD + (int)(i - p->first), p->shown[i], i == p->selected);
	if (!p->n) {
		screen_text(HEAD - 1, 2, screen_width(), "no process seen here runs PyTorch now",
			    STYLE_PLAIN);
		draw_wrapped(HEAD, FOOT,
			     "  hint: start one with: ditrace run -- python3 train.py; "
			     "ditrace --help lists the commands",
			     STYLE_PLAIN);
	}
	draw_foot(p);
	screen_show();
}

static void move_by(struct picker *p, long by)
{
	size_t last = p->n ? p->n - 1 : 0;
	p->selected = by < 0 && (size_t)-by > p->selected ? 0 : p->selected + (size_t)by;
	p->selected = p->selected > last ? last : p->selected;
	p->chosen = p->n ? p->shown[p->selected]->pid : 0;
}

static void press(struct picker *p, int key, int y)
{
	p->why = (struct err){0};
	if (key == 'q' || key == SCREEN_ESCAPE || key == SCREEN_F10)
		p->quits = true;
	else if (key == SCREEN_UP || key == 'k' || key == SCREEN_WHEEL_UP)
		move_by(p, -1);
	else if (key == SCREEN_DOWN || key == 'j' || key == SCREEN_WHEEL_DOWN)
		move_by(p, 1);
	else if (key == SCREEN_PAGE_UP || key == SCREEN_HOME)
		move_by(p, key == SCREEN_HOME ? -(long)p->n : -(long)rows_shown());
	else if (key == SCREEN_PAGE_DOWN || key == SCREEN_END)
		move_by(p, key == SCREEN_END ? (long)p->n : (long)rows_shown());
	else if (key == SCREEN_CLICK && y >= HEAD)
		move_by(p, (long)p->first + y - HEAD - (long)p->selected);
	else if (key == SCREEN_ENTER && p->n && p->shown[p->selected]->why.code)
		p->why = p->shown[p->selected]->why;
	else if (key == SCREEN_ENTER && p->n)
		p->opens = true;
}

static int run_picker(struct picker *p, struct err *e)
{
	uint64_t next = 0;
	int y, x, r = 0;
	while (!p->opens && !p->quits && !screen_end_signal()) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		int key = next ? screen_key(KEY_MS, &y, &x) : SCREEN_NO_KEY;
		if (key != SCREEN_NO_KEY)
			press(p, key, y);
		else if (now < next)
			continue;
		if (now >= next) {
			r = processes_look(&p->all);
			if (r)
				return err_set(e, r, "cannot look at the processes: %s",
					       strerror(-r));
			choose_shown(p);
			next = now + (uint64_t)REFRESH_MS * 1000000;
		}
		draw(p);
	}
	return 0;
}

int cmd_processes(int argc, char **argv)
{
	static struct picker p;
	struct err e = {0};
	char pid[32];
	(void)argc;
	(void)argv;
	int r = screen_check(&e);
	r = r ? r : screen_open(&e);
	if (!r) {
		r = run_picker(&p, &e);
		screen_close();
	}
	processes_free(&p.all);
	if (r) {
		err_print(&e);
		return EXIT_FAILED;
	}
	if (!p.opens)
		return screen_end_signal() ? 128 + screen_end_signal() : EXIT_GOOD;
	snprintf(pid, sizeof(pid), "%d", p.chosen);
	return cmd_top(2, (char *[]){"top", pid, NULL});
}
