#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "perf/events/json_event.h"
#include "perf/events/print_event.h"
#include "perf/export/export.h"
#include "perf/export/internal.h"

struct chrome {
	FILE *f;
	struct export_in *in;
	struct export_profile *profile; /* of the samples */
	bool any;			/* a record was written */
};

static int mark(struct export_notes *n, uint64_t id)
{
	size_t byte = (size_t)(id / 8), old = n->starts_room;
	if (byte >= n->starts_room) {
		if (array_grow(&n->starts, &n->starts_room, byte + 1, 1))
			return -ENOMEM;
		memset(n->starts + old, 0, n->starts_room - old);
	}
	n->starts[byte] |= (uint8_t)(1 << id % 8);
	return 0;
}

static bool is_marked(const struct export_notes *n, uint64_t id)
{
	return n && id / 8 < n->starts_room && n->starts[id / 8] >> id % 8 & 1;
}

/* The forward op of a backward node; 0: not a node, or unknown. Ops called by a node have a
 * forward_id too, but get no flows. */
static uint64_t maker_of(const struct op_event *ev)
{
	return ev->op->kind == OP_BACKWARD ? ev->forward_id : 0;
}

int export_chrome_note(void *arg, const struct trace_item *item, struct err *e)
{
	struct export_in *in = arg;
	uint64_t maker = item->type == TRACE_EVENT ? maker_of(&item->event) : 0;
	struct export_notes *n = maker ? export_notes(in) : NULL;
	if (maker && (!n || mark(n, maker)))
		return err_set(e, -ENOMEM, "no memory to read %s", in->path);
	return 0;
}

static void put_string(FILE *f, const char *key, const char *s)
{
	fprintf(f, ",\"%s\":", key);
	json_write_string(f, s, strlen(s));
}

/* Microseconds with three decimals: exact, unlike a double. */
static void put_us(FILE *f, const char *key, uint64_t ns)
{
	fprintf(f, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

static void put_ts(struct chrome *c, uint64_t ns)
{
	uint64_t origin = trace_query_origin(c->in->query);
	if (ns >= origin)
		put_us(c->f, "ts", ns - origin);
	else
		fprintf(c->f, ",\"ts\":-%" PRIu64 ".%03u", (origin - ns) / 1000,
			(unsigned)((origin - ns) % 1000));
}

static void begin(struct chrome *c, char phase, int32_t pid, int32_t tid)
{
	fprintf(c->f, "%s\n{\"ph\":\"%c\",\"pid\":%" PRId32 ",\"tid\":%" PRId32, c->any ? "," : "",
		phase, pid, tid);
	c->any = true;
}

static void put_name(struct chrome *c, const char *what, int32_t pid, int32_t tid, const char *name)
{
	begin(c, 'M', pid, tid);
	put_string(c->f, "name", what);
	fputs(",\"args\":{\"name\":", c->f);
	json_write_string(c->f, name, strlen(name));
	fputs("}}", c->f);
}

static void put_tensors(FILE *f, const char *key,
			const char *(*text)(char *, size_t, const struct op_event *),
			const struct op_event *ev)
{
	char out[EVENT_TENSORS_MAX];
	if (text(out, sizeof(out), ev)[0])
		put_string(f, key, out);
}

static void put_args(FILE *f, const struct op_event *ev)
{
	const struct py_frame *where = py_stack_where(ev->where_stack);
	fprintf(f, ",\"args\":{\"id\":%" PRIu64, ev->id);
	if (ev->forward_id)
		fprintf(f, ",\"forward_id\":%" PRIu64, ev->forward_id);
	if (ev->thrown)
		fputs(",\"thrown\":true", f);
	put_tensors(f, "shapes", event_shapes, ev);
	put_tensors(f, "dtypes", event_dtypes, ev);
	put_tensors(f, "devices", event_devices, ev);
	if (where) {
		put_string(f, "file", where->file);
		fprintf(f, ",\"line\":%" PRId32, where->line);
		put_string(f, "function", where->function);
		if (where->text)
			put_string(f, "text", where->text);
	}
	if (ev->where_stack && ev->where_stack->module)
		put_string(f, "module", ev->where_stack->module);
	putc('}', f);
}

/* One end of a flow; viewers attach it to the op at that time. */
static void put_flow(struct chrome *c, char phase, const struct op_event *ev, uint64_t id)
{
	begin(c, phase, ev->pid, ev->tid);
	put_ts(c, ev->start_ns);
	fprintf(c->f, ",\"cat\":\"backward\",\"name\":\"backward\",\"id\":%" PRIu64 "%s}", id,
		phase == 'f' ? ",\"bp\":\"e\"" : "");
}

static void put_event(struct chrome *c, const struct op_event *ev)
{
	begin(c, ev->end_ns ? 'X' : 'B', ev->pid, ev->tid);
	put_ts(c, ev->start_ns);
	if (ev->end_ns)
		put_us(c->f, "dur", ev->end_ns > ev->start_ns ? ev->end_ns - ev->start_ns : 0);
	put_string(c->f, "cat", ev->phase == PHASE_BACKWARD ? "backward" : "forward");
	put_string(c->f, "name", ev->op->name);
	put_args(c->f, ev);
	putc('}', c->f);
	if (is_marked(c->in->notes, ev->id))
		put_flow(c, 's', ev, ev->id);
	if (maker_of(ev))
		put_flow(c, 'f', ev, maker_of(ev));
}

static void put_lost(struct chrome *c, uint64_t time_ns, uint64_t count, const char *what)
{
	begin(c, 'i', 0, 0);
	put_ts(c, time_ns);
	fprintf(c->f, ",\"s\":\"g\",\"name\":\"%" PRIu64 " %s lost\"}", count, what);
}

static int put_sample(struct chrome *c, const struct sample *s)
{
	int64_t ns = (int64_t)(s->time_ns - trace_query_origin(c->in->query));
	return export_profile_add(c->profile, c->f, &c->any, s, ns / 1000);
}

static int put_item(void *arg, const struct trace_item *item)
{
	struct chrome *c = arg;
	if (item->type == TRACE_EVENT)
		put_event(c, &item->event);
	else if (item->type == TRACE_THREAD && item->thread.name[0])
		put_name(c, "thread_name", item->thread.pid, item->thread.tid, item->thread.name);
	else if (item->type == TRACE_TARGET)
		put_name(c, "process_name", item->target.pid, item->target.pid,
			 item->target.argv[0] ? item->target.argv : item->target.comm);
	else if (item->type == TRACE_LOST)
		put_lost(c, item->lost.time_ns, item->lost.count, "events");
	else if (item->type == TRACE_SAMPLES_LOST)
		put_lost(c, item->lost.time_ns, item->lost.count, "samples");
	else if (item->type == TRACE_SAMPLE && put_sample(c, &item->sample))
		return -ENOMEM;
	return ferror(c->f) ? -EIO : 0;
}

int export_chrome(struct export_in *in, FILE *f, struct err *e)
{
	struct chrome c = {.f = f, .in = in, .profile = export_profile_new()};
	if (!c.profile)
		return err_set(e, -ENOMEM, "no memory to read %s", in->path);
	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", f);
	int r = export_each(in, put_item, &c, e);
	fprintf(f, "\n],\"otherData\":{\"origin_ns\":\"%" PRIu64 "\"}}\n",
		trace_query_origin(in->query));
	export_profile_free(c.profile);
	return r;
}
