/* Probe sites of a file as addresses in a process: a step of the tracing process. */
#ifndef TRACER_ENGINE_PTRACE_TRACER_SITES_H
#define TRACER_ENGINE_PTRACE_TRACER_SITES_H

#include "tracer/engine/ptrace/tracees.h"

/* Carry out a REQUEST_ATTACH: trace the process if it is not traced yet, and put breakpoints at all
 * the sites that follow. 0 or -errno with *e; what was put in until then stays. */
int tracer_sites_attach(struct tracer *t, const struct request *q, const void *payload,
			struct err *e);

#endif
