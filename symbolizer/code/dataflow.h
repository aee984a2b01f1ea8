/* What the files of this folder share. */
#ifndef SYMBOLIZER_CODE_DATAFLOW_H
#define SYMBOLIZER_CODE_DATAFLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/code/cfg.h"

/* What the registers hold on every path: copies of the values they had at a starting point,
 * addresses in the stack frame, words loaded from it. */

enum reg_value_kind {
	REG_UNKNOWN,
	REG_START, /* low `width` bytes of what register `reg` held at the starting point */
	REG_FRAME, /* the stack pointer at the function's entry + off */
	REG_SLOT,  /* low `width` bytes are what lay at (stack pointer at the entry) + off */
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
	/* What was stored in the frame: for places that frame says are private, none when it is
	 * NULL. */
	struct reg_saved {
		int32_t off;
		struct reg_value value; /* REG_UNKNOWN: unused */
	} saved[REG_SAVED];
	const struct slot_dataflow *frame;
	uint8_t fp;   /* bit n: xmm n holds what it held at the starting point */
	uint8_t seen; /* a path leads here */
	uint8_t dirty;
};

/* Buffers for one flow analysis, used again for the next. Zero-initialise; free with
 * register_dataflow_free.
 */
struct register_dataflow {
	struct reg_state
	    *in; /* at the start of each block; not of the one started in the middle of */
	size_t cap;
};

/* State at the entry of a function: all registers as they are, the stack pointer known. */
struct reg_state reg_state_entry(void);

/* Follow `start`, the state just before instruction g->insn[insn] of block `block`, along all
 * paths. Returns 0, -ENOMEM, or -ELOOP when it does not settle soon. */
int register_dataflow_run(struct register_dataflow *f, const struct cfg *g, uint32_t block,
			  uint32_t insn, const struct reg_state *start);
void register_dataflow_free(struct register_dataflow *f);

/* Turn the state before instruction `i` into the state after it. */
void reg_step(struct reg_state *s, const struct arch_insn *i);

/* What a function keeps in its stack frame: every store to a known place in it, and every place
 * whose address it takes, so that what a slot holds can be said. */

struct slot_dataflow_store {
	int32_t off; /* from the stack pointer at the entry */
	uint16_t width;
	struct reg_value value;
	uint32_t block, insn;
};

struct slot_dataflow {
	struct slot_dataflow_store *store;
	int32_t *taken; /* offsets whose address is taken */
	size_t nstore, ntaken, store_cap, taken_cap;
	int32_t call_sp; /* highest stack pointer at a call: callees write below it */
	bool lost;	 /* something is stored in the frame at a place that is not known */
};

/* List what the function `g` does to its frame; `f` is the flow from its entry. Buffers are used
 * again; zero-initialise before the first use. Returns 0 or -ENOMEM. */
int slot_dataflow_build(struct slot_dataflow *fr, const struct cfg *g,
			const struct register_dataflow *f);
void slot_dataflow_free(struct slot_dataflow *fr);

/* Whether the store touches the `width` bytes at `off`. */
bool slot_dataflow_overlaps(const struct slot_dataflow_store *s, int32_t off, unsigned width);

/* Whether nothing but what the listed stores say can have changed the `width` bytes at `off`. */
bool slot_dataflow_private(const struct slot_dataflow *fr, int32_t off, unsigned width);

/* What a register value loaded from the frame is in terms of the registers at the entry, where
 * every store to that place stores the same; the value itself where that is not so. */
struct reg_value slot_dataflow_resolve(const struct slot_dataflow *fr, struct reg_value v);

#endif
