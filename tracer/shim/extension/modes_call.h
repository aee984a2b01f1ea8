/* What a function of PyTorch is asked to do when the mode is on: looked up, and passed on unless
 * something is to be done about it. */
#ifndef TRACER_SHIM_EXTENSION_MODES_CALL_H
#define TRACER_SHIM_EXTENSION_MODES_CALL_H

#include <stdatomic.h>

#include "tracer/shim/extension/python.h"

/* Nothing is changed any more: ditrace is gone, or the connection to it. */
extern _Atomic bool modes_out;

/* Put the functions for modes/ into that dict: made, ready, is_out, end, enter, leave,
 * is_busy, pause_busy, resume_busy, refresh, is_inside, count, counts, forget, watch, statistics,
 * and those of modes_judge.h, modes_change.h, modes_fallback.h, modes_cast.h and modes_threads.h.
 */
bool modes_call_fill(object *module);

/* Give a name of `module` a new reference, which is taken. */
bool modes_set(object *module, const char *name, object *value);

/* count((feature, name, reason or None)): one call more, told from time to time. */
object *modes_count(object *self, object *key);

/* Is that object, which may be of any kind, a mode of ours? */
bool modes_is_mode(const object *o);

/* Something was counted elsewhere: tell it all, if it is time to. */
void modes_counted(void);

/* This thread is at work for ditrace: functions that it calls are passed on. */
extern __thread int modes_busy;

#endif
