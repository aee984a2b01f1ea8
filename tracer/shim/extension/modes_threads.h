/* Threads that run when the modes come in, and those that nothing of Python has started. */
#ifndef TRACER_SHIM_EXTENSION_MODES_THREADS_H
#define TRACER_SHIM_EXTENSION_MODES_THREADS_H

#include <stdbool.h>

#include "tracer/shim/extension/python.h"

/* From now on `enter` is called at ops of threads that run Python, every now and then on each, with
 * the GIL held. False: the mode is not on this thread. */
void modes_threads_start(bool (*enter)(void));
void modes_threads_stop(void);

/* threads(): how many threads have run ops, as (those that the mode was on when they were asked
 * last, those that Python does not know, those that have only modes of PyTorch's own). All 0 where
 * modes_threads_start was not called. */
object *modes_threads(object *self, object *unused);

/* no_more_threads(): Python is about to end, and no thread may wait for the GIL. */
object *modes_threads_end(object *self, object *unused);

/* None has, so far. */
void modes_threads_forget(void);

#endif
