/* The functions of the files that processes have mapped, by address: each file is read once,
 * whoever has it mapped. */
#ifndef SYMBOLIZER_NATIVE_NATIVE_SYMBOLS_H
#define SYMBOLIZER_NATIVE_NATIVE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/target/maps.h"

struct native_file;

/* Zero-initialise. */
struct native_symbols {
	struct arena arena;
	struct native_file **files;
	size_t n, room;
};

/* Describe the code at `pc` of process `pid`, whose mappings are `maps`: the strings live as long
 * as `s`. Where a file has no symbol for it, `symbol` is NULL and `offset` its address in the file
 * (of a file that cannot be read the offset into it, and `in_file` says so); `is_second` is set
 * where `s` knows the file's name from another file, too; where no file is mapped, or one that is
 * memory (shared, or a memfd) and no ELF file, `file` is NULL, too. The build id of the file, at
 * most 64 bytes, is put to *build with *nbuild (0: none). 0 or -ENOMEM. */
int native_symbols_find(struct native_symbols *s, pid_t pid, const struct maps *maps, uint64_t pc,
			struct native_frame *out, const uint8_t **build, size_t *nbuild);

/* Where in the process the function at `pc` begins, and its bytes; false: there is no symbol. */
bool native_symbols_bounds(struct native_symbols *s, pid_t pid, const struct maps *maps,
			   uint64_t pc, uint64_t *start, uint64_t *size);

/* Where the first segment of the file begins in process `pid` that has `code` of it mapped; 0 when
 * the file cannot be read. */
uint64_t native_symbols_base(struct native_symbols *s, pid_t pid, const struct mapping *code);

/* The demangled name of the function at address `addr` of the file `path` (as this process sees it)
 * whose build id is `build`, 1 to 64 bytes: looked for in the file there, in
 * /usr/lib/debug/.build-id and in ~/.debug/.build-id
 * (tools/perf/Documentation/perf-buildid-cache.txt); a file with another build id is none of them.
 * `addr` is an offset into the file with `is_offset`, else an address as its symbols have it. NULL:
 * there is no such file or symbol, or no memory. Valid as long as `s`. */
const char *native_symbols_by_build(struct native_symbols *s, const char *path,
				    const uint8_t *build, size_t nbuild, uint64_t addr,
				    bool is_offset);

void native_symbols_free(struct native_symbols *s);

#endif
