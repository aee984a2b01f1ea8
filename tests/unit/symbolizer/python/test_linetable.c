#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <jansson.h>

#include "symbolizer/python/internal.h"
#include "tests/unit/pythons.h"

static struct linetable_pos pos;

#define LOOKUP(kind, first, lasti, ...)                                                            \
	linetable_lookup(kind, (const uint8_t[]){__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__}),   \
			 first, lasti, &pos)

static void assert_nowhere(void)
{
	assert_int_equal(pos.line, 0);
	assert_int_equal(pos.end_line, 0);
	assert_int_equal(pos.column, -1);
	assert_int_equal(pos.end_column, -1);
}

static void assert_line(int32_t line)
{
	assert_int_equal(pos.line, line);
	assert_int_equal(pos.end_line, 0);
	assert_int_equal(pos.column, -1);
	assert_int_equal(pos.end_column, -1);
}

static void assert_pos(int32_t line, int32_t end_line, int32_t column, int32_t end_column)
{
	assert_int_equal(pos.line, line);
	assert_int_equal(pos.end_line, end_line);
	assert_int_equal(pos.column, column);
	assert_int_equal(pos.end_column, end_column);
}

static void test_lnotab(void **state)
{
	(void)state;
	assert_int_equal(LOOKUP(LINETABLE_LNOTAB, 10, 0, 6, 1, 4, 0xff, 2, 127, 0, 3), 0);
	assert_line(10);
	assert_int_equal(LOOKUP(LINETABLE_LNOTAB, 10, 6, 6, 1, 4, 0xff, 2, 127, 0, 3), 0);
	assert_line(11);
	assert_int_equal(LOOKUP(LINETABLE_LNOTAB, 10, 11, 6, 1, 4, 0xff, 2, 127, 0, 3), 0);
	assert_line(10);
	assert_int_equal(LOOKUP(LINETABLE_LNOTAB, 10, 999, 6, 1, 4, 0xff, 2, 127, 0, 3), 0);
	assert_line(140);
	assert_int_equal(LOOKUP(LINETABLE_LNOTAB, 10, -1, 0, 1), 0);
	assert_line(10);
	/* A trailing odd byte is not an entry. */
	assert_int_equal(LOOKUP(LINETABLE_LNOTAB, 10, 999, 6, 1, 4), 0);
	assert_line(11);
	assert_int_equal(linetable_lookup(LINETABLE_LNOTAB, NULL, 0, 7, 4, &pos), 0);
	assert_line(7);
	assert_int_equal(LOOKUP(LINETABLE_LNOTAB, 1, 4, 0, 0x80), -EPROTO);
	assert_nowhere();
}

static void test_pep626(void **state)
{
	(void)state;
	/* Two instructions on line 5, one without a line, one on 6; then 300 lines further in three
	 * steps. */
	assert_int_equal(LOOKUP(LINETABLE_PEP626, 5, 2, 4, 0, 2, 0x80, 2, 1), 0);
	assert_line(5);
	assert_int_equal(LOOKUP(LINETABLE_PEP626, 5, 4, 4, 0, 2, 0x80, 2, 1), 0);
	assert_nowhere();
	assert_int_equal(LOOKUP(LINETABLE_PEP626, 5, 6, 4, 0, 2, 0x80, 2, 1), 0);
	assert_line(6);
	assert_int_equal(LOOKUP(LINETABLE_PEP626, 5, 0, 0, 127, 0, 127, 2, 46), 0);
	assert_line(305);
	assert_int_equal(LOOKUP(LINETABLE_PEP626, 5, 8, 4, 0, 2, 0x80, 2, 1), -ENODATA);
	assert_nowhere();
	assert_int_equal(LOOKUP(LINETABLE_PEP626, 5, 8, 4, 0, 2), -EPROTO);
	assert_nowhere();
	assert_int_equal(LOOKUP(LINETABLE_PEP626, 5, 0, 2, 0x81), -EPROTO);
	assert_nowhere();
}

/* First byte of an entry: its code and the number of code units it covers. */
#define ENTRY(code, units) (uint8_t)(0x80 | (code) << 3 | ((units)-1))

static void test_positions(void **state)
{
	(void)state;
	assert_int_equal(LOOKUP(LINETABLE_POSITIONS, 20, 2, ENTRY(3, 2), 0x25), 0);
	assert_pos(20, 20, 26, 31);
	assert_int_equal(LOOKUP(LINETABLE_POSITIONS, 20, 0, ENTRY(12, 1), 200, 255), 0);
	assert_pos(22, 22, 200, 255);
	/* Two lines back without columns, then none, then a long form. */
	assert_int_equal(LOOKUP(LINETABLE_POSITIONS, 20, 0, ENTRY(13, 1), 5), 0);
	assert_pos(18, 18, -1, -1);
	assert_int_equal(LOOKUP(LINETABLE_POSITIONS, 20, 2, ENTRY(13, 1), 5, ENTRY(15, 8)), 0);
	assert_nowhere();
	assert_int_equal(LOOKUP(LINETABLE_POSITIONS, 20, 16, ENTRY(15, 8), ENTRY(14, 1), 0x40 | 8,
				3, 7, 0x40 | 1, 5, 0),
			 0);
	assert_pos(120, 127, 320, -1);
	/* A module starts at line 0. */
	assert_int_equal(LOOKUP(LINETABLE_POSITIONS, 1, 0, ENTRY(11, 1), 0, 0), 0);
	assert_pos(2, 2, 0, 0);
	assert_int_equal(LOOKUP(LINETABLE_POSITIONS, 1, 0, ENTRY(14, 1), 3, 1, 1, 1), 0);
	assert_nowhere();
}

static void test_positions_bad(void **state)
{
	(void)state;
	assert_int_equal(LOOKUP(LINETABLE_POSITIONS, 20, 4, ENTRY(3, 2), 0x25), -ENODATA);
	assert_nowhere();
	assert_int_equal(LOOKUP(LINETABLE_POSITIONS, 20, 0, ENTRY(3, 2)), -EPROTO);
	assert_int_equal(LOOKUP(LINETABLE_POSITIONS, 20, 0, ENTRY(14, 1), 0x40, 0x40), -EPROTO);
	assert_int_equal(LOOKUP(LINETABLE_POSITIONS, 20, 0, 0x05, 0x25), -EPROTO);
	/* More bits than a line has. */
	assert_int_equal(
	    LOOKUP(LINETABLE_POSITIONS, 20, 0, ENTRY(13, 1), 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x3f),
	    -EPROTO);
	assert_int_equal(LOOKUP(LINETABLE_POSITIONS, 20, 0, ENTRY(13, 1), 0x40, 0x40, 0x40, 0x40,
				0x40, 0x40, 0x40, 0x40, 0x40, 0),
			 -EPROTO);
	assert_int_equal(LOOKUP(LINETABLE_POSITIONS, INT32_MAX, 0, ENTRY(11, 1), 0, 1), -EPROTO);
	assert_nowhere();
	assert_int_equal(LOOKUP(LINETABLE_POSITIONS, 2, 0, ENTRY(13, 1), 7), -EPROTO);
	assert_nowhere();
	assert_int_equal(LOOKUP(77, 2, 0, 1, 2), -EPROTO);
	assert_nowhere();
}

static int32_t number(const json_t *truth, size_t i, int32_t none)
{
	const json_t *v = json_array_get(truth, i);

	assert_non_null(v);
	return json_is_integer(v) ? (int32_t)json_integer_value(v) : none;
}

static size_t from_hex(const char *hex, uint8_t *out)
{
	size_t n = strlen(hex) / 2;

	for (size_t i = 0; i < n; i++)
		assert_int_equal(sscanf(hex + 2 * i, "%2hhx", &out[i]), 1);
	return n;
}

/* Compare with the interpreter for one range of instructions. */
static void check_range(int minor, const uint8_t *table, size_t len, int32_t first, const json_t *t)
{
	const enum linetable_kind kind = minor < 10    ? LINETABLE_LNOTAB
					 : minor == 10 ? LINETABLE_PEP626
						       : LINETABLE_POSITIONS;
	int32_t line = number(t, 2, 0);

	for (int32_t at = number(t, 0, -1); at < number(t, 1, -1); at += 2) {
		assert_int_equal(linetable_lookup(kind, table, len, first, at, &pos), 0);
		if (minor >= 11 && line)
			assert_pos(line, number(t, 3, 0), number(t, 4, -1), number(t, 5, -1));
		else
			assert_line(line);
	}
}

static size_t check_code(int minor, const json_t *code)
{
	const char *hex = json_string_value(json_object_get(code, "table"));
	int32_t first = (int32_t)json_integer_value(json_object_get(code, "first"));
	const json_t *truth = json_object_get(code, "truth"), *t;
	uint8_t *table;
	size_t len, i;

	assert_non_null(hex);
	table = malloc(strlen(hex) / 2 + 1);
	assert_non_null(table);
	len = from_hex(hex, table);
	json_array_foreach(truth, i, t) check_range(minor, table, len, first, t);
	free(table);
	return json_array_size(truth);
}

static void check_interpreter(const char *path, int minor)
{
	const char *const argv[] = {path, "tests/workloads/symbolizer/py_lines.py", NULL};
	struct python p = python_start(argv);
	size_t codes = 0, ranges = 0, size = 0;
	char *line = NULL;

	assert_non_null(p.out);
	while (getline(&line, &size, p.out) > 0) {
		json_t *code = json_loads(line, 0, NULL);

		assert_non_null(code);
		ranges += check_code(minor, code);
		codes++;
		json_decref(code);
	}
	free(line);
	assert_int_equal(python_stop(&p, 0), 0);
	print_message("# %s: %zu code objects, %zu ranges\n", path, codes, ranges);
	assert_true(codes > 100 && ranges > 1000);
}

static void check_version(const struct pythons *found, int minor)
{
	check_interpreter(found->path[0], minor);
}

PYTHON_TESTS(check_version)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lnotab),    cmocka_unit_test(test_pep626),
	    cmocka_unit_test(test_positions), cmocka_unit_test(test_positions_bad),
	    cmocka_unit_test(test_3_8),	      cmocka_unit_test(test_3_9),
	    cmocka_unit_test(test_3_10),      cmocka_unit_test(test_3_11),
	    cmocka_unit_test(test_3_12),      cmocka_unit_test(test_3_13),
	};

	return unit_run(tests, NULL, NULL);
}
