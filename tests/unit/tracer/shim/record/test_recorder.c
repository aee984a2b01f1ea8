/* The recorder inside a traced process, called as PyTorch calls it. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <pthread.h>
#include <sys/mman.h>

/* Included as in the shim: it reads its own process's memory. */
#include "tracer/shim/memory.c"
#include "tracer/shim/quiescence.c"
#include "tracer/shim/record/jumps.c"
#include "tracer/shim/record/new_operators.c"
#include "tracer/shim/record/record_layout.c"
#include "tracer/shim/record/recorder.c"
#include "tracer/shim/record/recorder_thread.c"
#include "tracer/shim/record/ticks.c"
#include "tracer/shim/record/turns.c"
#include "tracer/shim/saved_call_x86_64.c"

static struct shim_share *_Atomic memory;
static struct eh_globals no_exceptions;
static const char *name_text;

struct shim_share *shim_share(void)
{
	return memory;
}

static unsigned epoch;
static struct brief so_far; /* what was read */

unsigned shim_epoch(void)
{
	return epoch;
}

bool shim_take_forked(void)
{
	return false;
}

void shim_go(void)
{
}

static _Atomic unsigned wakes;

void shim_wake(void)
{
	wakes++;
}

static _Atomic bool is_stopped;

bool shim_is_stopped(void)
{
	return is_stopped;
}

static unsigned idles;

void jump_idle(void)
{
	idles++;
}

static unsigned yields;

void activities_yield(void)
{
	yields++;
}

void activities_exit(void)
{
}

void shim_lock(void)
{
}

void shim_unlock(void)
{
}

void pycode_watch(void (*fn)(uint64_t code))
{
	(void)fn;
}

void pycode_unwatch(void)
{
}

static const char *name_of(const uint64_t *rf)
{
	(void)rf;
	return name_text;
}

static uint64_t two(const uint64_t *rf)
{
	(void)rf;
	return 2;
}

static struct eh_globals *exceptions(void)
{
	return &no_exceptions;
}

static void give_conf(uint16_t max_depth)
{
	memory->conf_seq++;
	memory->conf.max_depth = max_depth;
	memory->conf_seq++;
}

static int setup(void **state)
{
	(void)state;
	memory = mmap(NULL, sizeof(*memory), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return -1;
	memory->on = 1;
	memory->chunks = 8;
	for (uint32_t k = 0; k < SHIM_OPS; k++)
		memory->op[k] = k;
	torch.name = name_of;
	torch.num_inputs = two;
	torch.exceptions = exceptions;
	name_text = "aten::add";
	layout = (struct record_layout){0};
	checked = 0;
	epoch++;
	memset(&so_far, 0, sizeof(so_far));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (shim_place)
		thread_ends(shim_place);
	if (memory)
		munmap(memory, sizeof(*memory));
	memory = NULL;
	return 0;
}

/* A RecordFunction of name_text(1, 1) in PyTorch 2.13. */
struct sample {
	uint64_t rf[64];
	uint64_t schema[2];
	uint64_t in[2][2], out[1][2];
};

static struct recorder_thread *self(void)
{
	return inside_memory_had();
}

static void call(struct sample *s)
{
	void *context;
	*s = (struct sample){.schema = {(uintptr_t)name_text, strlen(name_text)},
			     .in = {{1, IVALUE_INT}, {1, IVALUE_INT}},
			     .out = {{2, IVALUE_INT}}};
	s->rf[20] = (uintptr_t)s->schema;
	s->rf[24] = 1;
	s->rf[25] = UINT64_MAX;
	s->rf[26] = (uintptr_t)s->in;
	s->rf[27] = 2;
	assert_ptr_equal(start_function(&context, s->rf), &context);
	assert_null(context);
}

static void finish(struct sample *s)
{
	s->rf[35] = (uintptr_t)s->out;
	s->rf[36] = s->rf[37] = (uintptr_t)(s->out + 1);
	end_either(s->rf, NULL);
}

static struct shim_thread *mine(void)
{
	return &memory->thread[0];
}

/* The next record, whole; valid until the next call. NULL: there is none. */
static const struct hit *next_record(int *bad)
{
	static _Alignas(8) uint8_t copy[HIT_BUF_MAX + HIT_BUF_SLACK];
	const struct hit *h = chunks_next_any(&mine()->records, memory->ring[0], bad);
	if (!h)
		return NULL;
	const uint32_t size = h->size;
	memcpy(copy, h, ring_bytes(size));
	chunks_drop(&mine()->records, h);
	if (!(size & RING_BRIEF)) {
		brief_whole(&so_far, (struct hit *)copy);
		return (struct hit *)copy;
	}
	h = brief_read(&so_far, copy);
	*bad |= !h;
	return h;
}

/* Consume all records; *gaps counts those that report a loss before them. */
static unsigned drain(unsigned *gaps)
{
	const struct hit *h;
	unsigned n = 0;
	int bad = 0;
	for (*gaps = 0; (h = next_record(&bad)); n++)
		*gaps += (h->flags & HIT_GAP) != 0;
	assert_int_equal(bad, 0);
	return n;
}

/* Nothing is recorded without a complete configuration; while one is being written, perhaps
 * forever, the old one stays in force, without waiting. */
static void test_conf(void **state)
{
	struct sample s;
	unsigned gaps;
	(void)state;
	memory->conf_seq = 1;
	call(&s);
	assert_int_equal(drain(&gaps), 0);
	assert_false(thread_update(self()));
	memory->conf_seq = 0;
	give_conf(3);
	call(&s);
	finish(&s);
	assert_int_equal(drain(&gaps), 2);
	assert_int_equal(self()->conf.max_depth, 3);
	memory->conf_seq++;
	memory->conf.max_depth = 9;
	call(&s);
	finish(&s);
	assert_int_equal(drain(&gaps), 2);
	assert_true(thread_update(self()));
	assert_int_equal(self()->conf.max_depth, 3);
	memory->conf_seq++;
	assert_true(thread_update(self()));
	assert_int_equal(self()->conf.max_depth, 9);
}

/* Each record is in the ring or counted as lost, and the next record reports the loss. */
static void test_exact(void **state)
{
	enum { CALLS = 100000 };
	struct sample s;
	unsigned gaps;
	(void)state;
	give_conf(0);
	memory->plan[SHIM_CALL] = (struct op_plan){
	    .nentry = 1,
	    .read = {{.kind = READ_IVALUES, .a = SHIM_LOC_VALUES}},
	};
	for (unsigned i = 0; i < CALLS; i++) {
		call(&s);
		finish(&s);
	}
	assert_int_equal(mine()->hits, 2 * CALLS);
	assert_true(mine()->lost > 0);
	unsigned came = drain(&gaps);
	assert_int_equal(gaps, 0);
	assert_int_equal(came + mine()->lost, 2 * CALLS);
	call(&s);
	finish(&s);
	assert_int_equal(drain(&gaps), 2);
	assert_int_equal(gaps, 1);
	assert_int_equal(memory->lost, 0);
}

static uint64_t bytes_of_call(void)
{
	struct sample s;
	const uint64_t before = mine()->records.ring.head;
	call(&s);
	finish(&s);
	return mine()->records.ring.head - before;
}

/* More than half of a ring that is empty. Returns the number of records; *last: bytes of the last
 * call. */
static unsigned fill(uint64_t *last)
{
	const uint64_t until =
	    mine()->records.ring.head + (uint64_t)memory->chunks * CHUNK * 9 / 16;
	unsigned n = 0;
	for (; mine()->records.ring.head < until; n += 2)
		*last = bytes_of_call();
	return n;
}

/* As a ring fills, its records become brief, and whole again when it was read. A thread that gets
 * another ring, as in the child of a fork or when ditrace comes again, refers to nothing that went
 * into the one before. */
static void test_brief(void **state)
{
	unsigned gaps, n;
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		give_conf(0);
		memory->chunks = 8;
		const uint64_t whole = bytes_of_call();
		uint64_t last;
		n = 2 + fill(&last);
		assert_true(last < whole / 2);
		assert_int_equal(drain(&gaps), n);
		n = fill(&last);
		assert_int_equal(drain(&gaps), n);
		assert_int_equal(gaps, 0);
		epoch++;
		memset(&so_far, 0, sizeof(so_far));
		*mine() = (struct shim_thread){0};
	}
}

/* Nothing is recorded while it is off. */
static void test_off(void **state)
{
	struct sample s;
	unsigned gaps;
	(void)state;
	give_conf(0);
	memory->on = 0;
	call(&s);
	finish(&s);
	assert_null(self());
	memory->on = 1;
	memory->chunks = 8;
	call(&s);
	finish(&s);
	assert_int_equal(drain(&gaps), 2);
}

/* A record in an object, not on the stack, is no call. */
static void test_owned(void **state)
{
	static struct sample owned;
	unsigned gaps;
	(void)state;
	give_conf(0);
	call(&owned);
	finish(&owned);
	assert_int_equal(drain(&gaps), 0);
}

/* With the ring's words corrupted, records still stay within the ring. */
static void test_corrupted(void **state)
{
	struct sample s;
	struct ring *r = &mine()->records.ring;
	const uint64_t *next = (const uint64_t *)memory->ring[1];
	(void)state;
	give_conf(0);
	srand(1);
	for (unsigned i = 0; i < 100000; i++) {
		uint64_t suggestions_end =
		    (uint64_t)rand() * SHIM_RING - (uint64_t)(rand() % 65536);
		r->head = rand() % 2 ? suggestions_end : (uint64_t)rand() << (rand() % 40);
		r->tail = rand() % 2 ? r->head - (uint64_t)(rand() % SHIM_RING)
				     : (uint64_t)rand() << (rand() % 40);
		call(&s);
		finish(&s);
	}
	for (unsigned i = 0; i < 8192; i++)
		assert_int_equal(next[i], 0);
}

/* What ditrace may do about a stopped thread: read memory first, switch recording off, go away, be
 * stopped, or die. */
enum deed { LOOK, SWITCH_OFF, GO_AWAY, BE_STOPPED, BE_STOPPED_LOOKING, DIE, DIE_LOOKING };

static void *do_deed(void *arg)
{
	const enum deed deed = *(const enum deed *)arg;
	struct shim_share *s = memory;
	uint32_t stands;
	while (((stands = s->thread[0].stand) & SHIM_STAND_MASK) != SHIM_STANDS)
		;
	if (deed == LOOK || deed == DIE_LOOKING || deed == BE_STOPPED_LOOKING)
		assert_true(atomic_compare_exchange_strong(
		    &s->thread[0].stand, &stands,
		    shim_stand_word(shim_stand_number(stands), SHIM_LOOKED_AT)));
	if (deed == LOOK)
		s->thread[0].stand &= ~SHIM_STAND_MASK;
	else if (deed == SWITCH_OFF)
		s->on = 0;
	else if (deed == GO_AWAY)
		s->away = 1;
	else if (deed == BE_STOPPED || deed == BE_STOPPED_LOOKING)
		is_stopped = true;
	else
		memory = NULL;
	return s;
}

static void stands(enum deed deed, unsigned records)
{
	struct sample s;
	pthread_t ditrace;
	unsigned gaps, before = wakes;
	assert_int_equal(pthread_create(&ditrace, NULL, do_deed, &deed), 0);
	call(&s);
	void *share;
	pthread_join(ditrace, &share);
	assert_int_equal(wakes, before + 1);
	memory = share;
	assert_int_equal(mine()->stand & SHIM_STAND_MASK, deed == DIE		? SHIM_STANDS
							  : deed == DIE_LOOKING ? SHIM_LOOKED_AT
										: SHIM_GOES);
	mine()->stand &= ~SHIM_STAND_MASK;
	memory->on = 1;
	memory->chunks = 8;
	memory->away = 0;
	is_stopped = false;
	assert_int_equal(drain(&gaps), records);
}

/* A thread stops at a record that asks for it, until that was read or no reader is left. */
static void test_stands(void **state)
{
	struct sample s;
	unsigned gaps;
	(void)state;
	give_conf(0);
	call(&s);
	finish(&s);
	assert_int_equal(drain(&gaps), 2);
	assert_int_equal(wakes, 0);
	memory->plan[SHIM_CALL].flags = PLAN_STOP;
	stands(LOOK, 1);
	stands(SWITCH_OFF, 1);
	stands(GO_AWAY, 1);
	assert_false(unanswered);
	stands(BE_STOPPED, 1);
	assert_true(unanswered);
	call(&s); /* nobody looks at it */
	assert_int_equal(drain(&gaps), 1);
	unanswered = false;
	stands(BE_STOPPED_LOOKING, 1);
	assert_true(unanswered);
	unanswered = false;
	stands(DIE, 1);
	stands(DIE_LOOKING, 1);
}

/* Serve `arg` stopped threads, and no more. */
static void *look_at(void *arg)
{
	for (unsigned *n = arg; *n; --*n)
		do_deed(&(enum deed){LOOK});
	return NULL;
}

static void meet(const char *name, unsigned woken)
{
	struct sample s;
	unsigned gaps, before = wakes;
	name_text = name;
	call(&s);
	finish(&s);
	assert_int_equal(wakes - before, woken);
	assert_int_equal(mine()->stand & SHIM_STAND_MASK, SHIM_GOES);
	assert_int_equal(drain(&gaps), 2);
}

/* At the end of a call of an operator registered by the program, a thread waits for ditrace once;
 * if ditrace did not come, no other thread waits again. */
static void test_new_operators(void **state)
{
	pthread_t ditrace;
	unsigned looks = 2;
	(void)state;
	give_conf(0);
	new_operators_begin();
	meet("aten::add", 0);
	assert_int_equal(pthread_create(&ditrace, NULL, look_at, &looks), 0);
	meet("mine::add", 1);
	meet("mine::add", 0);
	meet("mine::mul", 1);
	pthread_join(ditrace, NULL);
	meet("mine::div", 1);
	meet("mine::sub", 0);
	meet("mine::mul", 0);
}

enum { OP = 10, OTHER = 11 };

static void enter_at(uint32_t op, uint64_t sp)
{
	const uint64_t regs[ARCH_REGS] = {[ARCH_SP] = sp}, fp[16] = {0};
	jump_entered(regs, op, fp);
}

static void leave_at(uint32_t op, uint64_t sp)
{
	const uint64_t regs[ARCH_REGS] = {[ARCH_SP] = sp};
	jump_left(regs, op);
}

/* A thread leaves ops out, or records them again, where none is open. */
static void test_turns(void **state)
{
	unsigned gaps;
	(void)state;
	give_conf(0);
	memory->jumped[OP] = memory->jumped[OTHER] = 1;
	enter_at(OP, 1000);
	memory->turn = 2;
	assert_int_equal(self()->turn.jumps, 0);
	enter_at(OTHER, 900); /* within one that is recorded */
	leave_at(OTHER, 880);
	leave_at(OP, 980);
	assert_int_equal(drain(&gaps), 4);
	enter_at(OP, 1000);
	enter_at(OP, 900);
	leave_at(OP, 880);
	memory->turn = 4;
	enter_at(OTHER, 850); /* within one that is left out */
	leave_at(OTHER, 840);
	assert_int_equal(drain(&gaps), 0);
	leave_at(OP, 980);
	enter_at(OTHER, 850);
	leave_at(OTHER, 840);
	assert_int_equal(drain(&gaps), 2);
	assert_int_equal(mine()->turn[2].ops, 3);
	assert_true(idles > 0);
	assert_int_equal(mine()->turn[4].idle_ns, 0);
	assert_int_equal(mine()->lost, 0);
	memory->turn = 6;
	enter_at(OP, 1000); /* it throws */
	assert_int_equal(mine()->turn[4].ops, 1);
	memory->turn = 0;
	enter_at(OTHER, 900);
	assert_int_equal(drain(&gaps), 0);
	enter_at(OTHER, 1000);
	leave_at(OTHER, 980);
	assert_int_equal(drain(&gaps), 2);
	assert_int_equal(gaps, 0);
	assert_int_equal(mine()->turn[6].ops, 2);
}

/* One that never sees where its outermost op ends records at last, too. */
static void test_turns_end(void **state)
{
	unsigned gaps;
	(void)state;
	give_conf(0);
	memory->jumped[OP] = memory->jumped[OTHER] = 1;
	memory->turn = 2;
	enter_at(OP, 1000);
	memory->turn = 0;
	for (unsigned i = 0; i < 1 << 17; i++) {
		enter_at(OTHER, 900);
		leave_at(OTHER, 880);
		if (drain(&gaps))
			return;
	}
	fail();
}

/* Also on a thread that has run no op yet. */
static void test_profiler(void **state)
{
	uint64_t regs[ARCH_REGS] = {0};
	(void)state;
	assert_true(saved_call_prepare());
	jump_stepped(regs, SHIM_STEP_DISPATCH);
	assert_int_equal(yields, 0);
	jump_stepped(regs, SHIM_STEP_PROFILER);
	assert_int_equal(yields, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_conf, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_exact, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_brief, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_owned, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_off, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_corrupted, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_stands, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_new_operators, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_turns, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_turns_end, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_profiler, setup, teardown),
	};

	if (!inside_prepare(recorder_thread_ends))
		return 1;
	return unit_run(tests, NULL, NULL);
}
