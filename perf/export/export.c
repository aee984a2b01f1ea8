/* What several exports share: going over the events, what a first pass over the trace notes,
 * compressed files, and what devices did. */
#define _GNU_SOURCE
#include "perf/export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/arena.h"
#include "perf/export/internal.h"
#include "symbolizer/event/names.h"

int export_look(struct export_in *in, const struct trace_query *q)
{
	enum { EACH = 1024 };
	struct export_watch *w = &in->watch;
	if (!w->look || ++w->items % EACH)
		return 0;
	return w->look(w->arg, trace_query_share(q));
}

bool export_is_mark(const struct export_in *in, const struct op_event *ev)
{
	return op_mark(ev->op) && !in->choice->ops;
}

int export_each(struct export_in *in, export_item_fn *fn, void *arg, struct err *e)
{
	struct trace_item item;
	int n, r = 0;
	while (!r && (n = trace_query_next(in->query, &item, e)) > 0) {
		r = fn(arg, &item);
		r = r ? r : export_look(in, in->query);
	}
	return r ? err_set(e, r, "cannot write the events of %s: %s", in->path, strerror(-r)) : n;
}

struct export_notes *export_notes(struct export_in *in)
{
	if (!in->notes)
		in->notes = calloc(1, sizeof(*in->notes));
	return in->notes;
}

void export_notes_free(struct export_notes *n)
{
	if (!n)
		return;
	if (n->spill)
		fclose(n->spill);
	intern_free(&n->ids);
	free(n->backwards);
	export_flows_free(&n->nodes);
	export_flows_free(&n->launches);
	breakdown_free(n->breakdown);
	free(n->steps);
	free(n);
}

static int flows_note(struct export_flows *f, uint64_t id)
{
	if (array_grow(&f->ids, &f->room, f->n + 1, sizeof(*f->ids)))
		return -ENOMEM;
	f->ids[f->n++] = id;
	return 0;
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static int flows_sort(struct export_flows *f)
{
	if (!f->n)
		return 0;
	qsort(f->ids, f->n, sizeof(*f->ids), compare_ids);
	f->given1 = calloc(f->n, sizeof(*f->given1));
	return f->given1 ? 0 : -ENOMEM;
}

/* How many begin at the event, and the first of them. */
static size_t flows_of(const struct export_flows *f, uint64_t id, size_t *first)
{
	*first = f->given1 && id ? array_up_to(f->ids, f->n, sizeof(*f->ids), id - 1) : 0;
	return f->given1 ? array_up_to(f->ids, f->n, sizeof(*f->ids), id) - *first : 0;
}

size_t export_flows_begin(struct export_flows *f, uint64_t id, size_t *first)
{
	size_t n = flows_of(f, id, first);
	if (n)
		f->given1[*first] = 1;
	return n;
}

int64_t export_flows_end(struct export_flows *f, uint64_t id)
{
	size_t first, n = flows_of(f, id, &first);
	if (!n || !f->given1[first] || f->given1[first] > n)
		return -ENOENT;
	return (int64_t)(first + f->given1[first]++ - 1);
}

void export_flows_free(struct export_flows *f)
{
	free(f->ids);
	free(f->given1);
}

uint64_t export_maker(const struct op_event *ev)
{
	return ev->op->kind == OP_BACKWARD ? ev->forward_id : 0;
}

static int note_step(void *arg, const struct breakdown_step *step)
{
	struct export_notes *n = arg;
	if (array_grow(&n->steps, &n->steps_room, n->nsteps + 1, sizeof(*n->steps)))
		return -ENOMEM;
	n->steps[n->nsteps++] = *step;
	return 0;
}

static int note_event(struct export_notes *n, const struct op_event *ev)
{
	if (!n->breakdown) {
		n->breakdown = breakdown_new();
		if (!n->breakdown)
			return -ENOMEM;
		breakdown_each_step(n->breakdown, note_step, n);
	}
	int r = breakdown_add(n->breakdown, ev);
	return r || !export_maker(ev) ? r : flows_note(&n->nodes, export_maker(ev));
}

int export_chrome_note(void *arg, const struct trace_item *item, struct err *e)
{
	struct export_in *in = arg;
	struct export_notes *n = export_notes(in);
	int r = n ? 0 : -ENOMEM;
	if (!r && item->type == TRACE_EVENT)
		r = note_event(n, &item->event);
	else if (!r && item->type == TRACE_ACTIVITY && export_is_launch_known(&item->activity))
		r = flows_note(&n->launches, item->activity.of.id);
	return r ? err_set(e, r, "no memory to read %s", in->path) : 0;
}

struct export_notes *export_noted(struct export_in *in)
{
	struct export_notes *n = export_notes(in);
	return n && !flows_sort(&n->nodes) && !flows_sort(&n->launches) ? n : NULL;
}

static ssize_t gzip_write(void *cookie, const char *buf, size_t size)
{
	return gzwrite(cookie, buf, (unsigned)size);
}

/* Only tells where it is, before compression. */
static int gzip_seek(void *cookie, off64_t *offset, int whence)
{
	if (whence != SEEK_CUR || *offset)
		return -1;
	*offset = gztell(cookie);
	return 0;
}

static int gzip_close(void *cookie)
{
	return gzclose(cookie) == Z_OK ? 0 : -1;
}

FILE *export_gzip(int fd)
{
	/* Level 4: a tenth larger than by default, in two thirds of the time. */
	gzFile gz = gzdopen(fd, "wb4");
	if (!gz) {
		close(fd);
		errno = ENOMEM;
		return NULL;
	}
	FILE *f = fopencookie(
	    gz, "w",
	    (cookie_io_functions_t){.write = gzip_write, .seek = gzip_seek, .close = gzip_close});
	if (!f)
		gzclose(gz);
	return f;
}

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
