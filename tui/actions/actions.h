/* What keys do with the process that is traced, besides tracing it. */
#ifndef TUI_ACTIONS_ACTIONS_H
#define TUI_ACTIONS_ACTIONS_H

#include <stdbool.h>

#include "tui/model/top.h"

/* NULL without memory. */
struct actions *actions_new(void);

/* Do what `key` means for the row with the cursor; says what it did, or why it cannot. False when
 * it is none of these keys. */
bool actions_key(struct top *t, int key);

/* Some times a second: see what has become of it. */
void actions_tick(struct top *t);

/* What a key has asked for last: the stacks of all threads, or what the changed functions did;
 * NULL: nothing yet. */
const char *actions_text(const struct actions *a);

/* End what goes on, and free `a` (may be NULL). */
void actions_free(struct actions *a);

#endif
