/* Internal to tracer/engine/bpf: records that wait, and a check before probes are placed. */
#ifndef TRACER_ENGINE_BPF_INTERNAL_H
#define TRACER_ENGINE_BPF_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "tracer/engine/bpf/links.h"
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

/* Probes at the entries of ops (links.c), a list that begins as NULL: they are taken out while
 * ops are left out, and those at exits stay. */

struct entries;

/* links_add; w->owner is the number of the process. Keeps a copy of *w. 0 or -errno. */
int entries_add(struct entries **all, struct links *l, const struct link_wanted *w);

/* Forget those of a process, whose links are closed, later perhaps; or all (ENGINE_ALL_PROCS),
 * whose links links_drop closes. */
void entries_drop(struct entries **all, struct links *l, uint16_t proc);

/* Take all out, and return once that is done; place all again, but for those of processes that have
 * ended. */
void entries_take_out(const struct entries *all, struct links *l);
void entries_place(const struct entries *all, struct links *l);

/* Whether the process has at the sites the code that the file has, or uprobes. At a uprobe the
 * kernel executes the instruction of the file and goes on behind it (Linux 6.18,
 * kernel/events/uprobes.c, prepare_uprobe), which would be the middle of a jump that somebody has
 * written there. 0, also where the code or the file cannot be read; -EBUSY or -ENOMEM with
 * *e. */
int code_check(pid_t pid, const struct probe_file *file, struct err *e);

#endif
