/* Verdicts in ditorch's columns, as a table and as CSV. */

#include "tests/unit/unit.h"

#include "tracer/intervene/internal.h"

static const struct replay_row wrong = {.role = "output",
					.index = "1,0",
					.number = 1,
					.dtype = "float32",
					.device = "cuda:0",
					.verdict = VERDICT_WRONG,
					.why = "worst [3, 7]: \"got\" 2 want 1",
					.has_figures = true,
					.max_abs = 1,
					.max_rel = 0.5,
					.atol = 1e-5,
					.rtol = 1e-5,
					.cosine = 0.75,
					.ulp = 8388608};
static const struct replay_row number = {
    .role = "output", .verdict = VERDICT_RIGHT, .allclose = true, .why = "equal"};
static const struct replay_row skipped = {
    .role = "grad", .index = "weight", .verdict = VERDICT_NOT_JUDGED, .why = "random"};

static char *printed(const struct replay_row *r)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	struct table *t = table_new();
	intervene_result_columns(t);
	intervene_result_cells(t, "torch.add", r);
	assert_int_equal(table_print_boxed(t, f, 0), 0);
	table_free(t);
	fclose(f);
	return text;
}

static void has(const struct replay_row *r, const char *wanted)
{
	char *text = printed(r);
	if (!strstr(text, wanted))
		fail_msg("%s is not in\n%s", wanted, text);
	free(text);
}

static void cells(void **state)
{
	(void)state;
	has(&wrong, "allclose | max_abs_diff | max_relative_diff |     atol    |     rtol    |");
	has(&wrong, "| torch.add output[1,0] |  False   | 1.000000000  |    0.500000000    | "
		    "0.000010000 | 0.000010000 | worst [3, 7]: \"got\" 2 want 1 |");
	has(&number,
	    "| torch.add output |   True   |              |                   |      |      "
	    "|            |");
	has(&skipped,
	    "| torch.add grad[weight] |          |              |                   |      "
	    "|      |   random   |");
}

static void csv(void **state)
{
	(void)state;
	struct capture_place place = {.op = (char *)"torch.add", .file = (char *)"a.py", .line = 3};
	const struct capture_places places = {.list = &place, .n = 1};
	struct replay_row list[] = {wrong, number}; /* as sorted; `number` came first */
	const struct rows rows = {.list = list, .n = 2};
	const int64_t numbers[] = {7, 12};
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	assert_int_equal(intervene_result_csv(f, &places, &rows, numbers), 0);
	fclose(f);
	assert_string_equal(
	    text,
	    "forward_id,name,allclose,max_abs_diff,max_relative_diff,atol,rtol,error_info,"
	    "verdict,cosine,ulp,dtype,device,file,line\n"
	    "12,\"torch.add output[1,0]\",False,1,0.5,1e-05,1e-05,\"worst [3, 7]: \"\"got\"\" "
	    "2 want 1\",wrong,0.75,8388608,float32,cuda:0,a.py,3\n"
	    "7,torch.add output,True,,,,,,right,,,,,a.py,3\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(cells), cmocka_unit_test(csv)};
	return unit_run(tests, NULL, NULL);
}
