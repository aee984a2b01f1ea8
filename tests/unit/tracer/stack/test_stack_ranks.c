#include "tests/unit/unit.h"

#include <stdlib.h>

#include "tracer/stack/stack_snapshot.h"

static const char *printed(const struct stack_place *p, size_t n)
{
	static char *text;
	size_t size;
	free(text);
	FILE *f = open_memstream(&text, &size);
	assert_int_equal(stack_places_print(p, n, f, (struct terminal){0}), 0);
	fclose(f);
	return text;
}

static void what_does_not_match(void **state)
{
	(void)state;
	struct stack_place p[] = {
	    {.pid = 10, .rank.rank = 0, .in_collective = true, .collective = "all_reduce"},
	    {.pid = 11, .rank.rank = 1, .in_collective = true, .collective = "all_reduce"},
	    {.pid = 12, .rank.rank = 2, .in_collective = true, .collective = "all_reduce"},
	};
	assert_null(strstr(printed(p, 3), "collective"));
	strcpy(p[2].collective, "barrier");
	assert_non_null(strstr(printed(p, 3), "\nranks are in different collectives; "
					      "all_reduce: 0, 1; barrier: 2\n"));
	p[1].in_collective = p[2].in_collective = false;
	p[2].rank.rank = -1;
	assert_non_null(strstr(printed(p, 3), "\nnot all are in the collective; all_reduce: 0; "
					      "in none: 1, pid 12\n"));
	p[0].in_collective = false;
	assert_null(strstr(printed(p, 3), "collective"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_does_not_match)};
	return unit_run(tests, NULL, NULL);
}
