/* Symbolic execution of a small accessor function, to read the offsets of an object's fields from
 * its machine code. Knows nothing of torch. */
#ifndef SYMBOLIZER_CODE_PATHS_H
#define SYMBOLIZER_CODE_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
