#include "tests/unit/unit.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>

#include "base/json.h"

static char *text;
static size_t text_len;

static struct json_out writer(void)
{
	return (struct json_out){.f = open_memstream(&text, &text_len)};
}

/* What was written is `want`, byte by byte, and is JSON; the caller owns the result. */
static json_t *written(struct json_out *j, const char *want)
{
	json_error_t e;
	fclose(j->f);
	assert_string_equal(text, want);
	json_t *v = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
	if (!v)
		fail_msg("%s at %d in %s", e.text, e.position, text);
	free(text);
	return v;
}

static void is(struct json_out *j, const char *want)
{
	json_decref(written(j, want));
}

static void commas_between_values_alone(void **state)
{
	(void)state;
	struct json_out j = writer();
	json_open(&j, NULL, '{');
	json_open(&j, "none", '[');
	json_close(&j, ']');
	json_open(&j, "some", '[');
	json_u64(&j, NULL, 1);
	json_open(&j, NULL, '[');
	json_open(&j, NULL, '{');
	json_close(&j, '}');
	json_close(&j, ']');
	json_open(&j, NULL, '{');
	json_nothing(&j, "a");
	json_bool(&j, "b", true);
	json_close(&j, '}');
	json_bool(&j, NULL, false);
	json_close(&j, ']');
	json_text(&j, "last", NULL);
	json_close(&j, '}');
	is(&j, "{\"none\":[],\"some\":[1,[{}],{\"a\":null,\"b\":true},false],\"last\":null}");
}

static void lines(void **state)
{
	(void)state;
	struct json_out j = writer();
	json_open(&j, NULL, '{');
	json_open(&j, "none", '[');
	json_line(&j);
	json_close(&j, ']');
	json_line(&j);
	json_open(&j, "rows", '[');
	for (int i = 0; i < 2; i++) {
		json_line(&j);
		json_open(&j, NULL, '{');
		json_i64(&j, "i", i);
		json_close(&j, '}');
	}
	json_u64(&j, NULL, 2);
	json_line(&j);
	json_line(&j);
	json_close(&j, ']');
	json_close(&j, '}');
	is(&j, "{\"none\":[\n],\n\"rows\":[\n{\"i\":0},\n{\"i\":1},2\n]}");
}

static void whole_numbers_are_exact(void **state)
{
	(void)state;
	static const int64_t numbers[] = {0, -1, 9, 10, INT64_MAX, INT64_MIN};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		char want[32];
		struct json_out j = writer();
		json_i64(&j, NULL, numbers[i]);
		snprintf(want, sizeof(want), "%" PRId64, numbers[i]);
		json_t *v = written(&j, want);
		assert_true(json_integer_value(v) == numbers[i]);
		json_decref(v);
	}
	struct json_out j = writer();
	json_u64(&j, NULL, UINT64_MAX);
	fclose(j.f);
	assert_string_equal(text, "18446744073709551615");
	free(text);
}

static void other_numbers(void **state)
{
	(void)state;
	struct json_out j = writer();
	json_open(&j, NULL, '[');
	json_float(&j, NULL, 0.1);
	json_float(&j, NULL, 2);
	json_float(&j, NULL, 1e-5);
	json_float(&j, NULL, NAN);
	json_float(&j, NULL, INFINITY);
	json_float(&j, NULL, -INFINITY);
	json_format(&j, NULL, "%.3f", 2.0 / 3);
	json_format(&j, NULL, "\"0x%x\"", 255u);
	json_close(&j, ']');
	is(&j, "[0.1,2.0,1e-05,\"nan\",\"inf\",\"-inf\",0.667,\"0xff\"]");
}

static void strings_are_valid_and_harmless(void **state)
{
	(void)state;
	static const struct {
		const char *in, *out, *read;
	} cases[] = {
	    {"", "\"\"", ""},
	    {"a\"b\\c/\n\x1b", "\"a\\\"b\\\\c/\\u000a\\u001b\"", "a\"b\\c/\n\x1b"},
	    {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
	     "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
	    {"\xc0\xaf", "\"\\ufffd\\ufffd\"", "\xef\xbf\xbd\xef\xbf\xbd"}, /* overlong */
	    {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"", NULL},	    /* a surrogate */
	    {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"", NULL}, /* above U+10FFFF */
	    {"\xe2\x82", "\"\\ufffd\\ufffd\"", NULL},			    /* truncated */
	    {"\x7f\xc2\x9b\xe2\x80\xae\xe2\x81\xa6", "\"\\u007f\\u009b\\u202e\\u2066\"",
	     "\x7f\xc2\x9b\xe2\x80\xae\xe2\x81\xa6"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json_out j = writer();
		json_text(&j, NULL, cases[i].in);
		json_t *v = written(&j, cases[i].out);
		if (cases[i].read)
			assert_string_equal(json_string_value(v), cases[i].read);
		json_decref(v);
	}
}

static void bytes_may_be_nul(void **state)
{
	(void)state;
	struct json_out j = writer();
	json_bytes(&j, NULL, "a\0b\xffz", 4);
	json_t *v = written(&j, "\"a\\u0000b\\ufffd\"");
	assert_int_equal(json_string_length(v), 6);
	json_decref(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(commas_between_values_alone),    cmocka_unit_test(lines),
	    cmocka_unit_test(whole_numbers_are_exact),	      cmocka_unit_test(other_numbers),
	    cmocka_unit_test(strings_are_valid_and_harmless), cmocka_unit_test(bytes_may_be_nul),
	};
	return unit_run(tests, NULL, NULL);
}
