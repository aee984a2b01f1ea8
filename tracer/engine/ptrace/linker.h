/* Where the dynamic linker of a process reports that it has mapped libraries. */
#ifndef TRACER_ENGINE_PTRACE_LINKER_H
#define TRACER_ENGINE_PTRACE_LINKER_H

#include <stdint.h>
#include <sys/types.h>

/* Address of _dl_debug_state in process `pid`, which the linker calls before and after it maps
 * libraries, and before their code runs (glibc, elf/dl-debug.c; musl has it, too), and the bytes of
 * code there in the file. 0 or -errno: -ENOENT for a static program. */
int linker_find(pid_t pid, uint64_t *addr, uint8_t code[16]);

#endif
