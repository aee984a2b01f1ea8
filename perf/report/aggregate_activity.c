/* What devices did, in the rows of the ops that launched it; and the rows of calls by their ids. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perf/report/internal.h"

int aggregate_remember(struct aggregate *a, uint64_t event, uint32_t row)
{
	size_t at = event % AGGREGATE_SIDES_MAX, old = a->sides_room;
	if (at >= old) {
		if (array_grow(&a->sides, &a->sides_room, at + 1, sizeof(*a->sides)))
			return -ENOMEM;
		memset(a->sides + old, 0, (a->sides_room - old) * sizeof(*a->sides));
	}
	a->sides[at] = (struct side){.id = event, .row = row};
	return 0;
}

int64_t aggregate_known(const struct aggregate *a, uint64_t event)
{
	size_t at = event % AGGREGATE_SIDES_MAX;
	if (!event || at >= a->sides_room || a->sides[at].id != event)
		return -ENOENT;
	return a->sides[at].row;
}

const char *report_launch_text(unsigned launch)
{
	static const char *const texts[] = {[LAUNCH_IN_NO_OP] = "(in no op)",
					    [LAUNCH_UNKNOWN] = "(op not known)",
					    [LAUNCH_NO_THREAD] = "(launch not known)",
					    [AGGREGATE_NO_CALL] = NULL};
	return texts[launch];
}

static void count_activities(struct aggregate *a, uint32_t row, uint64_t activities, uint64_t ns)
{
	a->rows[row]->activities += activities;
	a->rows[row]->device_ns += ns;
}

static int count_of_op(struct aggregate *a, const struct op_event *of, unsigned launch,
		       uint64_t activities, uint64_t ns)
{
	const struct aggregate_thread *t = aggregate_thread_known(a, of);
	int64_t id = aggregate_row_of(a, of, t && t->worker, launch);
	if (id < 0)
		return -ENOMEM;
	count_activities(a, (uint32_t)id, activities, ns);
	return 0;
}

/* The calls that are awaited do not come: they were lost, or are more than can wait. */
static int give_up(struct aggregate *a)
{
	int r = 0;
	for (size_t i = 0; !r && i < a->early.n; i++) {
		const struct awaited_call *c = &a->early.calls[i];
		if (!c->came)
			r = count_of_op(a, &c->of, AGGREGATE_NO_CALL, c->activities, c->ns);
	}
	awaited_clear(&a->early);
	return r;
}

static int add_early(struct aggregate *a, const struct op_event *of, uint64_t ns)
{
	struct awaited_call *c;
	int r = awaited_at(&a->early, of, &c);
	if (r == -ENOSPC && !(r = give_up(a)))
		r = awaited_at(&a->early, of, &c);
	if (r)
		return r;
	c->activities++;
	c->ns += ns;
	return 0;
}

void aggregate_call_ended(struct aggregate *a, uint64_t event, uint32_t row)
{
	const struct awaited_call *c = awaited_take(&a->early, event);
	if (c)
		count_activities(a, row, c->activities, c->ns);
}

int aggregate_end(struct aggregate *a)
{
	int r = give_up(a);
	return r ? r : aggregate_memory_end(a);
}

/* By the call that launched it, where it is known already. */
static int count_of_call(struct aggregate *a, const struct op_event *of, uint64_t ns)
{
	int64_t row = aggregate_known(a, of->id);
	if (row < 0)
		return of->id ? add_early(a, of, ns) : count_of_op(a, of, AGGREGATE_NO_CALL, 1, ns);
	count_activities(a, (uint32_t)row, 1, ns);
	return 0;
}

int aggregate_add_activity(struct aggregate *a, const struct activity *activity)
{
	struct op_event of = activity->of;
	uint64_t ns = of.end_ns > of.start_ns ? of.end_ns - of.start_ns : 0;
	if (!a->devices && !(a->devices = devices_new()))
		return -ENOMEM;
	int r = devices_add(a->devices, activity);
	a->totals.activities++;
	if (r || a->keys & AGGREGATE_NO_ACTIVITIES)
		return r;
	const bool in_mark = aggregate_is_mark(a, of.op);
	const unsigned launch = in_mark ? LAUNCH_IN_NO_OP : activity->launch;
	if (a->keys & AGGREGATE_TENSORS && launch == LAUNCH_IN_OP)
		return count_of_call(a, &of, ns);
	struct op_desc none = {.name = report_launch_text(launch)};
	of.op = of.op && !in_mark ? of.op : &none;
	return count_of_op(a, &of, launch, 1, ns);
}

void aggregate_activities_lost(struct aggregate *a, uint64_t count)
{
	a->totals.activities_lost += count;
}

const struct devices *aggregate_devices(const struct aggregate *a)
{
	return a->devices;
}
