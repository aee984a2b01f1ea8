/* What the kernel tells a program at its start (getauxval(3)). */
#ifndef SYMBOLIZER_TARGET_AUXV_H
#define SYMBOLIZER_TARGET_AUXV_H

#include <elf.h>
#include <stdint.h>
#include <sys/types.h>

/* The value of `type` (AT_ENTRY, AT_BASE) of process `pid`, from /proc/PID/auxv; 0 when there is
 * none or it cannot be read. */
uint64_t auxv_read(pid_t pid, uint64_t type);

#endif
