#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/files.h"
#include "base/intern.h"
#include "perf/export/export.h"
#include "perf/export/internal.h"

enum { CHUNK = 32 << 10 };

/* A frame is opened or closed. */
struct edge {
	uint64_t at_ns;
	uint32_t frame;
	char kind; /* 'O' or 'C' */
};

struct open_op {
	uint64_t id, end_ns; /* end_ns UINT64_MAX: unfinished */
	uint32_t frame;
};

/* A thread's profile. Full chunks of edges are in the spill file, at the offsets in `chunks`. */
struct lane {
	int32_t pid, tid;
	char name[64];
	uint64_t first_ns, last_ns;
	struct open_op *open;
	size_t nopen, open_room;
	struct edge *edges; /* the chunk being filled, EDGES long */
	size_t nedges;
	uint64_t *chunks; /* offsets in the spill file */
	size_t nchunks, chunks_room;
};

struct speedscope {
	struct intern lane_ids, frame_ids;
	struct lane *lanes;
	size_t lanes_room;
	FILE *spill;
	struct json_out frames; /* what the list of frames has so far, in a file of its own */
};

enum { EDGES = CHUNK / sizeof(struct edge) };

static struct lane *lane_of(struct speedscope *s, int32_t pid, int32_t tid)
{
	int32_t key[2] = {pid, tid};
	bool is_new;
	int64_t id = intern(&s->lane_ids, key, sizeof(key), &is_new);
	if (id < 0 || array_grow(&s->lanes, &s->lanes_room, (size_t)id + 1, sizeof(*s->lanes)))
		return NULL;
	struct lane *l = &s->lanes[id];
	if (is_new)
		*l = (struct lane){.pid = pid, .tid = tid, .first_ns = UINT64_MAX};
	return l;
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
	/* The clocks of two CPUs may disagree, but time in a profile must never decrease. */
	if (l->first_ns == UINT64_MAX)
		l->first_ns = l->last_ns = at_ns;
	if (at_ns > l->last_ns)
		l->last_ns = at_ns;
	l->edges[l->nedges++] = (struct edge){.at_ns = l->last_ns, .frame = frame, .kind = kind};
	return l->nedges == EDGES ? flush_edges(s, l) : 0;
}

static int close_last(struct speedscope *s, struct lane *l, uint64_t latest_ns)
{
	struct open_op o = l->open[--l->nopen];
	return put_edge(s, l, 'C', o.end_ns < latest_ns ? o.end_ns : latest_ns, o.frame);
}

/* Close the ops that have ended when `ev` starts. */
static int close_before(struct speedscope *s, struct lane *l, const struct op_event *ev)
{
	size_t keep = 0;
	int r = 0;
	for (size_t i = 0; i < l->nopen; i++)
		if (l->open[i].id == ev->parent || l->open[i].end_ns > ev->start_ns)
			keep = i + 1;
	for (size_t i = l->nopen; ev->parent && i--;)
		if (l->open[i].id == ev->parent) {
			keep = i + 1;
			break;
		}
	while (!r && l->nopen > keep)
		r = close_last(s, l, ev->start_ns);
	return r;
}

/* The frame number of an op at a source line; writes the frame if it is new. */
static int64_t frame_of(struct speedscope *s, const struct op_event *ev)
{
	const struct py_frame *where = py_stack_where(ev->where_stack);
	struct {
		const struct op_desc *op;
		const char *file;
		int64_t line;
	} key = {ev->op, where ? where->file : NULL, where ? where->line : 0};
	bool is_new;
	int64_t id = intern(&s->frame_ids, &key, sizeof(key), &is_new);
	if (id < 0 || !is_new)
		return id;
	json_line(&s->frames);
	json_open(&s->frames, NULL, '{');
	json_text(&s->frames, "name", ev->op->name);
	if (where)
		json_text(&s->frames, "file", where->file);
	if (where && where->line > 0)
		json_i64(&s->frames, "line", where->line);
	json_close(&s->frames, '}');
	return id;
}

static int put_event(struct speedscope *s, const struct op_event *ev)
{
	struct lane *l = lane_of(s, ev->pid, ev->tid);
	int64_t frame = l ? frame_of(s, ev) : -ENOMEM;
	if (frame < 0 || array_grow(&l->open, &l->open_room, l->nopen + 1, sizeof(*l->open)))
		return -ENOMEM;
	int r = close_before(s, l, ev);
	if (r)
		return r;
	uint64_t end = ev->end_ns ? ev->end_ns : UINT64_MAX;
	if (l->nopen && l->open[l->nopen - 1].end_ns < end)
		end = l->open[l->nopen - 1].end_ns;
	l->open[l->nopen++] =
	    (struct open_op){.id = ev->id, .end_ns = end, .frame = (uint32_t)frame};
	return put_edge(s, l, 'O', ev->start_ns, (uint32_t)frame);
}

static int put_item(void *arg, const struct trace_item *item)
{
	struct speedscope *s = arg;
	if (item->type == TRACE_EVENT)
		return put_event(s, &item->event);
	if (item->type != TRACE_THREAD)
		return 0;
	struct lane *l = lane_of(s, item->thread.pid, item->thread.tid);
	if (!l)
		return -ENOMEM;
	snprintf(l->name, sizeof(l->name), "%s", item->thread.name);
	return 0;
}

/* Close all open ops. */
static int finish(struct speedscope *s, struct lane *l)
{
	uint64_t last = l->last_ns;
	int r = 0;
	for (size_t i = 0; i < l->nopen; i++)
		if (l->open[i].end_ns != UINT64_MAX && l->open[i].end_ns > last)
			last = l->open[i].end_ns;
	while (!r && l->nopen)
		r = close_last(s, l, last);
	return r;
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
	int r = 0;
	export_speedscope_open(&j);
	for (size_t i = 0; i < s->lane_ids.used && !r; i++) {
		struct lane *l = &s->lanes[i];
		r = finish(s, l);
		if (!r && l->edges)
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
	for (size_t i = 0; i < s->lane_ids.used && i < s->lanes_room; i++) {
		free(s->lanes[i].open);
		free(s->lanes[i].edges);
		free(s->lanes[i].chunks);
	}
	free(s->lanes);
	intern_free(&s->lane_ids);
	intern_free(&s->frame_ids);
	if (s->spill)
		fclose(s->spill);
	if (s->frames.f)
		fclose(s->frames.f);
}

int export_speedscope(struct export_in *in, FILE *f, struct err *e)
{
	struct speedscope s = {.spill = file_unnamed(), .frames.f = file_unnamed()};
	int r;
	if (s.spill && s.frames.f) {
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
