/* What devices did, in the rows of the ops that launched it. */
#include <errno.h>

#include "perf/report/internal.h"

const char *report_launch_text(enum activity_launch launch)
{
	return launch == LAUNCH_IN_NO_OP  ? "(in no op)"
	       : launch == LAUNCH_UNKNOWN ? "(op not known)"
					  : "(launch not known)";
}

int aggregate_add_activity(struct aggregate *a, const struct activity *activity)
{
	struct op_event of = activity->of;
	if (!a->devices && !(a->devices = devices_new()))
		return -ENOMEM;
	int r = devices_add(a->devices, activity);
	a->totals.activities++;
	if (r || a->keys & AGGREGATE_NO_ACTIVITIES)
		return r;
	struct op_desc none = {.name = report_launch_text(activity->launch)};
	of.op = of.op ? of.op : &none;
	const struct aggregate_thread *t = aggregate_thread_known(a, &of);
	int64_t id = aggregate_row_of(a, &of, t && t->worker, activity->launch);
	if (id < 0)
		return -ENOMEM;
	a->rows[id]->activities++;
	a->rows[id]->device_ns += of.end_ns > of.start_ns ? of.end_ns - of.start_ns : 0;
	return 0;
}

void aggregate_activities_lost(struct aggregate *a, uint64_t count)
{
	a->totals.activities_lost += count;
}

const struct devices *aggregate_devices(const struct aggregate *a)
{
	return a->devices;
}
