/* Whether Python frames that were read a moment after a sample are those of the sample. The thread
 * runs on meanwhile; what tells is its native stack as the sample has it. */
#ifndef TRACER_SAMPLE_SAMPLE_CHECK_H
#define TRACER_SAMPLE_SAMPLE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/native/native_stack.h"
#include "symbolizer/python/pywalk.h"

/* Bytes of a stack from `start` upwards: as the sample has them, and as they were after the frames
 * had been read. */
struct sample_stack {
	uint64_t start;
	size_t len;
	const uint8_t *then, *now; /* now NULL: they could not be read */
};

struct sample_check {
	const uint64_t *regs; /* ARCH_REGS of the sample */
	struct sample_stack stack;
	const struct native_place *places; /* the native stack, innermost first */
	unsigned nplaces;
	int interpreter; /* the place of the innermost _PyEval_EvalFrameDefault; -1: none */
	unsigned interpreters;
	bool whole;   /* the last place is the outermost */
	bool at_once; /* the frames were read as the sample was taken, and not afterwards */
	const struct py_walk *walk;
	const struct py_top *top;
	uint64_t (*pairs)[2];	       /* the frames read, innermost first */
	int n;			       /* how many; or -errno */
	uint64_t code_start, code_end; /* instructions of the innermost one's code; 0: not known */
};

enum sample_python {
	SAMPLE_NO_PYTHON, /* the thread ran none */
	SAMPLE_PYTHON,	  /* they are the sample's */
	SAMPLE_MOVED,	  /* they are not, or that cannot be told */
};

/* Frames that were read at once are the sample's, unless the thread was just changing them, which
 * the same rules tell but for what may have changed meanwhile; there a register that callees keep
 * for their callers, too, may name the frame. Of others:
 *
 * The interpreter keeps the frame that it runs, and the instruction, in its own C frame and in
 * registers, which the sample has:
 *
 *   - The innermost frame must be the one there: in 3.11 and 3.12 that is a word at a known place
 *     (_PyCFrame.current_frame, Include/cpython/pystate.h, a local of _PyEval_EvalFrameDefault,
 *     Python/ceval.c); in others it must be among the words there, and before 3.11 there must be an
 *     interpreter's C frame for each Python frame.
 *   - The instruction is the one that was read if the interpreter's C frame and what its callee
 *     saved there have not changed; else the one that a register or saved register points behind,
 *     if a single one does. That is put into pairs[0][1]. */
enum sample_python sample_check(const struct sample_check *c);

#endif
