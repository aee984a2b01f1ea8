/* Inside of tracer/engine/shim/injector.h: where what is needed is in the process. */
#ifndef TRACER_ENGINE_SHIM_INJECTOR_INTERNAL_H
#define TRACER_ENGINE_SHIM_INJECTOR_INTERNAL_H

#include "tracer/engine/shim/injector.h"

struct injector_points {
	uint64_t dlopen, dlerror;
	uint64_t sigreturn; /* of remote_call_sigreturn */
};

/* 0 or -errno with *e, as injector_check. */
int injector_find_points(pid_t pid, struct injector_points *out, struct err *e);

/* Address of `symbol` of the library in process `pid`, if that is of this build. 0 and *out;
 * -ENOENT: it is not there; -EPROTO: only that of another build is. */
int injector_find_library(pid_t pid, const char *symbol, uint64_t *out);

/* Have its state say how long the thread stood still that made it come. */
void injector_set_stood(pid_t pid, uint64_t ns);

#endif
