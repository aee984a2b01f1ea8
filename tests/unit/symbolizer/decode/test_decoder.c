#include "tests/unit/unit.h"

#include <errno.h>

#include "symbolizer/decode/decoder.h"
#include "symbolizer/decode/internal.h"
#include "tests/unit/sample_hits.h"

/* Ops of the process, by plan index. */
enum {
	OP_WORD,
	OP_TENSOR,
	OP_NODE,
	OP_PLAIN,
	OP_GRADS,
	OP_SLICES,
	OP_SUM,
	OP_COUNTER,
	OP_START,
	OP_STOP,
	NOPS
};

enum { PROC = 3, TID = 500, SEEN_MAX = 256 };

static struct op_arg names[1] = {{"a", "int"}};
static struct abi_value word_in = {.how = ABI_WORD, .base = CXX_INT64, .read = 1};
static struct abi_value word_out = {.how = ABI_WORD, .base = CXX_INT64, .read = 2};
static struct abi_value tensor_in = {.how = ABI_TENSOR, .base = CXX_TENSOR, .read = 1};
static struct abi_value tensor_out = {.how = ABI_TENSOR, .base = CXX_TENSOR, .read = 2};
static struct abi_value returned = {.how = ABI_WORD, .base = CXX_INT64, .read = 0};
static struct abi_value flowing = {.how = ABI_WORD, .base = CXX_INT64, .read = 2};
static struct abi_value tensors_in = {.how = ABI_TENSORS, .base = CXX_TENSOR, .read = 1};
static struct abi_value tensors_out = {.how = ABI_TENSORS, .base = CXX_TENSOR, .read = 2};
#define OP(r, k, n, in, out)                                                                       \
	{                                                                                          \
		.role = r, .values_known = true,                                                   \
		.desc = {.kind = k,                                                                \
			 .name = n,                                                                \
			 .schema = "",                                                             \
			 .nargs = 1,                                                               \
			 .nresults = 1,                                                            \
			 .args = names,                                                            \
			 .results = names},                                                        \
		.abi = {.nargs = 1, .nresults = 1, .args = in, .results = out},                    \
	}

static struct op_probe ops[NOPS] = {
    [OP_WORD] = OP(ROLE_CALL, OP_DISPATCHED, "aten::word", &word_in, &word_out),
    [OP_TENSOR] = OP(ROLE_CALL, OP_DISPATCHED, "aten::tensor", &tensor_in, &tensor_out),
    [OP_NODE] = OP(ROLE_NODE, OP_BACKWARD, "MulBackward0", &tensors_in, &tensors_out),
    [OP_PLAIN] = {.role = ROLE_CALL,
		  .why = "its schema is not in the library",
		  .desc = {.name = "aten::plain", .schema = "", .nargs = 1, .args = names}},
    [OP_SUM] = OP(ROLE_CALL, OP_DISPATCHED, "aten::sum.dim_IntList", &word_in, &word_out),
    [OP_COUNTER] = {.role = ROLE_COUNTER, .desc = {.name = "counter", .schema = ""}},
    [OP_START] = {.role = ROLE_COUNTER_START,
		  .desc = {.name = "dynamo::compile_forward", .schema = ""}},
    [OP_STOP] = {.role = ROLE_COUNTER_STOP,
		 .desc = {.name = "dynamo::compile_backward", .schema = ""}},
    [OP_SLICES] = {.role = ROLE_SLICES, .desc = {.name = "slices", .schema = ""}},
    [OP_GRADS] = OP(ROLE_GRADS, OP_BACKWARD, "validate_outputs", &returned, &flowing),
};

struct seen {
	struct op_event ev;
	struct value arg, result; /* VALUE_NONE: there was none */
};

static struct sample_target s;
static struct decoder *d;
static uint64_t now;
static void (*feed)(struct decoder *d, const struct hit *h);
static struct seen seen[SEEN_MAX];
static unsigned nseen;
static struct record rec;

static void on_event(const struct op_event *ev, void *arg)
{
	assert_ptr_equal(arg, &nseen);
	assert_true(nseen < SEEN_MAX);
	seen[nseen].ev = *ev;
	seen[nseen].arg = ev->nargs ? ev->args[0] : (struct value){.kind = VALUE_NONE};
	seen[nseen].result = ev->nresults ? ev->results[0] : (struct value){.kind = VALUE_NONE};
	nseen++;
}

static int setup(void **state)
{
	(void)state;
	nseen = 0;
	now = 0;
	feed = decoder_feed_now;
	sample_target_init(&s, ops, NOPS);
	if (sample_target_learn(&s))
		return -1;
	d = decoder_new(on_event, &nseen);
	return d ? decoder_add_target(d, PROC, &s.target) : -1;
}

static int teardown(void **state)
{
	(void)state;
	decoder_free(d);
	sample_target_free(&s);
	return 0;
}

static void begin(unsigned kind, unsigned op, unsigned depth, uint64_t seq, uint64_t ts)
{
	record_begin(&rec, (struct hit){.kind = (uint8_t)kind,
					.op = op,
					.depth = (uint16_t)depth,
					.proc = PROC,
					.tid = TID,
					.seq = seq,
					.ts = ts});
}

/* Feed the record from a buffer of its exact size. */
static void give(void)
{
	struct hit *h = malloc(rec.hit.size);
	assert_non_null(h);
	memcpy(h, &rec, rec.hit.size);
	feed(d, h);
	free(h);
}

enum { TURN_NS = 20 * 1000 * 1000, HELD_NS = 500 * 1000 * 1000 };

/* What was fed is decoded, or held back. */
static void turn(void)
{
	decoder_tick(d, now += TURN_NS);
	decoder_tick(d, now += TURN_NS);
}

/* As before the first tensors were seen, and with no room for what they show. */
static void forget_layout(void)
{
	s.target.layout_known = s.target.layout_complete = false;
	s.target.nsnapshots = SNAPSHOTS_MAX;
}

static void enter_with(unsigned op, unsigned depth, uint64_t seq, uint64_t ts, uint64_t arg,
		       unsigned flags)
{
	begin(HIT_ENTRY, op, depth, seq, ts);
	rec.hit.flags = (uint8_t)flags;
	record_word(&rec, 1, arg);
	give();
}

static void enter(unsigned depth, uint64_t seq, uint64_t ts)
{
	enter_with(OP_WORD, depth, seq, ts, 0, 0);
}

static void leave_with(unsigned op, uint64_t seq, uint64_t ts, uint64_t result, unsigned flags)
{
	begin(HIT_EXIT, op, 0, seq, ts);
	rec.hit.flags = (uint8_t)flags;
	record_word(&rec, 2, result);
	give();
}

static void leave(uint64_t seq, uint64_t ts)
{
	leave_with(OP_WORD, seq, ts, 0, 0);
}

static void expect_word(struct value v, int64_t i)
{
	assert_int_equal(v.kind, VALUE_INT);
	assert_int_equal(v.i, i);
}

static void test_pair(void **state)
{
	(void)state;
	enter_with(OP_WORD, 0, 1, 1000, 11, 0);
	assert_int_equal(nseen, 0);
	leave_with(OP_WORD, 1, 1500, 12, 0);
	assert_int_equal(nseen, 1);
	const struct op_event *e = &seen[0].ev;
	assert_int_equal(e->id, 1);
	assert_int_equal(e->parent, 0);
	assert_int_equal(e->start_ns, 1000);
	assert_int_equal(e->end_ns, 1500);
	assert_int_equal(e->child_ns, 0);
	assert_int_equal(e->depth, 0);
	assert_int_equal(e->pid, 77);
	assert_int_equal(e->tid, TID);
	assert_int_equal(e->phase, PHASE_FORWARD);
	assert_false(e->thrown);
	assert_string_equal(e->op->name, "aten::word");
	assert_null(e->stack);
	expect_word(seen[0].arg, 11);
	expect_word(seen[0].result, 12);
	assert_int_equal(decoder_dropped(d), 0);
}

/* Of what was not read nothing is shown, at the entry or at the exit. */
static void test_lean(void **state)
{
	(void)state;
	enter_with(OP_WORD, 0, 1, 1000, 11, HIT_LEAN);
	leave_with(OP_WORD, 1, 1500, 12, 0);
	enter_with(OP_WORD, 0, 2, 2000, 11, 0);
	leave_with(OP_WORD, 2, 2500, 12, HIT_LEAN);
	enter_with(OP_WORD, 0, 3, 3000, 11, 0);
	leave_with(OP_WORD, 3, 3500, 12, 0);
	assert_int_equal(nseen, 3);
	assert_int_equal(seen[0].arg.kind, VALUE_NOT_DECODED);
	expect_word(seen[0].result, 12);
	expect_word(seen[1].arg, 11);
	assert_int_equal(seen[1].result.kind, VALUE_NOT_DECODED);
	expect_word(seen[2].arg, 11);
	expect_word(seen[2].result, 12);
	assert_true(seen[0].ev.lean && seen[1].ev.lean && !seen[2].ev.lean);
	assert_int_equal(decoder_dropped(d), 0);
}

static struct op_sum summed;

static void on_sum(const struct op_sum *sum, void *arg)
{
	assert_ptr_equal(arg, &nseen);
	summed = *sum;
}

/* Calls that were summed up come as such; in the op that made them they are no time of its own. */
static void test_sums(void **state)
{
	const struct sum_counts c = {.calls = 5,
				     .thrown = 1,
				     .ns = 700,
				     .inner_ns = 200,
				     .min_ns = 50,
				     .max_ns = 300,
				     .first_ns = 1000,
				     .last_ns = 9000};
	const uint64_t inner = 150;
	(void)state;
	begin(HIT_SUM, OP_WORD, 0, 1, 1000);
	rec.hit.flags = HIT_BACKWARD | HIT_NESTED;
	record_item(&rec, ITEM_SUM, ITEM_NO_READ, 0, &c, sizeof(c));
	give();
	assert_int_equal(decoder_dropped(d), 1);
	decoder_on_sum(d, on_sum);
	give();
	assert_int_equal(decoder_dropped(d), 1);
	assert_string_equal(summed.of.op->name, "aten::word");
	assert_int_equal(summed.of.phase, PHASE_BACKWARD);
	assert_int_equal(summed.of.tid, TID);
	assert_int_equal(summed.of.start_ns, 1000);
	assert_int_equal(summed.of.end_ns, 9000);
	assert_int_equal(summed.calls, 5);
	assert_int_equal(summed.thrown, 1);
	assert_int_equal(summed.total_ns, 700);
	assert_int_equal(summed.child_ns, 200);
	assert_true(summed.nested && !summed.again);
	assert_null(summed.of.stack);
	assert_null(summed.of.where_stack);
	for (uint32_t own = 0; own < 2; own++) {
		begin(HIT_SUM, OP_WORD, 0, 1, 1000);
		rec.hit.flags = HIT_BACKWARD;
		record_item(&rec, ITEM_STACK, 0, STACK_LEFT_OUT | own << STACK_OWN_SHIFT, NULL, 0);
		record_item(&rec, ITEM_SUM, ITEM_NO_READ, 0, &c, sizeof(c));
		give();
		assert_true(py_stack_is_left_out(summed.of.stack));
		/* Only what Python code of the backward calls is shown at its own line. */
		assert_int_equal(py_stack_is_left_out(summed.of.where_stack), own);
	}
	enter(0, 1, 1000);
	begin(HIT_EXIT, OP_WORD, 0, 1, 1500);
	record_item(&rec, ITEM_INNER, ITEM_NO_READ, 0, &inner, sizeof(inner));
	give();
	assert_int_equal(nseen, 1);
	assert_int_equal(seen[0].ev.child_ns, inner);
	begin(HIT_SUM, OP_WORD, 0, 1, 1000);
	give();
	assert_int_equal(decoder_dropped(d), 2);
	const struct sum_counts wrong = {
	    .calls = 1, .thrown = 2, .ns = 3, .inner_ns = 4, .first_ns = 9, .last_ns = 8};
	begin(HIT_SUM, OP_WORD, 0, 1, 1000);
	record_item(&rec, ITEM_SUM, ITEM_NO_READ, 0, &wrong, sizeof(wrong));
	give();
	assert_int_equal(summed.thrown, 1);
	assert_int_equal(summed.child_ns, 3);
	assert_int_equal(summed.of.end_ns, 9);
}

/* 1 { 2 { 3 } 4 }: children first, ids in order of start, time of direct children only. */
static void test_nesting(void **state)
{
	static const struct {
		uint64_t id, parent, child_ns;
		unsigned depth;
	} want[] = {{3, 2, 0, 2}, {2, 1, 10, 1}, {4, 1, 0, 1}, {1, 0, 35, 0}};
	(void)state;
	enter(0, 1, 100);
	enter(1, 2, 110);
	enter(2, 3, 120);
	leave(3, 130);
	leave(2, 140);
	enter(1, 4, 150);
	leave(4, 155);
	leave(1, 200);
	assert_int_equal(nseen, 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(seen[i].ev.id, want[i].id);
		assert_int_equal(seen[i].ev.parent, want[i].parent);
		assert_int_equal(seen[i].ev.child_ns, want[i].child_ns);
		assert_int_equal(seen[i].ev.depth, want[i].depth);
		assert_false(seen[i].ev.thrown);
	}
}

static struct decoder_grads grads;
static unsigned ngrads;

static void on_grads(const struct decoder_grads *g, void *arg)
{
	assert_ptr_equal(arg, &nseen);
	grads = *g;
	ngrads++;
}

static void enter_grads(unsigned depth, uint64_t seq, uint64_t was, uint64_t edges)
{
	begin(HIT_ENTRY, OP_GRADS, depth, seq, 100);
	record_word(&rec, GRADS_RETURNED_READ, was);
	record_word(&rec, GRADS_EDGES_READ, edges);
	give();
}

/* Gradients are reported beside the events, which are unchanged. */
static void test_grads(void **state)
{
	(void)state;
	ngrads = 0;
	decoder_on_grads(d, on_grads);
	enter(0, 1, 100);
	enter(1, 2, 110);
	leave(2, 120);
	enter_grads(1, 3, 7, 0x1234);
	enter(1, 4, 130);
	leave(4, 140);
	leave_with(OP_GRADS, 3, 150, 8, 0);
	assert_int_equal(ngrads, 1);
	expect_word(grads.returned, 7);
	expect_word(grads.flowing, 8);
	assert_int_equal(grads.edges, 0x1234);
	assert_int_equal(grads.pid, 77);
	assert_int_equal(grads.tid, TID);
	leave_with(OP_GRADS, 3, 150, 9, 0); /* without an entry */
	enter_grads(1, 5, 7, 0);	    /* throws */
	enter_grads(1, 6, 10, 0);
	leave_with(OP_GRADS, 6, 170, 11, 0);
	assert_int_equal(ngrads, 2);
	expect_word(grads.returned, 10);
	assert_int_equal(grads.edges, 0);
	leave(1, 200);
	assert_int_equal(nseen, 3);
	assert_int_equal(seen[1].ev.id, 3);
	assert_int_equal(seen[1].ev.parent, 1);
	assert_int_equal(seen[2].ev.child_ns, 10 + 10);
	assert_int_equal(decoder_dropped(d), 0);
}

/* A counter of that name is made, at that address. */
static void make_counter(uint64_t seq, const char *name, uint64_t address)
{
	begin(HIT_ENTRY, OP_COUNTER, 0, seq, seq * 10);
	record_item(&rec, ITEM_STRING, COUNTER_NAME_READ, 0, name, strlen(name));
	give();
	begin(HIT_EXIT, OP_COUNTER, 0, seq, seq * 10 + 1);
	record_word(&rec, COUNTER_MADE_READ, address);
	give();
}

static void count_on(unsigned op, unsigned depth, uint64_t seq, uint64_t ts, uint64_t address,
		     unsigned flags)
{
	begin(HIT_ENTRY, op, depth, seq, ts);
	rec.hit.flags = (uint8_t)flags;
	record_word(&rec, COUNTER_READ, address);
	give();
}

static const char forward_name[] = "pytorch.wait_counter.entire_forward_compile",
		  backward_name[] = "pytorch.wait_counter.entire_backward_compile";

/* Ops in a compilation are within it, whatever depth the engine counts; nested ones and other
 * counters are none of their own. */
static void test_compilation(void **state)
{
	(void)state;
	make_counter(1, forward_name, 0x1000);
	make_counter(2, "pytorch.wait_counter.dynamo_compile", 0x2000);
	count_on(OP_START, 0, 3, 100, 0x2000, 0);
	count_on(OP_START, 0, 4, 110, 0x1000, 0);
	count_on(OP_START, 0, 5, 120, 0x1000, 0);
	enter(0, 6, 130);
	enter(1, 7, 140);
	leave(7, 150);
	leave(6, 160);
	count_on(OP_STOP, 0, 8, 170, 0x1000, 0);
	count_on(OP_STOP, 0, 9, 180, 0x2000, 0);
	count_on(OP_STOP, 0, 10, 190, 0x1000, 0);
	enter(0, 11, 200);
	leave(11, 210);
	assert_int_equal(nseen, 4);
	const struct op_event *inner = &seen[0].ev, *outer = &seen[1].ev, *c = &seen[2].ev;
	assert_string_equal(c->op->name, "dynamo::compile_forward");
	assert_true(event_is_compilation(c));
	assert_int_equal(c->start_ns, 110);
	assert_int_equal(c->end_ns, 190);
	assert_int_equal(c->child_ns, 30);
	assert_int_equal(outer->parent, c->id);
	assert_int_equal(inner->parent, outer->id);
	assert_int_equal(inner->depth, 2);
	assert_int_equal(inner->phase, PHASE_COMPILE);
	assert_false(event_is_compilation(inner));
	assert_int_equal(seen[3].ev.phase, PHASE_FORWARD);
	assert_int_equal(seen[3].ev.depth, 0);
}

/* That of a backward is within its node, and ends with it at the latest. */
static void test_compiled_backward(void **state)
{
	(void)state;
	make_counter(1, backward_name, 0x3000);
	enter_with(OP_WORD, 0, 2, 100, 0, HIT_BACKWARD);
	count_on(OP_START, 1, 3, 110, 0x3000, HIT_BACKWARD);
	enter_with(OP_WORD, 1, 4, 120, 0, HIT_BACKWARD);
	leave_with(OP_WORD, 4, 130, 0, HIT_BACKWARD);
	leave_with(OP_WORD, 2, 140, 0, HIT_BACKWARD);
	enter(0, 5, 200);
	leave(5, 210);
	assert_int_equal(nseen, 4);
	assert_int_equal(seen[0].ev.phase, PHASE_COMPILE);
	assert_string_equal(seen[1].ev.op->name, "dynamo::compile_backward");
	assert_int_equal(seen[1].ev.depth, 1);
	assert_int_equal(seen[2].ev.phase, PHASE_BACKWARD);
	assert_int_equal(seen[3].ev.phase, PHASE_FORWARD);
}

/* Where records are missing nobody knows whether it goes on. */
static void test_compilation_lost(void **state)
{
	(void)state;
	make_counter(1, forward_name, 0x1000);
	count_on(OP_START, 0, 2, 100, 0x1000, 0);
	enter_with(OP_WORD, 0, 3, 200, 0, HIT_GAP);
	leave(3, 210);
	assert_int_equal(nseen, 2);
	assert_int_equal(seen[0].ev.end_ns, 0);
	assert_int_equal(seen[1].ev.phase, PHASE_FORWARD);
	assert_int_equal(seen[1].ev.depth, 0);
}

static void test_threads(void **state)
{
	(void)state;
	enter(0, 1, 100);
	begin(HIT_ENTRY, OP_WORD, 0, 1, 105);
	rec.hit.tid = TID + 256;
	give();
	leave(1, 110);
	assert_int_equal(nseen, 1);
	assert_int_equal(seen[0].ev.tid, TID);
	begin(HIT_EXIT, OP_WORD, 0, 1, 120);
	rec.hit.tid = TID + 256;
	give();
	assert_int_equal(nseen, 2);
	assert_int_equal(seen[1].ev.tid, TID + 256);
	assert_int_equal(seen[1].ev.parent, 0);
	assert_int_equal(decoder_dropped(d), 0);
}

/* An op left by an exception has no exit: the next entry at its depth ends it. */
static void test_thrown_by_entry(void **state)
{
	(void)state;
	enter(0, 1, 100);
	enter(1, 2, 110);
	enter(2, 3, 120);
	enter(1, 4, 150);
	assert_int_equal(nseen, 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(seen[i].ev.id, 3 - i);
		assert_true(seen[i].ev.thrown);
		assert_int_equal(seen[i].ev.end_ns, 150);
		assert_int_equal(seen[i].ev.nresults, 0);
	}
	leave(4, 160);
	leave(1, 200);
	assert_int_equal(nseen, 4);
	assert_int_equal(seen[2].ev.parent, 1);
	assert_int_equal(seen[3].ev.child_ns, 40 + 10);
	assert_false(seen[2].ev.thrown || seen[3].ev.thrown);
}

static void test_thrown_by_exit(void **state)
{
	(void)state;
	enter(0, 1, 100);
	enter(1, 2, 110);
	leave(1, 200);
	assert_int_equal(nseen, 2);
	assert_true(seen[0].ev.thrown);
	assert_int_equal(seen[0].ev.id, 2);
	assert_int_equal(seen[0].ev.end_ns, 200);
	assert_false(seen[1].ev.thrown);
	assert_int_equal(decoder_dropped(d), 0);
}

/* Lost records may include an exit: the end is unknown. */
static void test_gap(void **state)
{
	(void)state;
	enter(0, 1, 100);
	enter(1, 2, 110);
	leave_with(OP_WORD, 1, 200, 5, HIT_GAP);
	assert_int_equal(nseen, 2);
	assert_false(seen[0].ev.thrown);
	assert_int_equal(seen[0].ev.end_ns, 0);
	assert_int_equal(seen[1].ev.end_ns, 200);
	assert_int_equal(seen[1].ev.child_ns, 0);
	expect_word(seen[1].result, 5);

	enter(0, 3, 300);
	enter_with(OP_WORD, 0, 5, 400, 0, HIT_GAP);
	assert_int_equal(nseen, 3);
	assert_false(seen[2].ev.thrown);
	assert_int_equal(seen[2].ev.end_ns, 0);
	leave(5, 410);
	assert_int_equal(seen[3].ev.end_ns, 410);
}

static void test_open_since(void **state)
{
	int32_t pid = s.target.pid;
	(void)state;
	assert_true(decoder_open_since(d, pid, TID) == UINT64_MAX);
	enter(0, 1, 100);
	enter(1, 2, 110);
	assert_true(decoder_open_since(d, pid, TID) == 100);
	assert_true(decoder_open_since(d, pid + 1, TID) == UINT64_MAX);
	assert_true(decoder_open_since(d, pid, TID + 1) == UINT64_MAX);
	leave(2, 120);
	assert_true(decoder_open_since(d, pid, TID) == 100);
	leave(1, 130);
	assert_true(decoder_open_since(d, pid, TID) == UINT64_MAX);
}

static void test_exit_alone(void **state)
{
	(void)state;
	leave(9, 100);
	assert_int_equal(nseen, 0);
	assert_int_equal(decoder_dropped(d), 1);
	enter(0, 1, 200);
	leave(9, 210);
	assert_int_equal(nseen, 0);
	assert_int_equal(decoder_dropped(d), 2);
	leave(1, 220);
	assert_int_equal(nseen, 1);
}

static void test_flush(void **state)
{
	(void)state;
	enter(0, 1, 100);
	enter(1, 2, 110);
	decoder_remove_target(d, PROC + 1);
	assert_int_equal(nseen, 0);
	decoder_remove_target(d, PROC);
	assert_int_equal(nseen, 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(seen[i].ev.id, 2 - i);
		assert_int_equal(seen[i].ev.end_ns, 0);
		assert_false(seen[i].ev.thrown);
		assert_int_equal(seen[i].ev.child_ns, 0);
	}
	assert_int_equal(decoder_add_target(d, PROC, &s.target), 0);
	enter(0, 3, 300);
	decoder_finish(d);
	assert_int_equal(nseen, 3);
	assert_int_equal(seen[2].ev.id, 3);
	decoder_finish(d);
	assert_int_equal(nseen, 3);
}

/* What was fed waits for one turn; then it comes out, in order. */
static void test_turns(void **state)
{
	(void)state;
	feed = decoder_feed;
	decoder_tick(d, now += TURN_NS);
	enter(0, 1, 100);
	leave(1, 110);
	decoder_tick(d, now += TURN_NS - 1);
	assert_int_equal(nseen, 0);
	decoder_tick(d, now += 1);
	enter(0, 2, 200);
	assert_int_equal(nseen, 0);
	decoder_tick(d, now += TURN_NS);
	assert_int_equal(nseen, 1);
	assert_int_equal(seen[0].ev.start_ns, 100);
	leave(2, 210);
	/* nothing overtakes what waits */
	feed = decoder_feed_now;
	enter(0, 3, 300);
	assert_int_equal(nseen, 2);
	assert_int_equal(seen[1].ev.end_ns, 210);
	feed = decoder_feed;
	leave(3, 310);
	assert_int_equal(nseen, 2);
	decoder_finish(d);
	assert_int_equal(nseen, 3);
	assert_int_equal(seen[2].ev.end_ns, 310);
	assert_int_equal(decoder_dropped(d), 0);
}

/* Of a process that has ended all comes out before it is forgotten. */
static void test_end(void **state)
{
	(void)state;
	feed = decoder_feed;
	decoder_tick(d, now += TURN_NS);
	enter(0, 1, 100);
	leave(1, 110);
	assert_false(decoder_end_target(d, PROC));
	decoder_tick(d, now += TURN_NS);
	assert_false(decoder_end_target(d, PROC));
	decoder_tick(d, now += TURN_NS);
	assert_true(decoder_end_target(d, PROC));
	assert_int_equal(nseen, 1);
	/* and another with its number begins anew */
	decoder_remove_target(d, PROC);
	assert_int_equal(decoder_add_target(d, PROC, &s.target), 0);
	assert_false(decoder_end_target(d, PROC));
}

static void test_dropped(void **state)
{
	(void)state;
	begin(HIT_ENTRY, OP_WORD, 0, 1, 100);
	rec.hit.proc = PROC + 1;
	give();
	assert_int_equal(decoder_dropped(d), 1);
	rec.hit.proc = 60000;
	give();
	assert_int_equal(decoder_dropped(d), 2);
	begin(HIT_ENTRY, NOPS, 0, 1, 100);
	give();
	assert_int_equal(decoder_dropped(d), 3);
	begin(HIT_ENTRY, OP_WORD, 0, 1, 100);
	rec.hit.size = sizeof(struct hit) - 1;
	decoder_feed_now(d, &rec.hit);
	rec.hit.size = 0;
	decoder_feed(d, &rec.hit);
	assert_int_equal(decoder_dropped(d), 5);
	begin(99, OP_WORD, 0, 1, 100);
	give();
	decoder_finish(d);
	assert_int_equal(nseen, 0);
	assert_int_equal(decoder_add_target(d, 60000, &s.target), -E2BIG);
}

/* Calls nested too deep are dropped and counted; the others end normally. */
static void test_too_deep(void **state)
{
	(void)state;
	for (unsigned i = 0; i <= OPEN_MAX; i++)
		enter(i, i + 1, 100 + i);
	assert_int_equal(decoder_dropped(d), 1);
	leave(1, 1000);
	assert_int_equal(nseen, OPEN_MAX);
	assert_int_equal(seen[OPEN_MAX - 1].ev.id, 1);
	assert_false(seen[OPEN_MAX - 1].ev.thrown);
}

/* An op without parent that a function of that torch file calls directly. */
static const struct op_event *called_by(const char *file, const char *function)
{
	static uint64_t seq;
	static struct py_frame f = {.line = 5, .is_torch = true};
	static struct py_stack *known;
	f.file = file;
	f.function = function;
	known = known ? known : calloc(1, sizeof(*known) + sizeof(known->frames[0]));
	assert_non_null(known);
	known->depth = 1;
	known->frames[0] = &f;
	seq++;
	begin(HIT_ENTRY, OP_WORD, 0, seq, 100 * seq);
	record_item(&rec, ITEM_STACK, 0, STACK_KNOWN, &known, sizeof(known));
	record_word(&rec, 1, 0);
	give();
	leave(seq, 100 * seq + 50);
	return &seen[nseen - 1].ev;
}

/* What the engine does between nodes, or for one that was entered before the recording, is of the
 * backward, and of no known line; what the functions around it call is not. */
static void test_of_engine(void **state)
{
	static const struct {
		const char *file, *function;
		enum op_phase phase;
	} all[] = {
	    {"/x/torch/autograd/graph.py", "_engine_run_backward", PHASE_BACKWARD},
	    {"/x/torch/autograd/__init__.py", "backward", PHASE_BACKWARD},
	    {"/x/torch/autograd/__init__.py", "grad", PHASE_BACKWARD},
	    {"/x/torch/autograd/__init__.py", "_make_grads", PHASE_FORWARD},
	    {"/x/torch/autograd/graph.py", "pack", PHASE_FORWARD},
	    {"/x/torch/_tensor.py", "backward", PHASE_FORWARD},
	};
	char none;
	(void)state;
	s.target.py = (struct py_runtime *)(void *)&none; /* known stacks do not need it */
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const struct op_event *ev = called_by(all[i].file, all[i].function);
		assert_int_equal(ev->phase, all[i].phase);
		assert_ptr_equal(ev->where_stack, all[i].phase == PHASE_FORWARD ? ev->stack : NULL);
	}
	s.target.py = NULL;
}

/* Values that are not in the plan are not decoded, with a reason. */
static void test_no_values(void **state)
{
	(void)state;
	enter_with(OP_PLAIN, 0, 1, 100, 5, 0);
	leave_with(OP_PLAIN, 1, 110, 5, 0);
	assert_int_equal(seen[0].arg.kind, VALUE_NOT_DECODED);
	assert_string_equal(seen[0].arg.str, "its schema is not in the library");
	assert_int_equal(seen[0].ev.nresults, 0);
}

/* A hit in several fragments; the item that matters is in the last. */
static void give_parts(unsigned kind, unsigned read, uint64_t seq, uint64_t ts, uint64_t word)
{
	begin(kind, OP_WORD, 0, seq, ts);
	rec.hit.flags = HIT_MORE;
	record_word(&rec, 9, 1);
	give();
	begin(kind, OP_WORD, 0, seq, ts);
	rec.hit.flags = HIT_MORE | HIT_CONT;
	record_word(&rec, 9, 2);
	give();
	begin(kind, OP_WORD, 0, seq, ts);
	rec.hit.flags = HIT_CONT;
	record_word(&rec, read, word);
	give();
}

static void test_parts(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		nseen = 0;
		give_parts(HIT_ENTRY, 1, i + 1, 100, 20 + i);
		give_parts(HIT_EXIT, 2, i + 1, 200, 30 + i);
		assert_int_equal(nseen, 1);
		expect_word(seen[0].arg, 20 + i);
		expect_word(seen[0].result, 30 + i);
	}
	assert_int_equal(decoder_dropped(d), 0);
}

/* The first fragment was lost: the rest is not attached to an earlier hit. */
static void test_lost_part(void **state)
{
	(void)state;
	begin(HIT_ENTRY, OP_WORD, 0, 1, 100);
	rec.hit.flags = HIT_MORE;
	record_word(&rec, 1, 41);
	give();
	begin(HIT_ENTRY, OP_WORD, 0, 1, 100);
	rec.hit.flags = HIT_CONT;
	give();
	leave(1, 110);
	expect_word(seen[0].arg, 41);

	begin(HIT_ENTRY, OP_WORD, 0, 2, 200);
	rec.hit.flags = HIT_CONT | HIT_GAP;
	give();
	leave(2, 210);
	assert_int_equal(nseen, 2);
	assert_int_equal(seen[1].ev.start_ns, 200);
	assert_int_equal(seen[1].arg.kind, VALUE_NOT_DECODED);

	/* one in the middle was lost: the next must not take its place */
	begin(HIT_ENTRY, OP_WORD, 0, 3, 300);
	rec.hit.flags = HIT_MORE;
	give();
	begin(HIT_ENTRY, OP_WORD, 0, 3, 300);
	rec.hit.flags = HIT_CONT | HIT_GAP;
	record_word(&rec, 1, 43);
	give();
	leave(3, 310);
	assert_int_equal(nseen, 3);
	assert_int_equal(seen[2].arg.kind, VALUE_NOT_DECODED);
}

/* A size that no record can have, as all parts are padded. */
static void test_odd_size(void **state)
{
	(void)state;
	begin(HIT_ENTRY, OP_WORD, 0, 1, 100);
	record_word(&rec, 1, 41);
	rec.hit.flags = HIT_MORE;
	rec.hit.size += 4;
	give();
	assert_int_equal(decoder_dropped(d), 1);
}

enum { NOT_READ = 1000 };

static uint64_t node_at;

/* Add a tensor whose grad_fn is the node at `node` (0: none), with that sequence number. */
static void add_tensor(unsigned read, uint64_t node, uint64_t seq)
{
	struct tensor_snapshot snap;
	struct fake_tensor t = {.dtype = 6, .itemsize = 4, .ndim = 1, .size = {3}, .data = 64};
	unsigned am = (s.fake.in.autograd - SNAPSHOT_FIRST) / 8;
	fake_contiguous(&t);
	t.meta_vtable = node ? s.fake.meta : 0;
	fake_snapshot(&s.fake, &t, &snap);
	if (node) {
		fake_word(snap.at[am].bytes, s.fake.in.grad_fn, node);
		snap.at[am].valid = seq == NOT_READ ? 1 : SNAPSHOT_NODE + seq;
	}
	record_item(&rec, ITEM_SNAPSHOT, read, 0, &snap, sizeof(snap));
}

/* An op that takes a tensor of node `in` and returns one of node `out`. */
static void tensor_op(uint64_t seq, uint64_t ts, uint64_t in, uint64_t out, uint64_t out_seq)
{
	begin(HIT_ENTRY, OP_TENSOR, 0, seq, ts);
	add_tensor(1, in, 1);
	give();
	begin(HIT_EXIT, OP_TENSOR, 0, seq, ts + 10);
	add_tensor(2, out, out_seq);
	give();
}

static void node_op(uint64_t seq, uint64_t ts, uint64_t node, uint64_t node_seq)
{
	uint64_t w[2] = {node, node_seq};
	begin(HIT_ENTRY, OP_NODE, 0, seq, ts);
	rec.hit.flags = HIT_BACKWARD;
	record_item(&rec, ITEM_DATA, NODE_READ, 0, w, sizeof(w));
	give();
}

static void test_tie(void **state)
{
	(void)state;
	node_at = fake_put(&s.fake, &s.fake.node, 8);
	tensor_op(1, 100, 0, node_at, 5);
	assert_int_equal(seen[0].result.kind, VALUE_TENSOR);
	/* passed through: not created by this op */
	tensor_op(2, 200, node_at, node_at, 5);
	node_op(3, 300, node_at, 5);
	/* ops in a backward node belong to the same forward op */
	enter_with(OP_WORD, 1, 4, 310, 0, HIT_BACKWARD);
	leave(4, 320);
	leave_with(OP_NODE, 3, 330, 0, HIT_BACKWARD);
	assert_int_equal(nseen, 4);
	assert_int_equal(seen[2].ev.phase, PHASE_BACKWARD);
	assert_int_equal(seen[2].ev.forward_id, 1);
	assert_int_equal(seen[2].ev.parent, seen[3].ev.id);
	assert_int_equal(seen[3].ev.forward_id, 1);
	assert_string_equal(seen[3].ev.op->name, "MulBackward0");
	/* another node at the same address */
	node_op(5, 400, node_at, 6);
	leave_with(OP_NODE, 5, 410, 0, HIT_BACKWARD);
	assert_int_equal(seen[4].ev.forward_id, 0);
}

/* An op that the engine runs, entered with number `seq`; its forward op. */
static uint64_t behind(unsigned op, uint64_t seq)
{
	enter_with(op, 0, seq, seq * 100, 0, HIT_BACKWARD);
	leave_with(op, seq, seq * 100 + 10, 0, HIT_BACKWARD);
	assert_int_equal(seen[nseen - 1].ev.phase, PHASE_BACKWARD);
	return seen[nseen - 1].ev.forward_id;
}

/* What the engine does with the results of a node belongs to it, as long as it is that node's. */
static void test_after_node(void **state)
{
	(void)state;
	node_at = fake_put(&s.fake, &s.fake.node, 8);
	tensor_op(1, 100, 0, node_at, 5);
	assert_int_equal(behind(OP_SUM, 2), 0);
	/* 3 is the engine's work on the node */
	node_op(4, 400, node_at, 5);
	leave_with(OP_NODE, 4, 410, 0, HIT_BACKWARD);
	enter_with(OP_SUM, 0, 5, 500, 0, HIT_BACKWARD);
	enter_with(OP_WORD, 1, 6, 510, 0, HIT_BACKWARD);
	leave_with(OP_WORD, 6, 520, 0, HIT_BACKWARD);
	leave_with(OP_SUM, 5, 530, 0, HIT_BACKWARD);
	assert_int_equal(seen[nseen - 2].ev.forward_id, 1);
	assert_int_equal(seen[nseen - 1].ev.forward_id, 1);
	/* not of what it does with results */
	assert_int_equal(behind(OP_WORD, 7), 0);
	assert_int_equal(behind(OP_SUM, 8), 1);
	/* it has gone on to another, or something is missing */
	assert_int_equal(behind(OP_SUM, 10), 0);
	assert_int_equal(behind(OP_SUM, 11), 0);
	/* a node that threw returned nothing */
	node_op(13, 1300, node_at, 5);
	assert_int_equal(behind(OP_SUM, 14), 0);
	/* within another op it is not the engine's */
	node_op(16, 1600, node_at, 5);
	leave_with(OP_NODE, 16, 1610, 0, HIT_BACKWARD);
	enter_with(OP_WORD, 0, 17, 1700, 0, HIT_BACKWARD);
	enter_with(OP_SUM, 1, 18, 1710, 0, HIT_BACKWARD);
	leave_with(OP_SUM, 18, 1720, 0, HIT_BACKWARD);
	assert_int_equal(seen[nseen - 1].ev.forward_id, 0);
	/* nor outside of the backward */
	node_op(20, 2000, node_at, 5);
	leave_with(OP_NODE, 20, 2010, 0, HIT_BACKWARD);
	enter_with(OP_SUM, 0, 21, 2100, 0, 0);
	leave_with(OP_SUM, 21, 2110, 0, 0);
	assert_int_equal(seen[nseen - 1].ev.forward_id, 0);
}

/* Whether an op behind AccumulateGrad is at its line, with `calls` calls of the engine around it.
 */
static bool is_hook(unsigned calls, uint16_t depth, bool truncated)
{
	static const struct py_frame user = {.file = "/train.py", .function = "step"},
				     backward = {.file = "/lib/torch/autograd/__init__.py",
						 .function = "backward",
						 .is_torch = true},
				     run = {.file = "/lib/torch/autograd/graph.py",
					    .function = "_engine_run_backward",
					    .is_torch = true};
	static const struct op_desc accumulates = {.name = "torch::autograd::AccumulateGrad"},
				    mul = {.name = "aten::mul.out"};
	static struct py_stack parameter;
	struct py_stack *stack = malloc(sizeof(*stack) + 6 * sizeof(stack->frames[0]));
	assert_non_null(stack);
	*stack = (struct py_stack){.depth = (uint16_t)(3 * calls), .truncated = truncated};
	for (unsigned i = 0; i < stack->depth; i++)
		stack->frames[i] = i % 3 == 0 ? &run : i % 3 == 1 ? &backward : &user;
	const struct op_event node = {
	    .op = &accumulates, .depth = depth, .stack = stack, .where_stack = &parameter};
	struct op_event op = {.op = &mul, .depth = depth, .stack = stack};
	struct after_node after = {0};
	after_node_ended(&after, &node);
	const bool is = after_node_locate(&after, &op);
	assert_ptr_equal(op.where_stack, is ? &parameter : NULL);
	free(stack);
	return is;
}

/* Behind AccumulateGrad come only its hooks; in a backward within another one there is more. */
static void test_after_accumulation(void **state)
{
	(void)state;
	assert_true(is_hook(1, 0, false));
	assert_true(is_hook(0, 0, false));
	assert_false(is_hook(2, 0, false));
	assert_false(is_hook(1, 1, false));
	assert_false(is_hook(1, 0, true));
}

/* A write into a view gives its base a node that no result has. */
static void test_slices(void **state)
{
	(void)state;
	const uint64_t made[2] = {0x1000, 7};
	begin(HIT_ENTRY, OP_WORD, 0, 1, 100);
	give();
	begin(HIT_ENTRY, OP_SLICES, 1, 2, 110);
	give();
	begin(HIT_EXIT, OP_SLICES, 1, 2, 120);
	record_item(&rec, ITEM_DATA, SLICES_NODE_READ, 0, made, sizeof(made));
	give();
	leave(1, 130);
	assert_int_equal(nseen, 1);
	node_op(3, 200, made[0], made[1]);
	leave_with(OP_NODE, 3, 210, 0, HIT_BACKWARD);
	assert_int_equal(nseen, 2);
	assert_int_equal(seen[1].ev.forward_id, seen[0].ev.id);
	assert_int_equal(decoder_dropped(d), 0);
}

/* An op that passes on the node of an argument did not create it, even if no creator is known. */
static void test_tie_through(void **state)
{
	(void)state;
	node_at = fake_put(&s.fake, &s.fake.node, 8);
	tensor_op(1, 100, node_at, node_at, 5);
	node_op(2, 300, node_at, 5);
	leave_with(OP_NODE, 2, 310, 0, HIT_BACKWARD);
	assert_int_equal(nseen, 2);
	assert_int_equal(seen[1].ev.forward_id, 0);
}

/* Without its sequence number a node cannot be matched. */
static void test_tie_not_read(void **state)
{
	(void)state;
	node_at = fake_put(&s.fake, &s.fake.node, 8);
	tensor_op(1, 100, 0, node_at, NOT_READ);
	node_op(2, 300, node_at, 0);
	leave_with(OP_NODE, 2, 310, 0, HIT_BACKWARD);
	assert_int_equal(nseen, 2);
	assert_int_equal(seen[1].ev.forward_id, 0);
}

/* A node passed on by an outer op belongs to the inner one. */
static void test_tie_inner(void **state)
{
	(void)state;
	node_at = fake_put(&s.fake, &s.fake.node, 8);
	begin(HIT_ENTRY, OP_TENSOR, 0, 1, 100);
	add_tensor(1, 0, 0);
	give();
	begin(HIT_ENTRY, OP_TENSOR, 1, 2, 110);
	add_tensor(1, 0, 0);
	give();
	for (unsigned seq = 2; seq >= 1; seq--) {
		begin(HIT_EXIT, OP_TENSOR, 0, seq, 150 - 10 * seq);
		add_tensor(2, node_at, 8);
		give();
	}
	node_op(3, 300, node_at, 8);
	leave_with(OP_NODE, 3, 310, 0, HIT_BACKWARD);
	assert_int_equal(seen[2].ev.forward_id, 2);
}

/* Events are held until the tensor layout is known; then all come, in order. */
static void test_held(void **state)
{
	(void)state;
	feed = decoder_feed;
	forget_layout();
	tensor_op(1, 100, 0, 0, 0);
	enter(0, 2, 200);
	turn();
	assert_int_equal(nseen, 0);
	s.target.layout_known = true;
	leave(2, 210);
	turn();
	assert_int_equal(nseen, 2);
	assert_int_equal(seen[0].ev.id, 1);
	assert_int_equal(seen[0].arg.kind, VALUE_TENSOR);
	assert_int_equal(seen[0].result.kind, VALUE_TENSOR);
	assert_int_equal(seen[1].ev.start_ns, 200);
	assert_int_equal(decoder_dropped(d), 0);
}

/* After half a second it comes out with what is known then. */
static void test_drain(void **state)
{
	(void)state;
	feed = decoder_feed;
	forget_layout();
	s.target.layout.solved = false;
	decoder_tick(d, now = HELD_NS);
	tensor_op(1, 100, 0, 0, 0);
	turn();
	assert_int_equal(nseen, 0);
	decoder_tick(d, now += HELD_NS);
	assert_int_equal(nseen, 1);
	assert_int_equal(seen[0].arg.kind, VALUE_NOT_DECODED);
	decoder_tick(d, now += HELD_NS);
	assert_int_equal(nseen, 1);
	/* the layout is complete and can be fixed */
	tensor_op(2, 200, 0, 0, 0);
	turn();
	s.target.layout.solved = s.target.layout_complete = true;
	decoder_tick(d, now += HELD_NS);
	assert_true(s.target.layout_known);
	assert_int_equal(nseen, 2);
	assert_int_equal(seen[1].arg.kind, VALUE_TENSOR);
}

/* A record of a stopped thread is not held back. */
static void test_not_held(void **state)
{
	(void)state;
	forget_layout();
	s.target.layout.solved = false;
	tensor_op(1, 100, 0, 0, 0);
	assert_int_equal(nseen, 1);
	assert_int_equal(seen[0].arg.kind, VALUE_NOT_DECODED);
}

static void count_in_order(const struct op_event *ev, void *arg)
{
	uint64_t *last = arg;
	assert_int_equal(ev->id, ++*last);
	assert_int_equal(ev->start_ns, 100 * ev->id);
	assert_int_equal(ev->end_ns, ev->start_ns + 50);
	assert_int_equal(ev->args[0].i, ev->id);
}

/* A target that is gone: held-back hits of it are decoded, its open ops end, and nothing is
 * attributed to others. */
static void test_remove(void **state)
{
	(void)state;
	enter(0, 1, 100);
	assert_int_equal(nseen, 0);
	feed = decoder_feed;
	forget_layout();
	enter(1, 2, 200);
	turn();
	decoder_remove_target(d, PROC);
	assert_int_equal(nseen, 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(seen[i].ev.start_ns, 200 - 100 * i);
		assert_int_equal(seen[i].ev.end_ns, 0);
	}
	leave(2, 210);
	assert_int_equal(decoder_dropped(d), 1);
	feed = decoder_feed_now;
	assert_int_equal(decoder_add_target(d, PROC, &s.target), 0);
	enter(0, 3, 300);
	leave(3, 310);
	assert_int_equal(nseen, 3);
	assert_int_equal(seen[2].ev.start_ns, 300);
	decoder_remove_target(d, 60000);
}

/* More is held than there is room for: nothing is lost, and the order is kept. */
static void test_held_full(void **state)
{
	enum { N = 2000 };
	static const uint8_t big[60000];
	uint64_t last = 0;
	(void)state;
	decoder_free(d);
	d = decoder_new(count_in_order, &last);
	assert_non_null(d);
	assert_int_equal(decoder_add_target(d, PROC, &s.target), 0);
	feed = decoder_feed;
	forget_layout();
	for (unsigned seq = 1; seq <= N; seq++) {
		begin(HIT_ENTRY, OP_WORD, 0, seq, 100 * seq);
		record_word(&rec, 1, seq);
		record_item(&rec, ITEM_DATA, 9, 0, big, sizeof(big));
		give();
		leave(seq, 100 * seq + 50);
	}
	decoder_finish(d);
	assert_int_equal(last, N);
	assert_int_equal(decoder_dropped(d), 0);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_pair),
	    TEST(test_lean),
	    TEST(test_sums),
	    TEST(test_nesting),
	    TEST(test_compilation),
	    TEST(test_compiled_backward),
	    TEST(test_compilation_lost),
	    TEST(test_grads),
	    TEST(test_threads),
	    TEST(test_thrown_by_entry),
	    TEST(test_thrown_by_exit),
	    TEST(test_gap),
	    TEST(test_open_since),
	    TEST(test_exit_alone),
	    TEST(test_flush),
	    TEST(test_turns),
	    TEST(test_end),
	    TEST(test_dropped),
	    TEST(test_too_deep),
	    TEST(test_of_engine),
	    TEST(test_no_values),
	    TEST(test_parts),
	    TEST(test_lost_part),
	    TEST(test_odd_size),
	    TEST(test_tie),
	    TEST(test_after_node),
	    TEST(test_after_accumulation),
	    TEST(test_slices),
	    TEST(test_tie_through),
	    TEST(test_tie_not_read),
	    TEST(test_tie_inner),
	    TEST(test_held),
	    TEST(test_drain),
	    TEST(test_not_held),
	    TEST(test_remove),
	    TEST(test_held_full),
	};
	return unit_run(tests, NULL, NULL);
}
