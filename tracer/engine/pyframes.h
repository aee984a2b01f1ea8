/* The Python stack of a thread that stands still, walked as symbolizer/python/python_offsets.h
 * describes: what tracer/engine/bpf/pywalk.bpf.h does in the kernel. */
#ifndef TRACER_ENGINE_PYFRAMES_H
#define TRACER_ENGINE_PYFRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "tracer/engine/hit_buf.h"
#include "tracer/engine/remote.h"

enum { PY_RECENT = 64 };

/* What is remembered of a thread between its stops. Zero-initialise; fsbase is the caller's. */
struct py_thread {
	uint64_t fsbase; /* of the thread: pthread_self() */
	uint64_t tstate; /* its PyThreadState, 0: not known */
	bool is_certain; /* CPython itself has told of `tstate`, just now */
	uint32_t misses, wait;
	uint32_t nrecent;
	uint64_t recent[PY_RECENT]; /* frames of the last walk */
};

/* A frame and the instruction it stands at. frame 0: none. */
struct py_place {
	uint64_t frame, instr;
};

/* Note what a walk is likely to read, in `mem`. */
void pyframes_foresee(const struct py_thread *t, const struct py_walk *w, struct remote *mem);

/* The innermost Python frame. `t` learns from it only when `mem` does not collect. */
struct py_place pyframes_innermost(struct py_thread *t, const struct py_walk *w, struct remote *mem,
				   bool collecting);

/* Append an ITEM_STACK of all frames from `frame` outwards. */
void pyframes_put(struct py_thread *t, const struct py_walk *w, struct remote *mem,
		  struct hit_buf *out, uint64_t frame);

/* Whether pyframes_put has named the code object at this address, of any process: true at times
 * where it has not. */
bool pyframes_may_have_named(uint64_t code);

/* Whether the op whose caller was frame `was` cannot be running any more, as the innermost frame is
 * `now`: while an op runs, the Python code that called it stands still. An exception that took the
 * op away leaves no other trace when the stack is deeper now than it was. */
bool pyframes_moved_on(const struct py_walk *w, struct remote *mem, struct py_place now,
		       struct py_place was);

#endif
