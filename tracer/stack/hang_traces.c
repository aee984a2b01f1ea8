/* What traces say of ranks: their processes, and the last collective that each was seen to call. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/system.h"
#include "perf/collectives/collectives.h"
#include "perf/trace/trace_read.h"
#include "symbolizer/event/names.h"
#include "symbolizer/target/process.h"
#include "tracer/stack/hang.h"

/* How often a process has called collectives in a group. */
struct group_count {
	int32_t pid;
	uint64_t address, n;
};

struct seen_process {
	struct trace_process process;
	uint64_t last_ns;   /* of an event, CLOCK_MONOTONIC */
	uint64_t called_ns; /* 0: no collective was seen */
	char last[400];
};

struct trace_look {
	struct seen_process *processes;
	size_t n, room;
	struct group_count *counts;
	size_t ncounts, counts_room;
	bool lossy; /* not all calls are there */
};

static struct seen_process *process_of(struct trace_look *t, int32_t pid)
{
	for (size_t i = t->n; i-- > 0;)
		if (t->processes[i].process.pid == pid)
			return &t->processes[i];
	return NULL;
}

static uint64_t count(struct trace_look *t, int32_t pid, const struct value *group)
{
	uint64_t address = group ? group->group.address : 0;
	for (size_t i = 0; i < t->ncounts; i++)
		if (t->counts[i].pid == pid && t->counts[i].address == address)
			return ++t->counts[i].n;
	if (array_grow(&t->counts, &t->counts_room, t->ncounts + 1, sizeof(*t->counts)))
		return 0;
	t->counts[t->ncounts++] = (struct group_count){pid, address, 1};
	return 1;
}

/* The innermost line outside torch. */
static const struct py_frame *where_of(const struct op_event *ev)
{
	return ev->stack ? py_stack_where(ev->stack) : NULL;
}

/* As torch.distributed calls it: "all_reduce" for "allreduce". */
static void put_name(FILE *f, const char *name)
{
	bool all = !strncmp(name, "all", 3);
	bool to = !strncmp(name, "alltoall", 8);
	if (to)
		fputs("all_to_all", f);
	else
		fprintf(f, "%s%s", all ? "all_" : "", all ? name + 3 : name);
}

/* "all_reduce #12 of its group (float32, 4 KiB) at train.py:30" */
static void describe(struct trace_look *t, struct seen_process *p, const struct op_event *ev)
{
	struct collective c;
	char bytes[32];
	if (!collective_of(ev, &c))
		return;
	uint64_t nth = c.in_sequence && !ev->thrown ? count(t, ev->pid, c.group) : 0;
	const struct py_frame *at = where_of(ev);
	FILE *f = fmemopen(p->last, sizeof(p->last), "w");
	if (!f)
		return;
	put_name(f, c.name);
	if (nth && c.group && p->process.whole && !t->lossy)
		fprintf(f, " #%" PRIu64 " of a group of %" PRId32, nth, c.group->group.size);
	if (c.has_bytes && c.dtype >= 0)
		fprintf(f, " (%s, %s)", names_dtype(c.dtype),
			text_bytes(bytes, sizeof(bytes), c.bytes));
	if (at)
		fprintf(f, " at %.200s:%" PRId32, text_base_name(at->file), at->line);
	fclose(f);
	p->last[sizeof(p->last) - 1] = '\0';
	p->called_ns = ev->start_ns;
}

static int see(struct trace_look *t, const struct trace_item *item)
{
	struct seen_process *p;
	switch (item->type) {
	case TRACE_PROCESS:
		if (item->process.worker || item->process.rank.rank < 0)
			return 0;
		if (array_grow(&t->processes, &t->room, t->n + 1, sizeof(*t->processes)))
			return -ENOMEM;
		t->processes[t->n++] = (struct seen_process){.process = item->process};
		return 0;
	case TRACE_LOST:
		t->lossy |= item->lost.count > 0;
		return 0;
	case TRACE_SUM:
		t->lossy |= !strncmp(item->sum.of.op->name, "c10d::", 6);
		return 0;
	case TRACE_EVENT:
		p = process_of(t, item->event.pid);
		if (!p)
			return 0;
		p->last_ns = item->event.end_ns > p->last_ns ? item->event.end_ns : p->last_ns;
		describe(t, p, &item->event);
		return 0;
	default:
		return 0;
	}
}

static int read_all(const char *path, struct trace_look *t, struct err *e)
{
	const struct trace_query_opts opts = {.kinds = TRACE_OPS};
	struct trace_query *q = NULL;
	struct trace_item item;
	int r = trace_query(path, &opts, &q, e), n = 0;
	while (!r && (n = trace_query_next(q, &item, e)) == 1)
		if (see(t, &item))
			r = err_set(e, -ENOMEM, "no memory");
	/* What is still being written, or was cut off, is read as far as it goes. */
	if (q)
		trace_query_close(q);
	return r;
}

/* Whether the process that runs by this number is the recorded one: it began before it was last
 * seen, and is that rank; a launcher is recorded without the one that it has. */
static bool is_running(const struct seen_process *p)
{
	enum { SLACK_S = 2 };
	struct process now;
	struct process_rank rank;
	struct err e = {0};
	if (process_read(p->process.pid, &now, &e) || !process_alive(p->process.pid))
		return false;
	process_rank_read(p->process.pid, &rank);
	uint64_t began_s = now.start_ticks / (uint64_t)sysconf(_SC_CLK_TCK);
	return (p->process.rank.rank < 0 || rank.rank == p->process.rank.rank) &&
	       (!p->last_ns || began_s <= p->last_ns / 1000000000 + SLACK_S);
}

static int add_seen_rank(struct hang_ranks *out, const struct seen_process *p)
{
	struct hang_rank r = {.rank = p->process.rank.rank,
			      .world_size = p->process.rank.world_size,
			      .pid = p->process.pid,
			      .state = is_running(p) ? HANG_HERE : HANG_ENDED};
	char ago[32];
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (p->called_ns && p->called_ns < now)
		snprintf(r.last, sizeof(r.last), "%s, %s ago", p->last,
			 text_ns(ago, sizeof(ago), now - p->called_ns));
	for (size_t i = 0; i < out->n; i++) {
		if (out->all[i].rank != r.rank)
			continue;
		if (r.state == HANG_HERE || out->all[i].state != HANG_HERE)
			out->all[i] = r;
		return 0;
	}
	return hang_ranks_add(out, &r);
}

int hang_traces_read(const char *path, struct hang_ranks *out, struct err *e)
{
	struct trace_look t = {0};
	int r = read_all(path, &t, e);
	for (size_t i = 0; i < t.n && !r; i++)
		if (add_seen_rank(out, &t.processes[i]))
			r = err_set(e, -ENOMEM, "no memory");
	if (!r && !out->n) {
		r = err_set(e, -ENOENT, "%s has no processes with a rank", path);
		err_hint(e, "give the PIDs: ditrace stack PID..., or --tree and that of torchrun");
	}
	free(t.processes);
	free(t.counts);
	return r;
}
