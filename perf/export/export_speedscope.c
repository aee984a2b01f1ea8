#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/files.h"
#include "base/map.h"
#include "perf/calls/call_tree.h"
#include "perf/events/print_event.h"
#include "perf/export/export.h"
#include "perf/export/internal.h"

enum { CHUNK = 32 << 10 };

/* A frame is opened or closed. */
struct edge {
	uint64_t at_ns;
	uint32_t frame;
	char kind; /* 'O' or 'C' */
};

/* A thread's profile. Full chunks of edges are in the spill file, at the offsets in `chunks`. */
struct lane {
	int32_t pid, tid;
	char name[64];
	uint64_t first_ns, last_ns;
	struct edge *edges; /* the chunk being filled, EDGES long */
	size_t nedges;
	uint64_t *chunks; /* offsets in the spill file */
	size_t nchunks, chunks_room;
};

struct speedscope {
	struct export_in *in;
	struct slices *slices;
	struct intern frame_ids;
	struct lane *lanes; /* by thread, see slices_thread */
	size_t nlanes, lanes_room;
	FILE *spill;
	struct json_out frames; /* what the list of frames has so far, in a file of its own */
};

enum { EDGES = CHUNK / sizeof(struct edge) };

static struct lane *lane_of(struct speedscope *s, int32_t pid, int32_t tid)
{
	int64_t id = slices_thread(s->slices, pid, tid);
	if (id < 0 || array_grow(&s->lanes, &s->lanes_room, (size_t)id + 1, sizeof(*s->lanes)))
		return NULL;
	while (s->nlanes <= (size_t)id)
		s->lanes[s->nlanes++] =
		    (struct lane){.pid = pid, .tid = tid, .first_ns = UINT64_MAX};
	return &s->lanes[id];
}

static int flush_edges(struct speedscope *s, struct lane *l)
{
	if (fseeko(s->spill, 0, SEEK_END))
		return -errno;
	off_t at = ftello(s->spill);
	if (at < 0)
		return -errno;
	if (array_grow(&l->chunks, &l->chunks_room, l->nchunks + 1, sizeof(*l->chunks)))
		return -ENOMEM;
	if (fwrite(l->edges, sizeof(*l->edges), l->nedges, s->spill) != l->nedges)
		return -EIO;
	l->chunks[l->nchunks++] = (uint64_t)at;
	l->nedges = 0;
	return 0;
}

static int put_edge(struct speedscope *s, struct lane *l, char kind, uint64_t at_ns, uint32_t frame)
{
	if (!l->edges && !(l->edges = calloc(EDGES, sizeof(*l->edges))))
		return -ENOMEM;
	if (l->first_ns == UINT64_MAX)
		l->first_ns = at_ns;
	l->last_ns = at_ns;
	l->edges[l->nedges++] = (struct edge){.at_ns = at_ns, .frame = frame, .kind = kind};
	s->in->watch.bytes += strlen("{'type':'O','frame':123,'at':12345678901},\n");
	return l->nedges == EDGES ? flush_edges(s, l) : 0;
}

/* A parameter is told in place of a file: the format has no other field. */
static int64_t new_frame(struct speedscope *s, int64_t id, const char *name,
			 const struct py_frame *where, const char *parameter)
{
	char text[WHERE_TEXT_MAX];
	json_line(&s->frames);
	json_open(&s->frames, NULL, '{');
	json_text(&s->frames, "name", name);
	if (parameter)
		json_text(&s->frames, "file", parameter_text(text, sizeof(text), parameter));
	if (where)
		json_text(&s->frames, "file", where->file);
	if (where && where->line > 0)
		json_i64(&s->frames, "line", where->line);
	json_close(&s->frames, '}');
	return id;
}

/* The number of a Python frame, or of an op at a source line; writes the frame if it is new. */
static int64_t frame_of(struct speedscope *s, const struct slice *slice)
{
	const struct py_frame *where =
	    slice->frame ? slice->frame : py_stack_where(slice->event->where_stack);
	const struct op_desc *op = slice->frame ? NULL : slice->event->op;
	const char *parameter = op ? py_stack_parameter(slice->event->where_stack) : NULL;
	struct {
		const struct op_desc *op;
		const char *file, *function, *parameter;
		int64_t line;
	} key = {op, where ? where->file : NULL, where && !op ? where->function : NULL, parameter,
		 where ? where->line : 0};
	char name[CALL_FRAME_TEXT_MAX];
	bool is_new;
	int64_t id = intern(&s->frame_ids, &key, sizeof(key), &is_new);
	if (id < 0 || !is_new)
		return id;
	if (!op)
		call_frame_text(name, where);
	return new_frame(s, id, op ? op_text(op->name) : name, where, parameter);
}

static int64_t open_slice(void *arg, const struct slice *slice)
{
	struct speedscope *s = arg;
	struct lane *l = lane_of(s, slice->event->pid, slice->event->tid);
	int64_t frame = l ? frame_of(s, slice) : -ENOMEM;
	int r = frame < 0 ? -ENOMEM : put_edge(s, l, 'O', slice->start_ns, (uint32_t)frame);
	return r ? r : frame;
}

static int close_slice(void *arg, const struct slice_end *end)
{
	struct speedscope *s = arg;
	return put_edge(s, &s->lanes[end->thread], 'C', end->end_ns, end->number);
}

static int put_item(void *arg, const struct trace_item *item)
{
	struct speedscope *s = arg;
	if (item->type == TRACE_EVENT)
		return slices_add(s->slices, &item->event);
	if (item->type != TRACE_THREAD)
		return 0;
	struct lane *l = lane_of(s, item->thread.pid, item->thread.tid);
	if (!l)
		return -ENOMEM;
	snprintf(l->name, sizeof(l->name), "%s", item->thread.name);
	return 0;
}

static int64_t since(uint64_t ns, uint64_t origin)
{
	return (int64_t)(ns - origin);
}

static void print_edges(struct json_out *j, const struct edge *edges, size_t n, uint64_t origin)
{
	for (size_t i = 0; i < n; i++) {
		json_line(j);
		json_open(j, NULL, '{');
		json_bytes(j, "type", &edges[i].kind, 1);
		json_u64(j, "frame", edges[i].frame);
		json_i64(j, "at", since(edges[i].at_ns, origin));
		json_close(j, '}');
	}
}

static int print_events(struct speedscope *s, const struct lane *l, struct json_out *j,
			uint64_t origin)
{
	struct edge *chunk = malloc(EDGES * sizeof(*chunk));
	int r = chunk ? 0 : -ENOMEM;
	for (size_t i = 0; i < l->nchunks && !r; i++) {
		if (fseeko(s->spill, (off_t)l->chunks[i], SEEK_SET) ||
		    fread(chunk, sizeof(*chunk), EDGES, s->spill) != EDGES)
			r = -EIO;
		else
			print_edges(j, chunk, EDGES, origin);
	}
	if (!r)
		print_edges(j, l->edges, l->nedges, origin);
	free(chunk);
	return r;
}

static int print_profile(struct speedscope *s, struct lane *l, struct json_out *j, uint64_t origin)
{
	char name[128];
	snprintf(name, sizeof(name), "%s%spid %" PRId32 ", thread %" PRId32, l->name,
		 l->name[0] ? ", " : "", l->pid, l->tid);
	json_line(j);
	json_open(j, NULL, '{');
	json_text(j, "type", "evented");
	json_text(j, "name", name);
	json_text(j, "unit", "nanoseconds");
	json_i64(j, "startValue", since(l->first_ns, origin));
	json_i64(j, "endValue", since(l->last_ns, origin));
	json_open(j, "events", '[');
	int r = print_events(s, l, j, origin);
	json_line(j);
	json_close(j, ']');
	json_close(j, '}');
	return r;
}

static int print_frames(struct speedscope *s, FILE *f)
{
	char text[4096];
	size_t n;
	rewind(s->frames.f);
	while ((n = fread(text, 1, sizeof(text), s->frames.f)) > 0)
		fwrite(text, 1, n, f);
	return ferror(s->frames.f) ? -EIO : 0;
}

void export_speedscope_open(struct json_out *j)
{
	json_open(j, NULL, '{');
	json_text(j, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_text(j, "exporter", "ditrace");
	json_open(j, "profiles", '[');
}

void export_speedscope_frames(struct json_out *j)
{
	json_close(j, ']');
	json_line(j);
	json_open(j, "shared", '{');
	json_open(j, "frames", '[');
}

void export_speedscope_close(struct json_out *j)
{
	json_line(j);
	json_close(j, ']');
	json_close(j, '}');
	json_close(j, '}');
	putc('\n', j->f);
}

static int print_all(struct speedscope *s, FILE *f, uint64_t origin)
{
	struct json_out j = {.f = f};
	int r = slices_finish(s->slices);
	export_speedscope_open(&j);
	for (size_t i = 0; i < s->nlanes && !r; i++) {
		struct lane *l = &s->lanes[i];
		if (l->edges)
			r = print_profile(s, l, &j, origin);
	}
	json_line(&j);
	export_speedscope_frames(&j);
	r = r ? r : print_frames(s, f);
	export_speedscope_close(&j);
	return r ? r : ferror(f) ? -EIO : 0;
}

static void free_all(struct speedscope *s)
{
	for (size_t i = 0; i < s->nlanes; i++) {
		free(s->lanes[i].edges);
		free(s->lanes[i].chunks);
	}
	free(s->lanes);
	slices_free(s->slices);
	intern_free(&s->frame_ids);
	if (s->spill)
		fclose(s->spill);
	if (s->frames.f)
		fclose(s->frames.f);
}

int export_speedscope(struct export_in *in, FILE *f, struct err *e)
{
	struct speedscope s = {.in = in, .spill = file_unnamed(), .frames.f = file_unnamed()};
	const struct slices_to to = {.open = open_slice, .close = close_slice, .arg = &s};
	int r;
	s.slices = slices_new(&to);
	if (s.spill && s.frames.f && s.slices) {
		r = export_each(in, put_item, &s, e);
		int w = print_all(&s, f, trace_query_origin(in->query));
		if (w)
			r = err_set(e, w, "cannot write the profiles: %s", strerror(-w));
	} else {
		r = err_set(e, -errno, "cannot open a temporary file: %s", strerror(errno));
		err_hint(e, "make room in " P_tmpdir ", or make it writable");
	}
	free_all(&s);
	return r;
}
