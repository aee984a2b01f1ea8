/* Jumps written into the code of running processes, over windows (symbolizer/code/windows.h). Each
 * leads to a stub that calls a handler inside the process, executes the instructions of the window,
 * and jumps back behind it.
 *
 * A helper process writes them, and takes them out when ditrace ends, however that happens.
 * [The engines](docs/engines.md) says why this harms no process. */
#ifndef TRACER_ENGINE_SHIM_JUMPS_H
#define TRACER_ENGINE_SHIM_JUMPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum {
	JUMP_WINDOW_MAX = 24,  /* bytes of the longest window */
	JUMP_STUB = 64,	       /* bytes of a stub */
	JUMP_POOL_HEAD = 4096, /* bytes at the start of a pool that are not for stubs */
	JUMP_HANDLERS = 510,   /* different handlers in a pool */
};

/* One jump. */
struct jump_site {
	uint64_t addr;	     /* of the window in the process */
	uint64_t handler;    /* address in the process of the function that the stub calls */
	uint32_t number;     /* what the handler is given, below 2^31 */
	uint8_t len;	     /* of the window, ARCH_JUMP_LEN to JUMP_WINDOW_MAX bytes */
	bool skips_red_zone; /* the ARCH_RED_ZONE bytes below the stack pointer are in use */
	uint8_t bytes[JUMP_WINDOW_MAX]; /* what the file has there */
};

/* A handler is called with the stack pointer aligned to 8 bytes, the return address on the stack
 * and `number`, sign-extended to 8 bytes, above it. It keeps all registers but the status flags,
 * returns with `ret 8`, and may change nothing above `number`. */

/* Memory in the process within reach of the sites (2 GiB less than a window), mapped r-x and
 * private, aligned to pages and at first all zeros. It stays mapped for the life of the process:
 * threads may be in its stubs when all jumps have long been taken out. A window keeps its stub for
 * ever, so room for all that may ever be used is enough. */
struct jump_pool {
	uint64_t addr, len;
};

/* Bytes of a pool for so many windows, a multiple of the page size. */
static inline uint64_t jump_pool_len(uint32_t windows)
{
	return ((uint64_t)windows * JUMP_STUB + JUMP_POOL_HEAD + 4095) & ~UINT64_C(4095);
}

enum jump_state {
	JUMP_NONE,
	JUMP_WRITTEN, /* now, or by a ditrace before; or inherited by fork */
	JUMP_FOREIGN, /* the bytes there are neither the file's nor a jump of ours */
	JUMP_BUSY,    /* a thread would come back into the middle of it from a signal handler */
	JUMP_SPLIT,   /* the jump would lie in two pages, which no write changes at once */
};

struct jumps_done {
	uint32_t written, foreign, busy, split; /* sites by state */
	uint64_t stood_ns;			/* for how long the process stood, in all */
};

struct jumps;

/* Start the helper process; early, as it keeps what ditrace has in memory now. Returns 0 and *out,
 * or -errno. */
int jumps_open(struct jumps **out);

/* The helper process, which must be permitted to trace the processes (spawn_prepare, `tracer`). */
pid_t jumps_helper(const struct jumps *j);

/* Write jumps at `n` sites, in any order, of process `pid`, all of whose threads stand meanwhile,
 * some milliseconds; threads that do not stop are waited for up to five seconds, in which the
 * others stand for parts of a second. Sites of earlier calls stay. The process must not be stopped
 * by this ditrace. Keeps no pointer. Returns 0 with *done, even if no site could be written; -errno
 * with *e and no new jump: -ECHILD when the helper process is gone. */
int jumps_add(struct jumps *j, pid_t pid, const struct jump_pool *pool,
	      const struct jump_site *sites, uint32_t n, struct jumps_done *done, struct err *e);

/* What has become of site `i` of the last jumps_add that returned 0. */
enum jump_state jumps_state(const struct jumps *j, uint32_t i);

/* Take the jumps out of process `pid` (0: of all processes); stubs stay. 0, also when it has ended
 * or executes another program; else -errno: some are still in place, and are tried once more by
 * jumps_close. */
int jumps_remove(struct jumps *j, pid_t pid);

/* Whether the helper process is alive. */
bool jumps_alive(const struct jumps *j);

/* Take all jumps out, wait for the helper process, and free `j` (may be NULL). */
void jumps_close(struct jumps *j);

#endif
