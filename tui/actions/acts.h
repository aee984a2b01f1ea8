/* What keys do with the process that is traced, besides tracing it. */
#ifndef TUI_ACTIONS_ACTS_H
#define TUI_ACTIONS_ACTS_H

#include <stdbool.h>

#include "tui/model/top.h"

/* NULL without memory. */
struct acts *acts_new(void);

/* Do what `key` means for the row with the cursor; says what it did, or why it cannot. False when
 * it is none of these keys. */
bool acts_key(struct top *t, int key);

/* Some times a second: see what has become of it. */
void acts_tick(struct top *t);

/* What a key has asked for last: the stacks of all threads, or what the changed functions did;
 * NULL: nothing yet. */
const char *acts_text(const struct acts *a);

/* End what goes on, and free `a` (may be NULL). */
void acts_free(struct acts *a);

#endif
