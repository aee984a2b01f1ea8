/* Names of interned strings, from tables in this program's own memory. */

#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/fake_interned.h"
#include "tests/unit/libtorch.h"

static struct interned *s;

static int setup(void **state)
{
	(void)state;
	s = fake_interned();
	return s ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	interned_free(s);
	return 0;
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(interned_name(s, SYM_N, "dimname"), "N");
	assert_string_equal(interned_name(s, SYM_LONG, "dimname"), "a_name_that_is_not_short");
	assert_string_equal(interned_name(s, SYM_WILD, "dimname"), "*");
	assert_string_equal(interned_name(s, SYM_DIMNAME, "namespaces"), "dimname");
	assert_null(interned_name(s, SYM_ATEN_N, "dimname"));
	assert_null(interned_name(s, SYM_DIMNAME, "dimname"));
	assert_null(interned_name(s, SYMBOLS, "dimname"));
	assert_null(interned_name(s, UINT32_MAX, "dimname"));
	assert_false(interned_is_gone(s));
}

/* The table grows and moves; results stay the same. */
static void test_grown(void **state)
{
	static struct fake_info moved[SYMBOLS];
	const char *n = interned_name(s, SYM_N, "dimname");
	(void)state;
	assert_null(interned_name(s, 0, "dimname"));
	set_symbol(0, SYM_DIMNAME, "dimname", "a_name_that_came_later");
	memcpy(moved, infos, sizeof(moved));
	for (unsigned i = 0; i < SYMBOLS; i++) {
		struct fake_text *both[] = {&moved[i].qual, &moved[i].unqual};
		for (unsigned k = 0; k < 2; k++)
			if (both[k]->len < sizeof(both[k]->room))
				both[k]->at = both[k]->room;
	}
	table.begin = moved;
	table.end = table.room = moved + SYMBOLS;
	memset(infos, 0, sizeof(infos));
	assert_string_equal(interned_name(s, 0, "dimname"), "a_name_that_came_later");
	assert_ptr_equal(interned_name(s, SYM_N, "dimname"), n);
}

/* Inconsistent tables are rejected. */
static void test_contradictions(void **state)
{
	(void)state;
	set_symbol(SYM_N, 8, "dimname", "N"); /* 8 is another domain */
	assert_null(interned_name(s, SYM_N, "dimname"));
	set_symbol(SYM_N, SYMBOLS, "dimname", "N");
	assert_null(interned_name(s, SYM_N, "dimname"));
	set_symbol(SYM_N, SYM_DIMNAME, "dimnames", "N");
	assert_null(interned_name(s, SYM_N, "dimname"));
	set_symbol(SYM_N, SYM_DIMNAME, "dimname", "N");
	infos[SYM_N].unqual.room[0] = 'M';
	assert_null(interned_name(s, SYM_N, "dimname"));
	infos[SYM_N].unqual.room[0] = 'N';
	infos[SYM_N].qual.at = NULL;
	assert_null(interned_name(s, SYM_N, "dimname"));
	set_symbol(SYM_N, SYM_DIMNAME, "dimname", "N");
	set_symbol(SYM_DIMNAME, SYM_NAMESPACES, "domains", "dimname");
	assert_null(interned_name(s, SYM_N, "dimname"));
	set_symbol(SYM_DIMNAME, SYM_NAMESPACES, "namespaces", "dimname");
	assert_string_equal(interned_name(s, SYM_N, "dimname"), "N");
}

static void test_no_table(void **state)
{
	(void)state;
	table.end = (const struct fake_info *)((const char *)infos + sizeof(infos) - 8);
	assert_null(interned_name(s, SYM_N, "dimname"));
	table.end = infos + 30; /* too few entries for libtorch */
	assert_null(interned_name(s, SYM_N, "dimname"));
	table.end = infos;
	assert_null(interned_name(s, SYM_N, "dimname"));
	table.end = infos + SYMBOLS;
	table.room = infos + SYMBOLS - 1;
	assert_null(interned_name(s, SYM_N, "dimname"));
	table.room = infos + SYMBOLS;
	assert_non_null(interned_name(s, SYM_N, "dimname"));
}

static void test_ended(void **state)
{
	(void)state;
	pid_t child = fork();
	if (!child)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	const uint64_t places[INTERNED_PLACES] = {(uintptr_t)&table};
	const struct mem gone = mem_process(child);
	struct interned *of_child = interned_new(&gone, false, places);
	assert_null(interned_name(of_child, SYM_N, "dimname"));
	assert_true(interned_is_gone(of_child));
	interned_free(of_child);
}

static void check_library(const struct libtorch *l)
{
	uint64_t places[INTERNED_PLACES];
	struct elf_file *f;
	unsigned n = 0;

	assert_int_equal(elf_file_open(l->path, &f, NULL), 0);
	interned_places(f, places);
	while (n < INTERNED_PLACES && places[n])
		n++;
	assert_true(n > 0);
	/* the variable itself, in builds with local symbols */
	uint64_t at = elf_find(f, "_ZZN3c10L13globalStringsEvE1s", NULL);
	bool found = !at;
	for (unsigned i = 0; i < n; i++)
		found |= places[i] == at;
	assert_true(found);
	print_message("# %s: %u places, the table is %s\n", l->path, n, at ? "one" : "not named");
	elf_file_close(f);
}

static void test_libraries(void **state)
{
	(void)state;
	libtorch_each(check_library);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {TEST(test_names),
					   TEST(test_grown),
					   TEST(test_contradictions),
					   TEST(test_no_table),
					   cmocka_unit_test(test_ended),
					   cmocka_unit_test(test_libraries)};
	return unit_run(tests, NULL, NULL);
}
