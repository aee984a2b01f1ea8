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

/* NULL without memory. */
struct py_codes *py_codes_new(void);
void py_codes_free(struct py_codes *c);

#endif
