/* Interventions: changing what functions of PyTorch do in a program. The library in the process
 * (tracer/shim/extension, tracer/shim/modes) asks here what to do with each function, and reports
 * what it did. Prints on standard error. */
#ifndef TRACER_INTERVENE_INTERVENE_H
#define TRACER_INTERVENE_INTERVENE_H

#include <jansson.h>
#include <sys/types.h>

#include "tracer/engine/shim/shim_share.h"
#include "tracer/intervene/intervene_rules.h"
#include "tracer/proc/spawn_user.h"

struct intervene;

/* Write the library's file, listen, and set the environment of what this process starts, as `user`
 * (NULL: its own). `rules` must outlive *out; orders of ditrace ctl change them. 0 and *out, or
 * -errno with *e. */
int intervene_open(struct intervene_rules *rules, const struct spawn_user *user,
		   struct intervene **out, struct err *e);

/* The same for a running process that has a libtorch: the library is injected (injector.h). */
int intervene_enter(struct intervene_rules *rules, pid_t pid, struct intervene **out,
		    struct err *e);

/* Have all programs compute unchanged from now on, and wait up to two seconds until they do. */
void intervene_leave(struct intervene *v);

/* Before this process stops itself (`away`), and when it goes on: programs compute unchanged in
 * between. The messages of calls that are being changed just then have been handled. */
void intervene_set_away(struct intervene *v, bool away);

/* Handle messages for `ms` milliseconds, and print what is reported. */
void intervene_step(struct intervene *v, int ms);

/* Handle the remaining messages, and print the summary, or that nothing was done. */
void intervene_finish(struct intervene *v);

/* Free `v`; programs that are still connected compute unchanged from now on. */
void intervene_close(struct intervene *v);

/* intervene_ctl.c: changing the rules while they are in force. ditrace ctl connects to the ditrace
 * that intervenes, by the socket that the target has from it. */

/* Apply an order given as words: "fallback" "add" "torch.add", "compare" "off", "cast" "all",
 * "cast" "torch.float16->torch.float32", "status". Returns 1 when the rules have changed, 0 when
 * not; -EINVAL or -ENOMEM with *e, the rules unchanged. */
int intervene_ctl(struct intervene_rules *r, const char *const *words, size_t n, struct err *e);

/* The rules in force, {"fallback": "torch.add,gelu", "compare": "off", ...}. NULL without memory.
 */
json_t *intervene_ctl_status(const struct intervene_rules *r);

/* A further key: a string on threads that run ops, see intervene_totals_threads. */
#define CTL_THREADS "threads"

/* Send `n` words to the ditrace that intervenes in process `pid`. 0 and *out, the rules then in
 * force with CTL_THREADS if there are any; -ENOENT when there is none; -EINVAL when it refuses,
 * with its message; -errno. */
int intervene_ctl_send(pid_t pid, char *const *words, size_t n, json_t **out, struct err *e);

/* Whether a ditrace intervenes in the process with that state, or will when it imports PyTorch. */
bool intervene_ctl_is_there(const struct shim_state *s);

#endif
