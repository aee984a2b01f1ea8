
#include "tests/unit/unit.h"

#include <errno.h>

#include "base/options.h"

struct given {
	bool print;
	const char *output, *ops, *when;
	uint64_t count, time, size;
	int format, pager;
};

/* Parse a line of words; `operands` is where the first operand is. */
static int parse(const char *line, bool stop, struct given *g, char **words, struct err *e)
{
	static const char *const formats[] = {"text", "jsonl", NULL};
	static const char *const targets[] = {"csv", NULL};
	static const char *const whens[] = {"auto", "never", NULL};
	static char buf[256];
	const struct option_def options[] = {
	    {0, "print", OPTION_FLAG, &g->print, NULL, "print", NULL},
	    {'o', "output", OPTION_STRING, &g->output, "FILE", "write there", NULL},
	    {0, "count", OPTION_COUNT, &g->count, "N", "stop after N", NULL},
	    {0, "for", OPTION_DURATION, &g->time, "TIME", "stop then", NULL},
	    {0, "bytes", OPTION_SIZE, &g->size, "SIZE", "stop there", NULL},
	    {0, "format", OPTION_CHOICE, &g->format, "FORMAT", "form", formats},
	    {0, "to", OPTION_CHOICE, &g->format, "FORMAT", "form", targets},
	    {0, "step", OPTION_STRING, &g->output, "N", "these steps", NULL},
	    {0, "ops", OPTION_LIST, &g->ops, "LIST", "these ops", NULL},
	    {0, "when", OPTION_ONCE, &g->when, "EXPR", "these calls", NULL},
	    {0, "pager", OPTION_CHOICE, &g->pager, "WHEN", "the pager", whens},
	    PID_OPTION,
	    {0},
	};
	const struct command c = {.name = "run",
				  .operands = "[--] COMMAND [ARGUMENT...]",
				  .about = "Run.",
				  .options = options,
				  .stop_at_operand = stop,
				  .min_operands = 1,
				  .max_operands = stop ? -1 : 2};
	int n = 0;
	snprintf(buf, sizeof(buf), "%s", line);
	for (char *word = strtok(buf, " "); word; word = strtok(NULL, " "))
		words[n++] = word;
	words[n] = NULL;
	memset(g, 0, sizeof(*g));
	return options_parse(&c, n, words, e);
}

static void sizes(void **state)
{
	(void)state;
	static const struct {
		const char *line;
		uint64_t size;
	} good[] = {
	    {"run --bytes 2G x", UINT64_C(2) << 30},
	    {"run --bytes 1.5k x", 1536},
	    {"run --bytes 64MiB x", 64 << 20},
	    {"run --bytes 3KB x", 3072},
	    {"run --bytes 1t x", UINT64_C(1) << 40},
	    {"run --bytes 7 x", 7},
	    {"run --bytes 12B x", 12},
	};
	static const char *const bad[] = {"run --bytes G x", "run --bytes -1 x",
					  "run --bytes 2Gx x", "run --bytes 2i x",
					  "run --bytes 9e30 x"};
	struct given g;
	char *words[16];
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(parse(good[i].line, false, &g, words, NULL) > 0);
		assert_int_equal(g.size, good[i].size);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (parse(bad[i], false, &g, words, NULL) != -EINVAL)
			fail_msg("%s is taken for %llu", bad[i], (unsigned long long)g.size);
}

static void options_of_every_type(void **state)
{
	(void)state;
	struct given g;
	char *words[16];
	int first = parse("run --print -o x --count 12 --for 1.5s prog --format jsonl", false, &g,
			  words, NULL);
	assert_string_equal(words[first], "prog");
	assert_true(g.print);
	assert_string_equal(g.output, "x");
	assert_int_equal(g.count, 12);
	assert_int_equal(g.time, 1500000000);
	assert_int_equal(g.format, 1);
}

/* The items of a list are all taken, of whatever part; of two conditions none is left out silently.
 */
static void given_again(void **state)
{
	(void)state;
	struct given g;
	struct err e = {0};
	char *words[16];
	assert_true(parse("run --ops add,mul --print --ops=mm --ops relu x", false, &g, words, &e) >
		    0);
	assert_string_equal(g.ops, "add,mul,mm,relu");
	assert_true(parse("run --ops add x", false, &g, words, &e) > 0);
	assert_string_equal(g.ops, "add");
	assert_int_equal(parse("run --when a --when b x", false, &g, words, &e), -EINVAL);
	assert_string_equal(e.what, "--when is given twice: a, and b");
	assert_int_equal(parse("run --format jsonl --to csv x", false, &g, words, &e), -EINVAL);
	assert_string_equal(e.what,
			    "--format jsonl and --to csv are two values of the same option");
	assert_true(parse("run --format text --to csv x", false, &g, words, &e) > 0);
	assert_true(parse("run --format text --format jsonl x", false, &g, words, &e) > 0);
	assert_int_equal(g.format, 1);
	assert_true(parse("run -o a -o b x", false, &g, words, &e) > 0);
	assert_string_equal(g.output, "b");
}

static void the_command_of_run_is_not_ours(void **state)
{
	(void)state;
	struct given g;
	char *words[16];
	int first = parse("run --print python --print -o y", true, &g, words, NULL);
	assert_string_equal(words[first], "python");
	assert_string_equal(words[first + 1], "--print");
	assert_null(g.output);
	first = parse("run -- python -o y", true, &g, words, NULL);
	assert_string_equal(words[first], "python");
	assert_null(g.output);
}

static void times(void **state)
{
	(void)state;
	static const struct {
		const char *line;
		uint64_t ns;
	} cases[] = {{"run --for 10 p", 10000000000},  {"run --for 500ms p", 500000000},
		     {"run --for 2m p", 120000000000}, {"run --for 1h p", 3600000000000},
		     {"run --for 250us p", 250000},    {"run --for .5s p", 500000000}};
	struct given g;
	char *words[16];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(parse(cases[i].line, false, &g, words, NULL) > 0);
		assert_int_equal(g.time, cases[i].ns);
	}
}

static void mistakes_are_told(void **state)
{
	(void)state;
	static const struct {
		const char *line, *what;
	} cases[] = {
	    {"run --nothing p", "--nothing"},
	    {"run -x p", "-x"},
	    {"run --output", "needs a value"},
	    {"run --count -1 p", "--count"},
	    {"run --count 12x p", "12x"},
	    {"run --for 10y p", "10y"},
	    {"run --for nan p", "nan"},
	    {"run --for 1e30s p", "1e30s"},
	    {"run --format xml p", "text, jsonl"},
	    {"run", "ditrace run: COMMAND is missing"},
	    {"run --print=1 p", "option --print takes no value"},
	    {"run -p", "needs a value"},
	    {"run --fo 1 p", "option --fo is ambiguous"},
	    {"run --to xml p", "--to xml: not csv"},
	    {"run a b c", "too many: c"},
	    {"run -p a b c", "too many: c"},
	    {"run --count 99999999999999999999 p", "999"},
	};
	char *words[16];
	struct given g;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err e = {0};
		assert_int_equal(parse(cases[i].line, false, &g, words, &e), -EINVAL);
		if (!strstr(e.what, cases[i].what))
			fail_msg("%s: %s", cases[i].line, e.what);
		assert_non_null(strstr(e.hint, "ditrace run --help"));
	}
	struct err e = {0};
	assert_int_equal(parse("run --fo=1 p", false, &g, words, &e), -EINVAL);
	assert_string_equal(e.hint, "write out --for or --format; see: ditrace run --help");
}

/* An operand may be given by an option, too: it comes first. */
static void operands_by_option(void **state)
{
	(void)state;
	static const char *const lines[] = {"run -p 1 --count 2 off", "run off --pid=1 --print",
					    "run -p1 off", "run off -p 1", "run -p 1 -- off"};
	struct given g;
	char *words[16];
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		int first = parse(lines[i], false, &g, words, NULL);
		assert_true(first > 0);
		assert_string_equal(words[first], "1");
		assert_string_equal(words[first + 1], "off");
		assert_null(words[first + 2]);
	}
	int first = parse("run -p 1 --pid 2", false, &g, words, NULL);
	assert_string_equal(words[first], "1");
	assert_string_equal(words[first + 1], "2");
}

static void old_names_hint_at_the_new(void **state)
{
	(void)state;
	struct given g;
	char *words[16];
	struct err e = {0};
	assert_true(parse("run --steps 3-4 p", false, &g, words, &e) > 0);
	assert_string_equal(g.output, "3-4");
	assert_int_equal(e.code, 0);
	assert_string_equal(e.hint, "--steps is called --step now");
	e = (struct err){0};
	assert_true(parse("run --no-pager p", false, &g, words, &e) > 0);
	assert_int_equal(g.pager, 1);
	assert_string_equal(e.hint, "--no-pager is called --pager never now");
	e = (struct err){0};
	assert_true(parse("run --step 3 --pager auto p", false, &g, words, &e) > 0);
	assert_string_equal(e.hint, "");
}

static void help_names_every_option(void **state)
{
	(void)state;
	struct given g;
	char *words[16], *text;
	size_t len;
	const struct option_def options[] = {
	    {'o', "output", OPTION_STRING, &g.output, "FILE", "write there", NULL},
	    {0},
	};
	const struct command c = {.name = "export",
				  .operands = "[FILE]",
				  .about = "About it.",
				  .options = options,
				  .notes = "Notes."};
	assert_int_equal(parse("run --help", false, &g, words, NULL), 0);
	assert_int_equal(parse("run -h x", false, &g, words, NULL), 0);
	FILE *f = open_memstream(&text, &len);
	options_help(&c, f);
	fclose(f);
	assert_string_equal(text, "usage: ditrace export [OPTIONS] [FILE]\n\nAbout it.\n\n"
				  "  -o, --output FILE         write there\n"
				  "  -h, --help                show this text\n\nNotes.\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(options_of_every_type),
	    cmocka_unit_test(given_again),
	    cmocka_unit_test(sizes),
	    cmocka_unit_test(the_command_of_run_is_not_ours),
	    cmocka_unit_test(times),
	    cmocka_unit_test(mistakes_are_told),
	    cmocka_unit_test(operands_by_option),
	    cmocka_unit_test(old_names_hint_at_the_new),
	    cmocka_unit_test(help_names_every_option),
	};
	return unit_run(tests, NULL, NULL);
}
