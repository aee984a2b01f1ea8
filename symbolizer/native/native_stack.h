/* Native stacks of threads that stand still, or of which a copy was taken, by libdw. */
#ifndef SYMBOLIZER_NATIVE_NATIVE_STACK_H
#define SYMBOLIZER_NATIVE_NATIVE_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/mem.h"

enum { NATIVE_FRAMES = 64 };

struct native_frame {
	uint64_t pc; /* the innermost frame's instruction; of its callers an address in the call */
	uint64_t offset; /* from where the file begins in memory; without a file the same as pc */
	bool in_file;	 /* `offset` is one into the file itself, which could not be read */
	bool is_second;	 /* another file of the same name was there before */
	uint64_t start;	 /* where its function begins, when the symbol is known by libdw; else 0 */
	const char *symbol;	      /* as in the file, mangled; NULL: none is known */
	const char *name, *full_name; /* demangled, without and with parameters; NULL as symbol */
	const char *file;	      /* as the process sees it; NULL: none */
};

/* The files of a process with their unwinding tables and symbols. Not thread-safe. */
struct native_stacks;

/* Of process `pid`, with what it has mapped now; files are opened when a stack leads into them, and
 * nothing is fetched from elsewhere. 0 and *out (free with native_stacks_close), or -errno with *e.
 */
int native_stacks_open(pid_t pid, struct native_stacks **out, struct err *e);

/* The same with what is known to be mapped, also of a process that has ended. Where of a file only
 * its code is among `maps`, `base` gives the address in the process of the file's first segment, 0
 * when that is not known; the maps stay the caller's, who may change what is in them. */
typedef uint64_t native_base_fn(void *arg, const struct mapping *code);
int native_stacks_open_maps(pid_t pid, const struct maps *maps, native_base_fn *base, void *arg,
			    struct native_stacks **out, struct err *e);

void native_stacks_close(struct native_stacks *s); /* NULL allowed */

struct native_thread {
	pid_t tid;
	const uint64_t *regs;  /* ARCH_REGS of them, by enum arch_reg */
	const struct mem *mem; /* where its stack is read */
	/* Where the function at `pc` begins and how long it is, quicker than libdw knows it; false:
	 * not known. NULL: libdw is asked. */
	bool (*bounds)(void *arg, uint64_t pc, uint64_t *start, uint64_t *size);
	void *arg;
};

/* Up to `most` frames of the thread, innermost first. *whole: the last one is the outermost; else
 * there were more, or the tables or the memory ended. The strings live as long as `s`. Returns how
 * many there are, at least 1, or -errno with *e. */
int native_stacks_walk(struct native_stacks *s, const struct native_thread *t,
		       struct native_frame *out, unsigned most, bool *whole, struct err *e);

/* The addresses of the frames alone, which takes no look at symbols: pc[0] of the innermost one, of
 * its callers an address in the call. */
int native_stacks_pcs(struct native_stacks *s, const struct native_thread *t, uint64_t *pc,
		      unsigned most, bool *whole, struct err *e);

/* A frame by its addresses alone. */
struct native_place {
	uint64_t pc; /* as in struct native_frame */
	uint64_t sp; /* the stack pointer in this frame; 0: not known */
};

/* The same with the stack pointers: the memory of frame n is from its own to that of n + 1. */
int native_stacks_places(struct native_stacks *s, const struct native_thread *t,
			 struct native_place *out, unsigned most, bool *whole, struct err *e);

typedef bool native_wanted_fn(void *arg, uint64_t pc);

/* The registers of the innermost frame whose address (as in struct native_frame) `wanted` accepts,
 * among the first `most`: ARCH_REGS words, of which bit n of *known says whether register n is
 * known. 0, or -ENOENT. */
int native_stacks_find(struct native_stacks *s, const struct native_thread *t, unsigned most,
		       native_wanted_fn *wanted, void *arg, uint64_t *regs, uint32_t *known);

/* Print up to NATIVE_FRAMES frames of a thread of process `pid`, innermost first, a line each with
 * `indent` before it: the function's name and its library, or the address where there is no symbol.
 * Returns how many there were, or -errno with *e. */
int native_stack_print(FILE *f, const char *indent, pid_t pid, const struct native_thread *t,
		       struct err *e);

/* The operator of PyTorch that a thread is in, by the functions on its native stack. */

/* What is known of the names of one process; zero-initialise, free with native_ops_free. */
struct native_ops {
	struct arena arena;
	struct native_op_name *names; /* those asked for */
	struct elf_file *elf;	      /* libtorch_cpu; NULL: not opened (yet) */
	bool opened;
};

struct in_op {
	const char *op;	  /* "aten::add.Tensor"; NULL: in none that at::_ops has */
	uint64_t entry;	  /* where the function begins that is the op's; 0: not known */
	const char *node; /* "AddmmBackward0": the innermost backward node; NULL: none */
};

/* The innermost of the `n` frames of process `pid`. An operator's schema name is looked up in the
 * read-only data of its libtorch; where that has none or several that would be written so in C++,
 * the name is that of the C++ struct, "at::_ops::add_Tensor". The strings live as long as `o`. */
struct in_op native_op_find(struct native_ops *o, pid_t pid, const struct maps *maps,
			    const struct native_frame *frames, unsigned n);

void native_ops_free(struct native_ops *o);

/* Whether schema name `name` of `len` bytes, with or without "aten::", is that of the struct
 * at::_ops::`owner`: its name with "_" for the overload's "." (torchgen/model.py,
 * OperatorName.unambiguous_name). */
bool native_op_is(const char *name, size_t len, const char *owner);

/* The functions of the files that processes have mapped, by address: each file is read once,
 * whoever has it mapped. */

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

/* The functions that a process has compiled for itself: /tmp/perf-PID.map, which JITs write (Linux,
 * tools/perf/Documentation/jit-interface.txt): lines "START SIZE name", numbers hexadecimal. */

struct perf_map_entry {
	uint64_t start, end;
	const char *name; /* of the text */
};

/* Zero-initialise. */
struct perf_map {
	struct perf_map_entry *entries; /* by rising start */
	size_t n, room;
	char *text;
	off_t size; /* of the file when it was read */
};

/* Read the file of process `pid`, which calls itself `ns_pid`, as it sees /tmp (of one
 * that has ended, as ditrace does), if it has grown since. Names given before become invalid. 0
 * (there need not be one) or -ENOMEM. */
int perf_map_read(struct perf_map *m, pid_t pid, pid_t ns_pid);

/* Parse `text` (NUL-terminated, from malloc, taken over). Lines that make no sense are left out; of
 * entries that overlap the last one counts where it begins. 0 or -ENOMEM. */
int perf_map_parse(struct perf_map *m, char *text);

/* The name of the function at `pc`, NULL if none; valid until the next reading. */
const char *perf_map_find(const struct perf_map *m, uint64_t pc);

void perf_map_free(struct perf_map *m);

#endif
