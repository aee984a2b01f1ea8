/* The clocks of a folder's files: which files have the same one, and how others differ from the
 * first rank's; and what an item of a file does not say itself: its time by the first clock, its id
 * and rank among those of all files. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/text.h"
#include "perf/trace/internal.h"

enum { ID_SIZE = 16 };

static trace_clocks_fn *clocks_by;

void trace_clocks_by(trace_clocks_fn *fn)
{
	clocks_by = fn;
}

/* A time of that clock as of the first one. */
static uint64_t trace_clock_time(const struct trace_clock *c, uint64_t ns)
{
	int64_t since = (int64_t)(ns - c->at_ns);
	return ns + (uint64_t)c->shift_ns + (uint64_t)(int64_t)(c->drift * (double)since);
}

static const char *host_text(const char *host)
{
	return host[0] ? host : "another host";
}

static uint64_t size_of(int64_t ns)
{
	return ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
}

static void found_text(char *out, size_t size, const struct trace_clock *c)
{
	char more[32], n[32], spread[32], known[32], drift[48] = "", against[64] = "";
	if (c->drift != 0)
		snprintf(drift, sizeof(drift), " at first, and %s %.1f us a second",
			 c->drift > 0 ? "loses" : "gains", fabs(c->drift) * 1e6);
	if (c->against)
		snprintf(against, sizeof(against), ", which %s of them %s",
			 text_count(n, sizeof(n), c->against),
			 c->against == 1 ? "contradicts" : "contradict");
	snprintf(
	    out, size,
	    "the clock of %s is %s %s that of %s%s, which is corrected: %s tell it, whose ends "
	    "differ by %s in the median; it is off by %s at most%s",
	    host_text(c->host), text_ns(more, sizeof(more), size_of(c->more_ns)),
	    c->more_ns > 0 ? "behind" : "ahead of", host_text(c->first), drift,
	    text_counted(n, sizeof(n), c->collectives, "collective"),
	    text_ns(spread, sizeof(spread), c->spread_ns),
	    text_ns(known, sizeof(known), c->known_ns), against);
}

const char *trace_clock_text(char *out, size_t size, const struct trace_clock *c)
{
	if (c->is_found)
		found_text(out, size, c);
	else
		snprintf(out, size, "the clocks of %s and %s are taken as they were set: %s",
			 host_text(c->first), host_text(c->host),
			 c->why[0] ? c->why : "nothing tells how they differ");
	return out;
}

static void clock_json(struct json_out *j, const struct trace_clock *c)
{
	json_open(j, NULL, '{');
	json_text(j, "host", c->host);
	json_text(j, "relative_to", c->first);
	json_bool(j, "found", c->is_found);
	json_i64(j, "shift_ns", c->shift_ns);
	json_float(j, "drift", c->drift);
	json_u64(j, "at_ns", c->at_ns);
	if (c->is_found) {
		json_i64(j, "behind_ns", c->more_ns);
		json_u64(j, "ends_differ_p50_ns", c->spread_ns);
		json_u64(j, "off_at_most_ns", c->known_ns);
	}
	json_u64(j, "collectives", c->collectives);
	json_u64(j, "contradict", c->against);
	json_text(j, "why_not", c->is_found ? NULL : c->why);
	json_close(j, '}');
}

void trace_clocks_json(struct json_out *j, const struct trace_clock *const *all, size_t n)
{
	json_open(j, "clocks", '[');
	for (size_t i = 0; i < n; i++)
		clock_json(j, all[i]);
	json_close(j, ']');
}

static bool is_known(const uint8_t *id)
{
	static const uint8_t zeros[ID_SIZE];
	return memcmp(id, zeros, ID_SIZE) != 0;
}

/* Files that do not tell their clock have that of their host. */
static bool is_same(const struct clock_source *a, const struct clock_source *b)
{
	if (is_known(a->id) && is_known(b->id))
		return !memcmp(a->id, b->id, ID_SIZE);
	return !a->host[0] || !b->host[0] || !strcmp(a->host, b->host);
}

/* The file whose clock is the first one: of the first rank. */
static size_t first_of(const struct clock_source *files, size_t n)
{
	size_t first = 0;
	for (size_t i = 1; i < n; i++)
		if (files[i].rank >= 0 &&
		    (files[first].rank < 0 || files[i].rank < files[first].rank))
			first = i;
	return first;
}

static uint64_t day_offset(const struct clock_source *f)
{
	return f->begun_ns - f->origin_ns;
}

/* The number of the file's clock, which is added if it is new. `begun`: the file that each clock is
 * told by. */
static unsigned clock_of(const struct clock_source *files, size_t file, size_t *begun, size_t *n)
{
	for (size_t k = 0; k < *n; k++)
		if (is_same(&files[begun[k]], &files[file]))
			return (unsigned)k;
	begun[*n] = file;
	return (unsigned)(*n)++;
}

static struct trace_clock *make_clocks(const struct clock_source *files, const size_t *begun,
				       size_t n)
{
	const struct clock_source *first = &files[begun[0]];
	struct trace_clock *all = calloc(n, sizeof(*all));
	for (size_t k = 0; all && k < n; k++) {
		const struct clock_source *f = &files[begun[k]];
		all[k].shift_ns = (int64_t)(day_offset(f) - day_offset(first));
		all[k].at_ns = f->origin_ns;
		snprintf(all[k].host, sizeof(all[k].host), "%s", f->host);
		snprintf(all[k].first, sizeof(all[k].first), "%s", first->host);
	}
	return all;
}

static int find_clocks(const struct clock_source *files, size_t nfiles, struct trace_clock *clocks,
		       size_t n)
{
	struct trace_clock_file *of = calloc(nfiles, sizeof(*of));
	if (!of)
		return -ENOMEM;
	for (size_t i = 0; i < nfiles; i++)
		of[i] = (struct trace_clock_file){files[i].path, files[i].clock};
	int r = clocks_by(of, nfiles, clocks, n);
	free(of);
	return r;
}

int trace_clocks_find(struct clock_source *files, size_t nfiles, struct trace_clock **out,
		      size_t *n)
{
	size_t *begun = calloc(nfiles + 1, sizeof(*begun));
	int r = 0;
	*n = 0;
	if (!begun)
		return -ENOMEM;
	if (nfiles)
		clock_of(files, first_of(files, nfiles), begun, n);
	for (size_t i = 0; i < nfiles; i++)
		files[i].clock = clock_of(files, i, begun, n);
	if (*n > 1) {
		*out = make_clocks(files, begun, *n);
		r = !*out ? -ENOMEM : clocks_by ? find_clocks(files, nfiles, *out, *n) : 0;
	}
	free(begun);
	return r;
}

void trace_source_time(const struct trace_source *s, uint64_t *ns)
{
	if (s->clock && *ns)
		*ns = trace_clock_time(s->clock, *ns);
}

static uint32_t rank1_of(const struct trace_source *s, int32_t pid)
{
	for (size_t i = s->nprocesses; i-- > 0;)
		if (s->processes[i].pid == pid)
			return (uint32_t)(s->processes[i].rank.rank + 1);
	return 0;
}

/* Ids are unique within a file. */
static uint64_t unique_id(const struct trace_source *s, uint64_t id)
{
	return id ? id * s->nfiles + s->number : 0;
}

static void finish_event(const struct trace_source *s, struct op_event *ev)
{
	ev->rank1 = rank1_of(s, ev->pid);
	if (s->nfiles == 1)
		return;
	ev->id = unique_id(s, ev->id);
	ev->parent = unique_id(s, ev->parent);
	ev->forward_id = unique_id(s, ev->forward_id);
	trace_source_time(s, &ev->start_ns);
	trace_source_time(s, &ev->end_ns);
}

static int finish_process(struct trace_source *s, const struct trace_process *p)
{
	if (!s->host[0])
		memcpy(s->host, p->rank.host, sizeof(s->host));
	if (array_grow(&s->processes, &s->room, s->nprocesses + 1, sizeof(*s->processes)))
		return -ENOMEM;
	s->processes[s->nprocesses++] = *p;
	return 0;
}

static void finish_sum(const struct trace_source *s, struct op_event *of)
{
	of->rank1 = rank1_of(s, of->pid);
	trace_source_time(s, &of->start_ns);
	trace_source_time(s, &of->end_ns);
}

static void finish_activity(const struct trace_source *s, struct activity *a)
{
	finish_sum(s, &a->of);
	a->of.id = unique_id(s, a->of.id);
	trace_source_time(s, &a->launched_ns);
}

int trace_source_finish(struct trace_source *s, struct trace_item *item)
{
	switch (item->type) {
	case TRACE_EVENT:
		finish_event(s, &item->event);
		return 0;
	case TRACE_SUM:
		finish_sum(s, &item->sum.of);
		return 0;
	case TRACE_ACTIVITY:
		finish_activity(s, &item->activity);
		return 0;
	case TRACE_DONE:
		trace_source_time(s, &item->done.ns);
		item->rank1 = rank1_of(s, item->done.pid);
		return 0;
	case TRACE_USAGE:
		trace_source_time(s, &item->usage.ns);
		item->rank1 = rank1_of(s, item->usage.pid);
		return 0;
	case TRACE_MEMORY:
		finish_sum(s, &item->memory.of);
		item->memory.of.id = unique_id(s, item->memory.of.id);
		return 0;
	case TRACE_SAMPLE:
		item->sample.rank1 = rank1_of(s, item->sample.pid);
		trace_source_time(s, &item->sample.time_ns);
		return 0;
	case TRACE_TARGET:
		item->target.rank1 = item->rank1 = rank1_of(s, item->target.pid);
		return 0;
	case TRACE_PROCESS:
		return finish_process(s, &item->process);
	default:
		return 0;
	}
}
