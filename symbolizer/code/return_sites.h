/* Where to probe one function, found from its machine code alone: at its entry, and at an
 * instruction that every returning call passes exactly once, after which only clean-up runs. Also
 * the locations of floating-point arguments and of the result. */
#ifndef SYMBOLIZER_CODE_RETURN_SITES_H
#define SYMBOLIZER_CODE_RETURN_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/code/arch_x86_64.h"

enum exit_kind {
	EXIT_NONE,     /* no set of instructions known to catch every return */
	EXIT_EMULATED, /* instructions that the kernel emulates; each returning call passes exactly
			  one of them, once, and only clean-up follows */
	EXIT_RET,      /* all return instructions; the kernel single-steps them */
	EXIT_JUMP,     /* windows (return_sites.h) */
};

enum { EXITS_MAX = 8 };

struct func_facts {
	uint32_t entry; /* offset of the instruction to probe at the entry, after a landing pad */
	uint32_t frame; /* stack pointer at the entry minus that at the exit, bytes */
	uint8_t entry_emulated; /* the kernel emulates the one at `entry` */
	uint8_t exit_kind;	/* enum exit_kind */
	uint8_t nexits;
	uint8_t frame_known;
	uint8_t fp_known;	   /* SSE arguments can be read at the entry (LOC_FP) */
	uint32_t exits[EXITS_MAX]; /* offsets */
	uint8_t entry_len, exit_len[EXITS_MAX]; /* of the windows there; 0: there are none */
	const char *reason;			/* why not EXIT_EMULATED, else NULL; static */
	/* Deferred entry: a later place for the entry probe, after the function has spilled its SSE
	 * arguments, which probes cannot read, to the stack. Every call passes it once, in
	 * straight-line code from the entry, before the function calls anything or writes outside
	 * its frame. */
	struct deferred_entry {
		uint32_t off; /* offset of an emulated instruction; 0: none found or needed */
		uint32_t sp;  /* stack pointer at the entry minus that there, bytes */
		/* register that holds integer argument n there: enum arch_reg, or ARCH_NOREG */
		uint8_t arg[ARCH_INT_ARGS];
		/* Spill slot of the low 8 bytes of xmm n, in bytes from the stack pointer at the
		 * entry (which points at the return address). */
		struct fp_slot {
			bool known;
			int32_t sp_off;
		} xmm[ARCH_FP_ARGS];
	} late;
	/* Location of the integer result at the exit: register ret_reg (enum arch_reg), or, if that
	 * is ARCH_NOREG, ret_sp_off from the stack pointer at the entry. Its low ret_width bytes
	 * are valid. */
	bool ret_known;
	uint8_t ret_reg;
	uint8_t ret_width;
	int32_t ret_sp_off;
	bool ret_is_hidden_ptr; /* the function returns the value of its first integer argument */
};

/* Callbacks of the analysis. Any may be NULL. */
struct return_sites_ops {
	/* Whether the function at address `target` only cleans up (free, a destructor that cannot
	 * run ops), so that the op is over when it is called. NULL: none does. */
	bool (*is_cleanup)(void *arg, uint64_t target);
	/* As in struct cfg_reader. NULL: functions with jump tables, or with a cold part, are
	 * EXIT_NONE. */
	int (*read)(void *arg, uint64_t addr, void *buf, size_t len);
	const uint8_t *(*piece)(void *arg, uint64_t addr, uint64_t *start, size_t *len);
	void *arg;
};

/* Whether a mangled symbol of the C or C++ library or of c10 is clean-up: freeing, unlocking,
 * decrementing a refcount, destructors. For is_cleanup. */
bool return_sites_cleanup_symbol(const char *name);

/* Buffers for the analysis. Not thread-safe, but several contexts may be used at once. */
struct return_sites_ctx;

/* NULL when out of memory. `ops` (may be NULL) is copied. Free with return_sites_free (NULL
 * allowed). */
struct return_sites_ctx *return_sites_new(const struct return_sites_ops *ops);
void return_sites_free(struct return_sites_ctx *c);

/* Analyse the function whose `len` bytes of machine code start at address `vaddr`, in the address
 * space that is_cleanup uses. Returns 0 with *out filled (also for EXIT_NONE), -EINVAL for an empty
 * function, or -ENOMEM. */
int return_sites_analyze(struct return_sites_ctx *c, const uint8_t *code, size_t len,
			 uint64_t vaddr, struct func_facts *out);

/* Windows: where a jump may be written over the code of a function, so that every call passes it,
 * at its entry and before it returns. What the jump leads to runs the instructions of the window,
 * at another address but with the registers and the stack pointer as they were, and jumps back
 * behind them. */

/* Whole instructions in a straight line. None calls, branches, or uses an address relative to its
 * own; no branch leads to any but the first. The status flags are dead before the first: what runs
 * there may change them. General and SSE registers are not dead, nor are, except at the entry, the
 * ARCH_RED_ZONE bytes below the stack pointer. */
struct code_window {
	uint32_t off;  /* offset of the first instruction in the function */
	uint8_t len;   /* bytes, ARCH_JUMP_LEN or more; 0: there is no window. The jump lies in one
			  page of memory */
	bool relative; /* its last four bytes are a displacement from its end (windows_ops) */
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
	/* The last instruction of a window may use an address relative to its own: whoever moves it
	 * has to change that. */
	bool relative;
	void *arg;
};

/* Find the windows of the function that return_sites_analyze analysed last with c, and gave `facts`
 * for; its code is still borrowed. No window is given where anything is not known for certain.
 * Returns 0 with *out filled, or -ENOMEM. */
int windows_find(struct return_sites_ctx *c, const struct func_facts *facts,
		 const struct windows_ops *ops, struct func_windows *out);

#endif
