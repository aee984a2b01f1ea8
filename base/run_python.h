/* Pythons that ditrace starts for itself. None of them looks for modules in the current folder,
 * which may be a stranger's. */
#ifndef BASE_RUN_PYTHON_H
#define BASE_RUN_PYTHON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Take empty folders, which mean the current one, out of PYTHONPATH. Call it before all else here.
 */
void python_drop_empty_folders(void);

/* Whether the interpreter finds `module`, the name of one. It is not imported. */
bool python_has(const char *python, const char *module);

/* The first of python3 and python on the PATH that finds `module`, into `out`. 0, or -ENOENT with
 * *e, and no hint. */
int python_find(const char *module, char *out, size_t size, struct err *e);

/* A file in memory with the program between `start` and `end`, both of one object made by the
 * linker. A descriptor, or -errno. */
int python_program(const char *start, const char *end);

#endif
