/* How many operators a process dispatches: counted by an eBPF program at the function of PyTorch
 * that each call of the dispatcher asks for its observers (at::getStepCallbacksUnlessEmpty,
 * ATen/record_function.h). Costs the process less than a microsecond an operator. */
#ifndef TRACER_MONITOR_OP_RATE_H
#define TRACER_MONITOR_OP_RATE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct op_rate;

/* Begin to count in process `pid`. 0 and *out (free with op_rate_close); -ENODATA: it has not
 * loaded PyTorch (yet); -errno with *e: that is not permitted, or not known of this PyTorch. */
int op_rate_open(pid_t pid, struct op_rate **out, struct err *e);
void op_rate_close(struct op_rate *r); /* NULL allowed */

/* The operators since op_rate_open, those that others called included. 0; -ESTALE when the process
 * runs another PyTorch now, or none: begin anew. */
int op_rate_read(struct op_rate *r, uint64_t *ops);

#endif
