/* What a function keeps in its stack frame: every store to a known place in it, and every place
 * whose address it takes, so that what a slot holds can be said. */
#ifndef SYMBOLIZER_CODE_SLOT_DATAFLOW_H
#define SYMBOLIZER_CODE_SLOT_DATAFLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/code/cfg.h"
#include "symbolizer/code/register_dataflow.h"

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
