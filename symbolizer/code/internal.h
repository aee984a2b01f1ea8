/* State of the return-site analysis, shared by the search for exits and the facts about them. */
#ifndef SYMBOLIZER_CODE_INTERNAL_H
#define SYMBOLIZER_CODE_INTERNAL_H

#include "symbolizer/code/cfg.h"
#include "symbolizer/code/dataflow.h"
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

/* Make room for the blocks of c->g. 0 or -ENOMEM. */
int return_sites_reserve(struct return_sites_ctx *c);

/* The last instruction of a block. */
uint32_t return_sites_last(const struct cfg *g, uint32_t block);

/* The registers just before instruction p. */
struct reg_state return_sites_state(const struct return_sites_ctx *c, struct exit_point p);

/* Set c->returns for the blocks from which an end is reachable. */
void return_sites_find_returning(struct return_sites_ctx *c);

/* Set c->mark for the blocks reachable from the end of `block` that can reach a return. */
void return_sites_mark_after(struct return_sites_ctx *c, uint32_t block);

/* Fill in out->late, the deferred entry, from the graph alone; p: the out->nexits exits. */
void return_sites_set_late(const struct return_sites_ctx *c, const struct exit_point *p,
			   struct func_facts *out);

/* Fill in the frame size and the location of the result at the out->nexits exits p.
 * return_sites_set_result needs c->frame built; it returns 0 or -ENOMEM. */
void return_sites_set_frame(const struct return_sites_ctx *c, const struct exit_point *p,
			    struct func_facts *out);
int return_sites_set_result(struct return_sites_ctx *c, const struct exit_point *p,
			    struct func_facts *out);

#endif
