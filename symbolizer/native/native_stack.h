/* Native stacks of threads that stand still, or of which a copy was taken, by libdw. */
#ifndef SYMBOLIZER_NATIVE_NATIVE_STACK_H
#define SYMBOLIZER_NATIVE_NATIVE_STACK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

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

#endif
