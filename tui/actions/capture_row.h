/* Which calls a row of the table is of, as the options of a capture say it. */
#ifndef TUI_ACTIONS_CAPTURE_ROW_H
#define TUI_ACTIONS_CAPTURE_ROW_H

#include "tui/model/top.h"

struct capture_what {
	char *ops;	/* a list for --ops; NULL: all */
	char *when;	/* a condition for --when; NULL: none */
	char text[192]; /* "aten::linear at train.py:12" */
};

/* The calls of a row of the view's grouping: op, source line, shapes, thread. False when they
 * cannot be chosen, and why was said. Free *out with capture_what_free either way. */
bool capture_row(struct top *t, const struct grouping_row *row, struct capture_what *out);

/* The last call of a row that is of one op, in *last until the source is asked again. False when it
 * is not known or no op that a program calls, and that was said. */
bool capture_row_op(struct top *t, const struct grouping_row *row, struct op_event *last);

void capture_what_free(struct capture_what *w);

#endif
