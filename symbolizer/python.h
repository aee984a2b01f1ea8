/* The CPython runtime of a live process, seen from outside: its version, its threads, their frames.
 */
#ifndef SYMBOLIZER_PYTHON_H
#define SYMBOLIZER_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbolizer/python_offsets.h"
#include "tracer/mem.h"

/* One interpreter runtime of one process, with the caches of symbolizer/pycode.h. Not thread-safe.
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

/* The file that holds the runtime, as the target names it. */
const char *python_file(const struct py_runtime *rt);

/* The offset within that file of the code at target address `addr`, as a probe wants it. 0, or
 * -ERANGE when `addr` lies outside the file's executable mapping. */
int python_file_offset(const struct py_runtime *rt, uint64_t addr, uint64_t *offset);

/* How to walk, for the eBPF program: see symbolizer/python_offsets.h. */
const struct py_walk *python_walk(const struct py_runtime *rt);

/* The thread state of the thread whose pthread_self() is `thread_id` (x86-64: its fs base). With
 * thread_id 0, of the thread whose gettid() in its own PID namespace is `tid` (3.11+ only). All
 * interpreters are searched. Returns 0 and its address, -ENOENT when the thread has none,
 * -ENOTSUP for a search by tid before 3.11, or -errno of the reading. */
int py_find_tstate(struct py_runtime *rt, uint64_t thread_id, pid_t tid, uint64_t *tstate);

/* Walk the frames of a thread, named as above, innermost first: pairs[i] = {code object,
 * instruction} as struct py_walk describes them, at most `max`. The thread should not be running
 * Python meanwhile. *truncated is set when there are more frames or one could not be read. Returns
 * the number of frames (0: the thread runs no Python code), or -errno as py_find_tstate. */
int py_walk_thread(struct py_runtime *rt, uint64_t thread_id, pid_t tid, uint64_t pairs[][2],
		   size_t max, bool *truncated);

#endif
