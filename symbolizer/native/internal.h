/* What the files of this folder share. */
#ifndef SYMBOLIZER_NATIVE_INTERNAL_H
#define SYMBOLIZER_NATIVE_INTERNAL_H

#include <elfutils/libdwfl.h>

#include "base/arena.h"
#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/native/native_stack.h"

/* The module at `pc`; NULL: none. */
Dwfl_Module *native_stacks_module(const struct native_stacks *s, uint64_t pc);

/* Its row at `pc`, to be freed with free; NULL: there is none. */
Dwarf_Frame *native_stacks_row(Dwfl_Module *mod, uint64_t pc);

/* `symbol` without its parameters, or as it is; as long as `s`. NULL when out of memory. */
const char *native_stacks_demangle(struct native_stacks *s, const char *symbol);
const char *native_stacks_keep(struct native_stacks *s, const char *text);

/* native_modules.c and native_stack.c */

/* Cached facts of one code address. */
struct code_place {
	struct native_frame frame;
	bool no_table; /* its function has no unwind table */
	bool described;
	struct code_place *next; /* in the same bucket */
};

/* A function without an unwind table that was met on a stack. */
struct walked_code {
	struct mem mem; /* first: of the file, else of the process */
	uint64_t start, size;
	struct native_stacks *in;
	uint8_t *code;
	struct frame_code *steps; /* NULL: cannot be analysed */
	struct walked_code *next;
};

enum { PLACE_BUCKETS = 1024 };

struct native_stacks {
	pid_t pid;
	struct target_files *files;
	const struct maps *maps; /* borrowed, as then `files`; or `own` */
	struct maps own;
	Dwfl *dwfl;
	struct arena arena;
	struct code_place *places[PLACE_BUCKETS];
	struct walked_code *walked;
	/* State of the walk in progress; exactly one of out, pcs, at and wanted is set. */
	const struct native_thread *thread;
	struct native_frame *out;
	uint64_t *pcs;
	struct native_place *at;
	native_wanted_fn *wanted;
	void *wanted_arg;
	bool found;
	unsigned most, n;
	bool failed; /* out of memory */
	bool missed; /* unwinding from the last frame needs memory that cannot be read */
	uint64_t regs[ARCH_REGS]; /* of the last frame */
	uint32_t known;		  /* bit n: regs[n] is valid */
	bool no_table;		  /* the last frame's function has no unwind table */
};

/* native_stack.c: how libdw reads the thread of a walk. */
extern const Dwfl_Thread_Callbacks native_stacks_threads;

/* Before each use of s->dwfl: its modules are files of this process. */
void native_stacks_use(const struct native_stacks *s);

/* Read what the file mapped at `addr` has there, outside of segments that are written to. 0, or
 * -EFAULT: there is no file that could be read, or it has less. */
int native_stacks_file_read(struct native_stacks *s, uint64_t addr, void *buf, size_t len);

/* Fill in what is known of f->pc, in that module. */
void native_stacks_describe_in(struct native_stacks *s, struct native_frame *f, Dwfl_Module *mod);

/* Whether there is an unwinding table for the function at `pc`. */
bool native_stacks_has_table(Dwfl_Module *mod, uint64_t pc);

/* The stack cannot be read: `code`, with *e. */
int native_stacks_failed(int code, struct err *e);

#endif
