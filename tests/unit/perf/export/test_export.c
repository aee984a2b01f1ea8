
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <jansson.h>
#include <sqlite3.h>
#include <unistd.h>

#include "perf/events/print_event.h"
#include "perf/export/export.h"
#include "perf/trace/trace_write.h"
#include "tests/unit/sample_events.h"

static char whole[64], with_devices[80], database[80];
static const char *path = whole;

static const struct op_desc evil_op = {.id = 3, .name = "evil;\x1b[31m \"op\"\n\xff", .schema = ""};

/* linear 1000..2000 { add 1000..1400 }, evil 2500..2600 on another thread, two backward nodes of
 * linear, and an unfinished op. */
static int setup(void **state)
{
	(void)state;
	struct trace_writer *w;
	struct err e = {0};
	snprintf(whole, sizeof(whole), "/tmp/ditrace-test-%d.data", (int)getpid());
	snprintf(with_devices, sizeof(with_devices), "%s.devices", whole);
	snprintf(database, sizeof(database), "%s.db", whole);
	if (trace_writer_open(path, &w, &e))
		return -1;
	struct op_event linear = sample_event(1, 0, 0, 1000, 2000), evil;
	struct op_event open = sample_event(6, 0, 0, 9000, 0);
	struct trace_target target = {.pid = 41,
				      .comm = "python",
				      .argv = "python \"train\".py",
				      .torch_version = "",
				      .python_version = "",
				      .engine = "bpf",
				      .torch_dir = ""};
	linear.op = &sample_op;
	linear.child_ns = 400;
	linear.stack = linear.where_stack = sample_other_stack();
	evil = sample_event(3, 0, 0, 2500, 2600);
	evil.op = &evil_op;
	evil.tid = 77;
	evil.stack = evil.where_stack = NULL;
	trace_write_target(w, &target);
	trace_write_thread(w, 41, 42, "main \"thread\"");
	struct op_event add = sample_event(2, 1, 1, 1000, 1400);
	add.stack = add.where_stack = sample_other_stack();
	trace_write_event(w, &add);
	trace_write_event(w, &linear);
	trace_write_event(w, &evil);
	struct op_event node = sample_backward(4, 1, 3000, 3300);
	trace_write_event(w, &node);
	node = sample_backward(5, 1, 4000, 4030);
	trace_write_event(w, &node);
	trace_write_event(w, &open);
	return trace_writer_close(w, true);
}

static int teardown(void **state)
{
	(void)state;
	unlink(whole);
	unlink(with_devices);
	unlink(database);
	return 0;
}

static void query(struct export_in *in, const char *when, trace_first_fn *first)
{
	const struct trace_query_opts opts = {
	    .choice.when = when, .by_start = true, .first = first, .first_arg = in};
	struct err e = {0};
	static const struct trace_choice all;
	*in = (struct export_in){.path = path, .choice = &all};
	if (trace_query(path, &opts, &in->query, &e))
		fail_msg("%s", e.what);
}

static char *exported(int (*export)(struct export_in *, FILE *, struct err *),
		      trace_first_fn *first)
{
	struct export_in in;
	struct err e = {0};
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	query(&in, NULL, first);
	if (export(&in, f, &e))
		fail_msg("%s", e.what);
	fclose(f);
	trace_query_end(in.query, 0, 0, &e);
	export_notes_free(in.notes);
	return text;
}

static json_t *parsed(char *text)
{
	json_error_t error;
	json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	if (!j)
		fail_msg("line %d: %s\n%s", error.line, error.text, text);
	free(text);
	return j;
}

static const char *string(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static json_int_t integer(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

static const json_t *of_phase(const json_t *events, char phase, size_t nth)
{
	const json_t *e;
	size_t i;
	json_array_foreach(events, i, e)
	{
		if (string(e, "ph")[0] == phase && nth-- == 0)
			return e;
	}
	fail_msg("no event %c", phase);
	return NULL;
}

static void chrome(void **state)
{
	(void)state;
	json_t *j = parsed(exported(export_chrome, export_chrome_note));
	const json_t *events = json_object_get(j, "traceEvents"), *e;
	assert_string_equal(string(json_object_get(of_phase(events, 'M', 0), "args"), "name"),
			    "python \"train\".py");
	assert_string_equal(string(json_object_get(of_phase(events, 'M', 1), "args"), "name"),
			    "main \"thread\"");
	e = of_phase(events, 'X', 0);
	assert_string_equal(string(e, "name"), "aten::sample.Tensor");
	assert_true(json_number_value(json_object_get(e, "dur")) == 1.0);
	assert_int_equal(integer(json_object_get(e, "args"), "line"), 40);
	assert_string_equal(string(json_object_get(e, "args"), "shapes"), "[2,3,4] ?");
	assert_string_equal(string(e, "cat"), "forward");
	assert_string_equal(string(of_phase(events, 'X', 1), "name"), "aten::add.Tensor");
	assert_string_equal(string(of_phase(events, 'X', 2), "name"),
			    "evil;\x1b[31m \"op\"\n\xef\xbf\xbd");
	assert_string_equal(string(of_phase(events, 'X', 3), "cat"), "backward");
	assert_int_equal(integer(of_phase(events, 's', 0), "id"), 1);
	assert_int_equal(integer(of_phase(events, 's', 0), "tid"), 42);
	assert_int_equal(integer(of_phase(events, 'f', 1), "id"), 1);
	assert_int_equal(integer(of_phase(events, 'f', 1), "tid"), 43);
	assert_string_equal(string(of_phase(events, 'B', 0), "name"), "main (train.py:40)");
	assert_string_equal(string(of_phase(events, 'B', 0), "cat"), "python");
	/* The unfinished op in its two frames, closed at the end. */
	assert_null(json_object_get(of_phase(events, 'B', 3), "dur"));
	assert_non_null(json_object_get(of_phase(events, 'B', 3), "args"));
	assert_true(json_number_value(json_object_get(of_phase(events, 'E', 3), "ts")) ==
		    json_number_value(json_object_get(of_phase(events, 'B', 3), "ts")));
	/* Tracks of modules, the nodes' and the unfinished op's. */
	assert_string_equal(string(of_phase(events, 'X', 5), "name"), "blocks.0.attn");
	assert_int_equal(json_array_size(events), 2 + 6 + 1 + 2 + 3 + 4 + 2 * 2);
	json_decref(j);
}

static size_t of_category(const json_t *events, const char *category, char phase)
{
	const json_t *e;
	size_t i, n = 0;
	json_array_foreach(events, i, e)
	{
		const char *cat = string(e, "cat");
		n += string(e, "ph")[0] == phase && cat && !strcmp(cat, category);
	}
	return n;
}

/* Three kernels of one stream, of which the second begins in the first, and a copy. */
static void write_activities(void)
{
	struct trace_writer *w;
	struct err e = {0};
	struct op_event ev = sample_event(1, 0, 0, 1000, 2000), gone = ev;
	gone.id = 99;
	const struct activity list[] = {
	    sample_activity(&gone, 1600, 7000, 7100),
	    sample_activity(&ev, 1500, 5500, 6000),
	    sample_copy(41, 5000, 5100),
	    sample_activity(&ev, 1400, 5000, 5600),
	    sample_activity(&ev, 1700, 1600, 1650), /* the clocks disagree */
	};
	assert_int_equal(trace_writer_open(path, &w, &e), 0);
	trace_write_event(w, &ev);
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		trace_write_activity(w, &list[i]);
	assert_int_equal(trace_writer_close(w, true), 0);
}

/* Arrows lead from an op to what it launched, where both are there and in order. */
static void chrome_activities(void **state)
{
	(void)state;
	path = with_devices;
	write_activities();
	json_t *j = parsed(exported(export_chrome, export_chrome_note));
	path = whole;
	const json_t *events = json_object_get(j, "traceEvents");
	assert_int_equal(of_category(events, "kernel", 'X'), 4);
	assert_int_equal(of_category(events, "gpu_memcpy", 'X'), 1);
	assert_int_equal(of_category(events, "ac2g", 's'), 2);
	assert_int_equal(of_category(events, "ac2g", 'f'), 2);
	assert_int_equal(integer(of_phase(events, 's', 0), "tid"), 42);
	assert_true(integer(of_phase(events, 'f', 0), "tid") !=
		    integer(of_phase(events, 'f', 1), "tid"));
	/* After the op and its module: by start. */
	const json_t *late = json_object_get(of_phase(events, 'X', 2), "args");
	assert_int_equal(integer(late, "op_id"), 1);
	assert_null(json_object_get(late, "launch_delay_ns"));
	late = json_object_get(of_phase(events, 'X', 3), "args");
	assert_int_equal(integer(late, "launch_delay_ns"), 3600);
	assert_string_equal(string(late, "op"), "aten::add.Tensor");
	assert_int_equal(integer(late, "line"), 13);
	late = json_object_get(of_phase(events, 'X', 6), "args");
	assert_string_equal(string(late, "op"), "(op not known)");
	assert_int_equal(integer(late, "bytes"), 4096);
	json_decref(j);
}

static void folded(void **state)
{
	(void)state;
	char *text = exported(export_folded, NULL);
	assert_string_equal(text, "main (train.py:40);aten::sample.Tensor 600\n"
				  "main (train.py:40);aten::sample.Tensor;aten::add.Tensor 400\n"
				  "evil:\\x1b[31m \"op\"\\x0a\\xff 100\n"
				  "AddBackward0 330\n");
	free(text);
}

static void check_profile(const json_t *p, size_t frames)
{
	json_int_t open[8], last = integer(p, "startValue");
	const json_t *e;
	size_t i, n = 0;
	json_array_foreach(json_object_get(p, "events"), i, e)
	{
		json_int_t frame = integer(e, "frame");
		assert_true(integer(e, "at") >= last);
		last = integer(e, "at");
		assert_in_range(frame, 0, frames - 1);
		if (string(e, "type")[0] == 'O')
			open[n++] = frame;
		else
			assert_int_equal(open[--n], frame);
	}
	assert_int_equal(n, 0);
	assert_int_equal(integer(p, "endValue"), last);
}

static void speedscope(void **state)
{
	(void)state;
	json_t *j = parsed(exported(export_speedscope, NULL));
	const json_t *profiles = json_object_get(j, "profiles"), *p;
	const json_t *frames = json_object_get(json_object_get(j, "shared"), "frames");
	size_t i;
	assert_int_equal(json_array_size(profiles), 3);
	assert_int_equal(json_array_size(frames), 5 + 3);
	json_array_foreach(profiles, i, p) check_profile(p, json_array_size(frames));
	p = json_array_get(profiles, 0);
	assert_string_equal(string(p, "name"), "main \"thread\", pid 41, thread 42");
	/* A frame, in it linear, in that the add; two frames, in them the unfinished op. */
	assert_int_equal(json_array_size(json_object_get(p, "events")), 2 * (3 + 3));
	assert_int_equal(integer(p, "endValue") - integer(p, "startValue"), 8000);
	json_decref(j);
}

static void ask(sqlite3 *db, const char *sql, const char *want)
{
	sqlite3_stmt *s;
	if (sqlite3_prepare_v2(db, sql, -1, &s, NULL))
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	assert_string_equal((const char *)sqlite3_column_text(s, 0), want);
	sqlite3_finalize(s);
}

static void sqlite(void **state)
{
	(void)state;
	struct export_in in;
	struct err e = {0};
	sqlite3 *db;
	query(&in, "op != 'nothing'", NULL);
	int fd = open(database, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (export_sqlite(&in, fd, database, &e))
		fail_msg("%s", e.what);
	close(fd);
	trace_query_end(in.query, 0, 0, &e);
	assert_int_equal(sqlite3_open(database, &db), SQLITE_OK);
	ask(db, "SELECT count(*) FROM events", "6");
	ask(db, "SELECT sum(self_ns) FROM calls", "1430");
	ask(db, "SELECT count(*) FROM calls WHERE ns IS NULL", "1");
	ask(db, "SELECT op FROM calls WHERE id = 3", "evil;\\x1b[31m \"op\"\\x0a\\xff");
	ask(db, "SELECT file || ':' || line FROM calls WHERE id = 1", "/home/me/train.py:40");
	ask(db, "SELECT c.op FROM events e JOIN calls c ON c.id = e.forward_id WHERE e.id = 5",
	    "aten::sample.Tensor");
	ask(db, "SELECT json_extract(args, '$[0].shape[2]') FROM events WHERE id = 1", "4");
	ask(db,
	    "SELECT group_concat(f.function) FROM events e JOIN stacks s ON s.stack = e.stack "
	    "JOIN frames f ON f.id = s.frame WHERE e.id = 6",
	    "forward,forward");
	ask(db, "SELECT name FROM threads", "main \"thread\"");
	ask(db, "PRAGMA integrity_check", "ok");
	sqlite3_close(db);
}

static void tensors_as_text(void **state)
{
	(void)state;
	char text[EVENT_TENSORS_MAX], small[16];
	struct op_event ev = sample_full_event();
	assert_string_equal(event_shapes(text, sizeof(text), &ev), "[2,3,4] ? [2,3,4] ?");
	assert_string_equal(event_dtypes(text, sizeof(text), &ev), "float32 dtype 999 ?");
	assert_string_equal(event_devices(text, sizeof(text), &ev), "cpu device 57:1 ?");
	assert_string_equal(event_shapes(small, sizeof(small), &ev), "[2,3,4] ? [2,3,");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(chrome), cmocka_unit_test(chrome_activities),
	    cmocka_unit_test(folded), cmocka_unit_test(speedscope),
	    cmocka_unit_test(sqlite), cmocka_unit_test(tensors_as_text),
	};
	return unit_run(tests, setup, teardown);
}
