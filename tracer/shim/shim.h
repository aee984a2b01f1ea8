/* Parts of the library inside a traced process. It links neither libtorch nor libpython, calls
 * nothing of theirs but what each header names, prints nothing, and keeps no lock while ops run. */
#ifndef TRACER_SHIM_SHIM_H
#define TRACER_SHIM_SHIM_H

#include <stdbool.h>
#include <stdint.h>

#include "tracer/shim_share.h"

/* client.c: the memory shared with ditrace, NULL while there is none. */
struct shim_share *shim_share(void);

/* Ask ditrace for it; waits for the answer. `false`: there is no ditrace, or it does not want this
 * process. Once a process only, and once more in each of its forks. */
bool shim_connect(void);

/* Whether this process is a fork that has not asked yet. */
bool shim_is_forked(void);

/* The memory is used no more; it stays mapped, since other threads may be about to look at it. */
void shim_disconnect(void);

/* Counts up with each fork: what was kept of a thread before holds no more. */
unsigned shim_epoch(void);

/* recorder.c: register with the libtorch_cpu whose handle this is (dlopen). Called at its
 * initialisation and again after a fork. */
void recorder_start(void *torch);

/* Take the callbacks out; nothing happens when they are not in. */
void recorder_stop(void);

/* pycode.c: tell of each code object that CPython frees, from now on. */
void pycode_watch(void (*freed)(uint64_t code));
void pycode_unwatch(void);

#endif
