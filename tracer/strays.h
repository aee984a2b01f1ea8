/* Processes below a traced one that were started without what the engine shim brings in: with
 * another environment (sudo, env -i), from another mount namespace, or by a process to which
 * ditrace has attached. They are entered once they have loaded PyTorch. */
#ifndef TRACER_STRAYS_H
#define TRACER_STRAYS_H

#include <sys/types.h>

#include "base/err.h"
#include "tracer/session/session.h"

struct strays;

/* Process `pid` has forked or mapped something: remember it in *s, made at need, if it is one. */
void strays_see(struct strays **s, struct session *session, pid_t pid);

/* Enter those whose time has come: threads that load a library are at no place where another could
 * be loaded. `s` may be NULL. *e, unless it has something already: which ones could not be traced,
 * or, once, that first ops are missing. */
void strays_enter(struct strays *s, struct session *session, struct err *e);

void strays_free(struct strays *s); /* NULL allowed */

#endif
