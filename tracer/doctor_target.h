#ifndef TRACER_DOCTOR_TARGET_H
#define TRACER_DOCTOR_TARGET_H

#include "tracer/cmd_doctor.h"

/* What ditrace finds in process `pid`: its Python, its ops, the layout of its tensors and what
 * share of its ops the probes see, by tracing it for a moment. A doctor_target_fn. */
void doctor_target(pid_t pid, struct checks *c);

#endif
