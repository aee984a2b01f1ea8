/* Strings of both libstdc++ ABIs, in this program's own memory. */
#include "tests/unit/unit.h"

#include <unistd.h>

#include "symbolizer/target/process.h"

enum { SIZE = 32 };

static struct mem own;
static char out[SIZE];

static int setup(void **state)
{
	(void)state;
	own = mem_process(getpid());
	return 0;
}

static int read_string(bool cow, const void *s)
{
	return std_string_read(&own, cow, (uintptr_t)s, out, sizeof(out));
}

static void cxx11(void **state)
{
	char text[SIZE] = "aten::add";
	struct {
		uint64_t at, len;
		char room[16];
	} here = {.len = 4, .room = "self"}, there = {.at = (uintptr_t)text, .len = 9};
	(void)state;
	here.at = (uintptr_t)here.room;
	there.room[0] = 9;
	assert_int_equal(read_string(false, &here), 4);
	assert_string_equal(out, "self");
	assert_int_equal(read_string(false, &there), 9);
	assert_string_equal(out, "aten::add");
	there.room[0] = 8; /* capacity less than length */
	assert_int_equal(read_string(false, &there), -1);
	here.len = 16;
	assert_int_equal(read_string(false, &here), -1);
	assert_int_equal(std_string_size(false), sizeof(here));
}

static void cow(void **state)
{
	struct {
		uint64_t len, room;
		int32_t references, pad;
		char text[SIZE];
	} rep = {.len = 9, .room = 9, .text = "aten::add"}, none = {0};
	uint64_t s = (uintptr_t)rep.text, empty = (uintptr_t)none.text;
	(void)state;
	assert_int_equal(read_string(true, &s), 9);
	assert_string_equal(out, "aten::add");
	assert_int_equal(read_string(true, &empty), 0);
	assert_int_equal(std_string_size(true), sizeof(s));
	rep.references = -1; /* a string that cannot be shared */
	assert_int_equal(read_string(true, &s), 9);
	rep.references = -2;
	assert_int_equal(read_string(true, &s), -1);
	rep.references = 0;
	rep.room = 8;
	assert_int_equal(read_string(true, &s), -1);
	rep.room = 9;
	rep.text[3] = '\n';
	assert_int_equal(read_string(true, &s), -1);
	rep.text[3] = 'n';
	rep.len = 8; /* no NUL at that length */
	assert_int_equal(read_string(true, &s), -1);
	s = 24;
	assert_int_equal(read_string(true, &s), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(cxx11), cmocka_unit_test(cow)};
	return unit_run(tests, setup, NULL);
}
