/* Walking a Python thread from outside as struct py_walk says: what the engines do on the thread
 * that hit, for any thread. */
#ifndef SYMBOLIZER_PYTHON_PYWALK_H
#define SYMBOLIZER_PYTHON_PYWALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "symbolizer/python/python.h"

/* The thread state of the thread whose pthread_self() is `thread_id` (x86-64: its fs base). With
 * thread_id 0, of the thread whose gettid() in its own PID namespace is `tid`; before 3.11 that
 * takes glibc (symbolizer/python/pthread_x86_64.h). All interpreters are searched. Returns 0 and
 * its address, -ENOENT when the thread has none, or -errno of the reading. */
int py_find_tstate(struct py_runtime *rt, uint64_t thread_id, pid_t tid, uint64_t *tstate);

/* Walk the frames of a thread, named as above, innermost first: pairs[i] = {code object,
 * instruction} as struct py_walk describes them, at most `max`. The thread should not be running
 * Python meanwhile. *truncated is set when there are more frames or one could not be read. Returns
 * the number of frames (0: the thread runs no Python code), or -errno as py_find_tstate. */
int py_walk_thread(struct py_runtime *rt, uint64_t thread_id, pid_t tid, uint64_t pairs[][2],
		   size_t max, bool *truncated);

/* What a walk began with. */
struct py_top {
	uint64_t tstate;
	uint64_t cframe; /* the _PyCFrame on the C stack of the interpreter's innermost call (3.11,
			    3.12), else 0 */
	uint64_t frame;	 /* the innermost frame */
};

/* The same, and *top tells where it began. */
int py_walk_from(struct py_runtime *rt, uint64_t thread_id, pid_t tid, struct py_top *top,
		 uint64_t pairs[][2], size_t max, bool *truncated);

/* Where the instructions of the code object at `code` lie, [*start, *end), when the second word of
 * its pairs is an address (3.11+); -ENOTSUP before, -errno of the reading. */
int py_code_range(struct py_runtime *rt, uint64_t code, uint64_t *start, uint64_t *end);

struct py_gil {
	uint64_t addr, size; /* where it lies, bytes: what its waiters sleep on is within it */
	uint64_t holder;     /* the thread state that holds it; 0: it is free */
};

/* The global interpreter lock of the thread state's interpreter at this moment. A thread that takes
 * it sets it locked first and writes the holder an instruction later: look twice. 0 or -errno. */
int py_gil_read(struct py_runtime *rt, uint64_t tstate, struct py_gil *out);

#endif
