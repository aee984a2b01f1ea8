#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tui/model/top.h"

static void draw_prompt(const struct top *t, int y)
{
	char text[VIEW_FILTER_MAX + 16];
	snprintf(text, sizeof(text), "/%s", view_filter(t->view));
	int x = screen_text(y, 0, screen_width() - 1, text, STYLE_BOLD);
	screen_cursor(y, x);
}

void panel_status(const struct top *t, int y)
{
	static const char table_keys[] =
	    "? help  q quit  Enter details  g group  < > sort  / filter  "
	    "p pause  s stacks  c capture  C compare  f to CPU  u undo  "
	    "i interval  r reset  e save  d detach  a attach";
	static const char other_keys[] = "q back to the table  Up Down PgUp PgDn Left Right move";
	if (t->typing)
		draw_prompt(t, y);
	else if (t->message[0])
		screen_text(y, 0, screen_width(), t->message, STYLE_BOLD);
	else
		screen_text(y, 0, screen_width(), t->panel == TOP_TABLE ? table_keys : other_keys,
			    STYLE_DIM);
}
