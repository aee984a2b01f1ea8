/* Which file of a process holds the CPython runtime, and where its symbols lie in the process. */
#ifndef SYMBOLIZER_PYTHON_PYTHON_IMAGE_H
#define SYMBOLIZER_PYTHON_PYTHON_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct py_image {
	char path[512]; /* as in the target's mount namespace; cut when longer */
	/* Target addresses of the objects of these names; 0: the file has no such symbol. */
	uint64_t runtime;      /* _PyRuntime, never 0 */
	uint64_t version;      /* Py_Version, 3.11+ */
	uint64_t code_type;    /* PyCode_Type, never 0 */
	uint64_t unicode_type; /* PyUnicode_Type, never 0 */
	uint64_t bytes_type;   /* PyBytes_Type, never 0 */
	/* N when the file's read-only data holds the string "python3.N" for exactly one N, as the
	 * path set-up of 3.8 to 3.10 does (Modules/getpath.c, VERSION); else 0. */
	unsigned literal_minor;
};

/* Look through the executable mappings of `pid` for files that define a CPython runtime; files and
 * the main program with "python" in their names first, any other file only when those have none.
 * Fills out with at most `max` of them. Returns the number found (0: this process has no CPython),
 * or -errno with *e: -ESRCH, -EACCES. */
int py_images(pid_t pid, struct py_image *out, size_t max, struct err *e);

#endif
