#define _GNU_SOURCE
#include "tracer/stack/internal.h"

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

static void watched_begin(struct op_watched *x, pid_t tid, uint64_t entry)
{
	struct perf_event_attr attr = {
	    .type = PERF_TYPE_BREAKPOINT,
	    .size = sizeof(attr),
	    .bp_type = HW_BREAKPOINT_X,
	    .bp_addr = entry,
	    .bp_len = sizeof(long),
	    .exclude_kernel = 1,
	    .exclude_hv = 1,
	    .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	if (x->tid)
		close(x->fd);
	int fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	*x = (struct op_watched){0};
	if (fd >= 0)
		*x = (struct op_watched){tid, fd, entry, clock_ns(CLOCK_MONOTONIC)};
}

static struct op_watched *watch_find(struct op_watch *w, pid_t tid)
{
	for (unsigned i = 0; i < w->n; i++)
		if (w->at[i].tid == tid)
			return &w->at[i];
	for (unsigned i = 0; i < w->n; i++)
		if (!w->at[i].tid)
			return &w->at[i];
	return w->n < OP_WATCH_THREADS ? &w->at[w->n++] : NULL;
}

/* Whether there was no entry, and the counting had no gap. */
static bool has_stayed(const struct op_watched *x)
{
	uint64_t count[3]; /* entries, time enabled, time running */
	return read(x->fd, count, sizeof(count)) == sizeof(count) && !count[0] &&
	       count[1] == count[2];
}

uint64_t op_watch_in(struct op_watch *w, pid_t tid, uint64_t entry, uint64_t now_ns)
{
	struct op_watched *x = watch_find(w, tid);
	if (!x || !entry)
		return 0;
	if (x->tid == tid && x->entry == entry && has_stayed(x))
		return now_ns > x->since_ns ? now_ns - x->since_ns : 0;
	watched_begin(x, tid, entry);
	return 0;
}

void op_watch_free(struct op_watch *w)
{
	for (unsigned i = 0; i < w->n; i++)
		if (w->at[i].tid)
			close(w->at[i].fd);
	*w = (struct op_watch){0};
}
