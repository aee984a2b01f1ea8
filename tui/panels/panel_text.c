#include <string.h>

#include "tui/actions/actions.h"
#include "tui/model/top.h"

int panel_text(struct top *t)
{
	struct lines *l = &t->lines;
	const char *text = actions_text(t->acts);
	lines_reset(l);
	for (; text && *text; text += strcspn(text, "\n"), text += *text == '\n') {
		bool head = !strncmp(text, "pid ", 4) || !strncmp(text, "thread ", 7);
		lines_add(l, head ? STYLE_BOLD : STYLE_PLAIN, "%.*s", (int)strcspn(text, "\n"),
			  text);
	}
	return l->failed;
}
