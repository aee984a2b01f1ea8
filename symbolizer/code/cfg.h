/* The control-flow graph of one function, built from its machine code, with dominators. Exceptional
 * edges are missing: a landing pad is in the graph only if it happens to follow a call that never
 * returns. */
#ifndef SYMBOLIZER_CODE_CFG_H
#define SYMBOLIZER_CODE_CFG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/code/arch_x86_64.h"

#define CFG_NONE UINT32_MAX

enum cfg_end {
	CFG_END_NEXT, /* control goes only to the successors */
	CFG_END_RET,
	CFG_END_LEAVES,	 /* its last instruction jumps, or may jump, out of the code */
	CFG_END_UNKNOWN, /* jumps to an unknown address, or runs into invalid code */
};

struct cfg_block {
	uint32_t first, n;    /* instructions cfg.insn[first .. first + n - 1], n >= 1 */
	uint32_t succ, nsucc; /* successors: cfg.succ[succ .. succ + nsucc - 1], blocks */
	uint32_t pred, npred; /* predecessors: cfg.pred[pred .. pred + npred - 1] */
	uint32_t idom;	      /* immediate dominator, CFG_NONE for the entry */
	uint8_t end;	      /* enum cfg_end */
};

/* Access to data outside the function's code. Either function may be NULL. */
struct cfg_reader {
	/* For jump tables: copies `len` bytes of the program's read-only data at address `addr`, in
	 * the terms of cfg_build's `vaddr`; returns 0 or -errno. NULL: jump tables are not
	 * followed. */
	int (*read)(void *arg, uint64_t addr, void *buf, size_t len);
	/* For functions with a split cold part: the piece of code that contains address `addr`,
	 * `*len` bytes from address `*start`; NULL if unknown. Borrowed while the graph is in use.
	 */
	const uint8_t *(*piece)(void *arg, uint64_t addr, uint64_t *start, size_t *len);
	void *arg;
};

/* Buffers are reused for the next function. Blocks are in reverse post-order: block 0 is the entry,
 * and a dominator's index is lower than those of the blocks it dominates. */
struct cfg {
	struct arch_decoder *decoder;
	struct arch_insn *insn;
	struct cfg_block *block;
	uint32_t *succ, *pred;
	uint32_t ninsn, nblock;
	const char *reason; /* why cfg_build gave -ENOTSUP; static */
	/* private */
	uint32_t *at, *work, *block_of, *order, *number;
	struct cfg_block *unordered;
	struct cfg_table *table;
	int32_t *entry; /* code offsets, of all tables */
	uint32_t nsucc, ntable, nentry;
	size_t at_cap, insn_cap, work_cap, block_cap, succ_cap, table_cap, entry_cap, nwork;
	const struct cfg_reader *reader;
	struct cfg_piece {
		const uint8_t *code;
		uint64_t vaddr;
		uint32_t len;
	} piece[2]; /* the function and its cold part */
	uint32_t len;
};

/* Initialise the graph. `reader` (may be NULL) is borrowed and must outlive it. Returns 0 or
 * -ENOMEM; free with cfg_free. */
int cfg_init(struct cfg *g, const struct cfg_reader *reader);
void cfg_free(struct cfg *g);

/* Address of an instruction. */
uint64_t cfg_address(const struct cfg *g, const struct arch_insn *i);

/* Build the graph of the code reachable from code[0]; `code` is `len` bytes at address `vaddr`,
 * borrowed until the next build. Instructions of the cold part, if there is one and it is known,
 * have offsets from `len` on. Returns 0, -ENOMEM, or -ENOTSUP with g->reason for code that cannot
 * be analysed. O(n log n) in the number of instructions for reducible flow. */
int cfg_build(struct cfg *g, const uint8_t *code, size_t len, uint64_t vaddr);

/* The reachable instruction that starts at offset `off`; NULL if none does. */
const struct arch_insn *cfg_insn_at(const struct cfg *g, uint32_t off);

/* Whether a reachable instruction starts at offset `off` and arch_emulated() accepts it. */
bool cfg_emulated(const struct cfg *g, uint32_t off);

/* Whether block a dominates block b; true for a == b. */
bool cfg_dominates(const struct cfg *g, uint32_t a, uint32_t b);

/* The nearest common dominator of a and b. */
uint32_t cfg_common(const struct cfg *g, uint32_t a, uint32_t b);

/* Cache of decoded instructions: code repeats itself, and a lookup is far cheaper than disassembly.
 * Requires an instruction set in which no instruction is a prefix of another, as in x86-64. */

struct insn_cache;

/* NULL when out of memory. Free with insn_cache_free (NULL allowed). */
struct insn_cache *insn_cache_new(void);
void insn_cache_free(struct insn_cache *c);

/* Look up the instruction at the start of the `left` bytes at `code`, whose address is `at`. Fills
 * all of *out except `off`; false if it is not cached. */
bool insn_cache_find(const struct insn_cache *c, const uint8_t *code, size_t left, uint64_t at,
		     struct arch_insn *out);

/* Cache the instruction of insn->len bytes at address `at`. Its last `relative` bytes (0, 1 or 4)
 * are a signed displacement d from its end and match any other: insn->target, unless 0, is at + len
 * + d, and insn->disp of a load, store or lea is d. Ignored when the cache is full. */
void insn_cache_add(struct insn_cache *c, const uint8_t *code, uint64_t at, unsigned relative,
		    const struct arch_insn *insn);

/* Dataflow analyses over the control-flow graph: registers and stack slots. */

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

/* paths_x86_64.c: symbolic execution of a small accessor function, to read the offsets of an
 * object's fields from its machine code. Knows nothing of torch. */

enum { SYM_DEREFS = 4 };

/* A value derived from the object at address `self`: self, *(self + off[0]), *(*(self + off[0]) +
 * off[1]) ..., then + add; or the last load >> shift & mask. */
struct sym {
	bool known;
	bool indexed;	/* plus an unknown index: an array element */
	uint8_t derefs; /* number of loads: entries of off in use */
	uint8_t size;	/* bytes of the last load: 1, 2, 4 or 8 */
	uint8_t shift;
	uint64_t mask; /* ~0: all bits */
	int32_t off[SYM_DEREFS];
	int32_t add;
};

enum sym_cc {
	SYM_OTHER,
	SYM_EQ,
	SYM_NE,
	SYM_ULT,
	SYM_ULE,
	SYM_UGT,
	SYM_UGE,
	SYM_NEG, /* sign bit of the compared value set */
	SYM_NONNEG,
};

/* A branch condition on `v` against `imm` that holds on the path. */
struct sym_cond {
	struct sym v;
	uint64_t imm;
	uint8_t cc; /* enum sym_cc */
};

enum { PATH_CONDS = 8, PATHS_ENDS = 32, PATHS_LOADS = 48, PATHS_CALLS = 16 };

/* How a path ended: by a return, or by a jump out of the function. */
struct path_end {
	bool is_return;
	struct sym result, result2; /* the two integer result registers */
	struct sym target;	    /* of an indirect jump: the address jumped to */
	uint8_t nconds;		    /* number of conds; further ones are dropped */
	struct sym_cond conds[PATH_CONDS];
};

struct paths {
	uint16_t nends, nloads, ncalls;
	bool cut; /* incomplete: the function is too long or has too many paths */
	struct path_end ends[PATHS_ENDS];
	struct sym loads[PATHS_LOADS]; /* all distinct reads from the object on any path */
	struct sym calls[PATHS_CALLS]; /* known first arguments of calls out */
};

/* Execute all paths of the function whose first `len` bytes are `code` (excess bytes are harmless),
 * with the object's address in integer argument `self` (0 or 1). Follows direct jumps within the
 * bytes, steps over calls. Returns 0 with *out filled, -ENOEXEC for invalid code, -ENOMEM. */
int paths_walk(const uint8_t *code, size_t len, unsigned self, struct paths *out);

#endif
