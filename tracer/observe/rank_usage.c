/* What the main threads of ranks got of processors, and their page faults: told in the trace, as a
 * rank that shares its processor is late in no line of its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "tracer/observe/internal.h"

static const uint64_t EVERY_NS = 100000000;

/* Page faults say nothing of a moment, and take longest to read; a control group hardly changes. */
enum { SELDOM = 10 };

static int open_of(pid_t pid, const char *name)
{
	char path[128];
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void usage_close(struct rank_files *f)
{
	if (f->schedstat >= 0)
		close(f->schedstat);
	if (f->stat >= 0)
		close(f->stat);
	throttle_free(&f->throttle);
}

static void usage_drop(struct rank_usage *u, size_t i)
{
	usage_close(&u->ranks[i]);
	u->ranks[i] = u->ranks[--u->n];
}

void rank_usage_add(struct rank_usage *u, const struct trace_process *p)
{
	char name[64];
	for (size_t i = u->n; i-- > 0;)
		if (u->ranks[i].last.pid == p->pid)
			usage_drop(u, i);
	if (p->rank.rank < 0 || p->worker)
		return;
	if (array_grow(&u->ranks, &u->room, u->n + 1, sizeof(*u->ranks)))
		return;
	struct rank_files *f = &u->ranks[u->n++];
	snprintf(name, sizeof(name), "task/%d/stat", p->pid);
	*f = (struct rank_files){.last.pid = p->pid};
	f->schedstat = open_of(p->pid, "schedstat");
	f->stat = open_of(p->pid, name);
}

/* Fails with ESRCH when the process has ended. */
static bool read_again(int fd, char *out, size_t size)
{
	ssize_t n = fd < 0 ? -1 : pread(fd, out, size - 1, 0);
	out[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* Of proc_pid_stat(5) the 10th and the 12th field, after a name that may contain any characters. */
static bool read_faults(const struct rank_files *f, struct trace_usage *out)
{
	char text[1024];
	const char *p = read_again(f->stat, text, sizeof(text)) ? strrchr(text, ')') : NULL;
	return p && sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %" SCNu64 " %*u %" SCNu64,
			   &out->minor_faults, &out->major_faults) == 2;
}

static bool read_usage(struct rank_files *f)
{
	char text[128];
	struct trace_usage *out = &f->last;
	if (!read_again(f->schedstat, text, sizeof(text)) ||
	    sscanf(text, "%" SCNu64 " %" SCNu64, &out->run_ns, &out->wait_ns) != 2)
		return false;
	const bool is_due = f->times++ % SELDOM == 0;
	if (is_due)
		throttle_find(&f->throttle, out->pid);
	throttle_read(&f->throttle, out);
	return !is_due || read_faults(f, out);
}

/* Of what calls no op, as a launcher, there shall be no file. */
static int usage_put(const struct rank_files *f, struct trace_writer *w)
{
	return trace_writer_has_file(w, f->last.pid) ? trace_write_usage(w, &f->last) : 0;
}

int rank_usage_write(struct rank_usage *u, struct trace_writer *w, uint64_t now_ns)
{
	if (now_ns - u->written_ns < EVERY_NS)
		return 0;
	u->written_ns = now_ns;
	for (size_t i = 0; i < u->n;) {
		struct rank_files *f = &u->ranks[i];
		f->last.ns = now_ns;
		int r = read_usage(f) ? usage_put(f, w) : 1;
		if (r < 0)
			return r;
		if (r)
			usage_drop(u, i);
		else
			i++;
	}
	return 0;
}

void rank_usage_free(struct rank_usage *u)
{
	for (size_t i = 0; i < u->n; i++)
		usage_close(&u->ranks[i]);
	free(u->ranks);
	*u = (struct rank_usage){0};
}
