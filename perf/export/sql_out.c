/* A database of SQLite being written: its tables, and rows, column by column. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "perf/export/internal.h"

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
    " dtypes TEXT, devices TEXT, args TEXT, results TEXT, backward_of_frame INTEGER,"
    " parameter TEXT);"
    "CREATE TABLE samples (time_ns INTEGER, pid INTEGER, tid INTEGER, weight INTEGER, op INTEGER,"
    " no_op TEXT, phase TEXT, in_kernel INTEGER, mismatched INTEGER, python INTEGER,"
    " native INTEGER, where_frame INTEGER, native_frame INTEGER);"
    "CREATE TABLE activity_names (id INTEGER PRIMARY KEY, name TEXT);"
    "CREATE TABLE activities (pid INTEGER, tid INTEGER, kind TEXT, device TEXT, stream INTEGER,"
    " name INTEGER, start_ns INTEGER, end_ns INTEGER, launched_ns INTEGER, bytes INTEGER,"
    " in_graph INTEGER, launch TEXT, op INTEGER, event INTEGER, phase TEXT, stack INTEGER,"
    " where_frame INTEGER, backward_of_frame INTEGER, parameter TEXT);"
    "CREATE TABLE memory (time_ns INTEGER, pid INTEGER, tid INTEGER, device TEXT, address INTEGER,"
    " bytes INTEGER, freed INTEGER, allocated INTEGER, reserved INTEGER, launch TEXT, op INTEGER,"
    " event INTEGER, phase TEXT, stack INTEGER, where_frame INTEGER, backward_of_frame INTEGER,"
    " parameter TEXT);"
    "CREATE TABLE blocks (name TEXT, pid INTEGER, tid INTEGER, start_ns INTEGER, end_ns INTEGER,"
    " where_frame INTEGER);"
    "CREATE TABLE builds (file TEXT, build_id TEXT);"
    "CREATE VIEW sampled AS SELECT s.time_ns, s.pid, s.tid, s.weight, coalesce(o.name, s.no_op) AS"
    " op, s.phase, s.in_kernel, s.mismatched, f.file, f.line, f.function, f.text,"
    " n.function AS symbol, n.file AS object FROM samples s LEFT JOIN ops o ON o.id = s.op"
    " LEFT JOIN frames f ON f.id = s.where_frame LEFT JOIN frames n ON n.id = s.native_frame;"
    "CREATE VIEW on_devices AS SELECT a.pid, a.tid, a.kind, a.device, a.stream, n.name,"
    " a.start_ns, a.end_ns - a.start_ns AS ns, a.start_ns - a.launched_ns AS launch_delay_ns,"
    " a.bytes, a.in_graph, a.launch, o.name AS op, a.event, a.phase, f.file, f.line, f.function,"
    " f.text, b.file AS backward_of_file, b.line AS backward_of_line, a.parameter FROM activities a"
    " JOIN activity_names n ON n.id = a.name LEFT JOIN ops o ON o.id = a.op"
    " LEFT JOIN frames f ON f.id = a.where_frame LEFT JOIN frames b ON b.id ="
    " a.backward_of_frame;"
    "CREATE VIEW calls AS SELECT e.id, e.parent, e.depth, e.pid, e.tid, e.phase, o.name AS op,"
    " e.start_ns, e.end_ns - e.start_ns AS ns, e.self_ns, e.thrown, e.forward_id, e.shapes,"
    " e.dtypes, e.devices, f.file, f.line, f.function, f.text, b.file AS backward_of_file,"
    " b.line AS backward_of_line, e.parameter FROM events e JOIN ops o ON o.id = e.op"
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

static const char *const inserts[SQL_TABLES] = {
    [SQL_META] = "INSERT INTO meta VALUES (?, ?)",
    [SQL_PROCESS] = "INSERT INTO processes VALUES (?, ?, ?, ?, ?, ?, ?)",
    [SQL_THREAD] = "INSERT OR REPLACE INTO threads VALUES (?, ?, ?)",
    [SQL_OP] = "INSERT INTO ops VALUES (?, ?, ?, ?)",
    [SQL_FRAME] = "INSERT OR REPLACE INTO frames VALUES (?, ?, ?, ?, ?, ?)",
    [SQL_STACK] = "INSERT INTO stacks VALUES (?, ?, ?)",
    [SQL_EVENT] =
	"INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
	"?, ?, ?)",
    [SQL_SAMPLE] = "INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [SQL_NAME] = "INSERT INTO activity_names VALUES (?, ?)",
    [SQL_ACTIVITY] =
	"INSERT INTO activities VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
	"?, ?, ?)",
    [SQL_MEMORY] = "INSERT INTO memory VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [SQL_BUILD] = "INSERT INTO builds VALUES (?, ?)",
    [SQL_BLOCK] = "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?)",
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

static void check_rc(struct sql_out *d, int rc)
{
	if (rc != SQLITE_OK && rc != SQLITE_DONE && !d->error)
		d->error = code_of(rc);
}

void sql_no_memory(struct sql_out *d)
{
	check_rc(d, SQLITE_NOMEM);
}

void sql_row(struct sql_out *d, enum sql_table which)
{
	d->row = d->insert[which];
	d->column = 0;
	sqlite3_reset(d->row);
	sqlite3_clear_bindings(d->row);
}

void sql_int(struct sql_out *d, int64_t n)
{
	check_rc(d, sqlite3_bind_int64(d->row, ++d->column, n));
}

void sql_known(struct sql_out *d, uint64_t n)
{
	if (n)
		sql_int(d, (int64_t)n);
	else
		d->column++;
}

void sql_text(struct sql_out *d, const char *s)
{
	size_t size = s ? 4 * strlen(s) + 1 : 0;
	char small[1024], *safe = size <= sizeof(small) ? small : malloc(size);
	d->column++;
	if (!s)
		return;
	if (safe) {
		text_safe(safe, size, s);
		check_rc(d, sqlite3_bind_text(d->row, d->column, safe, -1, SQLITE_TRANSIENT));
	} else {
		sql_no_memory(d);
	}
	if (safe != small)
		free(safe);
}

void sql_done(struct sql_out *d)
{
	check_rc(d, sqlite3_step(d->row));
}

void sql_commit_now_and_then(struct sql_out *d)
{
	if (++d->in_transaction < PER_TRANSACTION)
		return;
	check_rc(d, sqlite3_exec(d->db, "COMMIT; BEGIN", NULL, NULL, NULL));
	d->in_transaction = 0;
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

void sql_open(struct sql_out *d, int fd)
{
	check_rc(d, open_by_descriptor(fd, &d->db));
	if (!d->error)
		check_rc(d, sqlite3_exec(d->db, tables, NULL, NULL, NULL));
	for (int i = 0; i < SQL_TABLES && !d->error; i++)
		check_rc(d, sqlite3_prepare_v2(d->db, inserts[i], -1, &d->insert[i], NULL));
}

void sql_given(struct sql_out *d, char *text)
{
	d->column++;
	if (text)
		check_rc(d, sqlite3_bind_text(d->row, d->column, text, -1, free));
	else
		sql_no_memory(d);
}

void sql_finish(struct sql_out *d)
{
	if (!d->error)
		check_rc(d, sqlite3_exec(d->db, indices, NULL, NULL, NULL));
}

const char *sql_message(const struct sql_out *d)
{
	return sqlite3_errmsg(d->db);
}

void sql_null(struct sql_out *d)
{
	d->column++;
}

void sql_close(struct sql_out *d)
{
	for (int i = 0; i < SQL_TABLES; i++)
		sqlite3_finalize(d->insert[i]);
	sqlite3_close(d->db);
}
