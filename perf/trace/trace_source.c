/* What an item of a trace does not say itself: the rank of its process, its id and its time among
 * those of all files. */
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "perf/trace/internal.h"

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
