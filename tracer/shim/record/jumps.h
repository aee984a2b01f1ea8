/* What the jumps that ditrace writes into libtorch (tracer/engine/shim/jumps.h) lead to. */
#ifndef TRACER_SHIM_RECORD_JUMPS_H
#define TRACER_SHIM_RECORD_JUMPS_H

#include <stdbool.h>
#include <stdint.h>

#include "tracer/engine/shim/shim_share.h"

/* jumps.c: called by the handlers. `regs`: ARCH_REGS registers by enum arch_reg, as they were at
 * the jump; without ORIG_AX, IP, CS and FLAGS. `fp`: the eight SSE argument registers, 16 bytes
 * each. */

/* The entry of op number `op` of the plan. */
void jump_entered(const uint64_t *regs, uint32_t op, const uint64_t *fp);

/* Its exit. Changes no register but the general ones. */
void jump_left(const uint64_t *regs, uint32_t op);

/* The entry of an op that is not to be recorded, nor observed. */
void jump_announced(const uint64_t *regs);

/* The entry of a function of enum shim_step. May change its arguments in `regs`. */
void jump_stepped(uint64_t *regs, uint32_t which);

/* From now on: whether the program has observers of its own for all threads; how to find out
 * whether it has for this one (NULL: that is not known). */
void jumps_begin(bool others, bool (*local)(void));

/* Whether the library itself adds a callback now. */
void jumps_are_adding(bool own);

/* jump_handlers_x86_64.c: the addresses of the handlers, into *out. */
void jump_handlers(struct shim_jumps *out);

#endif
