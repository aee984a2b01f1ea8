/* From a bytecode offset to a source position: CPython's three line table formats. Pure functions
 * over bytes that nobody vouches for. */
#ifndef SYMBOLIZER_PYTHON_LINETABLE_H
#define SYMBOLIZER_PYTHON_LINETABLE_H

#include <stddef.h>
#include <stdint.h>

enum linetable_kind {
	LINETABLE_LNOTAB,    /* 3.8, 3.9: Objects/lnotab_notes.txt */
	LINETABLE_PEP626,    /* 3.10: Objects/lnotab_notes.txt, "co_linetable" */
	LINETABLE_POSITIONS, /* 3.11+: Objects/locations.md (3.11), Include/cpython/code.h */
};

struct linetable_pos {
	int32_t line, end_line;	    /* from 1; 0: none is known for the instruction */
	int32_t column, end_column; /* UTF-8 bytes within line and end_line, from 0; -1: unknown */
};

/* The position of the instruction at byte offset `lasti` of the code, as frame.f_lineno and
 * code.co_positions() give it. A negative lasti (the frame has not begun) is the line of the `def`.
 * Returns 0; -ENODATA when the table (`len` bytes) ends before lasti; -EPROTO when the table is cut
 * within an entry or gives a position that cannot be. On failure *out is all unknown. Lnotab tables
 * have no end: their last line goes on. */
int linetable_lookup(enum linetable_kind kind, const uint8_t *bytes, size_t len,
		     int32_t firstlineno, int64_t lasti, struct linetable_pos *out);

#endif
