/* Where the stack of a thread is, as /proc/self/maps (proc(5)) says. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "tracer/shim/record/internal.h"

struct bounds {
	uint64_t sp, low, high; /* high 0: not found yet */
};

static void bounds_line(struct bounds *b, const char *line)
{
	char *s;
	const uint64_t start = strtoull(line, &s, 16);
	const uint64_t end = *s == '-' ? strtoull(s + 1, &s, 16) : 0;
	if (b->sp < start || b->sp >= end || s[0] != ' ' || s[1] != 'r' || s[2] != 'w')
		return;
	b->low = start;
	b->high = end;
}

/* The addresses and what may be done there are all that is needed of a line. */
static void bounds_read(struct bounds *b, int maps)
{
	enum { LINE = 64 };
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
	w->low = b.low;
	w->high = b.high;
	return b.high;
}
