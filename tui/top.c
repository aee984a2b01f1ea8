#include "tui/model/top.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tui/actions/actions.h"
#include "tui/keys.h"

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

int top_run(struct top *t, struct err *e)
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
