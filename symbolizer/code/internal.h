/* What the files of this folder share: the decoder's parts, the state of the return-site analysis,
 * and that of the search for windows, which follows it. */
#ifndef SYMBOLIZER_CODE_INTERNAL_H
#define SYMBOLIZER_CODE_INTERNAL_H

#include <capstone/capstone.h>

#include "symbolizer/code/cfg.h"
#include "symbolizer/code/return_sites.h"

struct return_sites_ctx {
	struct return_sites_ops ops;
	struct cfg_reader reader;
	struct cfg g;
	struct register_dataflow flow, after;
	struct slot_dataflow frame;
	uint8_t *returns; /* by block: whether a return is reachable from it */
	uint8_t *mark;
	uint32_t *stack;
	size_t cap;
	bool flow_known; /* `flow` is that of the function */
	uint32_t nend;
	struct end {
		uint32_t block;
		bool is_ret;
	} end[EXITS_MAX];
	const char *reason;
};

/* An instruction of the graph. */
struct exit_point {
	uint32_t block, insn;
};

/* The last instruction of a block. */
uint32_t return_sites_last(const struct cfg *g, uint32_t block);

/* The registers just before instruction p. */
struct reg_state return_sites_state(const struct return_sites_ctx *c, struct exit_point p);

/* Whether the stack pointer is, just before instruction p, what it was at the entry. */
bool return_sites_frame_is_gone(const struct return_sites_ctx *c, struct exit_point p);

/* Set c->mark for the blocks reachable from the end of `block` that can reach a return. */
void return_sites_mark_after(struct return_sites_ctx *c, uint32_t block);

/* Finds the instruction *p nearest the end of `block` that every path to that end passes once;
 * -ENOENT, with c->reason, if none is of use. */
typedef int return_sites_find_fn(struct return_sites_ctx *c, void *arg, uint32_t block,
				 struct exit_point *p);

/* The n points, one that is on the way to all ends or else one for each end, of which every
 * returning call passes exactly one, once. 0, or -ENOENT with c->reason. */
int return_sites_choose(struct return_sites_ctx *c, return_sites_find_fn *find, void *arg,
			struct exit_point p[EXITS_MAX], uint32_t *n);

/* Fill in out->late, the deferred entry, from the graph alone; p: the out->nexits exits. */
void return_sites_set_late(const struct return_sites_ctx *c, const struct exit_point *p,
			   struct func_facts *out);

/* Fill in the frame size and the location of the result at the out->nexits exits p.
 * return_sites_set_result needs c->frame built; it returns 0 or -ENOMEM. */
void return_sites_set_frame(const struct return_sites_ctx *c, const struct exit_point *p,
			    struct func_facts *out);
int return_sites_set_result(struct return_sites_ctx *c, const struct exit_point *p,
			    struct func_facts *out);

/* All code that may branch into a function: its own, and the pieces that it jumps to. */
struct branches {
	struct return_sites_ctx *c;
	const struct windows_ops *ops;
	struct code_piece {
		const uint8_t *code;
		uint64_t vaddr;
		uint32_t len, base; /* base: the lengths of those before it */
		uint8_t *map;	    /* by offset: BRANCH_TARGET ... */
	} piece[4];		    /* the first is the function's */
	uint32_t npiece, len;	    /* len: of all pieces */
	uint64_t *pad;		    /* addresses of all landing pads */
	size_t npad, pad_cap;
	/* It jumps to a computed address when its frame is gone: into another function, as a call
	 * by pointer at its end does, or to where it has no frame. */
	bool leaves_by_pointer;
	const char *reason;
};

enum {
	BRANCH_TARGET = 1, /* a branch leads there, or an exception does */
	BRANCH_INSN = 2,   /* an instruction begins there */
	BRANCH_SEEN = 4,   /* the walk from the landing pads has been there */
};

/* Whether a branch leads to one of the `len` bytes at offset `off` of the function. */
bool branches_lead_into(const struct branches *b, uint32_t off, uint32_t len);

/* Find the branches into the function that c holds. 0; -ENOTSUP with b->reason when they are not
 * all known; -ENOMEM. Free with branches_free in any case. */
int branches_find(struct branches *b, struct return_sites_ctx *c, const struct windows_ops *ops);
void branches_free(struct branches *b);

/* Whether every way from a landing pad to a return passes one of the n windows: 0, -ENOTSUP with
 * b->reason if not, -ENOMEM. Once only. */
int branches_check_handlers(struct branches *b, const struct code_window *window, unsigned n);

/* Decode an instruction with an EVEX prefix, many of which libcapstone does not know, from the
 * `left` bytes at `code`: into *out, which is as for one without operands; `off` is not set. 0 or
 * -EILSEQ. */
int evex_decode(const uint8_t *code, size_t left, struct arch_insn *out);

/* effects_x86_64.c: what an instruction, as capstone decodes it, does to registers and memory. */

/* Which general and SSE registers capstone's are. Free with free; NULL when out of memory. */
struct effect_regs *effect_regs_new(void);

/* Set what it writes and, if o->flow is ARCH_FLOW_NEXT, its effect with the operands. */
void effect_set(const struct effect_regs *r, const cs_insn *c, struct arch_insn *o);

/* Whether the instruction of capstone's number stores the low part of an SSE register. */
bool effect_is_fp_store(unsigned id);

/* cfg.c and cfg_blocks.c: a graph while it is made. */

/* g->at, one word per byte of code: 1 + the index of the instruction that starts there, and whether
 * a block starts there */
#define CFG_AT_LEADER UINT32_C(0x80000000)
#define CFG_AT_INDEX UINT32_C(0x7fffffff)

/* Targets of the indirect jump that is instruction `insn`: g->entry[first .. first + n - 1]. */
struct cfg_table {
	uint32_t insn, first, n;
};

/* Make the array of `count` elements, of capacity *cap at least as many. 0 or -ENOMEM. */
int cfg_resize(void *array, size_t count, size_t size);
int cfg_fit(void *array, size_t *cap, size_t count, size_t size);

/* Offset of an address, or of the byte after an instruction, in the pieces; UINT32_MAX: it is in
 * neither. */
uint32_t cfg_offset_of(const struct cfg *g, uint64_t addr);
uint32_t cfg_next_of(const struct cfg *g, const struct arch_insn *i);

/* Blocks, edges and dominators of the instructions that are decoded. 0 or -ENOMEM. */
int cfg_link(struct cfg *g);

/* paths_x86_64.c and path_values_x86_64.c: symbolic execution. */

enum { PATH_REGS = 16, PATHS_PENDING = 32 };

struct path_state {
	uint32_t pc;
	uint8_t nconds;
	bool flags_known; /* the flags result from comparing flags_v with flags_imm */
	uint64_t flags_imm;
	struct sym flags_v;
	struct sym reg[PATH_REGS]; /* by their numbers in instructions */
	struct sym_cond conds[PATH_CONDS];
};

struct path_walk {
	csh cs;
	cs_insn *insn;
	const uint8_t *code;
	size_t len;
	struct paths *out;
	struct path_state now;
	struct path_state pending[PATHS_PENDING];
	unsigned npending;
};

/* Whether it is a pointer of which all bits are known. */
bool path_is_whole(const struct sym *v);

/* v + n. This and the others are unknown (all zero) where they cannot be expressed. */
struct sym path_add(struct sym v, int64_t n);

/* The address of a memory operand, if derived from the object. */
struct sym path_address(const struct path_state *s, const x86_op_mem *m);

/* What a memory operand holds: counts as read. */
struct sym path_load(struct path_walk *w, const cs_x86_op *op);

/* The value of a register or memory operand, truncated to the operand's size. */
struct sym path_operand(struct path_walk *w, const cs_x86_op *op);

/* Set the register operand `op`. A write of 1 or 2 bytes preserves the upper bits, so the value is
 * known only if they are zero, as `keeps_rest` says. */
void path_set_reg(struct path_walk *w, const cs_x86_op *op, struct sym v, bool keeps_rest);

/* Forget all registers that the instruction writes. */
void path_forget_written(struct path_walk *w);

#endif
