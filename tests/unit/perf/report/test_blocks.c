#include "tests/unit/unit.h"

#include "perf/report/blocks.h"
#include "tests/unit/sample_events.h"

static const struct op_desc enter = {.name = "profiler::_record_function_enter_new", .schema = ""},
			    leave = {.name = "profiler::_record_function_exit._RecordFunction",
				     .schema = ""};

static struct code_block ended[8];
static size_t nended;

static int note(void *arg, const struct code_block *b)
{
	(void)arg;
	ended[nended++] = *b;
	return 0;
}

static struct block_pairs pairs;
static struct code_blocks *sums;

static void mark(const struct op_desc *op, const char *name, const char *record, int tid,
		 uint64_t at)
{
	const struct value values[] = {
	    {.kind = VALUE_STRING, .count = (uint32_t)strlen(name), .str = name},
	    {.kind = VALUE_NOT_DECODED, .str = record}};
	const bool enters = op == &enter;
	const struct op_event ev = {.op = op,
				    .pid = 1,
				    .tid = tid,
				    .start_ns = at - 1,
				    .end_ns = at,
				    .args = enters ? values : values + 1,
				    .nargs = 1,
				    .results = enters ? values + 1 : NULL,
				    .nresults = enters};
	assert_int_equal(block_pairs_add(&pairs, &ev), 0);
	assert_int_equal(code_blocks_add(sums, &ev), 0);
}

#define RECORD "a block of record_function at 0x"

static void begin(const char *name, const char *record, uint64_t at)
{
	mark(&enter, name, record, 7, at);
}

static void end(const char *record, uint64_t at)
{
	mark(&leave, "", record, 7, at);
}

static void start(void)
{
	pairs = (struct block_pairs){.end = note};
	nended = 0;
	sums = code_blocks_new();
}

/* Finish; the row in CSV of the name. */
static char *finish(void)
{
	static char text[2048];
	const struct report_opts opts = {.sort = REPORT_BY_TOTAL};
	FILE *f = fmemopen(text, sizeof(text), "w");
	assert_int_equal(block_pairs_finish(&pairs), 0);
	assert_int_equal(code_blocks_finish(sums), 0);
	assert_int_equal(code_blocks_print_csv(f, sums, 1000, &opts), 0);
	fclose(f);
	code_blocks_free(sums);
	return text;
}

static void check(size_t i, const char *name, uint64_t from, uint64_t to, uint32_t lane)
{
	assert_string_equal(ended[i].name, name);
	assert_int_equal(ended[i].start_ns, from);
	assert_int_equal(ended[i].end_ns, to);
	assert_int_equal(ended[i].lane, lane);
}

static void test_nested(void **state)
{
	(void)state;
	start();
	begin("a", RECORD "1", 10);
	begin("a", RECORD "2", 20);
	end(RECORD "2", 30);
	mark(&leave, "", RECORD "1", 8, 50); /* by another thread */
	begin("a", RECORD "2", 60);
	end(RECORD "2", 70);
	const char *csv = finish();
	check(0, "a", 20, 30, 0);
	check(1, "a", 10, 50, 0);
	check(2, "a", 60, 70, 0);
	/* calls, unended, total: the inner one once */
	assert_non_null(strstr(csv, "\na,3,0,50,"));
	block_pairs_free(&pairs);
}

static void test_crossing(void **state)
{
	(void)state;
	start();
	begin("a", RECORD "1", 10);
	begin("b", RECORD "2", 20);
	end(RECORD "1", 30);
	begin("c", RECORD "1", 35);
	end(RECORD "2", 40);
	end(RECORD "1", 50);
	finish();
	check(0, "a", 10, 30, 1);
	check(1, "b", 20, 40, 2);
	check(2, "c", 35, 50, 0);
	assert_int_equal(ended[2].slot, 0);
	block_pairs_free(&pairs);
}

/* The end of the first was lost: its record is that of another block now. */
static void test_unknown(void **state)
{
	(void)state;
	start();
	end(RECORD "9", 5);
	begin("a", RECORD "1", 10);
	begin("a", RECORD "1", 20);
	end(RECORD "1", 30);
	begin("ProfilerStep#7", RECORD "3", 40);
	end(RECORD "3", 45);
	begin("b", "an object", 50);
	const char *csv = finish();
	check(0, "a", 10, 0, 0);
	check(1, "a", 20, 30, 0);
	check(2, "ProfilerStep#7", 40, 45, 0);
	assert_non_null(strstr(csv, "\na,1,1,10,"));
	assert_non_null(strstr(csv, "\nProfilerStep*,1,0,5,"));
	assert_int_equal(pairs.ends, 1);
	assert_int_equal(pairs.nameless, 1);
	assert_int_equal(nended, 3);
	block_pairs_free(&pairs);
}

static struct aggregate_totals sum_up(struct aggregate *a)
{
	static const struct op_desc empty = {.name = "aten::empty", .schema = ""};
	const struct op_event events[] = {
	    {.op = &empty, .depth = 1, .start_ns = 10, .end_ns = 20},
	    {.op = &enter, .start_ns = 5, .end_ns = 25, .child_ns = 10},
	    {.op = &empty, .start_ns = 30, .end_ns = 50},
	};
	struct aggregate_totals t;
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		assert_int_equal(aggregate_add(a, &events[i]), 0);
	aggregate_totals(a, &t);
	return t;
}

/* Nor is what they call nested in the next call of its row. */
static void test_marks_are_no_ops(void **state)
{
	size_t n;
	(void)state;
	struct aggregate *a = aggregate_new(AGGREGATE_DEFAULT);
	struct aggregate_totals t = sum_up(a);
	const struct aggregate_row *const *rows = aggregate_rows(a, &n);
	assert_int_equal(n, 1);
	assert_int_equal(rows[0]->calls, 2);
	assert_int_equal(rows[0]->total_ns, 30);
	assert_int_equal(t.events, 2);
	assert_int_equal(t.self_ns, 30);
	assert_int_equal(t.observed_ns, 45);
	aggregate_free(a);
	a = aggregate_new(AGGREGATE_DEFAULT | AGGREGATE_MARKS);
	t = sum_up(a);
	aggregate_rows(a, &n);
	assert_int_equal(n, 2);
	assert_int_equal(t.events, 3);
	assert_int_equal(t.self_ns, 40);
	aggregate_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_nested),
	    cmocka_unit_test(test_crossing),
	    cmocka_unit_test(test_unknown),
	    cmocka_unit_test(test_marks_are_no_ops),
	};
	return unit_run(tests, NULL, NULL);
}
