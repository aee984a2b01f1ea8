#ifndef TRACER_ENGINE_BPF_CODE_CHECK_H
#define TRACER_ENGINE_BPF_CODE_CHECK_H

#include "tracer/engine/engine.h"

/* Whether the process has at the sites the code that the file has, or uprobes. At a uprobe the
 * kernel executes the instruction of the file and goes on behind it (Linux 6.18,
 * kernel/events/uprobes.c, prepare_uprobe), which would be the middle of a jump that somebody has
 * written there. 0, also where the code or the file cannot be read; -EBUSY or -ENOMEM with
 * *e. */
int code_check(pid_t pid, const struct probe_file *file, struct err *e);

#endif
