/* ditrace doctor [PID]: what works here, and what to do about what does not. */
#ifndef TRACER_CMD_DOCTOR_H
#define TRACER_CMD_DOCTOR_H

#include <sys/types.h>

#include "tracer/doctor/checks.h"

/* Appends checks of process `pid`, which has loaded PyTorch and may be traced. */
typedef void doctor_target_fn(pid_t pid, struct checks *c);

/* Called with the process after the checks made here, when those left hope. Set before cmd_doctor
 * by whoever knows more about a target; NULL: nobody. */
extern doctor_target_fn *doctor_target_checks;

/* argv[0] is "doctor". Returns the exit status: 0 only when tracing will work. */
int cmd_doctor(int argc, char **argv);

#endif
