/* The ops of the libtorch that a process has mapped. */
#ifndef TRACER_SESSION_LOAD_OPS_H
#define TRACER_SESSION_LOAD_OPS_H

#include <sys/types.h>

#include "symbolizer/ops/ops.h"
#include "symbolizer/target/libraries.h"

/* Read them from the files `l` of process `pid`, l->torch not NULL. As op_table_load,
 * with `lazy` as op_table_load_lazy. */
int load_ops(pid_t pid, const struct libraries *l, bool lazy, struct op_table **out, struct err *e);

#endif
