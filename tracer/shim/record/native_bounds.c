/* Where the stack of a thread is, as /proc/self/maps (proc(5)) says. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tracer/shim/record/internal.h"

/* Nothing else is mapped so near below the main thread's stack (Linux, arch/x86/mm/mmap.c). */
enum { GAP = 64 << 20 };

struct bounds {
	uint64_t sp, low, high; /* high 0: not found */
};

/* A thread's own stack alone: it is there as long as the thread, and so is what lies above it, up
 * to the thread pointer (glibc, nptl/allocatestack.c) or the end of the main thread's. What else is
 * mapped above the stack pointer may be gone the next time. */
static void bounds_line(struct bounds *b, const char *line)
{
	const uint64_t self = (uint64_t)(uintptr_t)__builtin_thread_pointer();
	char *s;
	const uint64_t start = strtoull(line, &s, 16);
	const uint64_t end = *s == '-' ? strtoull(s + 1, &s, 16) : 0;
	if (b->sp < start || b->sp >= end || s[0] != ' ' || s[1] != 'r' || s[2] != 'w')
		return;
	const bool is_thread = self > b->sp && self < end;
	/* That of the main thread grows down. */
	b->low = is_thread ? start : end - GAP;
	b->high = is_thread ? self : strstr(s, "[stack]") ? end : 0;
}

/* What is longer is a line of a file. */
static void bounds_read(struct bounds *b, int maps)
{
	enum { LINE = 128 };
	char buf[4096], line[LINE];
	size_t len = 0;
	ssize_t n;
	while (!b->high && ((n = read(maps, buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR)))
		for (ssize_t i = 0; i < n; i++) {
			if (len < LINE - 1)
				line[len++] = buf[i];
			if (buf[i] != '\n')
				continue;
			line[len - 1] = 0;
			bounds_line(b, line);
			len = 0;
		}
}

static void find_bounds(void *arg)
{
	int saved = errno;
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (maps >= 0) {
		bounds_read(arg, maps);
		close(maps);
	}
	errno = saved;
}

/* A thread that changes its stack again and again pays for that; no more is read for it then. */
bool native_bounds_find(struct native_walk *w, uint64_t sp)
{
	enum { MOST = 64 };
	struct bounds b = {.sp = sp};
	if (w->found >= MOST)
		return false;
	w->found++;
	saved_call(find_bounds, &b);
	if (!b.high)
		return false;
	w->low = b.low;
	w->high = b.high;
	return true;
}
