/* Native stacks, symbols and PyTorch operators of stopped threads, or of copies of their stacks, by
 * libdw. */
#ifndef SYMBOLIZER_NATIVE_NATIVE_STACK_H
#define SYMBOLIZER_NATIVE_NATIVE_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "symbolizer/code/cfg.h"
#include "symbolizer/event/event.h"
#include "symbolizer/plan/unwind.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "symbolizer/target/target_files.h"

enum { NATIVE_FRAMES = 64 };

struct native_frame {
	uint64_t pc;	    /* innermost frame: its instruction; callers: an address within the call
			       instruction */
	uint64_t offset;    /* from the file's load address; pc itself if there is no file */
	bool in_file;	    /* `offset` is a file offset: the file could not be read */
	bool is_second;	    /* an earlier file has the same name */
	uint64_t start;	    /* start of its function if libdw has the symbol, else 0 */
	const char *symbol; /* as in the file, mangled; NULL: unknown */
	const char *name, *full_name; /* demangled, without and with parameters; NULL as symbol */
	const char *file;	      /* the process's path; NULL: none */
};

/* The files of a process with their unwind tables and symbols. Not thread-safe. */
struct native_stacks;

/* Open the current mappings of process `pid`. Files are opened when a stack reaches them; no debug
 * files are fetched. 0 and *out (free with native_stacks_close), or -errno with *e. */
int native_stacks_open(pid_t pid, struct native_stacks **out, struct err *e);

/* The same with known mappings, also of a process that has ended, whose `files` are borrowed. If
 * only the code of a file is in `maps`, `base` returns the run-time address of the file's first
 * segment, 0 if unknown. `maps` is borrowed; the caller may change its contents. */
typedef uint64_t native_base_fn(void *arg, const struct mapping *code);
int native_stacks_open_maps(struct target_files *files, const struct maps *maps,
			    native_base_fn *base, void *arg, struct native_stacks **out,
			    struct err *e);

void native_stacks_close(struct native_stacks *s); /* NULL allowed */

struct native_thread {
	pid_t tid;
	const uint64_t *regs;  /* ARCH_REGS of them, by enum arch_reg */
	const struct mem *mem; /* reads its stack */
	/* Start address and size in bytes of the function at `pc`, faster than libdw; false if
	 * unknown. NULL: libdw is used. */
	bool (*bounds)(void *arg, uint64_t pc, uint64_t *start, uint64_t *size);
	void *arg;
};

/* Unwind up to `most` frames of the thread, innermost first. *whole: the last one is the outermost;
 * false if there are more, or tables or memory are missing. The strings live as long as `s`.
 * Returns the number of frames, at least 1, or -errno with *e. */
int native_stacks_walk(struct native_stacks *s, const struct native_thread *t,
		       struct native_frame *out, unsigned most, bool *whole, struct err *e);

/* The same with addresses only, without symbol lookup; pc[] is as native_frame.pc. */
int native_stacks_pcs(struct native_stacks *s, const struct native_thread *t, uint64_t *pc,
		      unsigned most, bool *whole, struct err *e);

/* The addresses of a frame. */
struct native_place {
	uint64_t pc; /* as in struct native_frame */
	uint64_t sp; /* stack pointer of the frame; 0: unknown */
};

/* The same with stack pointers: frame n occupies the stack from its own to that of frame n + 1. */
int native_stacks_places(struct native_stacks *s, const struct native_thread *t,
			 struct native_place *out, unsigned most, bool *whole, struct err *e);

typedef bool native_wanted_fn(void *arg, uint64_t pc);

/* The registers of the innermost frame whose pc (as in struct native_frame) `wanted` accepts, among
 * the first `most`: ARCH_REGS words; bit n of *known: register n is known. 0, or -ENOENT. */
int native_stacks_find(struct native_stacks *s, const struct native_thread *t, unsigned most,
		       native_wanted_fn *wanted, void *arg, uint64_t *regs, uint32_t *known);

/* How the caller of the frame with return address `pc` is found (symbolizer/plan/unwind.h). False:
 * no file is known there. */
bool native_stacks_rule(struct native_stacks *s, uint64_t pc, struct unwind_rule *out);

/* The file that `pc` is in; NULL: none is known. As long as `s`. */
const char *native_stacks_file(const struct native_stacks *s, uint64_t pc);

/* A function whose code is at an address, its own or one that was inlined there. */
struct native_source {
	const char *function; /* demangled, without parameters; or as in the source */
	const char *file;
	int line;
};

/* The functions at `pc`, innermost first, at most `most`: by the debug information in the file
 * itself. Returns their number; 0: there is none. As long as `s`. */
unsigned native_stacks_source(struct native_stacks *s, uint64_t pc, struct native_source *out,
			      unsigned most);

/* The symbol at `pc`, of one address only. */
void native_stacks_describe(struct native_stacks *s, uint64_t pc, struct native_frame *out);

/* Print up to NATIVE_FRAMES frames of a thread of process `pid`, innermost first, one per line
 * after `indent`: the function's name and its library, or the address if there is no symbol; none
 * of the interpreter.
 * Returns the number of frames, or -errno with *e. */
int native_stack_print(FILE *f, const char *indent, pid_t pid, const struct native_thread *t,
		       struct err *e);

/* The PyTorch operator that a thread is running, from the functions on its native stack. */

/* Cache of operator names of one process. Zero-initialise; free with native_ops_free. */
struct native_ops {
	struct arena arena;
	struct native_op_name *names; /* looked up so far */
	struct elf_file *elf;	      /* libtorch_cpu; NULL: not opened */
	bool opened;
};

struct in_op {
	const char *op; /* "aten::add.Tensor"; NULL: in no op of at::_ops */
	uint64_t entry; /* start of the op's function; 0: unknown */
	/* The innermost backward node, NULL: none: "AddmmBackward0", and if it is none of those
	 * that PyTorch generates "torch::autograd::PyNode", of whatever Python class. */
	const char *node;
	bool backward; /* in a node, or in what autograd's engine does around one */
};

/* The innermost op of the `n` frames of process `pid`. The operator's schema name is searched in
 * the read-only data of libtorch; if that has none, or several that map to the same C++ name, the
 * name is that of the C++ struct, "at::_ops::add_Tensor". The strings live as long as `o`. */
struct in_op native_op_find(struct native_ops *o, pid_t pid, const struct maps *maps,
			    const struct native_frame *frames, unsigned n);

void native_ops_free(struct native_ops *o);

/* Whether schema name `name` of `len` bytes, with or without "aten::", belongs to the struct
 * at::_ops::`owner`: its name with "_" in place of the overload's "." (torchgen/model.py,
 * OperatorName.unambiguous_name). */
bool native_op_is(const char *name, size_t len, const char *owner);

/* Symbol tables of the files that processes have mapped; each file is read once for all processes.
 */

struct native_file;

/* Zero-initialise. */
struct native_symbols {
	struct arena arena;
	struct native_file **files;
	size_t n, room;
};

/* Symbolize `pc` of the process of `files`, whose mappings are `maps`; strings live as long as `s`.
 * Without a symbol, out->symbol is NULL and `offset` is the address in the file; if the file cannot
 * be read, `offset` is a file offset and `in_file` is set. `is_second` is set if `s` knows another
 * file of the same name. `file` is NULL if no file is mapped, or one that is memory (shared, or a
 * memfd) and not an ELF file. *build, *nbuild: the file's build id, at most 64 bytes (0: none), as
 * long as `s`. 0 or -ENOMEM. */
int native_symbols_find(struct native_symbols *s, struct target_files *files,
			const struct maps *maps, uint64_t pc, struct native_frame *out,
			const uint8_t **build, size_t *nbuild);

/* Run-time start address and size in bytes of the function at `pc`; false if there is no symbol. */
bool native_symbols_bounds(struct native_symbols *s, struct target_files *files,
			   const struct maps *maps, uint64_t pc, uint64_t *start, uint64_t *size);

/* Run-time address of the first segment of the file that the process has mapped at `code`; 0 when
 * the file cannot be read. */
uint64_t native_symbols_base(struct native_symbols *s, struct target_files *files,
			     const struct mapping *code);

/* The demangled name of the function at `addr` in the file `path` (ditrace's path) with build id
 * `build`, 2 to 64 bytes. Searches that path, /usr/lib/debug/.build-id and ~/.debug/.build-id
 * (tools/perf/Documentation/perf-buildid-cache.txt); files with another build id are ignored.
 * `addr` is a file offset if `is_offset`, else a virtual address as in the symbol table. NULL if
 * there is no such file or symbol, or no memory. Valid as long as `s`. */
const char *native_symbols_by_build(struct native_symbols *s, const char *path,
				    const uint8_t *build, size_t nbuild, uint64_t addr,
				    bool is_offset);

void native_symbols_free(struct native_symbols *s);

/* JIT-compiled functions: /tmp/perf-PID.map, written by JITs (Linux,
 * tools/perf/Documentation/jit-interface.txt): lines "START SIZE name", numbers hexadecimal. */

struct perf_map_entry {
	uint64_t start, end;
	const char *name; /* points into the text */
};

/* Zero-initialise. */
struct perf_map {
	struct perf_map_entry *entries; /* by ascending start */
	size_t n, room;
	char *text;
	off_t size; /* of the file when it was read */
};

/* Read the map file of the process of `files`, whose own PID is `ns_pid`, from its /tmp, if it has
 * grown since and belongs to root or the process's owner: /tmp is writable by others. Invalidates
 * names returned before. 0 (also if there is no file) or -ENOMEM. */
int perf_map_read(struct perf_map *m, struct target_files *files, pid_t ns_pid);

/* Parse `text` (NUL-terminated, from malloc; takes ownership). Malformed lines are skipped. Where
 * entries overlap, the one with the higher start wins; of those with the same start, the last line.
 * 0 or -ENOMEM. */
int perf_map_parse(struct perf_map *m, char *text);

/* The name of the function at `pc`, NULL if none; valid until the next perf_map_read or
 * perf_map_parse. */
const char *perf_map_find(const struct perf_map *m, uint64_t pc);

void perf_map_free(struct perf_map *m);

/* Unwinding one frame of a function without unwind tables, as hand-written kernels of numeric
 * libraries have none, by dataflow analysis of its code. */

struct frame_step_code {
	const uint8_t *code; /* the whole function, `len` bytes at address `vaddr` */
	size_t len;
	uint64_t vaddr;
	const struct mem *mem;		 /* of the process, for jump tables */
	const struct cfg_reader *reader; /* used instead of `mem` if not NULL */
};

/* Turn the registers `regs` (ARCH_REGS of them, by enum arch_reg) of a frame at address `pc` of the
 * function into those of its caller; the new instruction pointer is the return address. *known: bit
 * n is set if register n is known, on entry and on return. `stack` reads the thread's stack.
 *
 * Register dataflow along all paths from the function's start to `pc` (symbolizer/code/cfg.h)
 * gives the distance to the stack pointer at the entry and where registers are saved. 0, -ENOTSUP
 * when the code does not determine it, -EFAULT when the stack cannot be read, -ENOMEM. */
int frame_step(const struct frame_step_code *f, const struct mem *stack, uint64_t pc,
	       uint64_t *regs, uint32_t *known);

/* The same in two steps, for a function that is unwound repeatedly. */
struct frame_code;

/* Analyse the function. 0 and *out (free with frame_code_free), -ENOTSUP or -ENOMEM. What `f`
 * points to is borrowed and must outlive it. */
int frame_code_new(const struct frame_step_code *f, struct frame_code **out);
int frame_code_step(struct frame_code *c, const struct mem *stack, uint64_t pc, uint64_t *regs,
		    uint32_t *known);
enum { FRAME_STACK_ARGS = 26 };

/* The arguments of a call, as far as its frame still holds them. */
struct frame_args {
	uint64_t sp; /* stack pointer at the entry */
	uint64_t reg[ARCH_INT_ARGS];
	uint64_t stack[FRAME_STACK_ARGS]; /* words of the stack argument area, from sp + 8 */
	uint32_t known, stack_known;	  /* bit n: reg[n] or stack[n] is valid */
};

/* The integer arguments of the frame at `pc` (for a caller, an address within the call instruction)
 * with registers `regs`; bit n of `known`: register n is known. Only arguments that a register, or
 * a slot that nothing else can have written, holds on every path from the entry. 0 or -ENOTSUP. */
int frame_code_args(struct frame_code *c, const struct mem *stack, uint64_t pc,
		    const uint64_t *regs, uint32_t known, struct frame_args *out);

void frame_code_free(struct frame_code *c); /* NULL allowed */

/* The C++ callers of ops: from return addresses to the frames of the program's own code, with file,
 * line and function; and the rows by which stacks are walked inside the process
 * (symbolizer/plan/unwind.h). */

struct native_callers;

/* Of process `pid`; its files are opened when they are met. The code from `engine` to `engine_end`
 * runs the backward (torch::autograd::Engine::thread_main); 0: not known. NULL when out of memory.
 */
struct native_callers *native_callers_new(pid_t pid, uint64_t engine, uint64_t engine_end);
/* Learn which files are mapped now: of a process that may end before its first stack comes. */
void native_callers_open(struct native_callers *c);

void native_callers_free(struct native_callers *c); /* NULL allowed */

/* A native stack as a hit has it. */
struct native_raw {
	const uint64_t *pcs; /* return addresses, innermost first */
	uint32_t n;
	bool missed, cut;     /* NATIVE_MISSED, NATIVE_CUT */
	bool to_python;	      /* NATIVE_TO_PYTHON */
	const uint8_t *slice; /* the payload of ITEM_SLICE, of `len` bytes; NULL: none */
	uint32_t len;
};

/* Make the rows that the stack lacked, as far as the slice goes. Call it while the process is
 * alive. */
void native_callers_learn(struct native_callers *c, const struct native_raw *raw);

/* The stack as the program's own frames: those of PyTorch and of the C and C++ runtimes are left
 * out, inlined functions are frames of their own, a function without debug information has
 * "name+0x1f", or its address, its library and line 0. *own: how many of them are inside the
 * function that runs the backward; 0: that is not on the stack. Equal stacks are the same object,
 * as long as `c`. NULL: no frame is the program's, or no memory. */
const struct py_stack *native_callers_stack(struct native_callers *c, const struct native_raw *raw,
					    uint32_t *own);

/* The rows made so far, pairs of return address and rule; *n of them. They are only ever added. */
struct native_row {
	uint64_t pc;
	struct unwind_rule rule;
};
const struct native_row *native_callers_rows(const struct native_callers *c, size_t *n);

#endif
