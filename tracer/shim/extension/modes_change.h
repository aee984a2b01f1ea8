/* Calls that are changed: each feature that a function has a plan for, the program's own call where
 * one cannot. The features themselves are functions (plan, call, args, kwargs, at) of modes/, of
 * modes_fallback.c or modes_cast.c, which raise Unchanged for a call that they leave alone. */
#ifndef TRACER_SHIM_EXTENSION_MODES_CHANGE_H
#define TRACER_SHIM_EXTENSION_MODES_CHANGE_H

#include "tracer/shim/extension/python.h"

/* Take what is needed from the names of modes/. False: one is missing. */
bool modes_change_ready(object *module);

/* Call func(*args, **kwargs) as `plan`, a Plan of modes/, wants it; kwargs is a dict. A new
 * reference, or NULL with what the program's own call has raised. */
object *modes_change(object *plan, object *func, object *args, object *kwargs);

/* changed(plan, func, args, kwargs), and place(): (file, line, function) of the innermost frame
 * that is the program's own, or None. Both METH_VARARGS. */
object *modes_changed(object *self, object *args);
object *modes_place(object *self, object *args);

/* call_number(), METH_NOARGS: ditorch's forward_id of the call that this thread is changing, 0:
 * none. All calls that are looked at for a change count, from 1 on in the order in which they
 * begin. */
object *modes_call_number(object *self, object *unused);

/* Wrap the error of the program's own call, so that the call is not made again (Raised). */
void modes_raised(void);

/* Raise Unchanged. Returns NULL. */
object *modes_unchanged(const char *reason);

/* Count a call: what a feature (its name) has done, or with a reason, not done; None: no reason.
 * Keeps Python's error. */
void modes_tally(object *feature, object *plan, object *reason);

/* The name of modes/ that was there at modes_change_ready; borrowed, or NULL without an error. */
object *modes_name(const char *name);

/* Names of modes/, borrowed, or texts, kept for as long as the process runs, and where they go.
 * False: one is not there. */
struct modes_wanted {
	object **place;
	const char *name;
};
bool modes_names(const struct modes_wanted *w, size_t n);
bool modes_texts(const struct modes_wanted *w, size_t n);

#endif
