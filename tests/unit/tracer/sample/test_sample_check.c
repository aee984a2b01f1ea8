
#include "tests/unit/unit.h"

#include <errno.h>

#include "symbolizer/code/arch_x86_64.h"
#include "tracer/sample/internal.h"

/* A stack at 0x10000: 16 words of an op's function, the last of them the return address into the
 * interpreter; 16 of the interpreter, word 20 of all being its _PyCFrame; then the rest. */
enum { START = 0x10000, WORDS = 64, CFRAME = 20, FRAME = 0x5000, CODE = 0x7000 };

struct stage {
	uint64_t then[WORDS], now[WORDS];
	uint64_t regs[ARCH_REGS];
	struct native_place places[3];
	uint64_t pairs[2][2];
	struct py_walk walk;
	struct py_top top;
	struct sample_check c;
};

static uint64_t at(unsigned word)
{
	return START + 8 * (uint64_t)word;
}

static void set_up(struct stage *s)
{
	*s = (struct stage){
	    .regs = {[ARCH_SP] = START},
	    .places = {{.sp = at(0)}, {.sp = at(16)}, {.sp = at(32)}},
	    .pairs = {{CODE - 0x100, CODE + 10}, {CODE, CODE + 2}},
	    .walk = {.cframe_frame = 8, .instr_size = 8},
	    .top = {.cframe = at(CFRAME), .frame = FRAME},
	};
	s->then[CFRAME + 1] = FRAME;
	s->then[14] = CODE + 12; /* saved by the op's function: address of the next instruction */
	memcpy(s->now, s->then, sizeof(s->now));
	s->c = (struct sample_check){
	    .regs = s->regs,
	    .stack = {START, sizeof(s->then), (uint8_t *)s->then, (uint8_t *)s->now},
	    .places = s->places,
	    .nplaces = 3,
	    .interpreter = 1,
	    .interpreters = 1,
	    .whole = true,
	    .walk = &s->walk,
	    .top = &s->top,
	    .codes_stay = true,
	    .pairs = s->pairs,
	    .n = 2,
	    .code_start = CODE,
	    .code_end = CODE + 100,
	};
}

static void what_stands_still_is_taken(void **state)
{
	(void)state;
	struct stage s;
	set_up(&s);
	s.now[2] = 1; /* the op is still running */
	assert_int_equal(sample_check(&s.c), SAMPLE_PYTHON);
	assert_int_equal(s.pairs[0][1], CODE + 10);
}

static void another_frame_is_not(void **state)
{
	(void)state;
	struct stage s;
	set_up(&s);
	s.top.frame = FRAME + 0x40;
	assert_int_equal(sample_check(&s.c), SAMPLE_MOVED);
	set_up(&s);
	s.top.cframe = at(40); /* of an outer interpreter call: the inner one has returned */
	s.then[41] = FRAME;
	assert_int_equal(sample_check(&s.c), SAMPLE_MOVED);
}

static void the_instruction_is_the_samples(void **state)
{
	(void)state;
	struct stage s;
	set_up(&s);
	s.now[15] = 1; /* has returned, and called another */
	s.pairs[0][1] = CODE + 40;
	assert_int_equal(sample_check(&s.c), SAMPLE_PYTHON);
	assert_int_equal(s.pairs[0][1], CODE + 10);
	s.c.codes_stay = false; /* there may have been another code object then */
	assert_int_equal(sample_check(&s.c), SAMPLE_MOVED);
}

static void two_instructions_are_none(void **state)
{
	(void)state;
	struct stage s;
	set_up(&s);
	s.now[15] = 1;
	s.then[13] = CODE + 30;
	assert_int_equal(sample_check(&s.c), SAMPLE_MOVED);
}

static void in_the_interpreter_itself(void **state)
{
	(void)state;
	struct stage s;
	set_up(&s);
	s.c.places = &s.places[1];
	s.c.nplaces = 2;
	s.c.interpreter = 0;
	s.regs[ARCH_SP] = at(16);
	s.regs[ARCH_BX] = CODE + 6;
	assert_int_equal(sample_check(&s.c), SAMPLE_PYTHON);
	assert_int_equal(s.pairs[0][1], CODE + 4);
	s.regs[ARCH_BX] = 0;
	assert_int_equal(sample_check(&s.c), SAMPLE_MOVED);
}

static void without_the_interpreter(void **state)
{
	(void)state;
	struct stage s;
	set_up(&s);
	s.c.interpreter = -1;
	assert_int_equal(sample_check(&s.c), SAMPLE_NO_PYTHON);
	s.c.whole = false; /* it may be further out */
	assert_int_equal(sample_check(&s.c), SAMPLE_MOVED);
	s.c.n = -ENOENT;
	assert_int_equal(sample_check(&s.c), SAMPLE_NO_PYTHON);
}

static void at_once_the_frames_are_the_samples(void **state)
{
	struct stage s;
	(void)state;
	set_up(&s);
	s.c.at_once = true;
	s.c.stack.now = NULL; /* its later state does not matter */
	s.then[14] = s.then[15] = 0;
	assert_int_equal(sample_check(&s.c), SAMPLE_PYTHON);
	assert_int_equal(s.pairs[0][1], CODE + 10);
	s.top.frame = FRAME + 8; /* but the interpreter was about to change it */
	assert_int_equal(sample_check(&s.c), SAMPLE_MOVED);
	s.c.interpreter = -1;
	s.c.whole = false; /* in a kernel without a path back */
	assert_int_equal(sample_check(&s.c), SAMPLE_PYTHON);
	s.c.whole = true;
	assert_int_equal(sample_check(&s.c), SAMPLE_NO_PYTHON);
}

static void before_3_11_frames_are_counted(void **state)
{
	(void)state;
	struct stage s;
	set_up(&s);
	s.walk.cframe_frame = PY_NO_OFFSET;
	s.walk.instr_size = 4;
	s.c.code_end = 0;
	assert_int_equal(sample_check(&s.c), SAMPLE_MOVED); /* 2 frames, 1 call */
	s.c.interpreters = 2;
	assert_int_equal(sample_check(&s.c), SAMPLE_PYTHON);
	s.top.frame = FRAME + 8;
	assert_int_equal(sample_check(&s.c), SAMPLE_MOVED);
}

static void any_places_do(void **state)
{
	(void)state;
	struct stage s;
	for (unsigned i = 0; i < WORDS + 4; i++)
		for (unsigned k = 0; k < WORDS + 4; k++) {
			set_up(&s);
			s.places[1].sp = at(i) - 16;
			s.places[2].sp = at(k) + k % 3;
			sample_check(&s.c);
			s.c.nplaces = 2;
			assert_int_equal(sample_check(&s.c), SAMPLE_MOVED);
		}
}

/* Since 3.13 no known place holds the frame pointer. */
static void a_register_that_no_callee_has_saved_names_the_frame(void **state)
{
	struct stage s;
	(void)state;
	set_up(&s);
	s.walk.cframe_frame = PY_NO_OFFSET;
	s.then[CFRAME + 1] = 0;
	s.c.at_once = true;
	assert_int_equal(sample_check(&s.c), SAMPLE_MOVED);
	s.regs[ARCH_BX] = FRAME;
	assert_int_equal(sample_check(&s.c), SAMPLE_PYTHON);
	s.c.at_once = false; /* in the callee itself, read later: it may be about to begin */
	assert_int_equal(sample_check(&s.c), SAMPLE_MOVED);
	s.c.at_once = true;
	s.regs[ARCH_BX] = 0;
	s.regs[ARCH_AX] = FRAME; /* a callee may have set it */
	assert_int_equal(sample_check(&s.c), SAMPLE_MOVED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_stands_still_is_taken),
	    cmocka_unit_test(another_frame_is_not),
	    cmocka_unit_test(the_instruction_is_the_samples),
	    cmocka_unit_test(two_instructions_are_none),
	    cmocka_unit_test(in_the_interpreter_itself),
	    cmocka_unit_test(without_the_interpreter),
	    cmocka_unit_test(at_once_the_frames_are_the_samples),
	    cmocka_unit_test(a_register_that_no_callee_has_saved_names_the_frame),
	    cmocka_unit_test(before_3_11_frames_are_counted),
	    cmocka_unit_test(any_places_do),
	};
	return unit_run(tests, NULL, NULL);
}
