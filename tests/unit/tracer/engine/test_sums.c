/* Calls summed up in memory that a writer and a reader share: none is lost, whatever the reader
 * does. */
#include "tests/unit/unit.h"

#include "tracer/engine/sums.h"

enum { FRAMES = 3, WORDS = STACK_FRAME_SIZE / 8 };

static struct sums *sums;
static struct sums_writer writer;
static struct sums_reader reader;
static struct sums_code code;

/* What the reader was given, by op. */
static struct {
	uint64_t calls, thrown, ns, inner_ns, stacks, locals, left_out;
} seen[8];

static int setup(void **state)
{
	(void)state;
	sums = calloc(1, sizeof(*sums));
	memset(&writer, 0, sizeof(writer));
	memset(&reader, 0, sizeof(reader));
	memset(&code, 0, sizeof(code));
	memset(seen, 0, sizeof(seen));
	if (sums)
		sums_begin(sums, &writer, &code);
	return sums ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(sums);
	return 0;
}

/* An entry with an identity of one word and a stack; `line` and `self` are of its frames. */
static struct hit *entry(uint32_t op, uint64_t word, uint64_t line, uint64_t self)
{
	static _Alignas(8) uint8_t bytes[512];
	struct hit *h = (struct hit *)bytes;
	struct item *i = (struct item *)(h + 1);
	*h = (struct hit){.kind = HIT_ENTRY, .op = op, .tid = 7};
	*i = (struct item){.kind = ITEM_DATA, .len = 8};
	memcpy(i + 1, &word, 8);
	i = (struct item *)((uint8_t *)(i + 1) + 8);
	*i = (struct item){.kind = ITEM_STACK, .len = FRAMES * STACK_FRAME_SIZE};
	for (unsigned f = 0; f < FRAMES; f++)
		memcpy((uint64_t *)(i + 1) + (size_t)f * WORDS,
		       (uint64_t[]){0x1000 * f, line, self}, STACK_FRAME_SIZE);
	h->size = (uint32_t)((uint8_t *)(i + 1) + i->len - bytes);
	return h;
}

static void call(struct hit *h, uint64_t ns, bool thrown)
{
	struct sum_row *row = sums_enter(sums, &writer, h, true);
	assert_non_null(row);
	sums_leave(sums, &writer, row, 1000, 1000 + ns, ns / 2, thrown);
}

static void see(struct hit *h, void *arg)
{
	struct sum_counts c = {0};
	const uint8_t *end = (uint8_t *)h + h->size;
	bool has_stack = false, has_locals = false, is_left_out = false;
	(void)arg;
	assert_int_equal(h->kind, HIT_SUM);
	assert_int_equal(h->proc, 3);
	for (const struct item *i = (struct item *)(h + 1); (const uint8_t *)i < end;
	     i = (const struct item *)((const uint8_t *)(i + 1) + i->len)) {
		if (i->kind == ITEM_SUM)
			memcpy(&c, i + 1, sizeof(c));
		has_stack |= i->kind == ITEM_STACK && i->len;
		is_left_out |= i->kind == ITEM_STACK && i->aux == STACK_LEFT_OUT;
		has_locals |= i->kind == ITEM_STACK && i->len && ((const uint64_t *)(i + 1))[2];
	}
	seen[h->op].calls += c.calls;
	seen[h->op].thrown += c.thrown;
	seen[h->op].ns += c.ns;
	seen[h->op].inner_ns += c.inner_ns;
	seen[h->op].stacks += has_stack;
	seen[h->op].locals += has_locals ? c.calls : 0;
	seen[h->op].left_out += is_left_out ? c.calls : 0;
	assert_true(c.calls && c.min_ns <= c.max_ns && c.first_ns <= c.last_ns);
}

static void read_all(void)
{
	assert_true(sums_read(sums, &reader, 3, 0, see, NULL));
	assert_false(sums_changed(sums));
}

static void calls_are_added_up_once(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10; i++)
		call(entry(1, 5, 10, 0), 100, i == 3);
	call(entry(1, 5, 11, 0), 7, false);
	call(entry(2, 6, 10, 0), 50, false);
	read_all();
	assert_int_equal(seen[1].calls, 11);
	assert_int_equal(seen[1].thrown, 1);
	assert_int_equal(seen[1].ns, 1007);
	assert_int_equal(seen[1].inner_ns, 503);
	assert_int_equal(seen[1].stacks, 2);
	assert_int_equal(seen[2].ns, 50);
	read_all();
	assert_int_equal(seen[1].calls, 11);
	call(entry(1, 5, 10, 0), 100, false);
	read_all();
	assert_int_equal(seen[1].calls, 12);
	assert_int_equal(seen[1].ns, 1107);
}

/* More stacks than there are rows: first the objects that methods are of are left out, then the
 * stacks, and never a call. */
static void detail_is_lost_before_calls(void **state)
{
	enum { MANY = 5000 };
	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		call(entry(i % 4, 1, 10 + i / 2000, i + 1), 3, false);
	for (unsigned i = 0; i < MANY; i++)
		call(entry(4 + i % 4, 1, i, 1), 3, false);
	read_all();
	uint64_t calls = 0, ns = 0;
	for (unsigned op = 0; op < 8; op++) {
		assert_int_equal(seen[op].calls, MANY / 4);
		assert_true(seen[op].locals < MANY / 4);
		assert_int_equal(seen[op].left_out > 0, op >= 4);
		calls += seen[op].calls;
		ns += seen[op].ns;
	}
	assert_int_equal(calls, 2 * MANY);
	assert_int_equal(ns, 6 * MANY);
}

/* Once all was read there is room again, but not within a call that has a row. */
static void room_comes_back(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2000; i++)
		call(entry(1, 1, i, 1), 3, false);
	struct sum_row *open = sums_enter(sums, &writer, entry(2, 1, 1, 1), true);
	read_all();
	call(entry(3, 1, 1, 1), 3, false);
	assert_int_not_equal(writer.nrows, 1);
	sums_leave(sums, &writer, open, 0, 10, 0, false);
	call(entry(3, 1, 1, 1), 3, false);
	assert_int_not_equal(writer.nrows, 1);
	read_all();
	call(entry(3, 1, 1, 1), 3, false);
	assert_int_equal(writer.nrows, 1);
	read_all();
	assert_int_equal(seen[1].calls, 2000);
	assert_int_equal(seen[2].calls, 1);
	assert_int_equal(seen[3].calls, 3);
	assert_int_equal(seen[3].ns, 9);
}

/* Other code may be at the address of what was freed: until the reader has handled that, and there
 * are new rows, no stack is named, and those that are there are not read by the way. */
static void freed_code_is_not_named(void **state)
{
	(void)state;
	call(entry(1, 1, 1, 1), 3, false);
	uint32_t number = sums_code_freed(&code);
	call(entry(1, 1, 1, 1), 3, false);
	assert_int_equal(writer.nrows, 2);
	assert_true(sums_read(sums, &reader, 3, SUMS_BARE, see, NULL));
	assert_int_equal(seen[1].calls, 1);
	assert_int_equal(seen[1].left_out, 1);
	read_all();
	assert_int_equal(seen[1].calls, 2);
	assert_int_equal(seen[1].stacks, 1);
	call(entry(1, 1, 1, 1), 3, false);
	read_all();
	assert_int_equal(seen[1].stacks, 1);
	sums_code_known(&code, number);
	call(entry(1, 1, 1, 1), 3, false);
	read_all();
	assert_int_equal(writer.nrows, 1);
	assert_int_equal(seen[1].calls, 4);
	assert_int_equal(seen[1].stacks, 2);
}

/* A row that is being written is read later, or when its writer is gone. */
static void a_row_in_the_making_waits(void **state)
{
	(void)state;
	call(entry(1, 1, 1, 1), 3, false);
	sums->row[0].seq++;
	assert_true(sums_read(sums, &reader, 3, 0, see, NULL));
	assert_int_equal(seen[1].calls, 0);
	assert_true(sums_changed(sums));
	sums->row[0].seq++;
	read_all();
	assert_int_equal(seen[1].calls, 1);
	call(entry(1, 1, 1, 1), 3, false);
	sums->row[0].seq++;
	assert_true(sums_read(sums, &reader, 3, SUMS_ENDED, see, NULL));
	assert_int_equal(seen[1].calls, 2);
}

/* A thread that takes the place of one that has ended, with another reader, who is not given what
 * was there. */
static void another_writer_begins_anew(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 5; i++)
		call(entry(i, 1, 1, 1), 3, false);
	read_all();
	memset(&writer, 0, sizeof(writer));
	memset(&reader, 0, sizeof(reader));
	sums_begin(sums, &writer, &code);
	struct sum_row *open = sums_enter(sums, &writer, entry(7, 1, 1, 1), true);
	read_all();
	sums_leave(sums, &writer, open, 0, 10, 0, false);
	read_all();
	assert_int_equal(seen[4].calls, 1);
	assert_int_equal(seen[7].calls, 1);
}

static void count(struct hit *h, void *arg)
{
	assert_true(h->size >= sizeof(*h) && h->size % 8 == 0);
	++*(unsigned *)arg;
}

/* The writer may have written anything over it. */
static void hostile_rows_are_noticed(void **state)
{
	unsigned n = 0;
	(void)state;
	call(entry(1, 1, 1, 1), 3, false);
	sums->nrows = SUMS_ROWS + 1;
	assert_false(sums_read(sums, &reader, 3, 0, count, &n));
	sums->nrows = 1;
	sums->row[0].at = SUMS_BYTES - 8;
	assert_false(sums_read(sums, &reader, 3, 0, count, &n));
	sums->row[0].at = 4;
	assert_false(sums_read(sums, &reader, 3, 0, count, &n));
	sums->row[0].at = 0;
	struct hit *h = (struct hit *)sums->record;
	for (uint32_t size = 0; size < 100000; size += 777) {
		h->size = size;
		assert_int_equal(sums_read(sums, &reader, 3, 0, count, &n),
				 size >= sizeof(*h) && size % 8 == 0 && size <= 16 << 10);
	}
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(calls_are_added_up_once),
	    TEST(detail_is_lost_before_calls),
	    TEST(room_comes_back),
	    TEST(freed_code_is_not_named),
	    TEST(another_writer_begins_anew),
	    TEST(a_row_in_the_making_waits),
	    TEST(hostile_rows_are_noticed),
	};
	return unit_run(tests, NULL, NULL);
}
