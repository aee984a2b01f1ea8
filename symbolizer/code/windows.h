/* Windows: where a jump may be written over the code of a function, so that every call passes it,
 * at its entry and before it returns. What the jump leads to runs the instructions of the window,
 * at another address but with the registers and the stack pointer as they were, and jumps back
 * behind them. */
#ifndef SYMBOLIZER_CODE_WINDOWS_H
#define SYMBOLIZER_CODE_WINDOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/code/return_sites.h"

/* Whole instructions in a straight line. None calls, branches, or uses an address relative to its
 * own; no branch leads to any but the first. The status flags are dead before the first: what runs
 * there may change them. General and SSE registers are not dead, nor are, except at the entry, the
 * ARCH_RED_ZONE bytes below the stack pointer. */
struct code_window {
	uint32_t off; /* offset of the first instruction in the function */
	uint8_t len;  /* bytes, ARCH_JUMP_LEN or more; 0: there is no window. The jump lies in one
			 page of memory */
};

struct func_windows {
	/* Every call passes it first, after a landing pad instruction. */
	struct code_window entry;
	/* Every call that returns passes exactly one of them, once, and not the entry's; a call
	 * that passes one returns: nothing is called behind it, but for a jump to clean-up in place
	 * of the return, and the report of a smashed stack. */
	struct code_window exit[EXITS_MAX];
	uint8_t nexits;
	/* What is known of the function, with these exits and without a deferred entry; zeros if
	 * one of them is missing. */
	struct func_facts facts;
	const char *entry_reason, *exit_reason; /* why there is none, else NULL; static */
};

/* What is known about the code beyond the function. */
struct windows_ops {
	/* Calls `fn` with the address of each landing pad of the piece of code that begins at
	 * `start`, as elf_each_landing_pad does. 0 or -errno: not known. */
	int (*pads)(void *arg, uint64_t start, int (*fn)(uint64_t vaddr, void *fn_arg),
		    void *fn_arg);
	/* Whether some of the `len` bytes of the function at `start` are another's, too, as when
	 * the linker folds functions of the same code. */
	bool (*is_shared)(void *arg, uint64_t start, size_t len);
	void *arg;
};

/* Find the windows of the function that return_sites_analyze analysed last with c, and gave `facts`
 * for; its code is still borrowed. No window is given where anything is not known for certain.
 * Returns 0 with *out filled, or -ENOMEM. */
int windows_find(struct return_sites_ctx *c, const struct func_facts *facts,
		 const struct windows_ops *ops, struct func_windows *out);

#endif
