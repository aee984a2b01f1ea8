/* The breakpoints in one address space: which bytes of code are changed, and what for. */
#ifndef TRACER_ENGINE_PTRACE_BREAKPOINTS_H
#define TRACER_ENGINE_PTRACE_BREAKPOINTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "tracer/engine/engine.h"
#include "tracer/engine/ptrace/emulate_x86_64.h"
#include "tracer/engine/ptrace/ptrace_share.h"

enum { USE_LINKER = 0x10 }; /* beside enum site_kind: the linker has mapped libraries */
enum { NO_PROC = 0xfffe };
enum { CODE_BYTES = 16 }; /* from a breakpoint on, zeros behind the end of the file */

/* What a breakpoint is for. */
struct use {
	uint32_t kind; /* enum site_kind or USE_LINKER */
	uint32_t op;
	uint16_t proc;
	uint32_t next; /* internal */
};

struct breakpoint {
	uint64_t addr;
	bool live;	      /* the byte is changed; false: it was once, and is not any more */
	struct emulated insn; /* kind EMULATE_NONE: to be carried out elsewhere */
	uint8_t code[CODE_BYTES];
	uint32_t byte;	    /* index of the share's entry */
	uint32_t first_use; /* internal */
};

struct breakpoints;

/* The address space of process `pid`; bytes that are changed are listed in `share`, which must
 * outlive it. 0 with one reference, or -errno with *e. */
int breakpoints_open(pid_t pid, struct share *share, struct breakpoints **out, struct err *e);

/* That of a process just forked from one with the space `s`: the same bytes are changed, for no use
 * but the linker's. Where that fails, the child's code is as in its file and *out has no
 * breakpoints; NULL when the child cannot be reached at all. */
int breakpoints_fork(const struct breakpoints *s, pid_t child, struct breakpoints **out,
		     struct err *e);

struct breakpoints *breakpoints_ref(struct breakpoints *s);
void breakpoints_put(
    struct breakpoints *s); /* NULL allowed; the last one forgets, changing nothing */

/* The process that it was opened for. */
pid_t breakpoints_pid(const struct breakpoints *s);

/* Change the byte at `addr`, whose code is `code` in the file. Uses of the same address add up,
 * the newest comes first. 0; -EBUSY when something else stands there than in the file; -ENOTSUP
 * when the instruction cannot be carried out; -errno. */
int breakpoints_add(struct breakpoints *s, uint64_t addr, const uint8_t code[CODE_BYTES],
		    const struct use *use);

/* End the uses of process number `proc` (all for ENGINE_ALL_PROCS), and put back the bytes that are
 * of no use then, or were of none before. */
void breakpoints_remove(struct breakpoints *s, uint16_t proc);

/* Put back one byte, all bytes. */
void breakpoints_give_up(struct breakpoints *s, struct breakpoint *b);
void breakpoints_restore(struct breakpoints *s);

/* See whether the next `n` breakpoints, in turn, are there, and where one is not, put all in again
 * that are missing. Where a process once had eBPF probes, the kernel takes any breakpoint at an
 * instruction for its own as long as somebody probes that one in another process, and takes it out
 * (kernel/events/uprobes.c of 6.18, handle_swbp, register_for_each_vma). Returns how many were
 * missing. */
size_t breakpoints_mend(struct breakpoints *s, size_t n);

/* The breakpoint at `addr`, live or not; NULL: none ever was. */
struct breakpoint *breakpoints_find(struct breakpoints *s, uint64_t addr);

/* The use after `u` (NULL: the first) of the breakpoint; NULL: none. */
const struct use *breakpoints_next_use(const struct breakpoints *s, const struct breakpoint *b,
				       const struct use *u);

/* How many breakpoints are live. */
size_t breakpoints_live(const struct breakpoints *s);

/* Memory of the process, whatever its protection: 0 or -errno. */
int breakpoints_read(const struct breakpoints *s, uint64_t addr, void *buf, size_t len);
int breakpoints_write(const struct breakpoints *s, uint64_t addr, const void *buf, size_t len);

/* A place of code that never runs again, for one instruction at a time: the program's entry point.
 * 0: not known. */
uint64_t breakpoints_scratch(const struct breakpoints *s);

#endif
