/* Memory of a thread that stands still, read in few system calls: what was read once is kept until
 * the thread goes on, and what is going to be read can be fetched together. */
#ifndef TRACER_ENGINE_REMOTE_H
#define TRACER_ENGINE_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef INSIDE /* the library in the process itself */
#include "tracer/engine/own_copy.h"
#endif

struct remote;

/* NULL without memory. Free with remote_free (NULL allowed). */
struct remote *remote_new(void);
void remote_free(struct remote *r);

/* From now on the memory of thread `tid`, which stands still; what was known is forgotten. Needs
 * ptrace access rights to it. */
void remote_begin(struct remote *r, pid_t tid);

/* Copy `len` bytes at address `addr` of the thread. 0; -EFAULT when any byte of it cannot be read,
 * and then *buf is zeroed; while collecting, -EAGAIN when it is not known yet. */
int remote_read(struct remote *r, uint64_t addr, void *buf, size_t len);

/* The same of an object that may end before `len`: where the page behind `addr` is not there, what
 * lies before it, and zeros behind. Returns how many bytes were there; 0: none, or not known yet.
 */
static inline uint32_t remote_read_most(struct remote *r, uint64_t addr, void *buf, uint32_t len)
{
	uint32_t here = 4096 - (uint32_t)(addr & 4095);
	if (!remote_read(r, addr, buf, len))
		return len;
	return here < len && !remote_read(r, addr, buf, here) ? here : 0;
}

/* As remote_read(), of what is there for certain as long as the thread stands still: what a live
 * object holds or points to. Within the process itself that needs no check. */
#ifndef INSIDE
int remote_live(struct remote *r, uint64_t addr, void *buf, size_t len);
#else
static inline int remote_live(struct remote *r, uint64_t addr, void *buf, size_t len)
{
	(void)r;
	if (__builtin_constant_p(len))
		__builtin_memcpy(buf, (const void *)(uintptr_t)addr, len);
	else
		own_copy(buf, (const void *)(uintptr_t)addr, len);
	return 0;
}
#endif

/* Whether that is as quick as a load, so that words can be taken one by one. */
#ifdef INSIDE
enum { REMOTE_IS_OWN = 1 };
#else
enum { REMOTE_IS_OWN = 0 };
#endif

/* The kind of the object (enum OBJECT_*) that an IValue with this tag points to, when it is certain
 * that it is alive and of that class; 0: it is not. */
unsigned remote_object(struct remote *r, uint32_t tag, uint64_t addr);

/* The word, the byte there; 0 when it cannot be read. */
uint64_t remote_word(struct remote *r, uint64_t addr);
uint8_t remote_byte(struct remote *r, uint64_t addr);

/* Whether it pays to collect what is going to be read. */
bool remote_collects(const struct remote *r);

/* While `on`, reads of what is not known fail and are noted instead. */
void remote_collect(struct remote *r, bool on);

/* Note the range for the next remote_fetch. */
void remote_want(struct remote *r, uint64_t addr, size_t len);

/* Read all that was noted. The number of blocks that were wanted; 0: none, nothing was done. */
size_t remote_fetch(struct remote *r);

/* System calls made since remote_new. */
uint64_t remote_calls(const struct remote *r);

#endif
