/* The dynamic linker of a process, and where it reports changes. */
#ifndef TRACER_ENGINE_PTRACE_LINKER_H
#define TRACER_ENGINE_PTRACE_LINKER_H

#include <stdint.h>
#include <sys/types.h>

struct linker {
	/* Address of _dl_debug_state, which the linker calls before and after it maps libraries,
	 * and before their code runs (glibc, elf/dl-debug.c; musl has it, too), and the bytes of
	 * code there in the file. */
	uint64_t notify;
	uint8_t code[16];
	/* The last bytes of that mapping, behind the end of the segment, so that they mean nothing;
	 * 0: there are none. */
	uint64_t spare;
};

/* Find them in process `pid`, with `spare` such bytes. 0 or -errno: -ENOENT for a static program.
 */
int linker_find(pid_t pid, uint64_t spare, struct linker *out);

#endif
