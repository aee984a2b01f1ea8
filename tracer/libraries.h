/* Which of the files that a process has mapped are PyTorch's and Python's. */
#ifndef TRACER_LIBRARIES_H
#define TRACER_LIBRARIES_H

#include "tracer/maps.h"

/* Pointers into the maps; NULL where there is none. Decided by the files' names alone: what is in
 * them is for their readers to say. */
struct libraries {
	const struct mapping *torch; /* libtorch_cpu, or libtorch where one library has it all */
	const struct mapping *torch_python; /* libtorch_python */
	const struct mapping *c10;	    /* libc10 */
	const struct mapping *python;	    /* libpython, or the interpreter itself */
	char torch_dir[4096]; /* the Python package, as the target sees it: ".../torch"; "" unknown
			       */
	char torch_version[64]; /* "2.13.0+cpu", as the package says it; "" unknown */
};

void libraries_find(pid_t pid, const struct maps *m, struct libraries *out);

/* Whether a file called so (last component of a path) is a libtorch: for the events of follow.h. */
bool library_is_torch(const char *name);

/* The value of __version__ in the text of torch/version.py, into out; false when there is none. */
bool library_parse_version(const char *text, char *out, size_t size);

#endif
