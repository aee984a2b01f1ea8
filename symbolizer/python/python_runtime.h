/* What struct py_runtime is made of: for the files symbolizer/py*.c only. */
#ifndef SYMBOLIZER_PYTHON_PYTHON_RUNTIME_H
#define SYMBOLIZER_PYTHON_PYTHON_RUNTIME_H

#include <stdbool.h>

#include "symbolizer/event/event.h"
#include "symbolizer/python/python.h"
#include "symbolizer/python/python_image.h"

struct py_codes;
struct py_modules;
struct py_sources;
struct py_stacks;

struct py_runtime {
	pid_t pid;
	const struct mem *mem;
	struct py_image image;
	struct py_layout layout; /* layout.walk with interp_head_addr */
	char version[24];
	struct py_codes *codes;	    /* symbolizer/python/pycode.c */
	struct py_sources *sources; /* symbolizer/python/pysource.c */
	struct py_stacks *stacks;   /* symbolizer/python/pystack.c */
	struct py_modules *modules; /* symbolizer/python/pymodule.c */
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
struct py_stacks *py_stacks_new(void);
void py_stacks_free(struct py_stacks *s);

/* Changes when what is known of code objects does: pairs are to be resolved again. */
uint32_t py_codes_epoch(const struct py_codes *c);

/* What the code object is, as far as it has been resolved: both have a torch.nn.Module for their
 * first local variable. */
enum py_call {
	PY_CALL_OTHER,
	PY_CALL_MODULE,	 /* Module._call_impl */
	PY_CALL_WRAPPED, /* Module._wrapped_call_impl (2.1 and later), which calls that one */
};
enum py_call py_code_call(const struct py_codes *c, uint64_t code);

/* Whether py_resolve found what the pair means. */
bool py_frame_known(const struct py_codes *c, const struct py_frame *frame);

/* A copy that stays as long as `c`, the same for equal strings; NULL when there is no more room. */
const char *py_intern_string(struct py_codes *c, const char *s);

/* Make room for `more` items of `size` bytes in an array of `count` whose capacity is the next
 * power of two. */
bool py_reserve(void *array, size_t count, size_t more, size_t size);

#endif
