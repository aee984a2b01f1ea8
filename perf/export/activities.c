/* What devices did, by track: the file has it in no certain order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "perf/export/internal.h"
#include "symbolizer/event/names.h"

const char *const export_activity_categories[ACTIVITY_KINDS] = {
    [ACTIVITY_KERNEL] = "kernel", [ACTIVITY_COPY] = "gpu_memcpy", [ACTIVITY_SET] = "gpu_memset"};

bool export_is_launch_known(const struct activity *a)
{
	return a->launch == LAUNCH_IN_OP && a->of.id && a->launched_ns &&
	       a->launched_ns <= a->of.start_ns;
}

/* The number of the device, or of its stream, from 0; or -ENOMEM. */
static int64_t number_of(struct intern *ids, const struct activity *a, int64_t stream, bool *is_new)
{
	const int64_t key[5] = {a->of.pid, a->of.rank1, a->device_type, a->device_index, stream};
	return intern(ids, key, sizeof(key), is_new);
}

static int64_t stream_of(struct export_activities *x, const struct activity *a)
{
	bool is_new, is_new_device;
	int64_t id = number_of(&x->stream_ids, a, a->stream, &is_new);
	if (id < 0 || !is_new)
		return id;
	int64_t device = number_of(&x->device_ids, a, -1, &is_new_device);
	if (device < 0 ||
	    array_grow(&x->streams, &x->streams_room, (size_t)id + 1, sizeof(*x->streams)))
		return -ENOMEM;
	struct export_stream *s = &x->streams[id];
	*s = (struct export_stream){.pid = a->of.pid,
				    .rank1 = a->of.rank1,
				    .device_type = a->device_type,
				    .device_index = a->device_index,
				    .stream = a->stream,
				    .device = (uint32_t)device};
	names_device(s->device_name, sizeof(s->device_name), a->device_type, a->device_index);
	return id;
}

int export_activities_add(struct export_activities *x, const struct activity *a)
{
	int64_t stream = stream_of(x, a);
	if (stream < 0 || array_grow(&x->list, &x->room, x->n + 1, sizeof(*x->list)))
		return -ENOMEM;
	x->list[x->n++] = (struct export_activity){
	    .start_ns = a->of.start_ns,
	    .end_ns = a->of.end_ns,
	    .launched_ns = a->launched_ns,
	    .bytes = a->bytes,
	    .op_id = a->of.id,
	    .op = activity_op(a),
	    .name = a->name,
	    .where = py_stack_where(a->of.where_stack),
	    .backward_of = py_stack_where(a->of.backward_of),
	    .module = py_stack_module(a->of.where_stack),
	    .parameter = py_stack_parameter(a->of.where_stack),
	    .tid = a->of.tid,
	    .stream = (uint32_t)stream,
	    .kind = (uint8_t)a->kind,
	    .phase = a->of.phase,
	    .has_op = a->of.op,
	    .has_flow = export_is_launch_known(a),
	    .in_graph = a->in_graph,
	};
	return 0;
}

static int by_stream_and_start(const void *a, const void *b)
{
	const struct export_activity *x = a, *y = b;
	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* When the last activity of each lane of a stream ends. */
struct lanes {
	uint64_t *ends;
	size_t n, room;
};

/* The first lane that is free by then, or -ENOMEM. */
static int64_t lane_for(struct lanes *l, const struct export_activity *a)
{
	size_t i = 0;
	while (i < l->n && l->ends[i] > a->start_ns)
		i++;
	if (i == l->n && array_grow(&l->ends, &l->room, ++l->n, sizeof(*l->ends)))
		return -ENOMEM;
	l->ends[i] = a->end_ns;
	return (int64_t)i;
}

int export_activities_each(struct export_activities *x, export_activity_fn *fn, void *arg)
{
	struct lanes lanes = {0};
	int r = 0;
	if (x->n)
		qsort(x->list, x->n, sizeof(*x->list), by_stream_and_start);
	for (size_t i = 0; i < x->n && !r; i++) {
		const struct export_activity *a = &x->list[i];
		if (!i || a->stream != x->list[i - 1].stream)
			lanes.n = 0;
		int64_t lane = lane_for(&lanes, a);
		r = lane < 0 ? -ENOMEM : fn(arg, a, &x->streams[a->stream], (uint32_t)lane);
	}
	free(lanes.ends);
	return r;
}

void export_activities_free(struct export_activities *x)
{
	intern_free(&x->stream_ids);
	intern_free(&x->device_ids);
	free(x->streams);
	free(x->list);
	*x = (struct export_activities){0};
}
