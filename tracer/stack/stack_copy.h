/* A copy of the stack of a thread, to be unwound after the thread has gone on. */
#ifndef TRACER_STACK_STACK_COPY_H
#define TRACER_STACK_STACK_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "symbolizer/target/maps.h"
#include "symbolizer/target/mem.h"

enum { STACK_COPY_MOST = 1 << 20 };

/* `mem` reads what was copied, at its address in the process, and nothing else. */
struct stack_copy {
	struct mem mem; /* first */
	uint64_t start;
	size_t len;
	uint8_t *bytes; /* of STACK_COPY_MOST */
};

/* 0 or -ENOMEM. */
int stack_copy_init(struct stack_copy *c);
void stack_copy_free(struct stack_copy *c);

/* Copy from `sp`, the red zone below it included, to the end of its mapping, or as much as there is
 * room for. 0 or -errno: -EFAULT when `sp` is in no mapping of `maps`. */
int stack_copy_take(struct stack_copy *c, const struct maps *maps, const struct mem *from,
		    uint64_t sp);

#endif
