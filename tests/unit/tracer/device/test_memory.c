/* What is allocated and freed, in the innermost op that has it; and how much of it is freed. */
#include "tests/unit/unit.h"

#include "tracer/device/internal.h"
#include "tracer/device/launches.h"

enum { PID = 100, T = 101, OTHER = 102, MS = 1000 * 1000 };

static const struct op_desc outer = {.name = "aten::linear"}, inner = {.name = "aten::addmm"};
static struct launches *l;
static struct memory_event got[16];
static unsigned ngot;
static uint64_t now;

static void on_activity(const struct activity *a, void *arg)
{
	(void)a, (void)arg;
	fail_msg("there are none");
}

static uint64_t in_no_op(int32_t pid, int32_t tid, void *arg)
{
	(void)pid, (void)tid, (void)arg;
	return UINT64_MAX;
}

static void on_memory(const struct memory_event *m, void *arg)
{
	(void)arg;
	got[ngot++] = *m;
}

static int begin(void **state)
{
	(void)state;
	ngot = 0;
	now = 1;
	l = launches_new(on_activity, in_no_op, NULL);
	launches_on_memory(l, on_memory);
	launches_record(l, &(struct activity_record){.kind = RECORD_MEMORY_LOST, .pid = PID}, now);
	return 0;
}

static int end(void **state)
{
	(void)state;
	launches_free(l);
	return 0;
}

static void told(uint8_t kind, int32_t tid, uint64_t ns, uint64_t address, uint64_t bytes)
{
	launches_record(l,
			&(struct activity_record){.kind = kind,
						  .pid = PID,
						  .tid = tid,
						  .start_ns = ns,
						  .end_ns = ns,
						  .name = address,
						  .bytes = bytes,
						  .device_index = -1},
			now);
}

static void ended(const struct op_desc *op, uint64_t id, uint64_t from, uint64_t to)
{
	launches_op(l,
		    &(struct op_event){
			.id = id, .op = op, .pid = PID, .tid = T, .start_ns = from, .end_ns = to});
}

static void is(unsigned i, uint64_t id, bool freed, uint64_t bytes, uint64_t total)
{
	assert_true(i < ngot);
	assert_int_equal(got[i].launch, id ? LAUNCH_IN_OP : LAUNCH_IN_NO_OP);
	assert_int_equal(got[i].of.id, id);
	assert_int_equal(got[i].freed, freed);
	assert_int_equal(got[i].bytes, bytes);
	assert_int_equal(got[i].total, total);
}

static void in_the_innermost_op(void **state)
{
	(void)state;
	told(RECORD_ALLOCATED, T, 105, 0x1000, 64);
	told(RECORD_ALLOCATED, T, 115, 0x2000, 32);
	told(RECORD_FREED, T, 125, 0x1000, 0);
	assert_int_equal(ngot, 0);
	ended(&inner, 2, 110, 120);
	assert_int_equal(ngot, 1);
	is(0, 2, false, 32, 96);
	ended(&outer, 1, 100, 130);
	assert_int_equal(ngot, 3);
	is(1, 1, false, 64, 64);
	is(2, 1, true, 64, 32);
	told(RECORD_FREED, T, 116, 0x3000, 0);
	is(3, 2, true, 0, 32);
}

/* Records that are read when much was done already: of ops that come later they are, but nothing is
 * said to be in none, as ops that began before recording are not known. */
static void before_the_first_record(void **state)
{
	(void)state;
	launches_end(l, PID, 0);
	launches_begin(l, PID);
	now = 10ULL * MS;
	told(RECORD_ALLOCATED, T, 105, 0x1000, 64);
	told(RECORD_ALLOCATED, T, 150, 0x2000, 32);
	told(RECORD_ALLOCATED, T, 20ULL * MS, 0x3000, 16);
	ended(&outer, 1, 100, 130);
	assert_int_equal(ngot, 1);
	is(0, 1, false, 64, 64);
	for (unsigned ms = 0; ms < 1200 && ngot < 3; ms += 10)
		launches_tick(l, now += 10ULL * MS, false);
	assert_int_equal(ngot, 3);
	assert_int_equal(got[1].launch, LAUNCH_UNKNOWN);
	is(2, 0, false, 16, 112);
}

/* Of another thread's no op will come. */
static void freed_elsewhere(void **state)
{
	(void)state;
	told(RECORD_ALLOCATED, T, 105, 0x1000, 64);
	ended(&outer, 1, 100, 130);
	told(RECORD_FREED, OTHER, 140, 0x1000, 0);
	for (unsigned ms = 0; ms < 1200 && ngot < 2; ms += 10)
		launches_tick(l, now += 10ULL * MS, false);
	is(1, 0, true, 64, 0);
}

/* An address that is allocated again was freed; when that comes after all it is not told twice. */
static void a_record_is_missed(void **state)
{
	(void)state;
	ended(&outer, 1, 100, 200);
	told(RECORD_ALLOCATED, T, 105, 0x1000, 64);
	told(RECORD_ALLOCATED, T, 125, 0x1000, 16);
	told(RECORD_FREED, T, 120, 0x1000, 0);
	told(RECORD_FREED, T, 130, 0x1000, 0);
	assert_int_equal(ngot, 4);
	is(0, 1, false, 64, 64);
	assert_int_equal(got[1].launch, LAUNCH_UNKNOWN);
	assert_true(got[1].freed && got[1].bytes == 64 && !got[1].total);
	is(2, 1, false, 16, 16);
	is(3, 1, true, 16, 0);
}

/* The places of blocks that are free are used again. */
static void many_blocks(void **state)
{
	struct blocks b = {0};
	struct memory_event before;
	(void)state;
	for (uint64_t i = 1; i <= 100000; i++) {
		struct memory_event m = {.address = i * 64, .bytes = i, .of.start_ns = i};
		assert_false(blocks_allocated(&b, &m, &before));
		struct memory_event f = {.address = i * 64, .freed = true, .of.start_ns = i};
		assert_true(i % 100 == 0 || blocks_freed(&b, &f));
		assert_true(i % 100 == 0 || f.bytes == i);
	}
	assert_int_equal(b.table.live, 1000);
	assert_true(b.table.n < 10000);
	for (uint64_t i = 100; i <= 100000; i += 100) {
		struct memory_event f = {.address = i * 64, .of.start_ns = i};
		assert_true(blocks_freed(&b, &f));
		assert_int_equal(f.bytes, i);
	}
	assert_int_equal(b.total, 0);
	blocks_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(in_the_innermost_op, begin, end),
	    cmocka_unit_test_setup_teardown(before_the_first_record, begin, end),
	    cmocka_unit_test_setup_teardown(freed_elsewhere, begin, end),
	    cmocka_unit_test_setup_teardown(a_record_is_missed, begin, end),
	    cmocka_unit_test(many_blocks),
	};
	return unit_run(tests, NULL, NULL);
}
