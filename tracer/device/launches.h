/* What devices did, and the op in which each was launched: records of launches and of what came of
 * them (tracer/engine/engine.h), joined with each other and with the ops that have ended. */
#ifndef TRACER_DEVICE_LAUNCHES_H
#define TRACER_DEVICE_LAUNCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/event/event.h"
#include "tracer/engine/engine.h"

struct launches;

/* Called for each activity, in no order. `a` is valid during the call, its op and stacks as long as
 * those of the events were, its name as long as the struct launches. of.rank1 is 0. */
typedef void launches_fn(const struct activity *a, void *arg);

/* When the outermost op of the thread that has not ended yet began, as far as records are decoded;
 * UINT64_MAX: it is in none. */
typedef uint64_t launches_open_fn(int32_t pid, int32_t tid, void *arg);

/* NULL when out of memory. */
struct launches *launches_new(launches_fn *fn, launches_open_fn *open, void *arg);

/* Called for what is done with memory: in its own order of a thread's times no more than for
 * activities. From launches_new on, if at all. */
typedef void launches_memory_fn(const struct memory_event *m, void *arg);
void launches_on_memory(struct launches *l, launches_memory_fn *fn);

/* Without launches_begin nothing is kept of a process before its first record, which may be
 * RECORD_LOST of none: of ops that ended before, it is not known what they launched. */

/* All ops of the process that are recorded will be passed on. Those that it was in before are not
 * known: until its first record nothing is said to be in no op. */
void launches_begin(struct launches *l, int32_t pid);

/* An op that is recorded has ended: those that it called come before it. */
void launches_op(struct launches *l, const struct op_event *ev);

/* Calls that would be recorded were summed up. */
void launches_sum(struct launches *l, const struct op_sum *s);

/* Records of ops were lost in that time: of no launch in it can be said that it was in no op. */
void launches_lost(struct launches *l, uint64_t from_ns, uint64_t to_ns);

/* A record of an engine. RECORD_LOST is for the caller to report. */
void launches_record(struct launches *l, const struct activity_record *r, uint64_t now_ns);

/* Call it every few milliseconds, after everything that has come was passed on; `behind`: not all
 * was. Passes on what will not become known any more. */
void launches_tick(struct launches *l, uint64_t now_ns, bool behind);

/* All ops of process `pid` (0: of all processes) that began before `until_ns` have been passed on,
 * and no more will come: pass on what waits, but for what was launched since, and forget the
 * process. Afterwards nothing refers to its ops and stacks. */
void launches_end(struct launches *l, int32_t pid, uint64_t until_ns);

/* What waits is dropped. */
void launches_free(struct launches *l);

#endif
