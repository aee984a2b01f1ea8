
#include "tests/unit/unit.h"

#include <jansson.h>

#include "perf/events/print_event.h"
#include "symbolizer/event/names.h"
#include "tests/unit/sample_events.h"

static __attribute__((noinline)) char *json_of(const struct op_event *ev)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	json_event(f, ev);
	fclose(f);
	return text;
}

static json_t *parsed(const struct op_event *ev)
{
	char *text = json_of(ev);
	json_error_t e;
	json_t *j =
	    json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &e);
	if (!j)
		fail_msg("%s at %d in %s", e.text, e.position, text);
	free(text);
	return j;
}

static void exactly_these_keys(void **state)
{
	(void)state;
	static const char *const keys[] = {"id",      "parent", "depth",       "pid",
					   "tid",     "phase",	"op",	       "start_ns",
					   "end_ns",  "thrown", "forward_id",  "args",
					   "results", "stack",	"backward_of", "parameter"};
	struct op_event ev = sample_full_event();
	json_t *j = parsed(&ev);
	const char *key;
	json_t *value;
	size_t i = 0;
	json_object_foreach(j, key, value) assert_string_equal(key, keys[i++]);
	assert_int_equal(i, sizeof(keys) / sizeof(keys[0]));
	assert_true(json_number_value(json_object_get(j, "id")) == 5);
	assert_true(json_number_value(json_object_get(j, "parent")) == 2);
	assert_string_equal(json_string_value(json_object_get(j, "phase")), "forward");
	assert_true(json_is_true(json_object_get(j, "thrown")));
	assert_true(json_is_null(json_object_get(j, "forward_id")));
	json_decref(j);
}

/* The arguments of the full event as compact JSON. */
static void every_kind_of_value(void **state)
{
	(void)state;
	static const char tensor[] = "\"kind\":\"tensor\",\"shape\":[2,3,4],\"stride\":[12,-4,1],"
				     "\"storage_offset\":7,\"numel\":24,"
				     "\"dtype\":\"float32\",\"device\":\"cpu\",\"layout\":"
				     "\"strided\",\"requires_grad\":true,"
				     "\"data_ptr\":139638282147448}";
	static const char *const want[] = {
	    "{\"name\":\"self\",",
	    tensor,
	    ",{\"name\":\"other\",\"kind\":\"tensor\",\"shape\":null,\"stride\":null,\"storage_"
	    "offset\":null,"
	    "\"numel\":null,\"dtype\":\"dtype 999\",\"device\":\"device 57:1\",\"layout\":\"layout "
	    "77\","
	    "\"requires_grad\":false,\"data_ptr\":0}",
	    ",{\"name\":\"tensors\",\"kind\":\"list\",\"items\":[{",
	    tensor,
	    ",{\"kind\":\"none\",\"value\":null},{\"kind\":\"int\",\"value\":-1}]}",
	    ",{\"name\":\"\",\"kind\":\"list\",\"items\":[]}",
	    ",{\"name\":\"\",\"kind\":\"int\",\"value\":-9223372036854775808}",
	    ",{\"name\":\"\",\"kind\":\"int\",\"value\":9223372036854775807}",
	    ",{\"name\":\"\",\"kind\":\"float\",\"value\":0.1}",
	    ",{\"name\":\"\",\"kind\":\"float\",\"value\":\"-inf\"}",
	    ",{\"name\":\"\",\"kind\":\"bool\",\"value\":true}",
	    ",{\"name\":\"\",\"kind\":\"scalar\",\"value\":-3}",
	    ",{\"name\":\"\",\"kind\":\"scalar\",\"value\":18446744073709551615}",
	    ",{\"name\":\"\",\"kind\":\"scalar\",\"value\":1e-05}",
	    ",{\"name\":\"\",\"kind\":\"scalar\",\"value\":false}",
	    ",{\"name\":\"\",\"kind\":\"complex\",\"value\":[1.5,-2.0]}",
	    ",{\"name\":\"\",\"kind\":\"string\",\"value\":"
	    "\"a\\\"\\\\\\u000a\\u001b\\ufffd\xc3\xa9\\u0000z\"}",
	    ",{\"name\":\"\",\"kind\":\"dtype\",\"value\":\"bfloat16\"}",
	    ",{\"name\":\"\",\"kind\":\"device\",\"value\":\"cuda:2\"}",
	    ",{\"name\":\"\",\"kind\":\"layout\",\"value\":\"sparse_coo\"}",
	    ",{\"name\":\"\",\"kind\":\"memory_format\",\"value\":\"channels_last\"}",
	    ",{\"name\":\"\",\"kind\":\"generator\",\"value\":null}",
	    ",{\"name\":\"\",\"kind\":\"not_decoded\",\"reason\":\"no layout\"}",
	    ",{\"name\":\"\",\"kind\":\"process_group\",\"address\":4660,\"rank\":1,\"size\":4}",
	    ",{\"name\":\"\",\"kind\":\"process_group\",\"address\":4660,\"rank\":null,\"size\":"
	    "null}",
	    ",{\"name\":\"\",\"kind\":\"work\",\"address\":4660,\"backend\":\"gloo\"}",
	    ",{\"name\":\"\",\"kind\":\"work\",\"address\":4660,\"backend\":null}",
	    ",{\"name\":\"\",\"kind\":\"none\",\"value\":null}]",
	};
	struct op_event ev = sample_full_event();
	char *text = json_of(&ev);
	const char *at = strstr(text, "\"args\":[");
	assert_non_null(at);
	at += strlen("\"args\":[");
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		if (strncmp(at, want[i], strlen(want[i])) != 0)
			fail_msg("want %s\n got %s", want[i], at);
		at += strlen(want[i]);
	}
	free(text);
}

static void the_stack_is_the_one_that_locates(void **state)
{
	(void)state;
	struct op_event ev = sample_backward(9, 4, 10, 20);
	ev.stack = sample_other_stack();
	char *text = json_of(&ev);
	assert_non_null(strstr(text, "\"phase\":\"backward\""));
	assert_non_null(strstr(text, "\"forward_id\":4,"));
	assert_non_null(strstr(
	    text, "\"stack\":[{\"file\":\"/lib/torch/nn/linear.py\",\"line\":114,\"function\":"
		  "\"forward\",\"column\":null,\"end_column\":null},{\"file\":"
		  "\"/home/me/train.py\",\"line\":13,\"function\":\"forward\",\"column\":4,"
		  "\"end_column\":19}],\"backward_of\":[],\"parameter\":null}"));
	free(text);
	ev.stack = ev.where_stack = NULL;
	ev.end_ns = 0;
	text = json_of(&ev);
	assert_non_null(strstr(text, "\"stack\":[],\"backward_of\":[],\"parameter\":null}"));
	assert_non_null(strstr(text, "\"end_ns\":null"));
	free(text);
}

static void values_as_python_shows_them(void **state)
{
	(void)state;
	static const char *const want[] = {"Tensor(2, 3, 4)",
					   "Tensor",
					   "[Tensor(2, 3, 4), None, -1]",
					   "[]",
					   "-9223372036854775808",
					   "9223372036854775807",
					   "0.1",
					   "-inf",
					   "True",
					   "-3",
					   "18446744073709551615",
					   "1e-05",
					   "False",
					   "(1.5-2j)",
					   NULL,
					   "torch.bfloat16",
					   "cuda:2",
					   "torch.sparse_coo",
					   "torch.channels_last",
					   "<generator at 0x1234>",
					   "not decoded: no layout",
					   "<process group at 0x1234, rank 1 of 4>",
					   "<process group at 0x1234>",
					   "<work of gloo at 0x1234>",
					   "<work at 0x1234>",
					   "None"};
	char text[64];
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		if (want[i])
			assert_string_equal(value_text(text, sizeof(text), &sample_args[i]),
					    want[i]);
	assert_string_equal(value_text(text, 12, &sample_args[2]), "[Tensor(...");
	assert_string_equal(value_text(text, 24, &sample_args[2]), "[Tensor(2, 3, 4), No...");
}

static char *block_of(const struct op_event *ev)
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

static void a_block_for_people(void **state)
{
	(void)state;
	struct op_event ev = sample_event(161, 0, 0, 1000, 42200);
	struct value args[] = {sample_args[0], sample_args[11]};
	ev.args = args;
	char *text = block_of(&ev);
	assert_string_equal(text, "aten::add.Tensor    forward_id:161    41 us    "
				  "/home/me/train.py:13 forward: q = self.qkv(x)\n"
				  "+---------+--------+---------+-------+-----------+-------------+"
				  "---------------+---------------"
				  "+-----------------+-------+\n"
				  "|   name  | device |  dtype  | numel |   shape   |    stride   "
				  "| requires_grad |     layout    "
				  "|     data_ptr    | value |\n"
				  "+---------+--------+---------+-------+-----------+-------------+"
				  "---------------+---------------"
				  "+-----------------+-------+\n"
				  "|   self  |  cpu   | float32 |   24  | (2, 3, 4) | (12, -4, 1) "
				  "|      True     | torch.strided "
				  "| 139638282147448 |       |\n"
				  "|  other  |        |         |       |           |             "
				  "|               |               "
				  "|                 | 1e-05 |\n"
				  "| outputs |  cpu   | float32 |   24  | (2, 3, 4) | (12, -4, 1) "
				  "|      True     | torch.strided "
				  "| 139638282147448 |       |\n"
				  "+---------+--------+---------+-------+-----------+-------------+"
				  "---------------+---------------"
				  "+-----------------+-------+\n\n");
	free(text);
}

static void a_backward_block(void **state)
{
	(void)state;
	struct op_event ev = sample_backward(900, 161, 10, 20);
	ev.results = sample_args;
	ev.nresults = 2;
	char *text = block_of(&ev);
	assert_non_null(strstr(
	    text,
	    "AddBackward0    backward id:900 forward_id:161    10 ns    /home/me/train.py:13"));
	assert_non_null(strstr(text, "|  grad_outputs  |"));
	assert_non_null(strstr(text, "| grad_inputs[0] |"));
	assert_non_null(strstr(text, "| grad_inputs[1] |"));
	assert_null(strstr(text, "value"));
	free(text);
	ev.forward_id = 0;
	ev.where_stack = NULL;
	ev.nargs = ev.nresults = 0;
	text = block_of(&ev);
	assert_string_equal(text, "AddBackward0    backward id:900 forward_id:unknown    10 ns    "
				  "(forward op not known)\n\n");
	free(text);
}

static void strings_cannot_drive_the_terminal(void **state)
{
	(void)state;
	struct value evil = {.kind = VALUE_STRING, .str = "\x1b]0;x\x07", .count = 6};
	struct op_event ev = sample_event(1, 0, 0, 10, 20);
	ev.args = &evil;
	ev.nargs = 1;
	ev.nresults = 0;
	char *text = block_of(&ev);
	assert_null(strchr(text, '\x1b'));
	assert_null(strchr(text, '\x07'));
	assert_non_null(strstr(text, "'\\x1b]0;x\\x07'"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(exactly_these_keys),
	    cmocka_unit_test(every_kind_of_value),
	    cmocka_unit_test(the_stack_is_the_one_that_locates),
	    cmocka_unit_test(values_as_python_shows_them),
	    cmocka_unit_test(a_block_for_people),
	    cmocka_unit_test(a_backward_block),
	    cmocka_unit_test(strings_cannot_drive_the_terminal),
	};
	return unit_run(tests, NULL, NULL);
}
