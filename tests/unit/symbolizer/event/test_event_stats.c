
#include "tests/unit/unit.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "perf/events/print_event.h"
#include "perf/report/report.h"
#include "perf/trace/internal.h"
#include "perf/trace/trace_read.h"
#include "perf/trace/trace_write.h"
#include "tests/unit/sample_events.h"

static const struct stats floats = {.count = 24,
				    .nan = 1,
				    .pos_inf = 2,
				    .neg_inf = 3,
				    .zeros = 4,
				    .min = -INFINITY,
				    .max = INFINITY,
				    .mean = 0.5,
				    .std = 0.25,
				    .l2 = 1e300,
				    .is_numeric = true,
				    .hash = 0xfedcba9876543210};
static const struct stats ints = {.count = 2,
				  .min = (double)INT64_MIN,
				  .max = (double)INT64_MAX,
				  .mean = -0.5,
				  .std = NAN,
				  .l2 = 2,
				  .is_int = true,
				  .min_int = INT64_MIN,
				  .max_int = INT64_MAX,
				  .is_numeric = true,
				  .hash = 1};
static const struct stats uints = {.count = 1,
				   .min = 18446744073709551615.0,
				   .max = 18446744073709551615.0,
				   .mean = 1,
				   .std = NAN,
				   .l2 = 1,
				   .is_int = true,
				   .is_unsigned = true,
				   .min_int = -1,
				   .max_int = -1,
				   .is_numeric = true};
static const struct stats no_ints = {.min = NAN,
				     .max = NAN,
				     .mean = NAN,
				     .std = NAN,
				     .is_int = true,
				     .is_numeric = true,
				     .hash = 77};
static const struct stats no_numbers = {
    .count = 9, .min = NAN, .max = NAN, .mean = NAN, .std = NAN, .l2 = NAN, .hash = 5};

/* For sample_full_event: arguments 0, 1 and the first of the list 2; the result is a tensor. */
static const struct event_stats *sample_stats(void)
{
	static struct tensor_stats rows[4];
	static const struct event_stats all = {.rows = rows, .n = 4};
	rows[0] = (struct tensor_stats){.stats = floats};
	rows[1] = (struct tensor_stats){.place = {.value = 1}, .why = "memory on a \x1b device"};
	rows[2] = (struct tensor_stats){.place = {.value = 2}, .stats = ints};
	rows[3] = (struct tensor_stats){.place = {.is_result = true}, .stats = floats};
	return &all;
}

static bool same_double(double a, double b)
{
	return (isnan(a) && isnan(b)) || a == b;
}

static void same_stats(const struct stats *a, const struct stats *b)
{
	assert_int_equal(a->count, b->count);
	assert_int_equal(a->nan, b->nan);
	assert_int_equal(a->pos_inf, b->pos_inf);
	assert_int_equal(a->neg_inf, b->neg_inf);
	assert_int_equal(a->zeros, b->zeros);
	assert_true(same_double(a->min, b->min) && same_double(a->max, b->max));
	assert_true(same_double(a->mean, b->mean) && same_double(a->std, b->std));
	assert_true(same_double(a->l2, b->l2));
	assert_int_equal(a->is_int, b->is_int);
	assert_int_equal(a->is_unsigned, b->is_unsigned);
	assert_int_equal(a->is_numeric, b->is_numeric);
	assert_int_equal(a->min_int, b->min_int);
	assert_int_equal(a->max_int, b->max_int);
	assert_int_equal(a->hash, b->hash);
}

static void same_rows(const struct event_stats *a, const struct event_stats *b)
{
	assert_non_null(a);
	assert_int_equal(a->n, b->n);
	for (uint32_t i = 0; i < a->n; i++) {
		assert_int_equal(tensor_place_compare(&a->rows[i].place, &b->rows[i].place), 0);
		assert_int_equal(!a->rows[i].why, !b->rows[i].why);
		if (a->rows[i].why)
			assert_string_equal(a->rows[i].why, b->rows[i].why);
		else
			same_stats(&a->rows[i].stats, &b->rows[i].stats);
	}
}

static struct op_event measured(void)
{
	struct op_event ev = sample_full_event();
	ev.thrown = false;
	ev.stats = sample_stats();
	return ev;
}

static void note_place(const struct tensor *t, const struct tensor_place *place, void *arg)
{
	char *out = arg;
	size_t n = strlen(out);
	assert_non_null(t);
	snprintf(out + n, 200 - n, "%s%u.%u ", place->is_result ? "r" : "a", place->value,
		 place->tensor);
}

static void tensors_have_places(void **state)
{
	(void)state;
	char seen[200] = "";
	struct value nested[] = {{.kind = VALUE_LIST, .count = 3, .items = sample_list},
				 {.kind = VALUE_TENSOR, .tensor = &sample_tensor}};
	struct value all[] = {{.kind = VALUE_INT},
			      {.kind = VALUE_LIST, .count = 2, .items = nested}};
	struct op_event ev = measured();
	event_each_tensor(&ev, false, note_place, seen);
	assert_string_equal(seen, "a0.0 a1.0 a2.0 ");
	ev.results = all;
	ev.nresults = 2;
	seen[0] = '\0';
	event_each_tensor(&ev, true, note_place, seen);
	assert_string_equal(seen, "r1.0 r1.1 ");
}

static void encode(const struct event_stats *s, uint8_t *buf, size_t size, struct in *in)
{
	struct out o = {.p = buf, .end = buf + size};
	trace_encode_stats(&o, s);
	assert_false(o.full);
	*in = (struct in){.p = buf, .end = o.p};
}

static void every_kind_of_row_comes_back(void **state)
{
	(void)state;
	const struct tensor_stats rows[] = {
	    {.place = {.value = 0}, .stats = floats},
	    {.place = {.value = 0, .tensor = 7}, .stats = ints},
	    {.place = {.value = 300}, .stats = uints},
	    {.place = {.is_result = true}, .stats = no_ints},
	    {.place = {.is_result = true, .value = 1}, .stats = no_numbers},
	    {.place = {.is_result = true, .value = 1, .tensor = 1}, .why = ""},
	};
	const struct event_stats s = {.rows = rows, .n = 6};
	uint8_t buf[1024];
	struct in in;
	struct arena a = {0};
	encode(&s, buf, sizeof(buf), &in);
	same_rows(trace_decode_stats(&in, &a), &s);
	assert_false(in.bad);
	assert_ptr_equal(in.p, in.end);
	arena_free(&a);
}

static void a_cut_row_is_bad(void **state)
{
	(void)state;
	uint8_t buf[1024];
	struct in whole;
	encode(sample_stats(), buf, sizeof(buf), &whole);
	for (const uint8_t *end = buf + 1; end < whole.end; end++) {
		struct arena a = {0};
		struct in in = {.p = buf, .end = end};
		assert_null(trace_decode_stats(&in, &a));
		assert_true(in.bad);
		arena_free(&a);
	}
}

static void nonsense_is_bad(void **state)
{
	(void)state;
	struct tensor_stats rows[] = {{.place = {.value = 3}, .why = "x"},
				      {.place = {.value = 3}, .why = "x"}};
	const struct event_stats twice = {.rows = rows, .n = 2};
	uint8_t buf[1024];
	struct in in;
	struct arena a = {0};
	encode(&twice, buf, sizeof(buf), &in);
	assert_null(trace_decode_stats(&in, &a));
	assert_true(in.bad);
	uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0};
	in = (struct in){.p = huge, .end = huge + sizeof(huge)};
	assert_null(trace_decode_stats(&in, &a));
	assert_true(in.bad);
	arena_free(&a);
}

static void padding_is_no_statistics(void **state)
{
	(void)state;
	uint8_t zeros[8] = {0};
	struct arena a = {0};
	for (unsigned n = 0; n < 8; n++) {
		struct in in = {.p = zeros, .end = zeros + n};
		assert_null(trace_decode_stats(&in, &a));
		assert_false(in.bad);
	}
	arena_free(&a);
}

static void next_event(struct trace_order *o, struct trace_item *item)
{
	struct err e = {0};
	do {
		if (trace_order_next(o, item, &e) != 1)
			fail_msg("%s", e.what);
	} while (item->type != TRACE_EVENT);
}

/* In the file the inner op comes first; after reordering each op has its own statistics. */
static void statistics_stay_with_their_event(void **state)
{
	(void)state;
	char path[64];
	snprintf(path, sizeof(path), "/tmp/ditrace-stats-%d.data", (int)getpid());
	const struct tensor_stats inner_rows[] = {{.place = {.value = 1}, .stats = ints}};
	const struct event_stats inner_stats = {.rows = inner_rows, .n = 1};
	struct op_event outer = measured(), inner = sample_event(6, 5, 1, 1000100, 1000200),
			plain = sample_event(7, 0, 0, 2000000, 2000001);
	struct trace_writer *w;
	struct trace_reader *r;
	struct trace_item item;
	inner.stats = &inner_stats;
	assert_int_equal(trace_writer_open(path, &w, NULL), 0);
	assert_int_equal(trace_write_event(w, &inner), 0);
	assert_int_equal(trace_write_event(w, &outer), 0);
	assert_int_equal(trace_write_event(w, &plain), 0);
	assert_int_equal(trace_writer_close(w, true), 0);
	assert_int_equal(trace_reader_open(path, &r, NULL), 0);
	struct trace_order *o = trace_order_new(r, false);
	next_event(o, &item);
	assert_int_equal(item.event.id, 5);
	same_rows(item.event.stats, sample_stats());
	next_event(o, &item);
	assert_int_equal(item.event.id, 6);
	same_rows(item.event.stats, &inner_stats);
	next_event(o, &item);
	assert_int_equal(item.event.id, 7);
	assert_null(item.event.stats);
	trace_order_free(o);
	trace_reader_close(r);
	unlink(path);
}

/* The event is kept if its statistics do not fit. */
static void too_many_statistics_are_left_out(void **state)
{
	(void)state;
	enum { ROWS = 20000 };
	char path[64];
	snprintf(path, sizeof(path), "/tmp/ditrace-stats-%d.data", (int)getpid());
	struct tensor_stats *rows = calloc(ROWS, sizeof(*rows));
	for (uint32_t i = 0; i < ROWS; i++)
		rows[i] = (struct tensor_stats){.place.tensor = i, .stats = floats};
	const struct event_stats many = {.rows = rows, .n = ROWS};
	struct op_event ev = measured();
	struct trace_writer *w;
	struct trace_reader *r;
	struct trace_item item;
	ev.stats = &many;
	assert_int_equal(trace_writer_open(path, &w, NULL), 0);
	assert_int_equal(trace_write_event(w, &ev), 0);
	assert_int_equal(trace_writer_close(w, true), 0);
	assert_int_equal(trace_reader_open(path, &r, NULL), 0);
	struct trace_order *o = trace_order_new(r, false);
	next_event(o, &item);
	assert_null(item.event.stats);
	assert_int_equal(item.event.nargs, SAMPLE_NARGS);
	assert_int_equal(item.event.args[0].kind, VALUE_TENSOR);
	trace_order_free(o);
	trace_reader_close(r);
	unlink(path);
	free(rows);
}

static char *printed(const struct op_event *ev)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	struct event_printer *p = event_printer_new(f);
	assert_int_equal(event_print(p, ev), 0);
	event_printer_free(p);
	fclose(f);
	return text;
}

/* Squeeze runs of spaces to one. */
static void squeeze(char *text)
{
	char *to = text;
	for (const char *p = text; *p; p++)
		if (*p != ' ' || p[1] != ' ')
			*to++ = *p;
	*to = '\0';
}

static void has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no \"%s\" in\n%s", part, text);
}

static void the_table_stands_below_the_event(void **state)
{
	(void)state;
	struct op_event ev = measured();
	char *text = printed(&ev);
	squeeze(text);
	has(text,
	    "| name | inf_or_nan | min | max | mean | std | norm | nan | inf | -inf | zeros | "
	    "hash |\n");
	has(text, "| self | True | -inf | inf | 0.5 | 0.25 | 1e+300 | 1 | 2 | 3 | 4 | "
		  "fedcba9876543210 |\n");
	has(text, "| other | memory on a \\x1b device | | | | | | | | | | |\n");
	has(text,
	    "| tensors[0] | False | -9223372036854775808 | 9223372036854775807 | -0.5 | nan | "
	    "2 | 0 | 0 | 0 | 0 | 0000000000000001 |\n");
	has(text, "| outputs | True |");
	free(text);
	ev.stats = NULL;
	text = printed(&ev);
	assert_null(strstr(text, "inf_or_nan"));
	free(text);
}

static json_t *json_of(const struct op_event *ev)
{
	char *text;
	size_t len;
	json_error_t e;
	FILE *f = open_memstream(&text, &len);
	json_stats(f, ev);
	fclose(f);
	json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &e);
	if (!j)
		fail_msg("%s at %d in %s", e.text, e.position, text);
	free(text);
	return j;
}

static void as_json(void **state)
{
	(void)state;
	struct op_event ev = measured();
	json_t *j = json_of(&ev), *all = json_object_get(j, "tensors");
	assert_int_equal(json_integer_value(json_object_get(j, "stats_of")), 5);
	assert_int_equal(json_array_size(all), 4);
	json_t *self = json_array_get(all, 0), *list = json_array_get(all, 2);
	assert_string_equal(json_string_value(json_object_get(self, "name")), "self");
	assert_string_equal(json_string_value(json_object_get(self, "of")), "args");
	assert_string_equal(json_string_value(json_object_get(self, "min")), "-inf");
	assert_true(json_real_value(json_object_get(self, "norm")) == 1e300);
	assert_int_equal(json_integer_value(json_object_get(self, "neg_inf")), 3);
	assert_string_equal(json_string_value(json_object_get(self, "hash")), "fedcba9876543210");
	assert_string_equal(json_string_value(json_object_get(json_array_get(all, 1), "reason")),
			    "memory on a \x1b device");
	assert_string_equal(json_string_value(json_object_get(list, "name")), "tensors[0]");
	assert_int_equal(json_integer_value(json_object_get(list, "min")), INT64_MIN);
	assert_int_equal(json_integer_value(json_object_get(list, "max")), INT64_MAX);
	assert_string_equal(json_string_value(json_object_get(json_array_get(all, 3), "of")),
			    "results");
	json_decref(j);
}

static void add_bad(struct overflow *o, const struct op_desc *op, uint64_t nan, uint64_t inf)
{
	struct tensor_stats row = {.place.is_result = true, .stats = floats};
	struct event_stats s = {.rows = &row, .n = 1};
	struct op_event ev = sample_event(3, 0, 0, 10, 20);
	row.stats.nan = nan;
	row.stats.pos_inf = inf;
	row.stats.neg_inf = 0;
	ev.op = op;
	ev.stats = &s;
	assert_int_equal(overflow_add(o, &ev), 0);
}

static char *table_of(const struct overflow *o, size_t limit)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	assert_int_equal(overflow_print(o, f, limit, (struct terminal){0}), 0);
	fclose(f);
	return text;
}

static void the_worst_come_first(void **state)
{
	(void)state;
	struct op_desc infinite = sample_add, worst = sample_add, fine = sample_add,
		       empty = sample_add, sum = sample_add;
	struct overflow *o = overflow_new();
	infinite.name = "aten::infinite";
	worst.name = "aten::worst";
	fine.name = "aten::fine";
	empty.name = "aten::new_empty";
	sum.name = "torch::autograd::AccumulateGrad";
	char *text = table_of(o, 0);
	has(text, "measured 0 calls: no NaN and no infinity");
	free(text);
	add_bad(o, &infinite, 0, 1000000);
	add_bad(o, &worst, 1, 0);
	add_bad(o, &worst, 2, 5);
	add_bad(o, &fine, 0, 0);
	add_bad(o, &empty, 9, 9);
	struct op_event ev = measured(), plain = sample_event(9, 0, 0, 30, 40);
	struct op_desc sample = sample_op;
	assert_true(event_gave_view(&ev)); /* its result is its argument */
	sample.flags = OP_INPLACE;
	ev.op = &sample;
	assert_false(event_gave_view(&ev));
	assert_int_equal(overflow_add(o, &ev), 0);
	assert_int_equal(overflow_add(o, &plain), 0);
	assert_int_equal(overflow_measured(o), 6);
	text = table_of(o, 2);
	has(text, "measured 6 calls: NaN or infinities came out of\n");
	has(text, "    2    3     5     0         3  aten::worst");
	has(text, "train.py:13 forward: q = self.qkv(x)\n");
	has(text, "    1    1     2     3         5  aten::sample.Tensor");
	has(text, "and 1 more row\n");
	has(text, "not measured: 1 tensor: memory on a \\x1b device\n");
	assert_true(strstr(text, "aten::worst") < strstr(text, "aten::sample"));
	assert_null(strstr(text, "aten::fine"));
	assert_null(strstr(text, "empty"));
	free(text);
	text = table_of(o, 0);
	has(text, "1,000,000     0         3  aten::infinite");
	free(text);
	add_bad(o, &sum, 100, 0);
	text = table_of(o, 1);
	has(text, "    1  100     0     0         3  gradient accumulation  train.py:13");
	free(text);
	overflow_free(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tensors_have_places),
	    cmocka_unit_test(every_kind_of_row_comes_back),
	    cmocka_unit_test(a_cut_row_is_bad),
	    cmocka_unit_test(nonsense_is_bad),
	    cmocka_unit_test(padding_is_no_statistics),
	    cmocka_unit_test(statistics_stay_with_their_event),
	    cmocka_unit_test(too_many_statistics_are_left_out),
	    cmocka_unit_test(the_table_stands_below_the_event),
	    cmocka_unit_test(as_json),
	    cmocka_unit_test(the_worst_come_first),
	};
	return unit_run(tests, NULL, NULL);
}
