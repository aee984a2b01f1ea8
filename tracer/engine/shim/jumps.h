/* Jumps written into the code of running processes, over windows (symbolizer/code/return_sites.h).
 * Each leads to a stub that calls a handler inside the process, executes the instructions of the
 * window, and jumps back behind it.
 *
 * A helper process writes them, and takes them out when ditrace ends, however that happens.
 * [The engines](docs/engines.md) says why this harms no process. */
#ifndef TRACER_ENGINE_SHIM_JUMPS_H
#define TRACER_ENGINE_SHIM_JUMPS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/map.h"
#include "symbolizer/code/arch_x86_64.h"
#include "tracer/engine/shim/shim_share.h"
#include "tracer/proc/seize.h"

enum {
	JUMP_WINDOW_MAX = 24,  /* bytes of the longest window */
	JUMP_STUB = 64,	       /* bytes of a stub */
	JUMP_POOL_HEAD = 4096, /* bytes at the start of a part of a pool that are not for stubs */
	JUMP_HANDLERS = 510,   /* different handlers in a part */
};

/* One jump. */
struct jump_site {
	uint64_t addr;	     /* of the window in the process */
	uint64_t handler;    /* address in the process of the function that the stub calls */
	uint32_t number;     /* what the handler is given, below 2^31 */
	uint8_t len;	     /* of the window, ARCH_JUMP_LEN to JUMP_WINDOW_MAX bytes */
	bool first;	     /* gets its stub before others, should there be room for some only */
	bool relative;	     /* its last four bytes are a displacement from its end */
	bool skips_red_zone; /* the ARCH_RED_ZONE bytes below the stack pointer are in use */
	uint8_t bytes[JUMP_WINDOW_MAX]; /* what the file has there */
};

/* A handler is called with the stack pointer aligned to 8 bytes, the return address on the stack
 * and `number`, sign-extended to 8 bytes, above it. It keeps all registers but the status flags,
 * returns with `ret 8`, and may change nothing above `number`. */

/* Bytes of a pool of one part for so many windows, a multiple of the page size. */
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
	JUMP_NO_ROOM, /* the pool is full, or too far away */
};

/* Whether a stub in some part of the pool can be that of the site. */
bool jump_pool_reaches(const struct jump_pool *p, const struct jump_site *s);

struct jumps_done {
	uint32_t written, foreign, busy, split, no_room; /* sites by state */
	uint64_t stood_ns; /* for how long the process stood, in all */
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

/* The parts of what writes them, for the files of this folder. */

/* jump_stub_x86_64.c: all that is particular to the machine. */

/* The stub at address `at` for a site, which calls the handler whose address is in the word at
 * `handler_at`. */
void jump_stub_contents(uint8_t out[JUMP_STUB], const struct jump_site *s, uint64_t at,
			uint64_t handler_at);

/* The address of the window of a stub; 0: there is no stub. */
uint64_t jump_stub_window(const uint8_t stub[JUMP_STUB]);

/* Whether one may become the other while threads that stand are in it, or in its handler: they
 * differ in the number and the handler alone. */
bool jump_stub_is_like(const uint8_t a[JUMP_STUB], const uint8_t b[JUMP_STUB]);

/* Offset in the stub of the window's instructions. */
unsigned jump_stub_copy(const struct jump_site *s);

/* A jump at address `at` to `to`; whether it reaches; where one leads, 0: it is none. */
void jump_contents(uint8_t out[ARCH_JUMP_LEN], uint64_t at, uint64_t to);
bool jump_reaches(uint64_t at, uint64_t to);
uint64_t jump_target(const uint8_t code[ARCH_JUMP_LEN], uint64_t at);

/* The address that a window which is `relative` refers to. */
uint64_t jump_relative_target(const struct jump_site *s);

/* Whether word[i] of the `n` is the one of a signal frame by which such frames are known; the stack
 * pointer that it saves in *sp. */
bool jump_is_signal_frame(const uint64_t *word, size_t i, uint64_t *sp);

/* Set the address of the next instruction of a thread that stands. 0 or -errno. */
int jump_move_thread(pid_t tid, uint64_t to);

/* jump_pool.c: what is in a pool. The head of a part is a magic number and the handlers' addresses;
 * then come the stubs, each for one window for ever. */

struct pool {
	struct pool_part {
		struct jump_part at;
		uint8_t *bytes;	      /* as they are in the process, or will be by pool_write */
		uint32_t first;	      /* the index of its first stub */
		uint32_t stubs, were; /* now, and in the process */
		unsigned handlers, handlers_were;
	} part[JUMP_PARTS];
	unsigned parts;
	struct map by_window;
};

/* Read it. 0, or -errno with *e; -ESRCH: the address space is gone. Free with pool_free. */
int pool_read(struct pool *p, int mem, const struct jump_pool *at, struct err *e);
void pool_free(struct pool *p);

/* The index of the stub of a window, or -ENOENT; of the stub at an address, or -ENOENT. */
int64_t pool_of_window(const struct pool *p, uint64_t window);
int64_t pool_of_address(const struct pool *p, uint64_t addr);

/* The address of the stub `i`, which there must be, and its bytes. */
uint64_t pool_stub_at(const struct pool *p, uint32_t i);
uint8_t *pool_stub(const struct pool *p, uint32_t i);

/* Whether the stub `i` can be that of the site. */
bool pool_reaches(const struct pool *p, uint32_t i, const struct jump_site *s);

/* Make a stub for a site, in a part that reaches it; its index or -ENOSPC, -ENOMEM. */
int64_t pool_add(struct pool *p, const struct jump_site *s);

/* What the stub `i` of site `s` should be. 0 or -ENOSPC. */
int pool_contents(struct pool *p, uint32_t i, const struct jump_site *s, uint8_t out[JUMP_STUB]);

/* Write what has been added. Nothing leads there yet. 0 or -errno. */
int pool_write(struct pool *p, int mem);

/* jumps_write.c: one try, in a process of its own, which must end after it. */

/* The sites of one process. */
struct jump_work {
	pid_t pid;
	int mem; /* /proc/PID/mem */
	struct jump_pool pool;
	const struct jump_site *sites; /* by ascending address, not overlapping */
	uint32_t n;
	struct jump_round *round; /* shared with that process */
};

/* What came of it. */
struct jump_round {
	/* 0; -EAGAIN: some sites are busy; -ETIMEDOUT: threads did not stop; -ESRCH: that address
	 * space is gone; -EINTR, as it is set before: it was killed; or -errno, with `e` */
	int result;
	uint64_t stood_ns;
	struct err e;
	uint8_t state[]; /* enum jump_state of each site */
};

/* Write them, or take them out. */
void jump_round_add(const struct jump_work *w, unsigned timeout_ms);
void jump_round_remove(const struct jump_work *w, unsigned timeout_ms);

/* Read and write the memory that `mem` is. 0; -ESRCH: it is gone; or -errno. */
int jump_mem_read(int mem, uint64_t addr, void *buf, size_t len);
int jump_mem_write(int mem, uint64_t addr, const void *buf, size_t len);

/* jump_threads.c: threads in the middle of what is about to become a jump. */

/* What is to be done with a site. */
struct jump_plan {
	uint32_t stub;
	bool write; /* the jump is to be written */
	bool renew; /* the stub is to be changed */
	bool busy;
};

/* Mark as busy, instead of `write`, the sites to which a thread would come back from a signal
 * handler, and move those that are in one into its stub, which must be there. 0 or -errno. */
int jump_threads_clear(const struct jump_work *w, const struct pool *p, struct jump_plan *plan,
		       const struct stop_all *stopped);

/* jumps_helper.c */

#define JUMPS_NAME "ditrace-jumps" /* of the helper process and those that it starts */

/* A request on the socket; n sites follow, in the order of struct jump_work. */
struct jump_request {
	bool remove;
	pid_t pid;
	uint32_t n;
	struct jump_pool pool;
};

/* The answer; if `result` is 0, the enum jump_state of n sites follow, a byte each. */
struct jump_answer {
	int32_t result;
	uint64_t stood_ns;
	struct err e;
};

/* The helper process: serves the socket until its other end is closed, then takes all jumps out.
 * For helper_start. */
void jumps_serve(int sock, void *none);

/* stub_image_x86_64.c: the memory for stubs as an ELF file, for debuggers and profilers: by
 * its unwinding table they step from a stub to the function with the jump. Each part of a pool is
 * preceded by a page that this is in. */

enum {
	STUB_IMAGE = 4096,	   /* bytes before a part of a pool */
	STUB_IMAGE_MOST = 2 << 20, /* bytes of the file, and of the largest part with its page */
};

/* Beside the library's file. The rest of the STUB_IMAGE_MOST bytes are zeros. */
#define STUB_IMAGE_FILE "libditrace_stubs.so"

struct stub_image {
	Elf64_Ehdr head;
	Elf64_Phdr segment[2];
	/* .eh_frame_hdr (Linux Standard Base Core, 10.6.2): a table with the one entry */
	struct {
		uint8_t version, frame_enc, count_enc, table_enc;
		int32_t frame;
		uint32_t count;
		int32_t start, entry;
	} search;
	/* .eh_frame (10.6.1) */
	struct {
		uint32_t cie_len, cie_id;
		uint8_t cie[12];
		uint32_t fde_len, fde_cie;
		int32_t start;
		uint32_t len;
		uint8_t none, rules[103];
		uint32_t end;
	} frame;
	Elf64_Sym symbol[2];
	char names[64];
	Elf64_Shdr section[7];
};
_Static_assert(sizeof(struct stub_image) <= STUB_IMAGE, "it fits into its page");

/* Make it, for `len` bytes of memory, the image's page included, at address `addr`; 0: for a file.
 */
void stub_image_make(struct stub_image *out, uint64_t addr, uint64_t len);

#endif
