/* Memory of a stopped thread, read in few system calls: what was read is cached until the thread
 * resumes, and reads known in advance can be fetched together. */
#ifndef TRACER_ENGINE_REMOTE_H
#define TRACER_ENGINE_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Copies of the process's own memory. */

/* An inline memcpy for a few words, where a call would cost more. Above 8 bytes the tail is copied
 * as one whole word that overlaps what was copied before. */
static inline void own_copy(void *to, const void *from, size_t len)
{
	char *t = to;
	const char *f = from, *end = f + len;
	for (; end - f >= 32; f += 32, t += 32)
		__builtin_memcpy(t, f, 32);
	for (; end - f >= 8; f += 8, t += 8)
		__builtin_memcpy(t, f, 8);
	if (f != end && len > 8)
		__builtin_memcpy(t + (end - f) - 8, end - 8, 8);
	else
		while (f != end)
			*t++ = *f++;
}

struct remote;

/* NULL without memory. Free with remote_free (NULL allowed). */
struct remote *remote_new(void);
void remote_free(struct remote *r);

/* Switch to the memory of thread `tid`, which is stopped, and drop the cache. Needs ptrace access
 * to it. */
void remote_begin(struct remote *r, pid_t tid);

/* Copy `len` bytes from address `addr` of the thread. 0; -EFAULT when any of them cannot be read,
 * and then *buf is zeroed; while collecting, -EAGAIN when they are not cached yet. */
int remote_read(struct remote *r, uint64_t addr, void *buf, size_t len);

/* The same for an object that may end before `len`: if the page after `addr` is not mapped, what
 * lies before it, then zeros. Returns how many bytes were readable; 0: none, or not cached yet. */
static inline uint32_t remote_read_most(struct remote *r, uint64_t addr, void *buf, uint32_t len)
{
	uint32_t here = 4096 - (uint32_t)(addr & 4095);
	if (!remote_read(r, addr, buf, len))
		return len;
	return here < len && !remote_read(r, addr, buf, here) ? here : 0;
}

/* As remote_read(), for memory that is certainly mapped as long as the thread is stopped: what a
 * live object holds or points to. Inside the process itself that is an unchecked load. */
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

/* Whether remote_live is as fast as a load, so that words may be read one by one. */
#ifdef INSIDE
enum { REMOTE_IS_OWN = 1 };
#else
enum { REMOTE_IS_OWN = 0 };
#endif

/* The kind (enum OBJECT_*) of the object that an IValue with this tag points to, if it is certainly
 * alive and of that class; else 0. */
unsigned remote_object(struct remote *r, uint32_t tag, uint64_t addr);

/* The word or byte there; 0 when it cannot be read. */
uint64_t remote_word(struct remote *r, uint64_t addr);
uint8_t remote_byte(struct remote *r, uint64_t addr);

/* Whether it pays to collect reads in advance. */
bool remote_collects(const struct remote *r);

/* While `on`, reads of what is not cached fail and are noted. */
void remote_collect(struct remote *r, bool on);

/* Note the range for the next remote_fetch. */
void remote_want(struct remote *r, uint64_t addr, size_t len);

/* Read all that was noted. Returns the number of blocks that were wanted; 0: nothing to do. */
size_t remote_fetch(struct remote *r);

/* System calls made since remote_new. */
uint64_t remote_calls(const struct remote *r);

#endif
