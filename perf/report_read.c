/* The command report reads a trace and sums it up. */
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "perf/internal.h"

enum { AHEAD = 4 };

static int add_gap(struct report *p, const struct op_event *ev)
{
	struct op_event gap;
	int r = gaps_see(&p->between, ev, &gap);
	if (r <= 0 || !trace_query_chooses(p->query, ev))
		return r < 0 ? r : 0;
	return aggregate_add(p->gap_sum, &gap);
}

/* Ends of blocks come from beyond the time that is asked for, too. */
static int add_mark(struct report *p, const struct op_event *ev)
{
	p->nblocks += op_mark(ev->op) == MARK_ENTER;
	return p->blocks ? code_blocks_add(p->blocks, ev) : 0;
}

static int add_event(struct report *p, const struct op_event *ev)
{
	const enum op_mark mark = op_mark(ev->op);
	int failed = mark ? add_mark(p, ev) : 0;
	if (failed || (p->blocks && mark == MARK_EXIT && report_is_of_span(p)))
		return failed;
	int r = p->gaps ? add_gap(p, ev) : 0;
	r = r ? r : aggregate_add(p->sum, ev);
	if (!r && p->tree)
		r = call_tree_add(p->tree, ev, (enum call_frames)p->frames);
	if (!r && p->steps)
		r = breakdown_add(p->steps, ev);
	return r ? r : overflow_add(p->overflow, ev);
}

static int add_sum(struct report *p, const struct op_sum *s)
{
	int r = aggregate_add_sum(p->sum, s);
	return !r && p->tree ? call_tree_add_sum(p->tree, s, (enum call_frames)p->frames) : r;
}

static int add_activity(struct report *p, const struct activity *a)
{
	if (p->samples)
		return 0;
	int r = p->kernels ? kernels_add(p->kernels, a) : 0;
	return r ? r : aggregate_add_activity(p->sum, a);
}

static int add_sample(struct report *p, const struct sample *s)
{
	struct op_event ev;
	if (!p->samples) {
		const char *event = p->sampled.how.event;
		bool is_time = event && !strcmp(event, "cpu-clock");
		return p->steps && is_time ? breakdown_add_sample(p->steps, s) : 0;
	}
	sample_as_event(s, &ev);
	p->sampled.mismatched += s->mismatched;
	p->sampled.own_weight += sample_is_own(s) ? s->weight : 0;
	int r = aggregate_add(p->sum, &ev);
	return !r && p->tree ? call_tree_add_sample(p->tree, s, (enum call_frames)p->frames) : r;
}

static int add_thread(struct report *p, const struct report_thread *t)
{
	if (array_grow(&p->threads, &p->threads_room, p->opts.nthreads + 1, sizeof(*p->threads)))
		return -ENOMEM;
	p->threads[p->opts.nthreads++] = *t;
	return 0;
}

static int add_clock(struct report *p, const struct trace_clock *c)
{
	if (array_grow(&p->clocks, &p->clocks_room, p->opts.nclocks + 1,
		       sizeof(struct trace_clock *)))
		return -ENOMEM;
	p->clocks[p->opts.nclocks++] = c;
	return 0;
}

static int add_target(struct report *p, const struct trace_target *t)
{
	if (array_grow(&p->targets, &p->targets_room, p->opts.ntargets + 1, sizeof(*p->targets)))
		return -ENOMEM;
	p->targets[p->opts.ntargets++] = *t;
	return 0;
}

static int add_memory(struct report *p, const struct memory_event *m)
{
	int r = aggregate_add_memory(p->sum, m);
	return !r && p->tree ? call_tree_add_memory(p->tree, m, (enum call_frames)p->frames) : r;
}

static int add_item(struct report *p, const struct trace_item *item)
{
	if (progress_is_due(&p->progress))
		progress_show(&p->progress, p->path, trace_query_share(p->query));
	switch (item->type) {
	case TRACE_EVENT:
		return add_event(p, &item->event);
	case TRACE_SUM:
		return add_sum(p, &item->sum);
	case TRACE_SAMPLE:
		return add_sample(p, &item->sample);
	case TRACE_ACTIVITY:
		return add_activity(p, &item->activity);
	case TRACE_ACTIVITIES_LOST:
		aggregate_activities_lost(p->sum, item->lost.count);
		break;
	case TRACE_MEMORY:
		return p->samples ? 0 : add_memory(p, &item->memory);
	case TRACE_PROCESS:
		if (!item->process.whole)
			aggregate_begun_late(p->sum);
		break;
	case TRACE_MEMORY_LOST:
		aggregate_memory_lost(p->sum, item->lost.count);
		break;
	case TRACE_SAMPLING:
		p->sampled.how = item->sampling;
		break;
	case TRACE_SAMPLES_LOST:
		p->sampled.lost += item->lost.count;
		break;
	case TRACE_LOST:
		aggregate_lost(p->sum, item->lost.count);
		break;
	case TRACE_THREAD:
		return add_thread(p, &(struct report_thread){.pid = item->thread.pid,
							     .tid = item->thread.tid,
							     .name = item->thread.name});
	case TRACE_CLOCK:
		return add_clock(p, item->clock);
	case TRACE_CHOSEN:
		p->opts.chosen = item->chosen;
		break;
	case TRACE_TARGET:
		return add_target(p, &item->target);
	case TRACE_STATS:
		p->stats = item->stats;
		p->has_stats = true;
		break;
	default:
		break;
	}
	return 0;
}

/* Prefetch the rows of the last of the `n` items read so far: they reach the CPU cache while
 * earlier events are added. */
static void prefetch_rows(const struct report *p, const struct trace_item *items, uint64_t n)
{
	for (int after = 3; after > 0 && n; after--) {
		const struct trace_item *item = &items[--n % AHEAD];
		if (item->type == TRACE_EVENT)
			aggregate_prefetch(p->sum, &item->event, after);
	}
}

static bool needs_values(const struct report *p)
{
	const unsigned of_tensors =
	    AGGREGATE_SHAPE | AGGREGATE_DTYPE | AGGREGATE_DEVICE | AGGREGATE_FLOPS;
	return p->choice.when || aggregate_keys(p->sum) & of_tensors;
}

/* For events without values: values are valid only until the next event is read. */
static int read_ahead(struct report *p, struct err *e)
{
	struct trace_item items[AHEAD];
	uint64_t n = 0, done = 0;
	int r = 0, end = 1;
	while (!r && end > 0) {
		struct trace_item *item = &items[n % AHEAD];
		end = trace_query_next(p->query, item, e);
		n += end > 0;
		prefetch_rows(p, items, n);
		bool last = end <= 0 || (item->type == TRACE_EVENT && item->event.stats);
		while (!r && done < n && (last || n - done == AHEAD))
			r = add_item(p, &items[done++ % AHEAD]);
	}
	progress_hide(&p->progress);
	r = r ? r : aggregate_end(p->sum);
	return r ? err_set(e, r, "no memory to sum up %s", p->path) : end;
}

static bool is_mark(const struct op_desc *op)
{
	return op_mark(op);
}

int report_read(struct report *p, struct err *e)
{
	struct trace_item item;
	int n, r = 0;
	if (p->blocks && !needs_values(p))
		trace_query_values_of(p->query, is_mark);
	else if (!needs_values(p))
		trace_query_no_values(p->query);
	if (!p->tree && !p->blocks && !needs_values(p))
		return read_ahead(p, e);
	while (!r && (n = trace_query_next(p->query, &item, e)) > 0)
		r = add_item(p, &item);
	progress_hide(&p->progress);
	r = r ? r : aggregate_end(p->sum);
	r = r || !p->blocks ? r : code_blocks_finish(p->blocks);
	return r ? err_set(e, r, "no memory to sum up %s", p->path) : n;
}
