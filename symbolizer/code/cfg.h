/* The control-flow graph of one function, from its machine code: what can run from its entry on,
 * and which blocks every path passes. Exceptional edges are not in it: a landing pad of an
 * exception is there only when a call that never returns happens to stand before it. */
#ifndef SYMBOLIZER_CODE_CFG_H
#define SYMBOLIZER_CODE_CFG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/code/arch_x86_64.h"

#define CFG_NONE UINT32_MAX

enum cfg_end {
	CFG_END_NEXT, /* the successors are all there is */
	CFG_END_RET,
	CFG_END_LEAVES,	 /* its last instruction also jumps, or only jumps, out of the code */
	CFG_END_UNKNOWN, /* jumps to somewhere unknown, or runs into what is no instruction */
};

struct cfg_block {
	uint32_t first, n;    /* instructions cfg.insn[first .. first + n - 1], n >= 1 */
	uint32_t succ, nsucc; /* successors: cfg.succ[succ .. succ + nsucc - 1], blocks */
	uint32_t pred, npred; /* predecessors: cfg.pred[pred .. pred + npred - 1] */
	uint32_t idom;	      /* immediate dominator, CFG_NONE for the entry */
	uint8_t end;	      /* enum cfg_end */
};

/* What lies beside the code. Either function may be NULL. */
struct cfg_reader {
	/* For jump tables: copies the `len` bytes that the program will see at address `addr`, from
	 * a part of it that cannot be written; returns 0 or -errno. NULL: no jump table is
	 * followed. */
	int (*read)(void *arg, uint64_t addr, void *buf, size_t len);
	/* For functions whose unlikely part lies elsewhere: the code of the piece of a function
	 * that holds address `addr`, `*len` bytes from address `*start`; NULL when it is not known.
	 */
	const uint8_t *(*piece)(void *arg, uint64_t addr, uint64_t *start, size_t *len);
	void *arg;
};

/* Buffers grow and are used again for the next function. Blocks are in reverse post-order: block 0
 * is the entry, and a dominator's index is below that of what it dominates. */
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
	int32_t *entry; /* of all tables: offsets of the code */
	uint32_t nsucc, ntable, nentry;
	size_t at_cap, insn_cap, work_cap, block_cap, succ_cap, table_cap, entry_cap, nwork;
	const struct cfg_reader *reader;
	struct cfg_piece {
		const uint8_t *code;
		uint64_t vaddr;
		uint32_t len;
	} piece[2]; /* the function, and its unlikely part */
	uint32_t len;
};

/* `reader` must outlive the graph. Returns 0 or -ENOMEM. */
int cfg_init(struct cfg *g, const struct cfg_reader *reader);
void cfg_free(struct cfg *g);

/* Address of an instruction. */
uint64_t cfg_address(const struct cfg *g, const struct arch_insn *i);

/* Make the graph of what is reachable from code[0]; `len` bytes that begin at address `vaddr`.
 * Instructions of the unlikely part, if there is one and it is known, have offsets from `len` on.
 * Returns 0, -ENOMEM, or -ENOTSUP with g->reason for code it cannot follow. O(n log n) in the
 * number of instructions for reducible flow. */
int cfg_build(struct cfg *g, const uint8_t *code, size_t len, uint64_t vaddr);

/* Whether the instruction at `off` is reachable and one that arch_emulated() accepts. */
bool cfg_emulated(const struct cfg *g, uint32_t off);

/* Whether every path from the entry to block b passes block a (a == b included). */
bool cfg_dominates(const struct cfg *g, uint32_t a, uint32_t b);

/* The nearest block that dominates both. */
uint32_t cfg_common(const struct cfg *g, uint32_t a, uint32_t b);

/* Instructions that were decoded before: code repeats itself, and to look one up is far cheaper
 * than to disassemble it. For instruction sets in which no instruction is the beginning of another,
 * as x86-64's. */

struct insn_cache;

/* NULL when there is no memory. Free with insn_cache_free (NULL allowed). */
struct insn_cache *insn_cache_new(void);
void insn_cache_free(struct insn_cache *c);

/* Find the instruction that begins the `left` bytes at `code`, which stand at address `at`. Fills
 * all of *out but `off`. */
bool insn_cache_find(const struct insn_cache *c, const uint8_t *code, size_t left, uint64_t at,
		     struct arch_insn *out);

/* Remember an instruction of insn->len bytes at address `at`. Its last `relative` bytes (0, 1 or 4)
 * are a signed distance d from its end, which any other may stand for: insn->target, unless 0, is
 * at + len + d, and insn->disp of a load, store or lea is d. Ignored when there is no room. */
void insn_cache_add(struct insn_cache *c, const uint8_t *code, uint64_t at, unsigned relative,
		    const struct arch_insn *insn);

#endif
