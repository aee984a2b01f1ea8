/* --budget: which calls are compared, so that comparing takes no more than a share of the time. */
#ifndef TRACER_SHIM_MODES_BUDGET_H
#define TRACER_SHIM_MODES_BUDGET_H

#include <stdbool.h>

#include "tracer/shim/python.h"

/* Whether the call of this thread is to be compared, with the GIL: `what` stands for its function
 * as long as the settings are the same. The first of each function at each line of the program
 * always is; then those whose turn it is, while there is time left; true where there is no budget.
 */
bool budget_takes(object *what);

/* The same for modes/: takes(what). */
object *modes_takes(object *self, object *what);

/* budget(share, files): 0 for no budget, else above 0 to 1; `files`: paths that begin with this are
 * none of the program's. Forgets whose turn it is. */
object *modes_budget(object *self, object *args);

/* spend(ns): comparing took so long. */
object *modes_spend(object *self, object *ns);

/* spent(): (nanoseconds spent in all, nanoseconds since the first call), as floats. */
object *modes_spent(object *self, object *unused);

/* Nothing was spent so far. */
void budget_forget(void);

#endif
