/* --budget: which calls are compared, so that comparing takes no more than a share of the time. */
#ifndef TRACER_SHIM_EXTENSION_MODES_BUDGET_H
#define TRACER_SHIM_EXTENSION_MODES_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "tracer/shim/extension/python.h"

/* Whether the call of this thread is to be compared, with the GIL: `what` stands for its function
 * as long as the settings are the same. Those whose turn it is are, as long as what it is expected
 * to take is left; all where there is no budget. */
bool budget_takes(object *what);

/* The number of tracer/shim/budget.h that this thread's call has, which was taken last; set it
 * after calls of the program's own. */
uint64_t budget_number(void);
void budget_set_number(uint64_t number);

/* Comparing the forward of that call took so many nanoseconds. */
void budget_spent(uint64_t number, uint64_t ns);

/* The same for modes/: takes(what), number_taken(), spend(number, is_backward, nanoseconds). */
object *modes_takes(object *self, object *what);
object *modes_budget_number(object *self, object *unused);
object *modes_spend(object *self, object *args);

/* backward_comes(number), backward_came(number, whether it was judged). */
object *modes_comes(object *self, object *number);
object *modes_came(object *self, object *args);

/* budget(share): 0.0 for no budget, else above 0 to 1. Forgets whose turn it is. */
object *modes_budget(object *self, object *share);

/* spent(): (nanoseconds spent in all, nanoseconds since the first call), as floats. */
object *modes_spent(object *self, object *unused);

/* Nothing was spent so far. */
void budget_forget(void);

#endif
