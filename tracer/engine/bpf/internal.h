/* Internal to tracer/engine/bpf: records that wait, and a check before probes are placed. */
#ifndef TRACER_ENGINE_BPF_INTERNAL_H
#define TRACER_ENGINE_BPF_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "tracer/engine/engine.h"

/* Records that wait until ditrace looks at them. A thread moves them here out of the kernel's ring
 * buffer, which would overflow while ditrace is busy with one of them: reading symbols, waiting for
 * a page, attaching to a child. */

struct backlog;

/* Move all that there is: call backlog_put with each record. Returns their number or -errno. */
typedef int backlog_move_fn(void *arg);

/* Start the thread, which calls `move` about every 10 ms, with the highest priority that it may
 * have. Until backlog_close `arg` must remain valid; calls never overlap. 0 or -errno. */
int backlog_open(backlog_move_fn *move, void *arg, struct backlog **out);

/* From `move` alone: add a copy of a record of `size` bytes, which begins with a hit. Of one that
 * is no hit nothing is kept. */
void backlog_put(struct backlog *b, const void *record, size_t size);

/* Call `move`, and `fn` with everything that has come before it returned, in order. Returns the
 * number of calls, or what `move` failed with if there were none. */
int backlog_consume(struct backlog *b, engine_hit_fn *fn, void *arg);

/* Records that there was no memory for. */
uint64_t backlog_lost(const struct backlog *b);

/* End the thread and free what is left. NULL allowed. */
void backlog_close(struct backlog *b);

/* Whether the process has at the sites the code that the file has, or uprobes. At a uprobe the
 * kernel executes the instruction of the file and goes on behind it (Linux 6.18,
 * kernel/events/uprobes.c, prepare_uprobe), which would be the middle of a jump that somebody has
 * written there. 0, also where the code or the file cannot be read; -EBUSY or -ENOMEM with
 * *e. */
int code_check(pid_t pid, const struct probe_file *file, struct err *e);

#endif
