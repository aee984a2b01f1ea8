/* How the clocks of hosts differ: from collectives that are done on no rank before all have called
 * them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "perf/collectives/internal.h"

/* One collective on the ranks of one clock. */
struct seen_by {
	uint64_t start_ns; /* of the last that starts */
	uint64_t end_ns;   /* of the first that ends; 0: not known */
};

struct bounds {
	struct clock_bound *all;
	size_t n, room;
};

static bool is_of_distributed(const struct op_desc *op)
{
	return !strncmp(op->name, "c10d::", 6);
}

/* When the rank had done its part: NCCL's kernels wait for each other. Else when it knew that all
 * was done; 0: not known. A wait for one of another backend than Gloo may end before (NCCL: once
 * the stream waits). */
static uint64_t end_of(const struct collectives *c, const struct collective_call *call)
{
	const struct collective *what = &c->rows[call->row].what;
	if (call->device_end_ns)
		return call->device_end_ns;
	if (call->done_ns)
		return call->done_ns;
	if (call->wait_ns && what->backend && !strcmp(what->backend, "gloo"))
		return call->wait_ns + call->waited_ns;
	return 0;
}

static uint64_t start_of(const struct collective_call *call)
{
	return call->device_start_ns ? call->device_start_ns : call->start_ns;
}

static struct seen_by seen_by(const struct collectives *c, const struct collective_world *w,
			      size_t k, unsigned clock)
{
	struct seen_by s = {0};
	for (size_t i = 0; i < w->nranks; i++) {
		const struct collective_call *call = collective_call_of(c, w, k, i);
		if (c->processes[c->ranks[w->ranks[i]]].clock != clock)
			continue;
		uint64_t start = start_of(call), end = end_of(c, call);
		s.start_ns = start > s.start_ns ? start : s.start_ns;
		s.end_ns = end && (!s.end_ns || end < s.end_ns) ? end : s.end_ns;
	}
	return s;
}

/* A damaged file may have any times. */
static bool makes_sense(const struct seen_by *s)
{
	return s->end_ns && s->end_ns < CLOCK_SHIFT_MOST && s->start_ns < CLOCK_SHIFT_MOST;
}

static int add_bounds(struct bounds *b, const struct collectives *c,
		      const struct collective_world *w, unsigned clock)
{
	for (size_t k = 0; k < w->n; k++) {
		if (!c->rows[collective_call_of(c, w, k, 0)->row].what.waits_for_all)
			continue;
		struct seen_by first = seen_by(c, w, k, 0), other = seen_by(c, w, k, clock);
		if (!makes_sense(&first) || !makes_sense(&other))
			continue;
		if (array_grow(&b->all, &b->room, b->n + 1, sizeof(*b->all)))
			return -ENOMEM;
		b->all[b->n++] =
		    (struct clock_bound){.at_ns = other.start_ns,
					 .low = (int64_t)(first.start_ns - other.end_ns),
					 .high = (int64_t)(first.end_ns - other.start_ns),
					 .ends = (int64_t)(first.end_ns - other.end_ns)};
	}
	return 0;
}

static const char *why_none(const struct collectives *c, int code)
{
	if (c->why[0])
		return c->why;
	if (code == -ERANGE)
		return "what collectives say of it is contradictory";
	if (c->blind)
		return "only the engine shim sees collectives";
	return "there is no collective of all ranks of which it is known on both when it ended";
}

static void keep_fit(struct trace_clock *k, const struct clock_fit *f, size_t n)
{
	/* The clocks of the day are compared at the start of the recording. */
	double since = (double)(int64_t)(k->at_ns - f->at_ns);
	k->more_ns = (int64_t)((uint64_t)f->shift_ns + (uint64_t)(int64_t)(f->drift * since) -
			       (uint64_t)k->shift_ns);
	k->shift_ns = f->shift_ns;
	k->drift = f->drift;
	k->at_ns = f->at_ns;
	k->known_ns = f->known_ns;
	k->spread_ns = f->spread_ns;
	k->collectives = n;
	k->against = f->against;
	k->is_found = true;
}

static int find_clock(const struct collectives *c, struct trace_clock *clocks, unsigned clock)
{
	struct bounds b = {0};
	struct clock_fit fit;
	int r = 0;
	for (size_t i = 0; i < c->nworlds && !r; i++)
		r = add_bounds(&b, c, &c->worlds[i], clock);
	r = r ? r : clock_fit(b.all, b.n, &fit);
	if (!r)
		keep_fit(&clocks[clock], &fit, b.n);
	else
		snprintf(clocks[clock].why, sizeof(clocks[clock].why), "%.500s", why_none(c, r));
	free(b.all);
	return r == -ENOMEM ? r : 0;
}

/* A file that is cut or damaged is read as far as it goes. */
static int read_file(struct collectives *c, const struct trace_clock_file *file)
{
	const struct trace_query_opts opts = {.kinds = TRACE_OPS};
	struct trace_query *query = NULL;
	struct trace_item item;
	int r = trace_query(file->path, &opts, &query, NULL);
	if (r)
		return r == -ENOMEM ? r : 0;
	trace_query_values_of(query, is_of_distributed);
	c->clock = file->clock;
	while (!r && trace_query_next(query, &item, NULL) > 0)
		r = collectives_see(c, &item);
	for (size_t i = 0; i < c->nrows; i++)
		c->rows[i].where = NULL; /* the query's */
	trace_query_close(query);
	return r;
}

static int find_all(const struct trace_clock_file *files, size_t nfiles, struct trace_clock *clocks,
		    size_t n)
{
	struct collectives *c = collectives_new();
	int r = c ? 0 : -ENOMEM;
	for (size_t i = 0; i < nfiles && !r; i++)
		r = read_file(c, &files[i]);
	if (!r) {
		c->as_clocks_are = true;
		r = collectives_match(c);
	}
	for (unsigned k = 1; k < n && !r; k++)
		r = find_clock(c, clocks, k);
	collectives_free(c);
	return r;
}

/* Commands open a folder more than once: what was found last is kept, and of which files. */
struct file_state {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec changed;
	unsigned clock;
};

static struct {
	struct file_state *files;
	struct trace_clock *clocks;
	size_t nfiles, n;
} last;

static struct file_state *states_of(const struct trace_clock_file *files, size_t n)
{
	struct file_state *all = calloc(n, sizeof(*all));
	struct stat st;
	for (size_t i = 0; all && i < n; i++)
		if (!stat(files[i].path, &st)) {
			all[i].device = st.st_dev;
			all[i].inode = st.st_ino;
			all[i].size = st.st_size;
			all[i].changed.tv_sec = st.st_mtim.tv_sec;
			all[i].changed.tv_nsec = st.st_mtim.tv_nsec;
			all[i].clock = files[i].clock;
		}
	return all;
}

static void keep_last(struct file_state *files, size_t nfiles, const struct trace_clock *clocks,
		      size_t n)
{
	struct trace_clock *copy = malloc(n * sizeof(*copy));
	free(last.files);
	free(last.clocks);
	last.files = files;
	last.clocks = copy;
	last.nfiles = copy ? nfiles : 0;
	last.n = n;
	if (copy)
		memcpy(copy, clocks, n * sizeof(*copy));
}

int collectives_align(const struct trace_clock_file *files, size_t nfiles,
		      struct trace_clock *clocks, size_t n)
{
	struct file_state *now = states_of(files, nfiles);
	if (!now)
		return -ENOMEM;
	if (last.nfiles == nfiles && last.n == n &&
	    !memcmp(last.files, now, nfiles * sizeof(*now))) {
		memcpy(clocks, last.clocks, n * sizeof(*clocks));
		free(now);
		return 0;
	}
	int r = find_all(files, nfiles, clocks, n);
	if (r)
		free(now);
	else
		keep_last(now, nfiles, clocks, n);
	return r;
}
