/* Dataflow analyses over the control-flow graph: registers and stack slots. */
#ifndef SYMBOLIZER_CODE_DATAFLOW_H
#define SYMBOLIZER_CODE_DATAFLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/code/cfg.h"

/* Register dataflow: what registers hold on every path: copies of their values at a starting point,
 * addresses in the stack frame, words loaded from it. */

enum reg_value_kind {
	REG_UNKNOWN,
	REG_START, /* low `width` bytes of register `reg`'s value at the starting point */
	REG_FRAME, /* (stack pointer at the function's entry) + off */
	REG_SLOT,  /* low `width` bytes were loaded from (stack pointer at the entry) + off */
};

struct reg_value {
	uint8_t kind; /* enum reg_value_kind */
	uint8_t reg;
	uint8_t width;
	uint8_t pad;
	int32_t off;
};

enum { REG_SAVED = 4 };

struct slot_dataflow;

struct reg_state {
	struct reg_value r[ARCH_REGS];
	/* Values stored in slots that `frame` shows to be private; none when it is NULL. */
	struct reg_saved {
		int32_t off;
		struct reg_value value; /* REG_UNKNOWN: unused */
	} saved[REG_SAVED];
	const struct slot_dataflow *frame;
	uint8_t fp;   /* bit n: xmm n is unchanged since the starting point */
	uint8_t seen; /* reached by a path */
	uint8_t dirty;
};

/* Buffers for one analysis, reused for the next. Zero-initialise; free with register_dataflow_free.
 */
struct register_dataflow {
	struct reg_state *in; /* state at the start of each block; unset for a block that the run
				 started inside */
	size_t cap;
};

/* State at a function's entry: each register holds its own value, the stack pointer is known. */
struct reg_state reg_state_entry(void);

/* Propagate `start`, the state before instruction g->insn[insn] of block `block`, along all paths.
 * Returns 0, -ENOMEM, or -ELOOP when it does not converge soon. */
int register_dataflow_run(struct register_dataflow *f, const struct cfg *g, uint32_t block,
			  uint32_t insn, const struct reg_state *start);
void register_dataflow_free(struct register_dataflow *f);

/* Transfer function: turn the state before instruction `i` into the state after it. */
void reg_step(struct reg_state *s, const struct arch_insn *i);

/* Stack-slot dataflow: all stores to known offsets of the stack frame, and all offsets whose
 * address is taken, from which follows what a slot holds. */

struct slot_dataflow_store {
	int32_t off; /* bytes from the stack pointer at the entry */
	uint16_t width;
	struct reg_value value;
	uint32_t block, insn;
};

struct slot_dataflow {
	struct slot_dataflow_store *store;
	int32_t *taken; /* offsets whose address is taken */
	size_t nstore, ntaken, store_cap, taken_cap;
	int32_t call_sp; /* highest stack pointer at a call: callees write below it */
	bool lost;	 /* there is a store to an unknown place in the frame */
};

/* Collect the frame accesses of function `g`; `f` is the register dataflow from its entry. Buffers
 * are reused: zero-initialise before the first use, free with slot_dataflow_free. Returns 0 or
 * -ENOMEM. */
int slot_dataflow_build(struct slot_dataflow *fr, const struct cfg *g,
			const struct register_dataflow *f);
void slot_dataflow_free(struct slot_dataflow *fr);

/* Whether the store overlaps the `width` bytes at `off`. */
static inline bool slot_dataflow_overlaps(const struct slot_dataflow_store *s, int32_t off,
					  unsigned width)
{
	return (int64_t)s->off < (int64_t)off + width && (int64_t)off < (int64_t)s->off + s->width;
}

/* Whether only the listed stores can write the `width` bytes at `off`. Only the start of an object
 * whose address is taken is known. A slot inside such an object that starts lower would be missed,
 * but compilers give a spilled register a spill slot of its own, and a variable that shares its
 * place with an object starts where that starts. */
static inline bool slot_dataflow_private(const struct slot_dataflow *fr, int32_t off,
					 unsigned width)
{
	if (fr->lost || off < fr->call_sp)
		return false;
	for (size_t i = 0; i < fr->ntaken; i++)
		if (fr->taken[i] >= off && (int64_t)fr->taken[i] < (int64_t)off + width)
			return false;
	return true;
}

/* Resolve a value loaded from a slot to the entry register that every store to that slot saves; `v`
 * itself if they differ or are unknown. */
struct reg_value slot_dataflow_resolve(const struct slot_dataflow *fr, struct reg_value v);

#endif
