#include "tracer/stack/hang.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/system.h"
#include "perf/trace/trace_read.h"
#include "symbolizer/ops/filter.h"
#include "symbolizer/target/process.h"
#include "tracer/stack/stack_snapshot.h"

/* A process that is read itself. */
struct seen {
	struct stack_reader *stacks;
	uint64_t place; /* a hash of where it was */
};

struct progress_reader {
	struct progress progress;
	struct trace_query *trace; /* NULL: of processes */
	struct steps *steps;	   /* of each, with a trace */
	struct seen *seen;	   /* of each, without one */
	size_t room;		   /* of that */
};

void progress_note(struct progress_of *p, uint64_t count, uint64_t now_ns)
{
	if (count == p->count)
		return;
	if (p->last_ns && count > p->count)
		p->each_ns[p->n++ % PROGRESS_KEPT] = (now_ns - p->last_ns) / (count - p->count);
	p->count = count;
	p->last_ns = now_ns;
}

static int compare_ns(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

uint64_t progress_usual(const struct progress_of *p)
{
	uint64_t ns[PROGRESS_KEPT];
	size_t n = p->n < PROGRESS_KEPT ? p->n : PROGRESS_KEPT;
	if (n < PROGRESS_LEAST)
		return 0;
	memcpy(ns, p->each_ns, n * sizeof(*ns));
	qsort(ns, n, sizeof(*ns), compare_ns);
	return ns[n / 2] ? ns[n / 2] : 1;
}

static int progress_add(struct progress_reader *r, pid_t pid, int32_t rank)
{
	struct progress *p = &r->progress;
	if (array_grow(&p->all, &p->room, p->n + 1, sizeof(*p->all)))
		return -ENOMEM;
	p->all[p->n++] = (struct progress_of){.pid = pid, .rank = rank, .unit = "step"};
	return 0;
}

int progress_open_trace(const char *path, struct progress_reader **out, struct err *e)
{
	const struct trace_query_opts opts = {.kinds = TRACE_OPS, .by_start = true, .follow = true};
	struct progress_reader *r = calloc(1, sizeof(*r));
	int failed = r ? 0 : err_set(e, -ENOMEM, "no memory");
	failed = failed ? failed : trace_query(path, &opts, &r->trace, e);
	if (failed) {
		free(r);
		return failed;
	}
	trace_query_no_values(r->trace);
	*out = r;
	return 0;
}

static int add_pid(struct progress_reader *r, pid_t pid, struct err *e)
{
	struct process_rank rank;
	struct seen new = {0};
	if (array_grow(&r->seen, &r->room, r->progress.n + 1, sizeof(*r->seen)))
		return err_set(e, -ENOMEM, "no memory");
	int failed = stack_reader_open(pid, false, &new.stacks, e);
	if (failed)
		return failed;
	process_rank_read(pid, &rank);
	if (progress_add(r, pid, rank.rank)) {
		stack_reader_close(new.stacks);
		return err_set(e, -ENOMEM, "no memory");
	}
	r->seen[r->progress.n - 1] = new;
	return 0;
}

int progress_open_pids(const pid_t *pids, size_t n, struct progress_reader **out, struct err *e)
{
	struct progress_reader *r = calloc(1, sizeof(*r));
	int failed = r ? 0 : err_set(e, -ENOMEM, "no memory");
	for (size_t i = 0; i < n && !failed; i++)
		failed = add_pid(r, pids[i], e);
	if (failed)
		progress_close(r);
	else
		*out = r;
	return failed;
}

static void drop_pid(struct progress_reader *r, size_t i)
{
	const size_t last = --r->progress.n;
	stack_reader_close(r->seen[i].stacks);
	r->seen[i] = r->seen[last];
	r->progress.all[i] = r->progress.all[last];
}

static bool is_among(const pid_t *pids, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

static bool is_read(const struct progress_reader *r, pid_t pid)
{
	for (size_t i = 0; i < r->progress.n; i++)
		if (r->progress.all[i].pid == pid && !r->progress.all[i].ended)
			return true;
	return false;
}

bool progress_keep_pids(struct progress_reader *r, const pid_t *pids, size_t n)
{
	bool any = false;
	for (size_t i = r->progress.n; i-- > 0;)
		if (!is_among(pids, n, r->progress.all[i].pid) &&
		    process_alive(r->progress.all[i].pid))
			drop_pid(r, i);
	for (size_t i = 0; i < n; i++)
		any |= !is_read(r, pids[i]) && !add_pid(r, pids[i], NULL);
	return any;
}

void progress_close(struct progress_reader *r)
{
	if (!r)
		return;
	for (size_t i = 0; r->seen && i < r->progress.n; i++)
		stack_reader_close(r->seen[i].stacks);
	if (r->trace)
		trace_query_close(r->trace);
	free(r->seen);
	free(r->steps);
	free(r->progress.all);
	free(r);
}

/* Of a trace. */

static int see_process(struct progress_reader *r, const struct trace_process *p)
{
	if (p->worker)
		return 0;
	if (array_grow(&r->steps, &r->room, r->progress.n + 1, sizeof(*r->steps)))
		return -ENOMEM;
	r->steps[r->progress.n] = (struct steps){0};
	return progress_add(r, p->pid, p->rank.rank);
}

static void see_event(struct progress_reader *r, const struct op_event *ev)
{
	for (size_t i = r->progress.n; i-- > 0;) {
		struct progress_of *p = &r->progress.all[i];
		if (p->pid != ev->pid)
			continue;
		steps_see(&r->steps[i], ev);
		progress_note(p, r->steps[i].done, ev->start_ns);
		return;
	}
}

static int look_trace(struct progress_reader *r, struct err *e)
{
	struct trace_item item;
	int n;
	while ((n = trace_query_next(r->trace, &item, e)) == 1) {
		if (item.type == TRACE_PROCESS && see_process(r, &item.process))
			return err_set(e, -ENOMEM, "no memory");
		if (item.type == TRACE_EVENT)
			see_event(r, &item.event);
	}
	return n == -EAGAIN || !n || n == -ENODATA ? 0 : n;
}

/* Of processes. */

/* Whether the main thread is elsewhere than before. */
static bool has_moved(struct progress_reader *r, size_t i, const struct stack_snapshot *look)
{
	uint64_t hash = 0, was = r->seen[i].place;
	for (size_t k = 0; k < look->n; k++) {
		const struct stack_snapshot_thread *t = &look->threads[k];
		if (t->facts.tid == r->progress.all[i].pid && t->pairs)
			hash = map_hash(t->pairs, t->npairs * sizeof(*t->pairs), 1);
	}
	if (hash)
		r->seen[i].place = hash;
	return hash && hash != was;
}

static uint64_t count_of(const struct hang_rank *rank)
{
	uint64_t n = 0;
	for (size_t i = 0; i < rank->ngroups; i++)
		n += rank->groups[i].counted ? rank->groups[i].count : 0;
	return n;
}

static void look_process(struct progress_reader *r, size_t i)
{
	struct progress_of *p = &r->progress.all[i];
	const struct stack_snapshot *look;
	const struct mem mem = mem_process(p->pid);
	struct hang_rank rank = {.rank = p->rank, .world_size = -1};
	const struct err *why;
	struct err e = {0};
	if (stack_reader_take(r->seen[i].stacks, &look, &e))
		return;
	bool moved = has_moved(r, i, look);
	struct py_runtime *py = stack_reader_python(r->seen[i].stacks, &why);
	uint64_t now = clock_ns(CLOCK_MONOTONIC), n = p->count + moved;
	p->unit = "change of place";
	if (py && !process_groups_read(p->pid, &mem, py, &rank) && count_of(&rank)) {
		p->unit = "collective";
		n = count_of(&rank);
	}
	progress_note(p, n, now);
	hang_rank_free(&rank);
}

int progress_look(struct progress_reader *r, const struct progress **out, struct err *e)
{
	int failed = r->trace ? look_trace(r, e) : 0;
	for (size_t i = 0; i < r->progress.n; i++) {
		struct progress_of *p = &r->progress.all[i];
		p->ended = p->ended || !process_alive(p->pid);
		if (!r->trace && !p->ended)
			look_process(r, i);
	}
	*out = &r->progress;
	return failed;
}
