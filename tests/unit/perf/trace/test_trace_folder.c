/* A folder of traces: which file a record goes to, and reading all as one. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "perf/trace/trace_read.h"
#include "perf/trace/trace_write.h"
#include "tests/unit/sample_events.h"

static char folder[64], path[80];

static int setup(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/ditrace-test-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/traces/", folder);
	return 0;
}

static int teardown(void **state)
{
	char command[128];
	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static struct trace_writer *writer(void)
{
	struct trace_writer *w = NULL;
	struct err e = {0};
	if (trace_writer_open(path, &w, &e))
		fail_msg("%s", e.what);
	return w;
}

static void process(struct trace_writer *w, int pid, int rank, bool worker)
{
	const struct trace_process p = {.pid = pid,
					.worker = worker,
					.rank = {.rank = rank,
						 .world_size = rank < 0 ? -1 : 2,
						 .local_rank = rank,
						 .node = -1,
						 .restarts = 0,
						 .host = "here"}};
	const struct trace_target t = {.pid = pid, .comm = "python", .argv = "train.py"};
	assert_int_equal(trace_write_process(w, &p), 0);
	assert_int_equal(trace_write_target(w, &t), 0);
}

/* An event, and what it made a device do, which begins when it ends. */
static void event(struct trace_writer *w, int pid, uint64_t id)
{
	struct op_event ev = sample_event(id, 0, 0, 1000 * id, 1000 * id + 10);
	ev.pid = ev.tid = pid;
	assert_int_equal(trace_write_event(w, &ev), 0);
	struct activity a = {.of = ev, .launched_ns = ev.start_ns, .name = "kernel"};
	a.of.start_ns = ev.end_ns;
	a.of.end_ns = ev.end_ns + 5;
	assert_int_equal(trace_write_activity(w, &a), 0);
}

static bool is_there(const char *name)
{
	char at[128];
	struct stat st;
	snprintf(at, sizeof(at), "%s/traces/%s", folder, name);
	return !stat(at, &st) && S_ISREG(st.st_mode);
}

/* "RANK:START ..." of the events that are chosen. */
static void read_all(const char *rank, bool by_start, char *out, size_t size)
{
	const struct trace_query_opts opts = {.choice.rank = rank, .by_start = by_start};
	struct trace_query *q = NULL;
	struct trace_item item;
	struct err e = {0};
	size_t len = 0;
	struct op_event events[16], activities[16];
	unsigned n = 0, nactivities = 0;
	out[0] = '\0';
	if (trace_query(path, &opts, &q, &e))
		fail_msg("%s", e.what);
	int r;
	while ((r = trace_query_next(q, &item, &e)) > 0) {
		if (item.type == TRACE_ACTIVITY)
			activities[nactivities++] = item.activity.of;
		if (item.type != TRACE_EVENT)
			continue;
		for (unsigned i = 0; i < n; i++)
			assert_true(events[i].id != item.event.id);
		events[n++] = item.event;
		len += (size_t)snprintf(out + len, size - len, "%d:%d ", (int)item.event.rank1 - 1,
					(int)(item.event.start_ns / 1000));
	}
	assert_int_equal(r, 0);
	assert_int_equal(nactivities, n);
	for (unsigned i = 0; i < n; i++) {
		unsigned k = 0;
		while (k < n && activities[k].id != events[i].id)
			k++;
		assert_true(k < n);
		assert_int_equal(activities[k].start_ns, events[i].end_ns);
		assert_int_equal(activities[k].rank1, events[i].rank1);
	}
	assert_int_equal(trace_query_end(q, 0, 0, &e), 0);
}

static void files_by_rank(void **state)
{
	char seen[256];
	(void)state;
	struct trace_writer *w = writer();
	process(w, 10, -1, false); /* the launcher: no op, no file */
	process(w, 20, 0, false);
	process(w, 21, 1, false);
	process(w, 30, 0, true);
	event(w, 30, 1); /* a worker before its rank */
	event(w, 21, 2);
	event(w, 20, 3);
	event(w, 21, 4);
	assert_int_equal(trace_writer_files(w), 2);
	process(w, 22, 1, false); /* the rank starts again */
	event(w, 22, 5);
	process(w, 40, -1, false);
	event(w, 40, 6);
	assert_int_equal(trace_writer_close(w, true), 0);
	assert_true(is_there("rank0.data") && is_there("rank1.data") && is_there("rank1.1.data"));
	assert_true(is_there("pid-40.data") && !is_there("pid-10.data"));
	for (int by_start = 0; by_start < 2; by_start++) {
		read_all(NULL, by_start, seen, sizeof(seen));
		assert_string_equal(seen, "0:1 1:2 0:3 1:4 1:5 -1:6 ");
	}
	read_all("0", true, seen, sizeof(seen));
	assert_string_equal(seen, "0:1 0:3 ");
	read_all("1-", true, seen, sizeof(seen));
	assert_string_equal(seen, "1:2 1:4 1:5 ");
	assert_true(trace_query_can_read(path));
}

/* Their op's id is that which the event has in the folder, and their rank that of its process. */
static void activities_of_ranks(void **state)
{
	const struct trace_query_opts opts = {.by_start = true};
	struct trace_query *q = NULL;
	struct trace_item item;
	struct err e = {0};
	uint64_t ids[2] = {0}, launches[2] = {0};
	(void)state;
	struct trace_writer *w = writer();
	for (int i = 0; i < 2; i++) {
		struct op_event ev = {.id = 1 + (uint64_t)i, .op = &sample_add, .pid = 20 + i};
		struct activity a = sample_activity(&ev, 1500, 3000, 4000);
		process(w, 20 + i, i, false);
		event(w, 20 + i, ev.id);
		assert_int_equal(trace_write_activity(w, &a), 0);
	}
	assert_int_equal(trace_writer_close(w, true), 0);
	assert_int_equal(trace_query(path, &opts, &q, &e), 0);
	while (trace_query_next(q, &item, &e) > 0) {
		if (item.type == TRACE_EVENT)
			ids[item.event.rank1 - 1] = item.event.id;
		if (item.type == TRACE_ACTIVITY)
			launches[item.activity.of.rank1 - 1] = item.activity.of.id;
	}
	trace_query_end(q, 0, 0, &e);
	assert_true(ids[0] && ids[1] && ids[0] != ids[1]);
	assert_memory_equal(launches, ids, sizeof(ids));
}

static void no_such_rank(void **state)
{
	const struct trace_query_opts opts = {.choice.rank = "7"};
	struct trace_query *q = NULL;
	struct trace_item item;
	struct err e = {0};
	int r;
	(void)state;
	assert_int_equal(trace_query(path, &opts, &q, &e), 0);
	while ((r = trace_query_next(q, &item, &e)) > 0)
		assert_int_not_equal(item.type, TRACE_EVENT);
	assert_int_equal(r, -ENOENT);
	assert_non_null(strstr(e.what, "--rank 7"));
	trace_query_end(q, 0, 0, &e);
	assert_int_equal(trace_choice_check(&(struct trace_choice){.rank = "one"}, &e), -EINVAL);
}

static void old_traces_are_kept(void **state)
{
	char seen[256];
	(void)state;
	struct trace_writer *w = writer();
	assert_true(trace_writer_kept_old(w));
	assert_true(is_there("rank1.data.old") && !is_there("rank1.data"));
	process(w, 20, 0, false);
	event(w, 20, 9);
	/* Another ditrace adds to what is being written. */
	struct trace_writer *other = writer();
	assert_false(trace_writer_kept_old(other));
	process(other, 50, 1, false);
	event(other, 50, 10);
	process(other, 60, 0, false);
	event(other, 60, 11);
	assert_int_equal(trace_writer_close(other, true), 0);
	assert_int_equal(trace_writer_close(w, true), 0);
	assert_true(is_there("rank0.data") && is_there("rank1.data") && is_there("rank0.1.data"));
	read_all(NULL, true, seen, sizeof(seen));
	assert_string_equal(seen, "0:9 1:10 0:11 ");
}

/* That of another host with the same PID, say. */
static void what_another_wrote_meanwhile_stays(void **state)
{
	char seen[256];
	(void)state;
	struct trace_writer *w = writer(), *other = writer();
	process(other, 70, -1, false);
	event(other, 70, 12);
	assert_int_equal(trace_writer_close(other, true), 0);
	process(w, 70, -1, false);
	event(w, 70, 13);
	assert_int_equal(trace_writer_close(w, true), 0);
	assert_true(is_there("pid-70.data") && is_there("pid-70.1.data"));
	assert_false(is_there("pid-70.data.old"));
	read_all(NULL, true, seen, sizeof(seen));
	assert_string_equal(seen, "-1:12 -1:13 ");
}

static void a_file_becomes_a_folder(void **state)
{
	char seen[256];
	(void)state;
	snprintf(path, sizeof(path), "%s/traces", folder);
	for (int empty = 0; empty < 2; empty++) {
		teardown(NULL);
		assert_int_equal(mkdir(folder, 0700), 0);
		struct trace_writer *w = writer();
		process(w, 10, -1, false);
		if (!empty)
			event(w, 10, 1);
		assert_int_equal(trace_writer_files(w), 0);
		process(w, 20, 0, false);
		event(w, 20, 2);
		assert_int_equal(trace_writer_close(w, true), 0);
		assert_int_equal(is_there("pid-10.data"), !empty);
		read_all(NULL, true, seen, sizeof(seen));
		assert_string_equal(seen, empty ? "0:2 " : "-1:1 0:2 ");
	}
}

static void or_stays_one(void **state)
{
	char seen[256];
	(void)state;
	teardown(NULL);
	assert_int_equal(mkdir(folder, 0700), 0);
	struct trace_writer *w = writer();
	trace_writer_one_file(w);
	process(w, 20, 0, false);
	event(w, 20, 1);
	process(w, 21, 1, false);
	event(w, 21, 2);
	assert_int_equal(trace_writer_close(w, true), 0);
	read_all("1", true, seen, sizeof(seen));
	assert_string_equal(seen, "1:2 ");
}

/* What starts the same rank, or gets the same PID, again and again has a file each time. */
static void many_of_one_name(void **state)
{
	enum { MANY = 120 };
	struct trace_writer *w = writer();
	(void)state;
	for (int i = 0; i < MANY; i++) {
		process(w, 1000 + i, 0, false);
		event(w, 1000 + i, 1);
	}
	for (int i = 0; i < 3; i++) {
		process(w, 5000, -1, false);
		event(w, 5000, 1);
	}
	assert_int_equal(trace_writer_close(w, true), 0);
	assert_true(is_there("rank0.data") && is_there("rank0.119.data"));
	assert_true(is_there("pid-5000.data") && is_there("pid-5000.2.data"));
}

static void a_cut_file_does_not_hide_the_others(void **state)
{
	const struct trace_query_opts opts = {0};
	struct trace_query *q = NULL;
	struct trace_item item;
	struct err e = {0};
	char cut[128];
	unsigned events = 0;
	int r;
	(void)state;
	teardown(NULL);
	assert_int_equal(mkdir(folder, 0700), 0);
	snprintf(path, sizeof(path), "%s/traces/", folder);
	struct trace_writer *w = writer();
	for (int i = 0; i < 3; i++) {
		process(w, 20 + i, i < 2 ? i : -1, false);
		event(w, 20 + i, (uint64_t)i + 1);
	}
	assert_int_equal(trace_writer_close(w, true), 0);
	snprintf(cut, sizeof(cut), "%srank0.data", path);
	assert_int_equal(truncate(cut, 20), 0);
	assert_int_equal(trace_query(path, &opts, &q, &e), 0);
	while ((r = trace_query_next(q, &item, &e)) > 0)
		events += item.type == TRACE_EVENT;
	assert_int_equal(events, 2);
	assert_int_equal(r, -EBADMSG);
	assert_non_null(strstr(e.what, "rank0.data"));
	trace_query_end(q, 0, 0, &e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(files_by_rank),
	    cmocka_unit_test(activities_of_ranks),
	    cmocka_unit_test(no_such_rank),
	    cmocka_unit_test(old_traces_are_kept),
	    cmocka_unit_test(what_another_wrote_meanwhile_stays),
	    cmocka_unit_test(a_file_becomes_a_folder),
	    cmocka_unit_test(or_stays_one),
	    cmocka_unit_test(many_of_one_name),
	    cmocka_unit_test(a_cut_file_does_not_hide_the_others),
	};
	return unit_run(tests, setup, teardown);
}
