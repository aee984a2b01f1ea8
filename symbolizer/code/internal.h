/* State of the return-site analysis, shared by the search for exits and the facts about them; and
 * of the search for windows, which follows it. */
#ifndef SYMBOLIZER_CODE_INTERNAL_H
#define SYMBOLIZER_CODE_INTERNAL_H

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

#endif
