/* What struct py_runtime is made of: for the files symbolizer/py*.c only. */
#ifndef SYMBOLIZER_PYTHON_RUNTIME_H
#define SYMBOLIZER_PYTHON_RUNTIME_H

#include "symbolizer/python.h"
#include "symbolizer/python_image.h"

struct py_codes;
struct py_sources;

struct py_runtime {
	pid_t pid;
	const struct mem *mem;
	struct py_image image;
	struct py_layout layout; /* layout.walk with interp_head_addr */
	char version[24];
	struct py_codes *codes;	    /* symbolizer/pycode.c */
	struct py_sources *sources; /* symbolizer/pysource.c */
};

/* One thread state of one interpreter, and the window of it that struct py_walk describes. */
struct tstate_visit {
	uint64_t interp, tstate;
	uint8_t window[PY_TSTATE_WINDOW];
};

typedef int py_tstate_fn(const struct py_walk *w, const struct tstate_visit *v, void *arg);

/* Calls `fn` for every thread state of every interpreter until it returns other than 0, and returns
 * that; 0 at the end; -errno of a read, -EPROTO for lists without end. */
int py_each_tstate(const struct py_runtime *rt, py_tstate_fn *fn, void *arg);

/* NULL without memory. */
struct py_codes *py_codes_new(void);
void py_codes_free(struct py_codes *c);

#endif
