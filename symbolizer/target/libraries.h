/* Which of the files that a process has mapped are PyTorch's and Python's. */
#ifndef SYMBOLIZER_TARGET_LIBRARIES_H
#define SYMBOLIZER_TARGET_LIBRARIES_H

#include "symbolizer/target/maps.h"

/* Pointers into the maps; NULL where there is none. Decided by the files' names alone: what is in
 * them is for their readers to say. */
struct libraries {
	const struct mapping *torch;	    /* libtorch_cpu: libtorch itself is empty */
	const struct mapping *torch_python; /* libtorch_python */
	const struct mapping *c10;	    /* libc10 */
	const struct mapping *python;	    /* libpython, or the interpreter itself */
};

/* The first executable mapping of each. */
void libraries_find(const struct maps *m, struct libraries *out);

/* Whether the file at `path` is libtorch_cpu or libc10, by its name: without them nothing is
 * traced. For the events of follow.h. */
bool library_is_needed(const char *path);

/* The Python package of PyTorch. */
struct torch_package {
	char dir[4096];	  /* as the target sees it: ".../torch"; "" unknown */
	char version[64]; /* "2.13.0+cpu", as the package says it; "" unknown */
};

void torch_package_find(pid_t pid, const struct maps *m, struct torch_package *out);

/* The value of __version__ in the text of torch/version.py, into out; false when there is none. */
bool library_parse_version(const char *text, char *out, size_t size);

#endif
