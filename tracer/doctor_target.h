#ifndef TRACER_DOCTOR_TARGET_H
#define TRACER_DOCTOR_TARGET_H

#include <sys/types.h>

#include "tracer/doctor/checks.h"

/* Appends checks of process `pid`, which has loaded PyTorch and may be traced, to c: its Python,
 * its ops, the layout of its tensors and what share of its ops the probes see, by tracing it for a
 * moment. */
void doctor_target(pid_t pid, struct checks *c);

#endif
