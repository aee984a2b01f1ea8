/* The CPython runtime of a live process, seen from outside: its version, its threads, their frames.
 */
#ifndef SYMBOLIZER_PYTHON_PYTHON_H
#define SYMBOLIZER_PYTHON_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbolizer/python/python_offsets.h"
#include "symbolizer/target/mem.h"

/* One interpreter runtime of one process, with the caches of symbolizer/python/pycode.h. Not
 * thread-safe.
 */
struct py_runtime;

/* Find the runtime of `pid` (CPython 3.8 to 3.13, the default build), linked into the program or as
 * a shared library, and check that its memory looks as the layout says. `m` must outlive *out.
 * Keeps the root and working directory of the process open, for source texts after its end.
 * Returns 0 and *out (free with python_close), or -errno with *e:
 *   -ENOENT   no CPython in this process
 *   -EAGAIN   CPython is mapped but has not started yet: try again later
 *   -ENOTSUP  a version or build that this program does not know
 *   -EPROTO   memory contradicts the layout of the version
 *   -ESRCH, -EPERM, -EACCES  the process cannot be read. */
int python_open(pid_t pid, const struct mem *m, struct py_runtime **out, struct err *e);
void python_close(struct py_runtime *rt); /* NULL is allowed */

/* "3.11.7"; "3.9" where the patch level cannot be had (3.8 to 3.10). */
const char *python_version(const struct py_runtime *rt);

/* How to walk, for the eBPF program: see symbolizer/python/python_offsets.h. */
const struct py_walk *python_walk(const struct py_runtime *rt);

#endif
