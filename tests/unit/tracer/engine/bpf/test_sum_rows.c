/* Rows that eBPF has summed up are handed over once, when they no longer change. */
#include "tests/unit/unit.h"

#include <bpf/bpf.h>
#include <unistd.h>

#include "tracer/engine/bpf/sum_rows.h"

enum { PROC = 3 };

static __u64 epoch, freed_now, sent;
static __u32 users[SUM_EPOCHS], nrows;
static struct sum_rows rows;
static uint64_t calls[8]; /* handed over, by op */

static int setup(void **state)
{
	(void)state;
	epoch = freed_now = sent = nrows = 0;
	memset(users, 0, sizeof(users));
	memset(calls, 0, sizeof(calls));
	rows = (struct sum_rows){.map = bpf_map_create(BPF_MAP_TYPE_HASH, "rows",
						       sizeof(struct sum_key),
						       sizeof(struct sum_value), 8, NULL),
				 .epoch = &epoch,
				 .freed_now = &freed_now,
				 .users = users,
				 .rows = &nrows,
				 .sent = &sent};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (rows.map >= 0)
		close(rows.map);
	return 0;
}

/* A row as of now, of two calls, and `open` ones of this thread. */
static void put(uint32_t op, uint64_t open, bool bare)
{
	static struct sum_value v;
	const struct sum_key k = {.tid = (uint32_t)getpid(),
				  .op = op,
				  .epoch = (uint32_t)epoch,
				  .freed = bare ? 0 : (uint32_t)freed_now,
				  .proc = PROC,
				  .bare = bare};
	const struct hit h = {.size = sizeof(h), .kind = HIT_ENTRY, .op = op};
	memcpy(v.record, &h, sizeof(h));
	v.counts = (struct sum_counts){.calls = 2, .ns = 10};
	v.open = open;
	if (rows.map < 0)
		skip(); /* not permitted */
	assert_int_equal(bpf_map_update_elem(rows.map, &k, &v, BPF_NOEXIST), 0);
	nrows++;
}

static void see(struct hit *h, void *arg)
{
	(void)arg;
	assert_int_equal(h->kind, HIT_SUM);
	assert_int_equal(h->proc, PROC);
	calls[h->op] += 2;
}

static void rows_are_handed_over_once(void **state)
{
	(void)state;
	put(1, 0, false);
	put(2, 0, true);
	assert_int_equal(sum_rows_tick(&rows, true, see, NULL), 2);
	assert_int_equal(calls[1], 2);
	assert_int_equal(calls[2], 2);
	assert_int_equal(nrows, 0);
	assert_int_equal(sum_rows_tick(&rows, true, see, NULL), 0);
}

/* Unless no program runs any more. */
static void a_row_with_open_calls_stays(void **state)
{
	(void)state;
	put(1, 1, false);
	assert_int_equal(sum_rows_tick(&rows, true, see, NULL), 0);
	assert_int_equal(nrows, 1);
	rows.over = true;
	assert_int_equal(sum_rows_tick(&rows, true, see, NULL), 1);
	assert_int_equal(calls[1], 2);
}

/* What may name freed code is read before that is handled; what is of later not before. */
static void freed_code_is_in_order(void **state)
{
	(void)state;
	put(1, 0, false);
	freed_now = sent = 1;
	put(2, 0, false);
	put(3, 0, true);
	assert_int_equal(sum_rows_freed(&rows, 1, see, NULL), 2);
	assert_int_equal(calls[1], 2);
	assert_int_equal(calls[2], 0);
	assert_int_equal(calls[3], 2);
	assert_int_equal(rows.least, 1);
	assert_int_equal(sum_rows_tick(&rows, true, see, NULL), 1);
	assert_int_equal(calls[2], 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(rows_are_handed_over_once, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_row_with_open_calls_stays, setup, teardown),
	    cmocka_unit_test_setup_teardown(freed_code_is_in_order, setup, teardown),
	};
	return unit_run(tests, NULL, NULL);
}
