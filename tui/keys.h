/* Key bindings of the live view. */
#ifndef TUI_KEYS_H
#define TUI_KEYS_H

#include "tui/model/top.h"

/* Handle one key of screen_key; y and x are the position of a click. 0 or -ENOMEM. */
int keys_press(struct top *t, int key, int y, int x);

#endif
