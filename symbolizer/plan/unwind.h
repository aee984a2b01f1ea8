/* How the caller's frame is found from that of a return address: rows, which ditrace makes of the
 * unwinding tables of the process's files, one for each return address that was met on a stack, in
 * a table that whoever walks stacks has mapped. With them a frame takes some nanoseconds, and
 * neither the loader nor a file is asked. */
#ifndef SYMBOLIZER_PLAN_UNWIND_H
#define SYMBOLIZER_PLAN_UNWIND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Where the canonical frame address is (DWARF 5, 6.4): the stack pointer in the caller. The return
 * address is below it (System V ABI for AMD64, 3.2.2). */
enum unwind_kind {
	UNWIND_NONE,  /* no row */
	UNWIND_SP,    /* the stack pointer + cfa */
	UNWIND_BP,    /* rbp + cfa */
	UNWIND_SAVED, /* the word at rbp + cfa: of a function that aligns its stack */
	UNWIND_END,   /* the outermost frame */
	UNWIND_STUCK, /* there is no table for it, or it says something else */
};

/* The caller's rbp: unchanged; at the frame address + bp; at rbp + bp. */
enum unwind_bp { UNWIND_BP_SAME, UNWIND_BP_AT_CFA, UNWIND_BP_AT_BP };

struct unwind_rule {
	uint8_t kind;	       /* enum unwind_kind */
	uint8_t bp_saved : 7;  /* enum unwind_bp */
	uint8_t of_python : 1; /* a function of the interpreter */
	int16_t bp;
	int32_t cfa;
};

enum { UNWIND_ROWS = 1 << 16, UNWIND_PROBES = 16, UNWIND_SHIFT = 48 };

/* By hash of the return address, in the next UNWIND_PROBES places. Rows are added, never changed or
 * taken out. */
struct unwind_row {
	_Atomic uint64_t pc; /* the return address; 0: free. Set after the rule */
	union {
		struct unwind_rule rule;
		_Atomic uint64_t word;
	};
};
_Static_assert(sizeof(struct unwind_row) == 16, "a rule is one word");

struct unwind_table {
	struct unwind_row row[UNWIND_ROWS];
};

/* A frame: pc is a return address. */
struct unwind_frame {
	uint64_t pc, sp, bp;
};

static inline uint32_t unwind_place(uint64_t pc, uint32_t probe)
{
	return ((uint32_t)(pc * 0x9e3779b97f4a7c15ULL >> UNWIND_SHIFT) + probe) % UNWIND_ROWS;
}

static inline struct unwind_rule unwind_find(const struct unwind_table *t, uint64_t pc)
{
	for (uint32_t i = 0; i < UNWIND_PROBES; i++) {
		const struct unwind_row *r = &t->row[unwind_place(pc, i)];
		uint64_t at = atomic_load_explicit(&r->pc, memory_order_acquire);
		if (at == pc)
			return r->rule;
		if (!at)
			break;
	}
	return (struct unwind_rule){.kind = UNWIND_NONE};
}

/* Reads a word of the stack; false: it is none of it. */
typedef bool unwind_read_fn(void *arg, uint64_t addr, uint64_t *word);

/* From a frame to its caller's, whose stack pointer must be above. False: the stack is not as the
 * rule says. */
static inline bool unwind_step(struct unwind_frame *f, struct unwind_rule rule,
			       unwind_read_fn *read, void *arg)
{
	uint64_t cfa = (rule.kind == UNWIND_SP ? f->sp : f->bp) + (uint64_t)(int64_t)rule.cfa;
	uint64_t bp = f->bp, pc;
	if (rule.kind == UNWIND_SAVED && !read(arg, cfa, &cfa))
		return false;
	if (cfa <= f->sp || cfa % 8 || !read(arg, cfa - 8, &pc))
		return false;
	const uint64_t by = rule.bp_saved == UNWIND_BP_AT_BP ? f->bp : cfa;
	if (rule.bp_saved && !read(arg, by + (uint64_t)(int64_t)rule.bp, &bp))
		return false;
	*f = (struct unwind_frame){pc, cfa, bp};
	return true;
}

/* The native stack of a hit (ITEM_NATIVE). */
enum {
	NATIVE_DEPTH = 64, /* frames; outer ones are left out */
	NATIVE_SLICE = 8 << 10,
};

#endif
