/* What a small function does with the object it is given: its paths walked with symbolic values, so
 * that the offsets of an accessor's fields can be read from its machine code. Knows nothing of
 * torch. */
#ifndef SYMBOLIZER_CODE_PATHS_H
#define SYMBOLIZER_CODE_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SYM_DEREFS = 4 };

/* A value that came from the object, of which `self` is the address: self, *(self + off[0]),
 * *(*(self + off[0]) + off[1]) ..., then + add, or, of the last load, >> shift and & mask. */
struct sym {
	bool known;
	bool indexed;	/* plus something unknown: an element of an array */
	uint8_t derefs; /* loads made: entries of off in use */
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
	SYM_NEG, /* top bit of the compared value set */
	SYM_NONNEG,
};

/* A condition on a value that held on the path. `imm` is what it was compared with. */
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
	struct sym target;	    /* of a jump through memory: the pointer jumped to */
	uint8_t nconds;		    /* the first PATH_CONDS of them */
	struct sym_cond conds[PATH_CONDS];
};

struct paths {
	uint16_t nends, nloads, ncalls;
	bool cut; /* the function was too long or had too many paths: more may exist */
	struct path_end ends[PATHS_ENDS];
	struct sym loads[PATHS_LOADS]; /* all reads from the object on any path, each once */
	struct sym calls[PATHS_CALLS]; /* first argument of calls and jumps out of the function, if
					  known */
};

/* Walk the function whose first `len` bytes are `code` (more bytes than it has are harmless), its
 * integer argument number `self` (0 or 1) being the object's address. Follows direct jumps within
 * the bytes, passes over calls. Returns 0, -ENOEXEC when the bytes are no instructions, -ENOTSUP
 * when the architecture is not known, -ENOMEM. */
int paths_walk(const uint8_t *code, size_t len, unsigned self, struct paths *out);

#endif
