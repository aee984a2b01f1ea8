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

/* Activities of calls that have not ended yet. What they point to is valid as long as the trace is
 * open. */
enum { EARLY_MAX = 1 << 16 };

struct early_call {
	struct op_event of;
	uint64_t activities, ns; /* 0: it has ended */
};

struct early_activities {
	struct map by_id; /* index in `list` */
	struct early_call *list;
	size_t n, room;
};

void aggregate_early_free(struct early_activities *e)
{
	if (!e)
		return;
	map_free(&e->by_id);
	free(e->list);
	free(e);
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
	struct early_activities *e = a->early;
	int r = 0;
	for (size_t i = 0; !r && i < e->n; i++)
		if (e->list[i].activities)
			r = count_of_op(a, &e->list[i].of, AGGREGATE_NO_CALL, e->list[i].activities,
					e->list[i].ns);
	e->n = 0;
	map_clear(&e->by_id);
	return r;
}

static int add_early(struct aggregate *a, const struct op_event *of, uint64_t ns)
{
	if (!a->early && !(a->early = calloc(1, sizeof(*a->early))))
		return -ENOMEM;
	struct early_activities *e = a->early;
	int64_t at = map_get(&e->by_id, of->id);
	if (at < 0) {
		if ((e->n == EARLY_MAX && give_up(a)) ||
		    array_grow(&e->list, &e->room, e->n + 1, sizeof(*e->list)) ||
		    map_put(&e->by_id, of->id, (uint32_t)e->n))
			return -ENOMEM;
		at = (int64_t)e->n++;
		e->list[at] = (struct early_call){.of = *of};
	}
	e->list[at].activities++;
	e->list[at].ns += ns;
	return 0;
}

void aggregate_call_ended(struct aggregate *a, uint64_t event, uint32_t row)
{
	struct early_activities *e = a->early;
	int64_t at = e->n ? map_get(&e->by_id, event) : -ENOENT;
	if (at < 0)
		return;
	count_activities(a, row, e->list[at].activities, e->list[at].ns);
	e->list[at].activities = e->list[at].ns = 0;
}

int aggregate_end(struct aggregate *a)
{
	int r = a->early ? give_up(a) : 0;
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
