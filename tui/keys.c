#include "tui/model/top.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "tui/actions/actions.h"

#define CONTROL(letter) ((letter)&0x1f)

enum { WHEEL = 3, SIDE = 8 };

static size_t page(void)
{
	int rows = screen_height() - TOP_HEAD_LINES - 2;
	return rows > 1 ? (size_t)rows : 1;
}

static void move(size_t *at, long by)
{
	if (by < 0 && (size_t)-by > *at)
		*at = 0;
	else
		*at += (size_t)by;
}

/* The row that was drawn at the selected place stays selected, unless that is the first. */
static void choose_drawn(struct top *t)
{
	size_t i = t->selected - t->first;
	t->sticks = t->selected > 0;
	t->chosen = t->selected >= t->first && i < t->ndrawn ? t->drawn[i] : -1;
}

/* Limits are enforced when the panel is drawn. */
static bool moves(struct top *t, int key)
{
	size_t *at = t->panel == TOP_TABLE ? &t->selected : &t->scroll;
	switch (key) {
	case SCREEN_UP:
	case 'k':
		move(at, -1);
		return true;
	case SCREEN_DOWN:
	case 'j':
		move(at, 1);
		return true;
	case SCREEN_PAGE_UP:
	case CONTROL('b'):
		move(at, -(long)page());
		return true;
	case SCREEN_PAGE_DOWN:
	case CONTROL('f'):
		move(at, (long)page());
		return true;
	case SCREEN_WHEEL_UP:
		move(at, -WHEEL);
		return true;
	case SCREEN_WHEEL_DOWN:
		move(at, WHEEL);
		return true;
	case SCREEN_HOME:
		*at = 0;
		return true;
	case SCREEN_END:
	case 'G':
		*at = SIZE_MAX / 2;
		return true;
	default:
		return false;
	}
}

static bool movement(struct top *t, int key)
{
	bool moved = moves(t, key);
	if (moved && t->panel == TOP_TABLE)
		choose_drawn(t);
	return moved;
}

static void go_to_first(struct top *t)
{
	t->selected = t->first = 0;
	t->sticks = false;
}

static void sort_beside(struct view *v, int by)
{
	bool reversed;
	int c = view_sorted(v, &reversed);
	do
		c = (c + by + VIEW_COLUMNS) % VIEW_COLUMNS;
	while (!view_has(v, (enum view_column)c));
	view_sort(v, (enum view_column)c);
}

static void sort_by(struct view *v, enum view_column c)
{
	if (c < VIEW_COLUMNS)
		view_sort(v, c);
}

static void sort_largest_first(struct view *v, enum view_column column)
{
	bool reversed;
	if (view_sorted(v, &reversed) != column || reversed)
		view_sort(v, column);
}

static void open_detail(struct top *t)
{
	if (t->chosen < 0)
		return;
	t->detail = (uint32_t)t->chosen;
	t->panel = TOP_DETAIL;
	t->scroll = 0;
	t->left = 0;
}

static void select_drawn(struct top *t, size_t i)
{
	t->selected = t->first + i;
	choose_drawn(t);
}

static void click(struct top *t, int y, int x)
{
	if (t->panel != TOP_TABLE)
		return;
	if (y == TOP_HEAD_LINES)
		sort_by(t->view, panel_table_column(t, x));
	else if (y > TOP_HEAD_LINES && y < screen_height() - 1)
		select_drawn(t, (size_t)(y - TOP_HEAD_LINES - 1));
}

static void set_speed(struct top *t, int key)
{
	double speed = t->player ? player_speed(t->player) : 0;
	if (t->live) {
		top_say(t, "events of a process come as fast as it makes them");
		return;
	}
	if (key == '0')
		speed = 0;
	else if (speed <= 0)
		speed = 1;
	else
		speed = key == '-' ? speed / 2 : speed * 2;
	player_set_speed(t->player, speed);
	if (speed > 0)
		top_say(t, "speed %g", speed);
	else
		top_say(t, "as fast as it can be read");
}

static void pause_or_go_on(struct top *t)
{
	t->paused = !t->paused;
	if (!t->paused && t->player)
		player_resume(t->player);
	top_say(t, t->paused ? "paused; p goes on" : "going on");
}

static int set_interval(struct top *t)
{
	int r = view_set_interval(t->view, !view_interval(t->view));
	top_say(t, view_interval(t->view) ? "figures of the last 2 seconds" : "figures of all");
	return r;
}

static int next_group(struct top *t)
{
	int group = (view_group(t->view) + 1) % GROUPING_GROUPS;
	go_to_first(t);
	top_say(t, "by %s", grouping_names[group]);
	return view_set_group(t->view, (enum grouping_by)group);
}

static int turn_tree(struct top *t)
{
	bool tree = !view_is_tree(t->view);
	int r = view_set_tree(t->view, tree);
	go_to_first(t);
	t->panel = TOP_TABLE;
	if (tree)
		sort_largest_first(t->view, VIEW_TOTAL);
	top_say(t, tree ? "modules as a tree; Left and Right fold and unfold" : "by %s",
		grouping_names[view_group(t->view)]);
	return r;
}

/* Enter, Left and Right on a row of the tree. */
static bool tree_key(struct top *t, int key)
{
	if (!view_is_tree(t->view) ||
	    (key != SCREEN_ENTER && key != SCREEN_LEFT && key != SCREEN_RIGHT))
		return false;
	bool folds =
	    key == SCREEN_LEFT || (key == SCREEN_ENTER && !view_is_folded(t->view, t->chosen));
	view_fold(t->view, t->chosen, folds ? VIEW_FOLDED : VIEW_OPEN);
	t->sticks = true;
	return true;
}

static int reset(struct top *t)
{
	go_to_first(t);
	t->panel = TOP_TABLE;
	top_say(t, "counting anew");
	return view_reset(t->view);
}

static void show_help(struct top *t)
{
	t->panel = TOP_HELP;
	t->scroll = 0;
	t->left = 0;
}

/* Keys that need a live process. */
static bool live_key(struct top *t, int key)
{
	if (!strchr("ade", key))
		return false;
	if (!t->live)
		top_say(t, "this is a recorded file: no process is traced");
	else if (key == 'a')
		live_attach(t->live, t);
	else if (key == 'd')
		live_detach(t->live, t);
	else
		live_save(t->live, t);
	return true;
}

static int command(struct top *t, int key)
{
	switch (key) {
	case 'g':
		return next_group(t);
	case 't':
	case SCREEN_F1 + 4:
		return turn_tree(t);
	case 'i':
		return set_interval(t);
	case 'r':
		return reset(t);
	case 'p':
	case ' ':
		pause_or_go_on(t);
		return 0;
	case '+':
	case '-':
	case '0':
		set_speed(t, key);
		return 0;
	default:
		if (key < 0x80 && key > 0 && !live_key(t, key))
			actions_key(t, key);
		return 0;
	}
}

/* The letter of each column's name. */
static bool sort_letter(struct view *v, int key)
{
	static const char letters[VIEW_COLUMNS + 1] = "STNMPDOHW";
	const char *at = key > 0 && key < 0x80 ? strchr(letters, key) : NULL;
	if (!at || !*at)
		return false;
	if (!view_has(v, (enum view_column)(at - letters)))
		return false;
	sort_largest_first(v, (enum view_column)(at - letters));
	return true;
}

static void table_key(struct top *t, int key)
{
	bool reversed;
	if (sort_letter(t->view, key) || tree_key(t, key))
		return;
	switch (key) {
	case '<':
		sort_beside(t->view, -1);
		break;
	case '>':
	case SCREEN_F1 + 5:
		sort_beside(t->view, 1);
		break;
	case 'R':
		view_sort(t->view, view_sorted(t->view, &reversed));
		break;
	case '/':
	case SCREEN_F1 + 3:
		t->typing = true;
		break;
	case SCREEN_ESCAPE:
		view_set_filter(t->view, "");
		break;
	case SCREEN_ENTER:
		open_detail(t);
		break;
	default:
		break;
	}
}

static void lines_key(struct top *t, int key)
{
	if (key == 'q' || key == SCREEN_ESCAPE || key == SCREEN_ENTER)
		t->panel = TOP_TABLE;
	else if (key == SCREEN_LEFT)
		t->left = t->left > SIDE ? t->left - SIDE : 0;
	else if (key == SCREEN_RIGHT)
		t->left += SIDE;
}

/* Filter on each letter typed. Only ASCII ignores case. */
static void filter_key(struct top *t, int key)
{
	char text[VIEW_FILTER_MAX + 8];
	size_t n = strlen(view_filter(t->view));
	memcpy(text, view_filter(t->view), n + 1);
	if (key == SCREEN_ENTER || key == SCREEN_ESCAPE) {
		t->typing = false;
		if (key == SCREEN_ESCAPE)
			text[0] = '\0';
	} else if (key == SCREEN_BACKSPACE && n) {
		text[n - 1] = '\0';
	} else if (key >= ' ' && key < 0x7f && n + 1 < VIEW_FILTER_MAX) {
		text[n] = (char)key;
		text[n + 1] = '\0';
	}
	go_to_first(t);
	view_set_filter(t->view, text);
}

static void ask_to_quit(struct top *t)
{
	char size[32];
	uint64_t bytes = t->live ? live_unkept(t->live) : 0;
	if (!bytes)
		t->quit = true;
	else
		top_ask(t, TOP_ASKS_KEEP, "keep the trace, %s? y/n; Esc goes on",
			text_bytes(size, sizeof(size), bytes));
}

static void answer(struct top *t, int key)
{
	enum top_question asks = t->asks;
	bool yes = key == 'y' || key == 'Y', no = key == 'n' || key == 'N';
	t->asks = TOP_ASKS_NOTHING;
	if (asks == TOP_ASKS_CHANGE) {
		actions_answer(t, yes);
		return;
	}
	if (yes)
		live_keep(t->live);
	t->quit = yes || no || key == 'q' || key == SCREEN_F10;
}

int keys_press(struct top *t, int key, int y, int x)
{
	bool lines = t->panel != TOP_TABLE;
	if (key == SCREEN_NO_KEY || key == SCREEN_RESIZE)
		return 0;
	if (t->asks) {
		answer(t, key);
		return 0;
	}
	if (t->typing && key < SCREEN_ENTER && key >= SCREEN_UP)
		t->typing = false;
	if (t->typing) {
		filter_key(t, key);
		return 0;
	}
	t->message[0] = '\0';
	if (key == SCREEN_F10 || (!lines && key == 'q'))
		ask_to_quit(t);
	else if (key == '?' || key == 'h' || key == SCREEN_F1)
		show_help(t);
	else if (key == SCREEN_CLICK)
		click(t, y, x);
	else if (movement(t, key))
		return 0;
	else if (lines)
		lines_key(t, key);
	else
		table_key(t, key);
	return !lines || (key > 0 && key < 0x80 && strchr("p escCfu", key)) ? command(t, key) : 0;
}
