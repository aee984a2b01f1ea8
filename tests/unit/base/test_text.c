
#include "tests/unit/unit.h"

#include <float.h>
#include <locale.h>
#include <math.h>

#include "base/table.h"
#include "base/text.h"

static const struct {
	const char *in, *out;
} safe_cases[] = {
    {"", ""},
    {"train.py", "train.py"},
    {"a\x1b[31mb\x07", "a\\x1b[31mb\\x07"},
    {"tab\tnewline\n", "tab\\x09newline\\x0a"},
    {"\x7f\xc2\x9b", "\\x7f\\xc2\\x9b"},		/* DEL and CSI of the C1 range */
    {"\xe2\x80\xae", "\\xe2\\x80\\xae"},		/* right-to-left override */
    {"\xe2\x80\x8e", "\\xe2\\x80\\x8e"},		/* left-to-right mark */
    {"\xe2\x80\x8f", "\\xe2\\x80\\x8f"},		/* right-to-left mark */
    {"\xd8\x9c", "\\xd8\\x9c"},				/* Arabic letter mark */
    {"\xe2\x80\xa8", "\\xe2\\x80\\xa8"},		/* line separator */
    {"\xe2\x80\xa9", "\\xe2\\x80\\xa9"},		/* paragraph separator */
    {"\xe2\x80\x8d", "\xe2\x80\x8d"},			/* zero width joiner, of emoji */
    {"\xff\xfe caf\xc3\xa9", "\\xff\\xfe caf\xc3\xa9"}, /* not UTF-8, and UTF-8 */
    {"\xc0\xaf", "\\xc0\\xaf"},				/* overlong */
    {"\xe6\xbc\xa2\xf0\x9f\x98\x80", "\xe6\xbc\xa2\xf0\x9f\x98\x80"},
};

static void control_characters_are_shown(void **state)
{
	(void)state;
	char out[256];
	for (size_t i = 0; i < sizeof(safe_cases) / sizeof(safe_cases[0]); i++) {
		assert_int_equal(text_safe(out, sizeof(out), safe_cases[i].in),
				 strlen(safe_cases[i].out));
		assert_string_equal(out, safe_cases[i].out);
	}
}

static void printing_makes_safe_too(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(safe_cases) / sizeof(safe_cases[0]); i++) {
		char *text;
		size_t len;
		FILE *f = open_memstream(&text, &len);
		text_print_safe(f, safe_cases[i].in);
		fclose(f);
		assert_string_equal(text, safe_cases[i].out);
		free(text);
	}
}

/* Longer than any internal buffer, with a multibyte character at every place where it could be cut.
 */
static void long_strings_are_not_cut(void **state)
{
	(void)state;
	for (size_t shift = 0; shift < 8; shift++) {
		char in[512] = "", *text;
		size_t len;
		memset(in, 'x', shift);
		while (strlen(in) < 480)
			strcat(in, "\xe6\xbc\xa2\xf0\x9f\x98\x80\xc3\xa9z");
		FILE *f = open_memstream(&text, &len);
		text_print_safe(f, in);
		fclose(f);
		assert_string_equal(text, in);
		free(text);
	}
}

static void what_does_not_fit_is_cut_whole(void **state)
{
	(void)state;
	char out[8];
	assert_int_equal(text_safe(out, 5, "ab\xe6\xbc\xa2"), 2);
	assert_string_equal(out, "ab");
	assert_int_equal(text_safe(out, 6, "ab\xe6\xbc\xa2"), 5);
	assert_int_equal(text_safe(out, 5, "ab\x1b"), 2);
	assert_string_equal(out, "ab");
	assert_int_equal(text_safe(out, 1, "ab"), 0);
	assert_string_equal(out, "");
}

static void parts_of_characters_are_dropped(void **state)
{
	static const struct {
		const char *cut, *whole;
	} cases[] = {
	    {"", ""},
	    {"plain", "plain"},
	    {"caf\xc3", "caf"},
	    {"caf\xc3\xa9", "caf\xc3\xa9"},
	    {"\xe2\x82", ""},
	    {"a\xe2\x82\xac", "a\xe2\x82\xac"},
	    {"a\xf0\x9f\x98", "a"},
	    {"a\xf0\x9f", "a"},
	    {"a\xf0\x9f\x98\x80", "a\xf0\x9f\x98\x80"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[16];
		snprintf(text, sizeof(text), "%s", cases[i].cut);
		text_drop_part(text);
		assert_string_equal(text, cases[i].whole);
	}
}

static void widths(void **state)
{
	(void)state;
	assert_int_equal(text_width(""), 0);
	assert_int_equal(text_width("train.py"), 8);
	assert_int_equal(text_width("caf\xc3\xa9"), 4);
	if (setlocale(LC_CTYPE, "C.UTF-8"))
		assert_int_equal(text_width("\xe6\xbc\xa2"), 2);
}

static void base_names(void **state)
{
	static const char *const cases[][2] = {
	    {"train.py", "train.py"},
	    {"/a/b/train.py", "train.py"},
	    {"a/train.py", "train.py"},
	    {"a/", "a/"},
	    {"/", "/"},
	    {"", ""},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(text_base_name(cases[i][0]), cases[i][1]);
}

static void counts(void **state)
{
	(void)state;
	char out[27];
	assert_string_equal(text_count(out, sizeof(out), 0), "0");
	assert_string_equal(text_count(out, sizeof(out), 999), "999");
	assert_string_equal(text_count(out, sizeof(out), 1000), "1,000");
	assert_string_equal(text_count(out, sizeof(out), 361204), "361,204");
	assert_string_equal(text_count(out, sizeof(out), UINT64_MAX), "18,446,744,073,709,551,615");
}

static void counts_with_a_word(void **state)
{
	(void)state;
	char out[40];
	assert_string_equal(text_counted(out, sizeof(out), 0, "op"), "0 ops");
	assert_string_equal(text_counted(out, sizeof(out), 1, "op"), "1 op");
	assert_string_equal(text_counted(out, sizeof(out), 1234, "more row"), "1,234 more rows");
	assert_string_equal(text_counted(out, 4, 1234, "op"), "1,2");
}

static void durations(void **state)
{
	(void)state;
	static const struct {
		uint64_t ns;
		const char *out;
	} cases[] = {
	    {0, "0 ns"},
	    {999, "999 ns"},
	    {1000, "1.0 us"},
	    {9949, "9.9 us"},
	    {9950, "10 us"},
	    {412000, "412 us"},
	    {999499, "999 us"},
	    {999500, "1.0 ms"},
	    {1900000, "1.9 ms"},
	    {12345678, "12 ms"},
	    {999500000, "1.0 s"},
	    {12400000000, "12.4 s"},
	    {3600000000000, "3600.0 s"},
	};
	char out[32];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(text_ns(out, sizeof(out), cases[i].ns), cases[i].out);
}

static void sizes(void **state)
{
	(void)state;
	char out[32];
	assert_string_equal(text_bytes(out, sizeof(out), 512), "512 B");
	assert_string_equal(text_bytes(out, sizeof(out), 1024), "1.0 KiB");
	assert_string_equal(text_bytes(out, sizeof(out), 12373196), "11.8 MiB");
	assert_string_equal(text_bytes(out, sizeof(out), UINT64_MAX), "16.0 EiB");
}

static char *printed(const struct table *t, int width, bool color)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	assert_int_equal(table_print(t, f, width, color), 0);
	fclose(f);
	return text;
}

static struct table *sample_table(void)
{
	struct table *t = table_new();
	table_columns(t, ">Calls|Where");
	table_cell_styled(t, "1,200", TABLE_HOT);
	table_cell(t, "train.py:19 caf\xc3\xa9 forward");
	table_line(t, "backward");
	table_cell(t, "7");
	table_cell(t, "x");
	return t;
}

static void columns_line_up(void **state)
{
	(void)state;
	struct table *t = sample_table();
	char *text = printed(t, 0, false);
	assert_string_equal(text, "Calls  Where\n"
				  "1,200  train.py:19 caf\xc3\xa9 forward\n"
				  "backward\n"
				  "    7  x\n");
	free(text);
	text = printed(t, 24, true);
	assert_string_equal(text, "Calls  Where\n"
				  "\033[1;31m1,200\033[0m  train.py:19 caf\xc3\xa9\xe2\x80\xa6\n"
				  "backward\n"
				  "    7  x\n");
	free(text);
	table_free(t);
}

/* Optional columns of a high order give way first, then long names, then the others. */
static void columns_give_way(void **state)
{
	(void)state;
	struct table *t = table_new();
	table_column(t, "Self", TABLE_RIGHT);
	table_column_optional(t, "Calls", TABLE_RIGHT, 2);
	table_column_optional(t, "Max", TABLE_RIGHT, TABLE_ORDER_SOON);
	table_column(t, "Op", TABLE_LEFT);
	table_column(t, "Where", TABLE_LEFT);
	table_cell(t, "9.0%");
	table_cell(t, "1,200");
	table_cell(t, "9 ms");
	table_cell(t, "a_long_name_of_27_characters");
	table_cell(t, "train.py:19 forward: y = f(x)");
	static const struct {
		int width;
		const char *row;
	} want[] = {
	    {78, "9.0%  1,200  9 ms  a_long_name_of_27_characters  train.py:19 forward: y = f(x)"},
	    {70, "9.0%  1,200  a_long_name_of_27_characters  train.py:19 forward: y = f…"},
	    {60, "9.0%  1,200  a_long_name_of_27_ch…  train.py:19 forward: y …"},
	    {56, "9.0%  a_long_name_of_27_c…  train.py:19 forward: y = f(…"},
	    {44, "9.0%  a_long_name…  train.py:19 forward: y …"},
	};
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		char *text = printed(t, want[i].width, false);
		char *row = strtok(text, "\n");
		row = strtok(NULL, "\n");
		if (i)
			assert_true((int)text_width(row) <= want[i].width);
		assert_string_equal(row, want[i].row);
		free(text);
	}
	table_free(t);
}

static void a_reset_table_is_new(void **state)
{
	(void)state;
	struct table *t = sample_table();
	table_reset(t);
	table_column(t, "a", TABLE_LEFT);
	table_cell(t, "b");
	char *text = printed(t, 0, false);
	assert_string_equal(text, "a\nb\n");
	free(text);
	table_free(t);
}

/* PrettyTable's rounding: the odd space is right of texts of odd length, and left of others. */
static void boxes(void **state)
{
	(void)state;
	struct table *t = table_new();
	char *text;
	size_t len;
	table_column(t, "dtype", TABLE_CENTER);
	table_column(t, "device", TABLE_CENTER);
	table_cell(t, "float32");
	table_cell(t, "npu:0");
	table_cell(t, "int8");
	table_cell(t, "cpu");
	FILE *f = open_memstream(&text, &len);
	assert_int_equal(table_print_boxed(t, f, 0), 0);
	fclose(f);
	assert_string_equal(text, "+---------+--------+\n"
				  "|  dtype  | device |\n"
				  "+---------+--------+\n"
				  "| float32 | npu:0  |\n"
				  "|   int8  |  cpu   |\n"
				  "+---------+--------+\n");
	free(text);
	table_free(t);
}

static void floats_read_back_the_same(void **state)
{
	(void)state;
	static const double numbers[] = {0.0,
					 -0.0,
					 1.0,
					 0.1,
					 1.0 / 3,
					 1e-5,
					 1e300,
					 5e-324,
					 DBL_MIN,
					 DBL_MAX,
					 123456789012345678.0,
					 1e15,
					 1e16,
					 2.5e-310,
					 3.14159265358979};
	char text[32];
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		double back = strtod(text_float(text, sizeof(text), numbers[i]), NULL);
		assert_memory_equal(&back, &numbers[i], sizeof(back));
		assert_non_null(strpbrk(text, ".e"));
	}
	assert_string_equal(text_float(text, sizeof(text), 0.1), "0.1");
	assert_string_equal(text_float(text, sizeof(text), 1e-5), "1e-05");
	assert_string_equal(text_float(text, sizeof(text), 5e-324), "5e-324");
	assert_string_equal(text_float(text, sizeof(text), 2), "2.0");
	assert_string_equal(text_float(text, sizeof(text), NAN), "nan");
}

static void csv_fields(void **state)
{
	(void)state;
	static const struct {
		const char *text, *field, *on_a_line;
	} cases[] = {
	    {"", "", ""},
	    {" a b", " a b", " a b"},
	    {"a,b", "\"a,b\"", "\"a,b\""},
	    {"say \"a\"", "\"say \"\"a\"\"\"", "\"say \"\"a\"\"\""},
	    {"a\r\nb", "\"a\r\nb\"", "\"a  b\""},
	    {"a\tb", "a\tb", "a b"},
	    {"=1+1", "'=1+1", "'=1+1"},
	    {"+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"},
	    {"-2+3", "'-2+3", "'-2+3"},
	    {"@SUM(1,2)", "\"'@SUM(1,2)\"", "\"'@SUM(1,2)\""},
	    {"\t=1", "'\t=1", "' =1"},
	    {"-2.5e-3", "-2.5e-3", "-2.5e-3"},
	    {"+1", "+1", "+1"},
	    {"-inf", "-inf", "-inf"},
	    {"-", "-", "-"},
	    {"a=b", "a=b", "a=b"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = NULL, want[64];
		size_t len = 0;
		FILE *f = open_memstream(&text, &len);
		csv_field(f, cases[i].text);
		putc(';', f);
		csv_line_field(f, cases[i].text);
		fclose(f);
		snprintf(want, sizeof(want), "%s;%s", cases[i].field, cases[i].on_a_line);
		assert_string_equal(text, want);
		free(text);
	}
}

static void numbers(void **state)
{
	static const char *const bad[] = {
	    "", "-1", "+1", " 1", "1 ", "0x1", "18446744073709551616"};
	uint64_t n = 7;
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(text_number(bad[i], &n));
	assert_int_equal(n, 7);
	assert_true(text_number("18446744073709551615", &n));
	assert_true(n == UINT64_MAX);
	assert_true(text_number("007", &n));
	assert_int_equal(n, 7);
}

static void lines_are_broken_between_words(void **state)
{
	static const struct {
		const char *in;
		size_t at, indent, width;
		const char *out;
	} cases[] = {
	    {"one two three", 0, 0, 0, "one two three"},
	    {"one two three", 0, 0, 13, "one two three"},
	    {"one two three", 0, 2, 12, "one two\n  three"},
	    {"one two three", 9, 4, 12, "one\n    two\n    three"},
	    {"at /a/long/path (9 B)", 0, 2, 8, "at\n  /a/long/path\n  (9 B)"},
	    {"type 'a b' now", 0, 1, 9, "type\n 'a b'\n now"},
	    {"\u00e4\u00e4 \u00e4\u00e4", 0, 0, 5, "\u00e4\u00e4 \u00e4\u00e4"},
	    {"a\033b c", 0, 0, 40, "a\\x1bb c"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text;
		size_t len;
		FILE *f = open_memstream(&text, &len);
		text_print_words(f, cases[i].in, cases[i].at, cases[i].indent, cases[i].width);
		fclose(f);
		assert_string_equal(text, cases[i].out);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_are_broken_between_words),
	    cmocka_unit_test(control_characters_are_shown),
	    cmocka_unit_test(printing_makes_safe_too),
	    cmocka_unit_test(long_strings_are_not_cut),
	    cmocka_unit_test(what_does_not_fit_is_cut_whole),
	    cmocka_unit_test(parts_of_characters_are_dropped),
	    cmocka_unit_test(widths),
	    cmocka_unit_test(base_names),
	    cmocka_unit_test(numbers),
	    cmocka_unit_test(counts),
	    cmocka_unit_test(counts_with_a_word),
	    cmocka_unit_test(durations),
	    cmocka_unit_test(sizes),
	    cmocka_unit_test(columns_line_up),
	    cmocka_unit_test(columns_give_way),
	    cmocka_unit_test(a_reset_table_is_new),
	    cmocka_unit_test(boxes),
	    cmocka_unit_test(floats_read_back_the_same),
	    cmocka_unit_test(csv_fields),
	};
	return unit_run(tests, NULL, NULL);
}
