#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/text.h"
#include "perf/events/print_event.h"
#include "perf/export/export.h"
#include "symbolizer/event/names.h"

enum { PER_TRANSACTION = 100000 };

static const char tables[] =
    "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
    "CREATE TABLE meta (key TEXT, value);"
    "CREATE TABLE processes (pid INTEGER, start_ns INTEGER, comm TEXT, command TEXT, torch TEXT,"
    " python TEXT, engine TEXT);"
    "CREATE TABLE threads (pid INTEGER, tid INTEGER, name TEXT, PRIMARY KEY (pid, tid));"
    "CREATE TABLE ops (id INTEGER PRIMARY KEY, name TEXT, schema TEXT, backward INTEGER);"
    "CREATE TABLE frames (id INTEGER PRIMARY KEY, file TEXT, line INTEGER, function TEXT,"
    " text TEXT, in_torch INTEGER);"
    "CREATE TABLE stacks (stack INTEGER, position INTEGER, frame INTEGER,"
    " PRIMARY KEY (stack, position)) WITHOUT ROWID;"
    "CREATE TABLE events (id INTEGER PRIMARY KEY, parent INTEGER, depth INTEGER, pid INTEGER,"
    " tid INTEGER, phase TEXT, op INTEGER, start_ns INTEGER, end_ns INTEGER, self_ns INTEGER,"
    " thrown INTEGER, forward_id INTEGER, stack INTEGER, where_frame INTEGER, shapes TEXT,"
    " dtypes TEXT, devices TEXT, args TEXT, results TEXT, backward_of_frame INTEGER);"
    "CREATE TABLE samples (time_ns INTEGER, pid INTEGER, tid INTEGER, weight INTEGER, op INTEGER,"
    " no_op TEXT, phase TEXT, in_kernel INTEGER, mismatched INTEGER, python INTEGER,"
    " native INTEGER, where_frame INTEGER, native_frame INTEGER);"
    "CREATE TABLE activity_names (id INTEGER PRIMARY KEY, name TEXT);"
    "CREATE TABLE activities (pid INTEGER, tid INTEGER, kind TEXT, device TEXT, stream INTEGER,"
    " name INTEGER, start_ns INTEGER, end_ns INTEGER, launched_ns INTEGER, bytes INTEGER,"
    " in_graph INTEGER, launch TEXT, op INTEGER, event INTEGER, phase TEXT, stack INTEGER,"
    " where_frame INTEGER, backward_of_frame INTEGER);"
    "CREATE TABLE memory (time_ns INTEGER, pid INTEGER, tid INTEGER, device TEXT, address INTEGER,"
    " bytes INTEGER, freed INTEGER, allocated INTEGER, reserved INTEGER, launch TEXT, op INTEGER,"
    " event INTEGER, phase TEXT, stack INTEGER, where_frame INTEGER, backward_of_frame INTEGER);"
    "CREATE TABLE builds (file TEXT, build_id TEXT);"
    "CREATE VIEW sampled AS SELECT s.time_ns, s.pid, s.tid, s.weight, coalesce(o.name, s.no_op) AS"
    " op, s.phase, s.in_kernel, s.mismatched, f.file, f.line, f.function, f.text,"
    " n.function AS symbol, n.file AS object FROM samples s LEFT JOIN ops o ON o.id = s.op"
    " LEFT JOIN frames f ON f.id = s.where_frame LEFT JOIN frames n ON n.id = s.native_frame;"
    "CREATE VIEW on_devices AS SELECT a.pid, a.tid, a.kind, a.device, a.stream, n.name,"
    " a.start_ns, a.end_ns - a.start_ns AS ns, a.start_ns - a.launched_ns AS launch_delay_ns,"
    " a.bytes, a.in_graph, a.launch, o.name AS op, a.event, a.phase, f.file, f.line, f.function,"
    " f.text, b.file AS backward_of_file, b.line AS backward_of_line FROM activities a"
    " JOIN activity_names n ON n.id = a.name LEFT JOIN ops o ON o.id = a.op"
    " LEFT JOIN frames f ON f.id = a.where_frame LEFT JOIN frames b ON b.id ="
    " a.backward_of_frame;"
    "CREATE VIEW calls AS SELECT e.id, e.parent, e.depth, e.pid, e.tid, e.phase, o.name AS op,"
    " e.start_ns, e.end_ns - e.start_ns AS ns, e.self_ns, e.thrown, e.forward_id, e.shapes,"
    " e.dtypes, e.devices, f.file, f.line, f.function, f.text, b.file AS backward_of_file,"
    " b.line AS backward_of_line FROM events e JOIN ops o ON o.id = e.op"
    " LEFT JOIN frames f ON f.id = e.where_frame LEFT JOIN frames b ON b.id ="
    " e.backward_of_frame;"
    "BEGIN;";

static const char indices[] = "CREATE INDEX events_op ON events (op);"
			      "CREATE INDEX events_start ON events (start_ns);"
			      "CREATE INDEX events_parent ON events (parent);"
			      "CREATE INDEX events_forward ON events (forward_id);"
			      "CREATE INDEX activities_event ON activities (event);"
			      "CREATE INDEX activities_start ON activities (start_ns);"
			      "CREATE INDEX memory_event ON memory (event);"
			      "CREATE INDEX memory_time ON memory (time_ns);"
			      "COMMIT;";

enum insert {
	META,
	PROCESS,
	THREAD,
	OP,
	FRAME,
	STACK,
	EVENT,
	SAMPLE,
	NAME,
	ACTIVITY,
	MEMORY,
	BUILD,
	INSERTS
};

static const char *const inserts[INSERTS] = {
    [META] = "INSERT INTO meta VALUES (?, ?)",
    [PROCESS] = "INSERT INTO processes VALUES (?, ?, ?, ?, ?, ?, ?)",
    [THREAD] = "INSERT OR REPLACE INTO threads VALUES (?, ?, ?)",
    [OP] = "INSERT INTO ops VALUES (?, ?, ?, ?)",
    [FRAME] = "INSERT OR REPLACE INTO frames VALUES (?, ?, ?, ?, ?, ?)",
    [STACK] = "INSERT INTO stacks VALUES (?, ?, ?)",
    [EVENT] = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
	      "?, ?)",
    [SAMPLE] = "INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [NAME] = "INSERT INTO activity_names VALUES (?, ?)",
    [ACTIVITY] = "INSERT INTO activities VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
		 "?, ?)",
    [MEMORY] = "INSERT INTO memory VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [BUILD] = "INSERT INTO builds VALUES (?, ?)",
};

/* Which rows are written, by id: 1, or 2 for a frame with its text. */
struct seen {
	uint8_t *ids;
	size_t room;
};

struct database {
	sqlite3 *db;
	sqlite3_stmt *insert[INSERTS];
	struct seen ops, frames, stacks;
	struct map names; /* of activities, by address */
	unsigned in_transaction;
	sqlite3_stmt *row; /* the row being filled */
	int column;
	int error; /* the first error, -errno */
	uint64_t samples_lost, activities_lost, memory_lost;
};

static int code_of(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_FULL:
		return -ENOSPC;
	default:
		return -EIO;
	}
}

static void check(struct database *d, int rc)
{
	if (rc != SQLITE_OK && rc != SQLITE_DONE && !d->error)
		d->error = code_of(rc);
}

static void row(struct database *d, enum insert which)
{
	d->row = d->insert[which];
	d->column = 0;
	sqlite3_reset(d->row);
	sqlite3_clear_bindings(d->row);
}

static void put_int(struct database *d, int64_t n)
{
	check(d, sqlite3_bind_int64(d->row, ++d->column, n));
}

/* Bind NULL for 0. */
static void put_known(struct database *d, uint64_t n)
{
	if (n)
		put_int(d, (int64_t)n);
	else
		d->column++;
}

/* Bind NULL for NULL; invalid UTF-8 is escaped. */
static void put_text(struct database *d, const char *s)
{
	size_t size = s ? 4 * strlen(s) + 1 : 0;
	char small[1024], *safe = size <= sizeof(small) ? small : malloc(size);
	d->column++;
	if (!s)
		return;
	if (safe) {
		text_safe(safe, size, s);
		check(d, sqlite3_bind_text(d->row, d->column, safe, -1, SQLITE_TRANSIENT));
	} else {
		check(d, SQLITE_NOMEM);
	}
	if (safe != small)
		free(safe);
}

static void done(struct database *d)
{
	check(d, sqlite3_step(d->row));
}

/* Raise the state of `id` to `now` and return its previous state. */
static uint8_t see(struct database *d, struct seen *s, uint32_t id, uint8_t now)
{
	size_t old = s->room;
	if (id >= s->room) {
		if (array_grow(&s->ids, &s->room, (size_t)id + 1, 1)) {
			check(d, SQLITE_NOMEM);
			return now;
		}
		memset(s->ids + old, 0, s->room - old);
	}
	uint8_t before = s->ids[id];
	if (now > before)
		s->ids[id] = now;
	return before;
}

static void put_op(struct database *d, const struct op_desc *op)
{
	if (see(d, &d->ops, op->id, 1))
		return;
	row(d, OP);
	put_int(d, op->id);
	put_text(d, op->name);
	put_text(d, op->schema[0] ? op->schema : NULL);
	put_int(d, op->kind == OP_BACKWARD);
	done(d);
}

static void put_frame(struct database *d, const struct py_frame *f)
{
	uint8_t now = f->text ? 2 : 1;
	if (see(d, &d->frames, f->id, now) >= now)
		return;
	row(d, FRAME);
	put_int(d, (int64_t)f->id + 1);
	put_text(d, f->file);
	put_int(d, f->line);
	put_text(d, f->function);
	put_text(d, f->text);
	put_int(d, f->is_torch);
	done(d);
}

static void put_stack(struct database *d, const struct py_stack *s)
{
	if (!s || see(d, &d->stacks, s->id, 1))
		return;
	for (uint16_t i = 0; i < s->depth; i++) {
		put_frame(d, s->frames[i]);
		row(d, STACK);
		put_int(d, (int64_t)s->id + 1);
		put_int(d, i);
		put_int(d, (int64_t)s->frames[i]->id + 1);
		done(d);
	}
}

static void put_json(struct database *d, const struct op_event *ev, json_values_fn *values)
{
	char *text = NULL;
	size_t len;
	struct json_out j = {.f = open_memstream(&text, &len)};
	d->column++;
	if (j.f) {
		values(&j, NULL, ev);
		if (fclose(j.f) == 0)
			check(d, sqlite3_bind_text(d->row, d->column, text, -1, free));
		else
			free(text);
	}
	if (!text)
		check(d, SQLITE_NOMEM);
}

static void put_tensors(struct database *d, const struct op_event *ev)
{
	char text[EVENT_TENSORS_MAX];
	put_text(d, event_shapes(text, sizeof(text), ev));
	put_text(d, event_dtypes(text, sizeof(text), ev));
	put_text(d, event_devices(text, sizeof(text), ev));
}

static void put_times(struct database *d, const struct op_event *ev)
{
	uint64_t ns = ev->end_ns > ev->start_ns ? ev->end_ns - ev->start_ns : 0;
	put_int(d, (int64_t)ev->start_ns);
	put_known(d, ev->end_ns);
	if (ev->end_ns)
		put_int(d, ns > ev->child_ns ? (int64_t)(ns - ev->child_ns) : 0);
	else
		d->column++;
}

static void put_event(struct database *d, const struct op_event *ev)
{
	const struct py_frame *where = py_stack_where(ev->where_stack);
	const struct py_frame *of = py_stack_where(ev->backward_of);
	put_op(d, ev->op);
	put_stack(d, ev->stack);
	if (where)
		put_frame(d, where);
	if (of)
		put_frame(d, of);
	row(d, EVENT);
	put_int(d, (int64_t)ev->id);
	put_known(d, ev->parent);
	put_int(d, ev->depth);
	put_int(d, ev->pid);
	put_int(d, ev->tid);
	put_text(d, op_phase_names[ev->phase]);
	put_int(d, ev->op->id);
	put_times(d, ev);
	put_int(d, ev->thrown);
	put_known(d, ev->forward_id);
	put_known(d, ev->stack ? (uint64_t)ev->stack->id + 1 : 0);
	put_known(d, where ? (uint64_t)where->id + 1 : 0);
	put_tensors(d, ev);
	put_json(d, ev, json_args);
	put_json(d, ev, json_results);
	put_known(d, of ? (uint64_t)of->id + 1 : 0);
	done(d);
}

static void put_sample(struct database *d, const struct sample *s)
{
	const struct py_frame *where = py_stack_where(s->python);
	bool native = s->native && s->native->depth;
	if (s->op)
		put_op(d, s->op);
	put_stack(d, s->python);
	put_stack(d, s->native);
	row(d, SAMPLE);
	put_int(d, (int64_t)s->time_ns);
	put_int(d, s->pid);
	put_int(d, s->tid);
	put_int(d, (int64_t)s->weight);
	if (s->op)
		put_int(d, s->op->id);
	else
		d->column++;
	put_text(d, s->op ? NULL : sample_op_name(s));
	put_text(d, op_phase_names[s->phase]);
	put_int(d, s->in_kernel);
	put_int(d, s->mismatched);
	put_known(d, s->python ? (uint64_t)s->python->id + 1 : 0);
	put_known(d, s->native ? (uint64_t)s->native->id + 1 : 0);
	put_known(d, where ? (uint64_t)where->id + 1 : 0);
	put_known(d, native ? (uint64_t)s->native->frames[0]->id + 1 : 0);
	done(d);
}

/* The row of a name; each file has a name once. */
static int64_t name_id(struct database *d, const char *name)
{
	int64_t id = map_get(&d->names, (uintptr_t)name);
	if (id >= 0)
		return id;
	id = d->names.used + 1;
	if (map_put(&d->names, (uintptr_t)name, (uint32_t)id))
		check(d, SQLITE_NOMEM);
	row(d, NAME);
	put_int(d, id);
	put_text(d, name);
	done(d);
	return id;
}

/* The op during which something was launched or done: what its row refers to, before that begins,
 * and its columns. */
static void put_refs(struct database *d, const struct op_event *of)
{
	const struct py_frame *where = py_stack_where(of->where_stack);
	const struct py_frame *forward = py_stack_where(of->backward_of);
	if (of->op)
		put_op(d, of->op);
	put_stack(d, of->stack);
	if (where)
		put_frame(d, where);
	if (forward)
		put_frame(d, forward);
}

static void put_launch(struct database *d, const struct op_event *of, enum activity_launch launch)
{
	const struct py_frame *where = py_stack_where(of->where_stack);
	const struct py_frame *forward = py_stack_where(of->backward_of);
	put_text(d, activity_launch_names[launch]);
	if (of->op)
		put_int(d, of->op->id);
	else
		d->column++;
	put_known(d, of->id);
	put_text(d, of->op ? op_phase_names[of->phase] : NULL);
	put_known(d, of->stack ? (uint64_t)of->stack->id + 1 : 0);
	put_known(d, where ? (uint64_t)where->id + 1 : 0);
	put_known(d, forward ? (uint64_t)forward->id + 1 : 0);
}

static void put_memory(struct database *d, const struct memory_event *m)
{
	char device[32];
	put_refs(d, &m->of);
	row(d, MEMORY);
	put_int(d, (int64_t)m->of.start_ns);
	put_int(d, m->of.pid);
	put_known(d, (uint64_t)m->of.tid);
	put_text(d, names_device(device, sizeof(device), m->device_type, m->device_index));
	put_int(d, (int64_t)m->address);
	put_known(d, m->bytes);
	put_int(d, m->freed);
	put_int(d, (int64_t)m->total);
	put_known(d, m->reserved);
	put_launch(d, &m->of, m->launch);
	done(d);
}

static void put_activity(struct database *d, const struct activity *a)
{
	char device[32];
	int64_t name = name_id(d, a->name);
	put_refs(d, &a->of);
	row(d, ACTIVITY);
	put_int(d, a->of.pid);
	put_known(d, (uint64_t)a->of.tid);
	put_text(d, activity_kind_names[a->kind]);
	put_text(d, names_device(device, sizeof(device), a->device_type, a->device_index));
	put_int(d, a->stream);
	put_int(d, name);
	put_int(d, (int64_t)a->of.start_ns);
	put_int(d, (int64_t)a->of.end_ns);
	put_known(d, a->launched_ns);
	if (a->kind == ACTIVITY_KERNEL)
		d->column++;
	else
		put_int(d, (int64_t)a->bytes);
	put_int(d, a->in_graph);
	put_launch(d, &a->of, a->launch);
	done(d);
}

static void put_build(struct database *d, const struct trace_build *b)
{
	char hex[2 * 64 + 1] = "";
	for (uint32_t i = 0; i < b->len && i < 64; i++)
		snprintf(hex + 2 * (size_t)i, 3, "%02x", b->id[i]);
	row(d, BUILD);
	put_text(d, b->file);
	put_text(d, hex);
	done(d);
}

static void put_meta(struct database *d, const char *key, uint64_t n)
{
	row(d, META);
	put_text(d, key);
	put_int(d, (int64_t)n);
	done(d);
}

static void put_sampling(struct database *d, const struct sampling *s)
{
	row(d, META);
	put_text(d, "sampling_event");
	put_text(d, s->event);
	done(d);
	put_meta(d, "sampling_frequency", s->frequency);
	put_meta(d, "sampling_kernel", s->kernel);
}

static void put_target(struct database *d, const struct trace_target *t)
{
	row(d, PROCESS);
	put_int(d, t->pid);
	put_int(d, t->start_ns);
	put_text(d, t->comm);
	put_text(d, t->argv);
	put_text(d, t->torch_version);
	put_text(d, t->python_version);
	put_text(d, t->engine);
	done(d);
}

static void put_thread(struct database *d, int32_t pid, int32_t tid, const char *name)
{
	row(d, THREAD);
	put_int(d, pid);
	put_int(d, tid);
	put_text(d, name);
	done(d);
}

static void commit_now_and_then(struct database *d)
{
	if (++d->in_transaction < PER_TRANSACTION)
		return;
	check(d, sqlite3_exec(d->db, "COMMIT; BEGIN", NULL, NULL, NULL));
	d->in_transaction = 0;
}

static int put_item(void *arg, const struct trace_item *item)
{
	struct database *d = arg;
	if (item->type == TRACE_EVENT)
		put_event(d, &item->event);
	else if (item->type == TRACE_SAMPLE)
		put_sample(d, &item->sample);
	else if (item->type == TRACE_ACTIVITY)
		put_activity(d, &item->activity);
	else if (item->type == TRACE_MEMORY)
		put_memory(d, &item->memory);
	else if (item->type == TRACE_MEMORY_LOST)
		d->memory_lost += item->lost.count;
	else if (item->type == TRACE_ACTIVITIES_LOST)
		d->activities_lost += item->lost.count;
	else if (item->type == TRACE_SAMPLES_LOST)
		d->samples_lost += item->lost.count;
	else if (item->type == TRACE_SAMPLING)
		put_sampling(d, &item->sampling);
	else if (item->type == TRACE_BUILD)
		put_build(d, &item->build);
	else if (item->type == TRACE_TARGET)
		put_target(d, &item->target);
	else if (item->type == TRACE_THREAD)
		put_thread(d, item->thread.pid, item->thread.tid, item->thread.name);
	commit_now_and_then(d);
	return d->error;
}

/* No such file can be: sqlite3 looks at links in the names that it is given, at journals beside
 * them, and opens what is there by then. */
#define DATABASE_NAME "/proc/0/database"

static int database_fd = -1;

static int open_for_sqlite(const char *name, int flags, int mode)
{
	return strcmp(name, DATABASE_NAME) ? open(name, flags, mode)
					   : fcntl(database_fd, F_DUPFD_CLOEXEC, 3);
}

/* The file `fd`: how sqlite3's "unix" file systems open is a matter of sqlite3_vfs.xSetSystemCall
 * (sqlite3.h). "unix-none" locks nothing. */
static int open_by_descriptor(int fd, sqlite3 **db)
{
	sqlite3_vfs *unix_none = sqlite3_vfs_find("unix-none");
	if (!unix_none)
		return SQLITE_NOTFOUND;
	database_fd = fd;
	unix_none->xSetSystemCall(unix_none, "open", (sqlite3_syscall_ptr)open_for_sqlite);
	return sqlite3_open_v2(DATABASE_NAME, db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
			       unix_none->zName);
}

static void open_database(struct database *d, int fd)
{
	check(d, open_by_descriptor(fd, &d->db));
	if (!d->error)
		check(d, sqlite3_exec(d->db, tables, NULL, NULL, NULL));
	for (int i = 0; i < INSERTS && !d->error; i++)
		check(d, sqlite3_prepare_v2(d->db, inserts[i], -1, &d->insert[i], NULL));
}

static int fill(struct database *d, struct export_in *in, struct err *e)
{
	int r = export_each(in, put_item, d, e);
	put_meta(d, "origin_ns", trace_query_origin(in->query));
	put_meta(d, "lost", trace_query_lost(in->query));
	put_meta(d, "summed", trace_query_summed(in->query));
	put_meta(d, "samples_lost", d->samples_lost);
	put_meta(d, "activities_lost", d->activities_lost);
	put_meta(d, "memory_lost", d->memory_lost);
	if (!d->error)
		check(d, sqlite3_exec(d->db, indices, NULL, NULL, NULL));
	return r;
}

int export_sqlite(struct export_in *in, int fd, const char *output, struct err *e)
{
	struct database d = {0};
	int r = 0;
	open_database(&d, fd);
	if (!d.error)
		r = fill(&d, in, e);
	if (d.error) {
		r = err_set(e, d.error, "cannot write %s: %s", output, sqlite3_errmsg(d.db));
		err_hint(e, "name a file in a directory with room, where you may write: -o FILE");
	}
	for (int i = 0; i < INSERTS; i++)
		sqlite3_finalize(d.insert[i]);
	sqlite3_close(d.db);
	free(d.ops.ids);
	free(d.frames.ids);
	free(d.stacks.ids);
	map_free(&d.names);
	return r;
}
