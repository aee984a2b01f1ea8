/* What the keys of the live view do. */
#ifndef TUI_KEYS_H
#define TUI_KEYS_H

#include "tui/model/top.h"

/* One key of screen_key; a click was at line y, column x. 0 or -ENOMEM. */
int keys_press(struct top *t, int key, int y, int x);

#endif
