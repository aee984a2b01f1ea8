/* Programs in which functions of PyTorch do something else: the library inside
 * (tracer/shim/extension/modes) asks here what to do with each, and tells what it did. Prints on
 * standard error. */
#ifndef TRACER_INTERVENE_INTERVENE_H
#define TRACER_INTERVENE_INTERVENE_H

#include <jansson.h>
#include <sys/types.h>

#include "tracer/engine/shim/shim_share.h"
#include "tracer/intervene/intervene_rules.h"

struct intervene;

/* Write the library, listen, and set the environment of what this process starts. `rules` must
 * outlive it, and change as ditrace ctl (intervene_ctl.h) says. 0, or -errno with *e. */
int intervene_open(struct intervene_rules *rules, struct intervene **out, struct err *e);

/* The same for a process that runs, which has a libtorch: the library is brought in (injector.h).
 */
int intervene_enter(struct intervene_rules *rules, pid_t pid, struct intervene **out,
		    struct err *e);

/* Have all programs compute by themselves from now on, and wait until they do, for two seconds. */
void intervene_leave(struct intervene *v);

/* Answer whatever asks within the next `ms` milliseconds, and print what is told. */
void intervene_step(struct intervene *v, int ms);

/* Take what has come, print what was done in all, and say so when that is nothing. */
void intervene_finish(struct intervene *v);

/* The programs that are still connected compute by themselves from now on. */
void intervene_close(struct intervene *v);

/* What functions of PyTorch do, changed while it is in force: ditrace ctl asks the ditrace that
 * changes them, on the socket that the process has from it. */

/* Obey the words of an order: "fallback" "add" "torch.add", "compare" "off", "cast" "all", "cast"
 * "torch.float16->torch.float32", "status". Returns 1 when the rules are others now, 0 when they
 * are not, -EINVAL (as they were then) or -ENOMEM with *e. */
int intervene_ctl(struct intervene_rules *r, const char *const *words, size_t n, struct err *e);

/* {"fallback": "torch.add,gelu", "compare": "off", ...}: what is in force. NULL without memory. */
json_t *intervene_ctl_status(const struct intervene_rules *r);

/* Its key for a text on the threads that run ops, as intervene_totals_threads has it. */
#define CTL_THREADS "threads"

/* Send the `n` words to the ditrace that changes functions of process `pid`. 0 and *out, what is in
 * force then, and CTL_THREADS where any is known; -ENOENT when there is none; -EINVAL when it
 * refuses, in its words; -errno. */
int intervene_ctl_send(pid_t pid, char *const *words, size_t n, json_t **out, struct err *e);

/* Does a ditrace change functions of the process with that state, or will it when PyTorch is
 * imported?
 */
bool intervene_ctl_is_there(const struct shim_state *s);

#endif
