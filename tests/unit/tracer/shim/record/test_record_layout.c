#define _GNU_SOURCE

/* Included as in the shim: it reads its own process's memory. */
#include "tests/unit/unit.h"

#include "tracer/shim/memory.c"
#include "tracer/shim/saved_call_x86_64.c"
#include "tracer/shim/record/record_layout.c"

/* A RecordFunction as 1.13 and 2.13 have it: fn_ at 20, sequence_nr_ at 25, inputs_ at 26; outputs_
 * at 28 or 35. */
struct sample {
	uint64_t rf[64];
	uint64_t schema[2];
	uint64_t in[6][2], out[2][2];
	char name[32];
};

static void make(struct sample *s, const char *name, uint64_t n)
{
	memset(s, 0, sizeof(*s));
	strcpy(s->name, name);
	s->schema[0] = (uintptr_t)s->name;
	s->schema[1] = strlen(name);
	for (int i = 0; i < 6; i++)
		s->in[i][1] = 5; /* Int */
	s->rf[0] = (uintptr_t)s->in;
	s->rf[20] = (uintptr_t)s->schema;
	s->rf[24] = 1;
	s->rf[25] = UINT64_MAX;
	s->rf[26] = (uintptr_t)s->in;
	s->rf[27] = n;
}

static void finish(struct sample *s, unsigned at)
{
	s->rf[at] = (uintptr_t)s->out;
	s->rf[at + 1] = (uintptr_t)s->out[1];
	s->rf[at + 2] = (uintptr_t)s->out[1];
}

static void test_found(void **state)
{
	static const unsigned outputs[] = {28, 35};
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct record_layout l = {0};
		struct sample s, inner;
		make(&s, "aten::ones", 5);
		s.rf[28] = i ? (uintptr_t)s.in : 0; /* 2.13 has more arguments' place there */
		s.rf[29] = i;
		assert_true(record_layout_start(&l, s.rf, s.name, 5));
		assert_int_equal(l.fn, 20);
		assert_int_equal(l.inputs, 26);
		assert_int_equal(l.seq, 25);
		make(&inner, "aten::empty", 6);
		inner.rf[28] = s.rf[28];
		inner.rf[29] = s.rf[29];
		assert_true(record_layout_start(&l, inner.rf, inner.name, 6));
		finish(&inner, outputs[i]);
		assert_true(record_layout_end(&l, inner.rf));
		assert_int_equal(l.outputs, outputs[i]);
		finish(&s, outputs[i]);
		assert_true(record_layout_end(&l, s.rf));
		assert_false(record_is_named(&l, s.rf, s.name));
		s.rf[20] = (uintptr_t)s.name;
		assert_true(record_is_named(&l, s.rf, s.name));
	}
}

/* With the std::string of before C++11, which is a pointer to its text. */
static void test_cow(void **state)
{
	struct record_layout l = {0};
	struct sample s;
	struct {
		uint64_t length, room, references;
		char text[16];
	} name = {9, 9, 0, "aten::add"};
	(void)state;
	make(&s, name.text, 2);
	s.schema[0] = (uintptr_t)name.text;
	s.schema[1] = 1;
	assert_true(record_layout_start(&l, s.rf, name.text, 2));
	assert_int_equal(l.fn, 20);
	name.length = 8;
	assert_false(record_layout_start(&l, s.rf, name.text, 2));
}

static void learns_nothing(struct record_layout *l, const struct sample *s, uint64_t ninputs)
{
	assert_true(record_layout_start(l, s->rf, s->name, ninputs));
	assert_int_equal(l->inputs, 0);
}

/* What the stack had before may look like inputs; where two places do, another record decides. */
static void test_garbage(void **state)
{
	struct record_layout l = {0};
	struct sample s;
	(void)state;
	make(&s, "test::none", 1);
	s.rf[21] = 0x7f00;
	s.rf[22] = 0;
	s.rf[23] = (uintptr_t)s.in; /* and rf[24], the variant's index, is 1 */
	assert_true(record_layout_start(&l, s.rf, s.name, 1));
	assert_int_equal(l.inputs, 26);
	l = (struct record_layout){0};
	s.rf[21] = 1;
	learns_nothing(&l, &s, 1);
	make(&s, "test::text", 3);
	assert_true(record_layout_start(&l, s.rf, s.name, 3));
	assert_int_equal(l.inputs, 26);
}

/* A record that is no operator's is known by its name as long as the layout is not: it does not
 * show it. */
static void test_named(void **state)
{
	struct record_layout l = {0};
	struct sample s;
	(void)state;
	make(&s, "record_param_comms", 2);
	assert_false(record_is_named(&l, s.rf, s.name));
	s.rf[18] = (uintptr_t)s.name; /* another word that happens to be the same */
	assert_false(record_is_named(&l, s.rf, s.name));
	s.rf[20] = (uintptr_t)s.name;
	s.rf[21] = strlen(s.name);
	assert_true(record_is_named(&l, s.rf, s.name));
	s.rf[21]++;
	assert_false(record_is_named(&l, s.rf, s.name));
}

/* Each precondition violated in turn. */
static void test_refused(void **state)
{
	struct record_layout l = {0};
	struct sample s;
	(void)state;
	make(&s, "aten::add", 3);
	s.rf[20] = 0;
	assert_false(record_layout_start(&l, s.rf, s.name, 3));
	/* Where only the inputs are not found, another record may show them. */
	make(&s, "aten::add", 3);
	learns_nothing(&l, &s, 4);
	s.in[1][1] = 1000; /* not a kind of IValue */
	learns_nothing(&l, &s, 3);
	make(&s, "aten::add", 3);
	s.rf[26] = 0x1000;
	learns_nothing(&l, &s, 3);
	make(&s, "aten::add", 3);
	s.rf[25] = 1ULL << 60;
	learns_nothing(&l, &s, 3);

	make(&s, "aten::add", 3);
	assert_true(record_layout_start(&l, s.rf, s.name, 3));
	finish(&s, 30);
	assert_true(record_layout_end(&l, s.rf));
	struct record_layout known = l;
	make(&s, "aten::mul", 2);
	s.rf[30] = 1;
	assert_false(record_layout_start(&l, s.rf, s.name, 2));
	l = known;
	make(&s, "aten::mul", 2);
	assert_false(record_layout_start(&l, s.rf, s.name, 3));
	l = known;
	assert_true(
	    record_layout_start(&l, s.rf, s.name, 1)); /* of a stack that has another value */
	finish(&s, 30);
	s.rf[31] -= 8;
	assert_false(record_layout_end(&l, s.rf));
}

/* An op without arguments gives no information. */
static void test_empty(void **state)
{
	struct record_layout l = {0};
	struct sample s;
	(void)state;
	make(&s, "aten::seed", 0);
	assert_true(record_layout_start(&l, s.rf, s.name, 0));
	assert_int_equal(l.inputs, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_found),   cmocka_unit_test(test_cow),
	    cmocka_unit_test(test_garbage), cmocka_unit_test(test_named),
	    cmocka_unit_test(test_refused), cmocka_unit_test(test_empty),
	};

	return unit_run(tests, NULL, NULL);
}
