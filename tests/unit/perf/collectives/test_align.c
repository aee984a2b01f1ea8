/* A folder with files of two hosts: times of both are of one clock, as their collectives tell. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "perf/collectives/collectives.h"
#include "perf/collectives/internal.h"
#include "perf/trace/trace_read.h"
#include "perf/trace/trace_write.h"
#include "tests/unit/sample_events.h"

enum { MS = 1000000, US = 1000, CALLS = 50 };

static const struct op_desc allreduce = {.kind = OP_DISPATCHED,
					 .nargs = 2,
					 .nresults = 1,
					 .name = "c10d::allreduce_",
					 .schema = "",
					 .args = sample_arg_names,
					 .results = sample_result_names};

static char folder[64], path[96];

static int setup(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/ditrace-test-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/traces/", folder);
	trace_clocks_by(collectives_align);
	return 0;
}

static int teardown(void **state)
{
	char command[128];
	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static bool on_device; /* collectives are NCCL's */

/* Its kernel, and two that are not. */
static void launch(struct trace_writer *w, const struct op_event *ev, uint64_t done)
{
	struct activity a = {.of = *ev,
			     .launched_ns = ev->start_ns + 5 * US,
			     .name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"};
	a.of.start_ns = ev->start_ns + 20 * US;
	a.of.end_ns = done;
	assert_int_equal(trace_write_activity(w, &a), 0);
	a.launched_ns = ev->end_ns + 5 * US;
	a.of.end_ns = done + 500 * MS;
	assert_int_equal(trace_write_activity(w, &a), 0);
	a.launched_ns = ev->start_ns + 5 * US;
	a.name = "some_kernel";
	assert_int_equal(trace_write_activity(w, &a), 0);
}

static void call(struct trace_writer *w, int rank, uint64_t id, uint64_t start, uint64_t done)
{
	struct value args[] = {{.kind = VALUE_LIST},
			       {.kind = VALUE_GROUP, .group = {0x1000, rank, 2, NULL}}},
		     work = {.kind = VALUE_WORK,
			     .work = {0x5000 + id, on_device ? "nccl" : "gloo"}};
	struct op_event ev = {.id = id,
			      .pid = 20,
			      .tid = 20,
			      .op = &allreduce,
			      .start_ns = start,
			      .end_ns = start + 10 * US,
			      .args = args,
			      .nargs = 2,
			      .results = &work,
			      .nresults = 1};
	const struct work_done d = {.pid = 20, .address = 0x5000 + id, .ns = done};
	assert_int_equal(trace_write_event(w, &ev), 0);
	if (done && !on_device)
		assert_int_equal(trace_write_done(w, &d), 0);
	if (done && on_device)
		launch(w, &ev, done);
}

struct host {
	int rank;
	uint64_t offset, late; /* of its CLOCK_MONOTONIC; of its ranks' calls */
	int64_t day;	       /* by how much its clock of the day is wrong */
	bool whole, done, old; /* old: its file does not tell its clock */
};

static uint64_t begun(int i)
{
	return 1000 * MS + (uint64_t)i * 10 * MS;
}

static void write_header(const struct host *h)
{
	struct trace_file_header header;
	char file[128];
	snprintf(file, sizeof(file), "%srank%d.data", path, h->rank);
	int fd = open(file, O_RDWR);
	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	assert_true(header.clock[0] || header.clock[8] || header.clock[15]);
	memset(header.clock, h->old ? 0 : 7 + h->rank, sizeof(header.clock));
	header.monotonic_ns = h->offset + 900 * MS;
	header.realtime_ns = (uint64_t)((int64_t)5000 * MS + h->day);
	header.crc = trace_crc(0, &header, offsetof(struct trace_file_header, crc));
	assert_int_equal(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
	close(fd);
}

/* Both have a process with the same PID. All collectives end 100 us after the last rank has called.
 */
static void record(const struct host *hosts)
{
	uint64_t late = hosts[0].late > hosts[1].late ? hosts[0].late : hosts[1].late;
	for (int i = 0; i < 2; i++) {
		const struct host *h = &hosts[i];
		struct trace_writer *w = NULL;
		struct err e = {0};
		struct trace_process p = {
		    .pid = 20, .whole = h->whole, .rank = {.rank = h->rank, .world_size = 2}};
		snprintf(p.rank.host, sizeof(p.rank.host), "node%d", h->rank);
		if (i)
			snprintf(path, sizeof(path), "%s/other/", folder);
		assert_int_equal(trace_writer_open(path, &w, &e), 0);
		assert_int_equal(trace_write_process(w, &p), 0);
		for (int k = 0; k < CALLS; k++)
			call(w, h->rank, (uint64_t)k + 1, h->offset + begun(k) + h->late,
			     h->done ? h->offset + begun(k) + late + (uint64_t)(100 + k % 7) * US
				     : 0);
		assert_int_equal(trace_writer_close(w, true), 0);
		write_header(h);
	}
	char command[256];
	snprintf(command, sizeof(command), "mv %s/other/rank1.data %s/traces/", folder, folder);
	assert_int_equal(system(command), 0);
	snprintf(path, sizeof(path), "%s/traces/", folder);
}

struct reading {
	struct trace_clock clock;
	unsigned clocks;
	int64_t off; /* the largest difference of a start from what it was */
	char why[sizeof(((struct collectives *)NULL)->why)];
};

static void read_all(const struct host *hosts, struct reading *x)
{
	const struct trace_query_opts opts = {.kinds = TRACE_OPS};
	struct trace_query *q = NULL;
	struct trace_item item;
	struct err e = {0};
	int n[2] = {0}, r;
	struct collectives *c = collectives_new();
	*x = (struct reading){0};
	assert_int_equal(trace_query(path, &opts, &q, &e), 0);
	while ((r = trace_query_next(q, &item, &e)) > 0) {
		assert_int_equal(collectives_see(c, &item), 0);
		if (item.type == TRACE_CLOCK) {
			x->clock = *item.clock;
			x->clocks++;
		}
		if (item.type != TRACE_EVENT)
			continue;
		int rank = (int)item.event.rank1 - 1;
		int64_t off = (int64_t)(item.event.start_ns - begun(n[rank]++) - hosts[rank].late -
					hosts[0].offset);
		x->off = llabs(off) > llabs(x->off) ? off : x->off;
	}
	assert_int_equal(r, 0);
	assert_true(n[0] == CALLS && n[1] == CALLS);
	assert_int_equal(collectives_match(c), 0);
	snprintf(x->why, sizeof(x->why), "%s", c->why);
	collectives_free(c);
	trace_query_close(q);
}

static const struct host here = {.whole = true, .done = true, .offset = 77 * (uint64_t)MS};
static const struct host there = {.rank = 1,
				  .whole = true,
				  .done = true,
				  .late = 30 * US,
				  .offset = (uint64_t)9876543 * MS,
				  .day = 200 * MS};

static void a_wrong_clock_is_corrected(void **state)
{
	const struct host hosts[] = {here, there};
	struct reading x;
	char text[TRACE_CLOCK_TEXT_MAX];
	(void)state;
	record(hosts);
	for (int again = 0; again < 2; again++) { /* the second time it is known already */
		read_all(hosts, &x);
		assert_int_equal(x.clocks, 1);
		assert_true(x.clock.is_found && !x.clock.against);
		assert_int_equal(x.clock.collectives, CALLS);
		assert_true(llabs(x.off) <= (int64_t)x.clock.known_ns && x.clock.known_ns < MS);
		assert_true(llabs(x.off) < 10 * US);
		/* it was 200 ms ahead, so what it told is put back */
		assert_true(llabs(x.clock.more_ns + 200 * MS) < 10 * US);
		assert_string_equal(x.why, "");
	}
	trace_clock_text(text, sizeof(text), &x.clock);
	assert_non_null(strstr(text, "the clock of node1 is 200 ms ahead of that of node0, "));
}

static void by_kernels(void **state)
{
	teardown(NULL);
	on_device = true;
	a_wrong_clock_is_corrected(state);
	on_device = false;
}

static void of_files_without_a_clock(void **state)
{
	struct host hosts[] = {here, there};
	struct reading x;
	(void)state;
	for (int old = 1; old <= 2; old++) {
		teardown(NULL);
		hosts[0].old = true;
		hosts[1].old = old == 2;
		record(hosts);
		read_all(hosts, &x);
		assert_true(x.clocks == 1 && x.clock.is_found && llabs(x.off) < 10 * US);
	}
}

static void of_clocks_that_are_not_found(void **state)
{
	struct host hosts[] = {here, there};
	struct reading x;
	(void)state;
	teardown(NULL);
	hosts[1].done = false;
	record(hosts);
	read_all(hosts, &x);
	assert_true(x.clocks == 1 && !x.clock.is_found);
	assert_non_null(strstr(x.why, "the clocks of node0 and node1 are taken as they were set: "
				      "there is no collective of all ranks"));
	assert_int_equal(x.off, 200 * MS); /* as the clocks of the day have it */
	teardown(NULL);
	hosts[1].done = true;
	hosts[1].whole = false;
	record(hosts);
	read_all(hosts, &x);
	assert_true(!x.clock.is_found);
	assert_non_null(strstr(x.why, "rank 1 was not recorded from its start"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_wrong_clock_is_corrected),
	    cmocka_unit_test(by_kernels),
	    cmocka_unit_test(of_files_without_a_clock),
	    cmocka_unit_test(of_clocks_that_are_not_found),
	};
	return unit_run(tests, setup, teardown);
}
