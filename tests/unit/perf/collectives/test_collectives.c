/* Collectives: what a call is, which call of one rank is which of another, and who comes last. */
#include "tests/unit/unit.h"

#include "perf/collectives/collectives.h"
#include "perf/collectives/internal.h"
#include "tests/unit/sample_events.h"

enum { MS = 1000000, STEPS = 100 };

static const struct op_desc allreduce = {.name = "c10d::allreduce_", .schema = ""},
			    broadcast = {.name = "c10d::broadcast_", .schema = ""},
			    gather_base = {.name = "c10d::_allgather_base_", .schema = ""},
			    barrier = {.name = "c10d::barrier", .schema = ""},
			    send = {.name = "c10d::send", .schema = ""},
			    shutdown_op = {.name = "c10d::shutdown", .schema = ""},
			    bucket_ready = {.name = "c10d::Reducer::mark_bucket_ready",
					    .schema = ""},
			    bucket_sent = {.name = "c10d::Reducer::get_variables_for_bucket",
					   .schema = ""},
			    backward_over = {.name = "c10d::Reducer::finalize_backward",
					     .schema = ""},
			    mm = {.name = "aten::mm", .schema = ""};

static struct value args[4], tensors[2];

static struct op_event call(const struct op_desc *op, int pid, uint64_t start, uint64_t end)
{
	struct op_event ev = sample_event(start, 0, 0, start, end);
	ev.op = op;
	ev.pid = ev.tid = pid;
	ev.args = args;
	ev.nargs = 0;
	return ev;
}

static void add_arg(struct op_event *ev, struct value v)
{
	args[ev->nargs++] = v;
}

static struct value group_value(uint64_t address, int rank, int size)
{
	return (struct value){.kind = VALUE_GROUP, .group = {address, rank, size, NULL}};
}

static struct value int_value(int64_t i)
{
	return (struct value){.kind = VALUE_INT, .i = i};
}

static struct value tensor_value(void)
{
	return (struct value){.kind = VALUE_TENSOR, .tensor = &sample_tensor};
}

static struct value list_value(uint32_t n)
{
	tensors[0] = tensors[1] = tensor_value();
	return (struct value){.kind = VALUE_LIST, .items = tensors, .count = n};
}

static struct op_event of_rank(int rank, const struct op_desc *op, uint64_t start)
{
	struct op_event ev = call(op, 100 + rank, start, start + 10);
	if (op == &gather_base)
		add_arg(&ev, tensor_value());
	if (op != &barrier)
		add_arg(&ev, op == &gather_base ? tensor_value() : list_value(1));
	add_arg(&ev, group_value(0x1000 + (uint64_t)rank, rank, 2));
	if (op == &allreduce)
		add_arg(&ev, (struct value){.kind = VALUE_STRING, .str = "SUM", .count = 3});
	if (op == &broadcast || op == &send)
		add_arg(&ev, int_value(1));
	return ev;
}

static void see(struct collectives *c, struct op_event ev)
{
	const struct trace_item item = {.type = TRACE_EVENT, .event = ev};
	assert_int_equal(collectives_see(c, &item), 0);
}

static void process_at(struct collectives *c, int pid, int rank, bool whole, const char *host)
{
	struct trace_item item = {
	    .type = TRACE_PROCESS,
	    .process = {.pid = pid, .whole = whole, .rank = {.rank = rank, .world_size = 2}}};
	strcpy(item.process.rank.host, host);
	assert_int_equal(collectives_see(c, &item), 0);
}

static void process(struct collectives *c, int rank, bool whole, const char *host)
{
	process_at(c, 100 + rank, rank, whole, host);
}

static struct collectives *two_ranks(bool whole, const char *other_host)
{
	struct collectives *c = collectives_new();
	assert_non_null(c);
	process(c, 0, whole, "here");
	process(c, 1, whole, other_host);
	return c;
}

static const char *printed(struct collectives *c)
{
	static char text[1 << 14];
	FILE *f = fmemopen(text, sizeof(text), "w");
	assert_int_equal(collectives_sum(c), 0);
	assert_int_equal(collectives_print_csv(c, f), 0);
	fclose(f);
	return text;
}

static const char *matched(struct collectives *c)
{
	assert_int_equal(collectives_match(c), 0);
	return printed(c);
}

static void what_a_call_is(void **state)
{
	struct collective w;
	(void)state;
	struct op_event ev = of_rank(1, &allreduce, 1);
	assert_true(collective_of(&ev, &w));
	assert_string_equal(w.name, "allreduce");
	assert_string_equal(w.reduce_op, "SUM");
	assert_true(w.in_sequence && w.waits_for_all && w.has_bytes);
	assert_int_equal(w.bytes, 24 * 4);
	assert_int_equal(w.dtype, 6);
	assert_int_equal(w.root, -1);
	assert_int_equal(w.group->group.rank, 1);
	ev = of_rank(0, &broadcast, 1);
	assert_true(collective_of(&ev, &w) && w.root == 1 && !w.waits_for_all && !w.reduce_op);
	ev = of_rank(0, &gather_base, 1);
	assert_true(collective_of(&ev, &w) && w.bytes == 96 && w.group);
	ev = of_rank(0, &barrier, 1);
	assert_true(collective_of(&ev, &w) && !w.has_bytes && w.group && w.root == -1);
	ev = of_rank(0, &send, 1);
	assert_true(collective_of(&ev, &w) && !w.in_sequence && w.root == 1);
	ev = of_rank(0, &shutdown_op, 1);
	assert_false(collective_of(&ev, &w));
	ev = of_rank(0, &mm, 1);
	assert_false(collective_of(&ev, &w));
	/* without its arguments */
	ev = of_rank(0, &allreduce, 1);
	ev.nargs = 0;
	assert_true(collective_of(&ev, &w) && !w.group && !w.has_bytes && !w.reduce_op);
	/* two tensors, one of unknown size */
	ev = call(&allreduce, 100, 1, 2);
	add_arg(&ev, list_value(2));
	assert_true(collective_of(&ev, &w) && w.bytes == 192);
	tensors[1].tensor = &sample_unknown_tensor;
	assert_true(collective_of(&ev, &w) && !w.has_bytes && w.dtype == -1);
}

/* Rank 1 calls each 2 ms after rank 0, but the third one 1 ms before. What is sent is not numbered.
 */
static void ranks_are_matched(void **state)
{
	unsigned group;
	uint64_t number;
	(void)state;
	struct collectives *c = two_ranks(true, "here");
	struct op_event ev = of_rank(0, &send, 5 * MS);
	see(c, ev);
	for (uint64_t k = 1; k <= 5; k++) {
		see(c, of_rank(0, &allreduce, 10 * MS * k));
		see(c, of_rank(1, &allreduce, 10 * MS * k + (k == 3 ? -1 : 2) * MS));
	}
	const char *text = matched(c);
	assert_non_null(strstr(text, "allreduce,SUM,,96,float32,0,2,10,10,10,5,"));
	assert_non_null(strstr(text, ",1,4,,0,,,0,,,/home/me/train.py,13,forward,,,\n"));
	assert_non_null(strstr(text, "send,,1,96,float32,0,2,1,"));
	ev = of_rank(1, &allreduce, 29 * MS);
	assert_true(collectives_number(c, &ev, &group, &number));
	assert_int_equal(group, 0);
	assert_int_equal(number, 3);
	ev.start_ns++;
	assert_false(collectives_number(c, &ev, &group, &number));
	ev = of_rank(0, &send, 5 * MS);
	assert_false(collectives_number(c, &ev, &group, &number));
	collectives_free(c);
}

/* Only what is chosen counts; the numbers stay. */
static void chosen_calls(void **state)
{
	(void)state;
	struct collectives *c = two_ranks(true, "here");
	for (uint64_t k = 1; k <= 5; k++)
		for (int rank = 0; rank < 2; rank++)
			see(c, of_rank(rank, &allreduce, 10 * MS * k + (uint64_t)rank));
	assert_int_equal(collectives_match(c), 0);
	collectives_choose_none(c);
	for (int rank = 0; rank < 2; rank++) {
		struct op_event ev = of_rank(rank, &allreduce, 30 * MS + (uint64_t)rank);
		collectives_choose(c, &ev);
	}
	assert_non_null(strstr(printed(c), "allreduce,SUM,,96,float32,0,2,2,10,10,1,1,1,1,"));
	collectives_free(c);
}

static void not_compared(struct collectives *c, const char *why)
{
	for (int rank = 0; rank < 2; rank++)
		see(c, of_rank(rank, &allreduce, 10 * MS));
	assert_non_null(strstr(matched(c), ",10,10,0,,,,"));
	assert_non_null(strstr(c->why, why));
	collectives_free(c);
}

static void ranks_that_are_not_compared(void **state)
{
	(void)state;
	not_compared(two_ranks(false, "here"), "not recorded from its start");
	struct collectives *c = two_ranks(true, "here");
	struct op_event ev = of_rank(0, &allreduce, 1);
	process_at(c, 300, 0, true, "here");
	ev.pid = 300;
	see(c, ev);
	not_compared(c, "rank 1 was started 1 times, and rank 0 2 times");
	c = two_ranks(true, "here");
	ev = call(&allreduce, 101, 1, 2);
	see(c, ev);
	not_compared(c, "the group of 1 call of rank 1 is not known");
	c = two_ranks(true, "here");
	const struct trace_item lost = {.type = TRACE_LOST, .lost.count = 7};
	assert_int_equal(collectives_see(c, &lost), 0);
	not_compared(c, "7 events lost");
	c = two_ranks(true, "here");
	const struct trace_item sum = {.type = TRACE_SUM,
				       .sum = {.of = of_rank(0, &allreduce, 1), .calls = 3}};
	assert_int_equal(collectives_see(c, &sum), 0);
	not_compared(c, "sums of 3 calls");
	c = two_ranks(true, "here");
	see(c, of_rank(1, &allreduce, 1));
	assert_int_equal(collectives_match(c), 0);
	assert_non_null(strstr(c->why, "no collectives of rank 0"));
	collectives_free(c);
}

/* The launcher started both again after they had called once; `early`: what is read first is the
 * second start. */
static void check_last_start(bool early)
{
	const uint64_t ns[] = {early ? 10 * MS : 1, early ? 1 : 10 * MS};
	struct collectives *c = two_ranks(true, "here");
	for (int rank = 0; rank < 2; rank++)
		process_at(c, 200 + rank, rank, true, "here");
	for (int rank = 0; rank < 2; rank++)
		see(c, of_rank(rank, &barrier, ns[0]));
	for (int rank = 0; rank < 2; rank++) {
		struct op_event ev = of_rank(rank, &allreduce, ns[1]);
		ev.pid = 200 + rank;
		see(c, ev);
	}
	assert_int_equal(collectives_match(c), 0);
	assert_string_equal(c->why, "");
	assert_true(c->starts == 2 && c->nranks == 2 && c->worlds[0].n == 1);
	assert_true(c->ranks[0] == (early ? 0 : 2) && c->ranks[1] == (early ? 1 : 3));
	collectives_free(c);
}

static void the_last_start_is_compared(void **state)
{
	(void)state;
	check_last_start(false);
	check_last_start(true);
}

/* Its process was gone when the call was decoded. */
static void what_is_not_known_does_not_differ(void **state)
{
	struct collectives *c = two_ranks(true, "here");
	(void)state;
	see(c, of_rank(0, &allreduce, MS));
	struct op_event ev = of_rank(1, &allreduce, MS);
	args[2] = (struct value){.kind = VALUE_NOT_DECODED, .str = "gone"};
	see(c, ev);
	assert_int_equal(collectives_match(c), 0);
	assert_true(c->nworlds == 1 && c->worlds[0].n == 1 && !c->differ[0]);
	collectives_free(c);
}

/* Three groups, of ranks 0 and 1, 0 and 2, and of all, whose addresses and order of use differ
 * between the ranks; rank 2 is late. */
static void groups_of_some_ranks(void **state)
{
	static const int32_t ranks[] = {0, 1, 2}, others[] = {0, 2};
	static const struct group_desc descs[] = {
	    {"1", ranks, 2}, {"2", others, 2}, {"0", ranks, 3}};
	struct collectives *c = collectives_new();
	char text[64];
	(void)state;
	for (int rank = 0; rank < 3; rank++)
		process(c, rank, true, "here");
	for (size_t i = 0; i < c->nprocesses; i++)
		c->processes[i].rank.world_size = 3;
	for (uint64_t k = 1; k <= STEPS; k++)
		for (int rank = 2; rank >= 0; rank--)
			for (int i = 0; i < 2; i++) {
				struct op_event ev =
				    of_rank(rank, &allreduce, 20 * MS * k + (rank == 2) * 9 * MS);
				const struct group_desc *of = &descs[k == STEPS ? 2 : i];
				if (k == STEPS ? i > 0 : rank == 2 - i)
					continue;
				ev.start_ns += (uint64_t)i * 10 * MS;
				args[1].group.of = of;
				args[1].group.address += (uint64_t)(i + rank) << 32;
				see(c, ev);
			}
	assert_int_equal(collectives_match(c), 0);
	assert_string_equal(c->why, "");
	assert_int_equal(c->nworlds, 3);
	struct skew *s = skew_new(c);
	struct skew_group *first = skew_first(s);
	assert_string_equal(first->world->of->name, "2");
	assert_int_equal(first->n, STEPS - 1);
	struct skew_verdict v = *skew_verdict(first);
	assert_true(v.is_named && first->world->ranks[v.rank] == 2);
	assert_string_equal(collective_group_text(text, sizeof(text), &descs[1], 7),
			    "2 (ranks 0, 2)");
	skew_free(s);
	collectives_free(c);
}

/* Of a group's ranks one has called nothing in it: that is told. */
static void a_group_that_is_not_compared(void **state)
{
	static const int32_t ranks[] = {0, 1};
	static const struct group_desc descs[] = {{"0", ranks, 2}, {"1", ranks, 2}};
	struct collectives *c = two_ranks(true, "here");
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct op_event ev = of_rank(i & 1, &allreduce, 10 * MS * (1 + (uint64_t)i));
		args[1].group.of = &descs[i / 2];
		args[1].group.address += (uint64_t)i << 32;
		see(c, ev);
	}
	assert_int_equal(collectives_match(c), 0);
	assert_int_equal(c->nworlds, 1);
	assert_string_equal(c->left_out,
			    "group 1 (ranks 0, 1) is not compared: rank 1 called nothing "
			    "of it that is known to be of it");
	collectives_free(c);
}

/* From the first call that is another on some rank on, nothing is compared. */
static void calls_that_differ(void **state)
{
	(void)state;
	struct collectives *c = two_ranks(true, "here");
	for (int rank = 0; rank < 2; rank++) {
		see(c, of_rank(rank, &allreduce, 10 * MS));
		see(c, of_rank(rank, rank ? &barrier : &allreduce, 20 * MS));
		see(c, of_rank(rank, &allreduce, 30 * MS));
	}
	assert_int_equal(collectives_match(c), 0);
	assert_int_equal(c->worlds[0].n, 1);
	assert_non_null(strstr(c->differ, "collective 2 differs: allreduce at train.py:13 on rank "
					  "0, barrier at train.py:13 on rank 1"));
	collectives_free(c);
}

/* `late`: by how much rank 1 comes later, in which step, and whether it is in mm meanwhile. */
typedef uint64_t late_fn(int step);

static struct skew *skewed(struct collectives *c, late_fn *late, bool in_mm)
{
	uint64_t at[STEPS][2];
	for (int i = 0; i < STEPS; i++)
		for (int rank = 0; rank < 2; rank++) {
			at[i][rank] =
			    (uint64_t)(i + 1) * 100 * MS + (rank ? late(i) : late(-1 - i));
			see(c, of_rank(rank, &allreduce, at[i][rank]));
		}
	assert_int_equal(collectives_match(c), 0);
	struct skew *s = skew_new(c);
	assert_non_null(s);
	for (int i = 0; i < STEPS; i++)
		for (int rank = 0; rank < 2; rank++) {
			uint64_t begin = (uint64_t)(i + 1) * 100 * MS - 10 * MS;
			struct op_event ev =
			    call(&mm, 100 + rank, begin, in_mm ? at[i][rank] - MS : begin + MS);
			assert_int_equal(skew_see(s, &ev), 0);
			ev = of_rank(rank, &allreduce, at[i][rank]);
			assert_int_equal(skew_see(s, &ev), 0);
		}
	return s;
}

static uint64_t always_late(int step)
{
	return step >= 0 ? 12 * MS : 0;
}

/* Rank 0 is late in the other half of the steps. */
static uint64_t late_in_turns(int step)
{
	return (step >= 0 ? step : -step) % 2 ? 12 * MS : 0;
}

static uint64_t hardly_late(int step)
{
	return step >= 0 ? MS / 10 : 0;
}

/* Rank 1, before some collectives; the others hardly make a difference. */
static uint64_t late_sometimes(int step)
{
	return step >= 0 ? (step % 4 ? 0 : 50 * MS) : MS / 10;
}

/* Rank 1 by more, in 60 of 100 calls, and rank 0 in the others. */
static uint64_t late_for_longer(int step)
{
	const int i = step < 0 ? -1 - step : step;
	if (i % 5 < 3)
		return step < 0 ? 0 : 40 * MS;
	return step < 0 ? 20 * MS : 0;
}

static uint64_t late_seldom(int step)
{
	return step >= 0 && step < 19 ? 90 * MS : 0;
}

static void a_rank_that_is_late_sometimes(void **state)
{
	(void)state;
	struct collectives *c = two_ranks(true, "here");
	struct skew *s = skewed(c, late_sometimes, true);
	struct skew_verdict v = *skew_verdict(skew_first(s));
	assert_int_equal(skew_first(s)->waited, STEPS / 4);
	assert_int_equal(skew_first(s)->ranks[1].last, STEPS / 4);
	assert_true(v.is_named && v.rank == 1);
	assert_true(v.median_ns > 48 * MS && v.median_ns < 52 * MS);
	/* what it does before the first call is not counted */
	assert_true(v.row && v.more_ns > 47 * MS && v.more_ns < 50 * MS);
	skew_free(s);
	collectives_free(c);
}

static void a_rank_that_is_late_for_longer(void **state)
{
	(void)state;
	struct collectives *c = two_ranks(true, "here");
	struct skew *s = skewed(c, late_for_longer, true);
	const struct skew_verdict v = *skew_verdict(skew_first(s));
	assert_true(skew_first(s)->waited == STEPS && skew_first(s)->ranks[1].waited == 60);
	assert_true(v.is_named && v.rank == 1);
	skew_free(s);
	collectives_free(c);
}

static uint64_t much_later_sometimes(int step)
{
	return step < 0 ? 0 : step % 16 == 3 ? 70 * MS : 12 * MS;
}

/* What comes seldom and takes long says nothing of the other times. */
static void the_usual_is_compared(void **state)
{
	(void)state;
	struct collectives *c = two_ranks(true, "here");
	struct skew *s = skewed(c, much_later_sometimes, true);
	struct skew_verdict v = *skew_verdict(skew_first(s));
	assert_int_equal(skew_first(s)->unusual, 7); /* steps 3, 19 ... 99 */
	assert_int_equal(skew_first(s)->usual, STEPS - 7 - 1);
	assert_true(v.is_named && v.rank == 1 && v.explains);
	assert_true(v.more_ns > 11 * MS && v.more_ns < 13 * MS);
	skew_free(s);
	collectives_free(c);
}

static void a_rank_that_is_late(void **state)
{
	(void)state;
	for (int in_mm = 0; in_mm < 2; in_mm++) {
		struct collectives *c = two_ranks(true, "here");
		struct skew *s = skewed(c, always_late, in_mm);
		struct skew_verdict v = *skew_verdict(skew_first(s));
		assert_true(v.is_named);
		assert_int_equal(v.rank, 1);
		assert_int_equal(skew_first(s)->ranks[1].last, STEPS);
		assert_true(v.median_ns > 11 * MS && v.median_ns < 13 * MS);
		assert_int_equal((int)v.percent, 12);
		assert_non_null(v.row);
		assert_int_equal(v.row->kind == SKEW_GAP, !in_mm);
		assert_string_equal(v.row->op->name, in_mm ? "aten::mm" : "c10d::allreduce_");
		assert_int_equal(v.row->where->line, 13);
		assert_true(v.more_ns > 11 * MS && v.more_ns < 13 * MS);
		/* Rank 0's waits are no time of its own. */
		assert_int_equal(skew_first(s)->ranks[0].waits_ns, (uint64_t)STEPS * 12 * MS);
		assert_int_equal(skew_first(s)->ranks[1].waits_ns, 0);
		assert_true(skew_first(s)->ranks[0].gaps_ns <= skew_first(s)->ranks[1].gaps_ns);
		skew_free(s);
		collectives_free(c);
	}
}

/* It is ready to run, without a processor, for a quarter of the time. */
static void a_rank_without_processor(void **state)
{
	struct collectives *c = two_ranks(true, "here");
	struct skew *s = skewed(c, always_late, true);
	(void)state;
	assert_false(skew_verdict(skew_first(s))->has_no_processor);
	for (uint64_t i = 0; i < STEPS; i++)
		for (uint32_t rank = 0; rank < 2; rank++) {
			const struct trace_usage u = {.pid = 100 + (int32_t)rank,
						      .ns = (i + 1) * 100 * MS,
						      .wait_ns = i * (rank ? 27 : 2) * MS};
			skew_see_usage(s, &u, rank + 1);
		}
	struct skew_verdict v = *skew_verdict(skew_first(s));
	assert_true(v.is_named && v.has_no_processor && v.rank == 1);
	assert_true(v.delayed > 0.26 && v.delayed < 0.28 && v.more_delayed > 0.24);
	skew_free(s);
	collectives_free(c);
}

/* Of 27 ms of waits in 100. */
static void see_usage(struct skew *s, bool known, uint64_t throttled_ns, bool least)
{
	for (uint64_t i = 0; i < STEPS; i++)
		for (uint32_t rank = 0; rank < 2; rank++) {
			const struct trace_usage u = {.pid = 100 + (int32_t)rank,
						      .ns = (i + 1) * 100 * MS,
						      .wait_ns = i * (rank ? 27 : 2) * MS,
						      .throttled_ns = i * throttled_ns,
						      .is_throttled_known = known,
						      .throttled_is_least = least};
			skew_see_usage(s, &u, rank + 1);
		}
}

static char *skew_text(const struct skew *s, bool is_json)
{
	const struct terminal t = {.width = 200};
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	assert_int_equal(is_json ? skew_print_json(s, f) : skew_print(s, f, &t), 0);
	fclose(f);
	return text;
}

static void a_quota_is_told_from_other_threads(void **state)
{
	static const struct {
		bool known, least;
		uint64_t throttled_ns;
		const char *said;
	} of[] = {
	    {true, false, 0, ": other threads run there\n"},
	    {true, false, 5 * MS, ": other threads run there\n"},
	    {true, false, 13 * MS,
	     ": its control group has used up its CPU quota 13 % of the time, all processors together, and other threads run there\n"},
	    {true, false, 26 * MS,
	     ": its control group has used up its CPU quota 26 % of the time, all processors together\n"},
	    {true, false, 200 * MS,
	     ": its control group has used up its CPU quota 200 % of the time, all processors together\n"},
	    {true, true, 13 * MS,
	     ": its control group has used up its CPU quota at least 13 % of the time, all processors together\n"},
	    {true, true, 0,
	     ": other threads run there, or its control group has used up its CPU quota\n"},
	    {false, false, 0,
	     ": other threads run there, or its control group has used up its CPU quota\n"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		struct collectives *c = two_ranks(true, "here");
		struct skew *s = skewed(c, always_late, true);
		see_usage(s, of[i].known, of[i].throttled_ns, of[i].least);
		char *text = skew_text(s, false);
		if (!strstr(text, of[i].said))
			fail_msg("%zu: %s", i, text);
		free(text);
		skew_free(s);
		collectives_free(c);
	}
}

/* Of counters that go back, or count more time than there is, nothing is shown. */
static void counters_that_cannot_be(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		struct collectives *c = two_ranks(true, "here");
		struct skew *s = skewed(c, always_late, true);
		see_usage(s, true, 0, false);
		struct trace_usage u = {
		    .pid = 101, .ns = 100ULL * STEPS * MS, .wait_ns = 27ULL * (STEPS - 1) * MS};
		u.wait_ns -= i == 1;
		u.wait_ns += i == 2 ? 100ULL * STEPS * MS : 0;
		u.run_ns = i == 3 ? UINT64_MAX - 5 : 0;
		u.minor_faults = i == 4 ? UINT64_MAX / 2 : 3;
		u.is_throttled_known = true;
		u.throttled_ns = i == 5 ? UINT64_MAX / 2 : 0;
		skew_see_usage(s, &u, 2);
		assert_int_equal(skew_verdict(skew_first(s))->has_no_processor, i == 0);
		char *text = skew_text(s, true);
		assert_int_equal(strstr(text, "\"minor_faults\":3,") != NULL, i == 0);
		const char *of_1 = strstr(text, "\"rank\":1");
		assert_non_null(of_1);
		assert_int_equal(strstr(of_1, "\"no_processor_ns\":null") != NULL, i != 0);
		free(text);
		skew_free(s);
		collectives_free(c);
	}
}

/* It comes 12 ms late, by clocks that may differ by more. */
static void clocks_that_are_hardly_known(void **state)
{
	struct trace_clock clock = {.is_found = true, .known_ns = 40 * MS};
	const struct trace_item item = {.type = TRACE_CLOCK, .clock = &clock};
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct collectives *c = two_ranks(true, "there");
		clock.spread_ns = i == 1 ? 20 * MS : MS;
		clock.is_found = i < 2;
		assert_int_equal(collectives_see(c, &item), 0);
		struct skew *s = skewed(c, always_late, true);
		assert_true(i < 2 ? skew_verdict(skew_first(s))->is_named == !i
				  : !s->ngroups && c->why[0]);
		skew_free(s);
		collectives_free(c);
	}
}

static void no_rank_is_named(void **state)
{
	late_fn *const fns[] = {late_in_turns, hardly_late, late_seldom};
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct collectives *c = two_ranks(true, "here");
		struct skew *s = skewed(c, fns[i], true);
		assert_int_equal(skew_first(s)->n, STEPS);
		assert_false(skew_verdict(skew_first(s))->is_named);
		skew_free(s);
		collectives_free(c);
	}
}

static const struct op_desc wait_op = {.name = "c10d::Work::wait", .schema = ""};
static struct value work;

static void see_work(struct collectives *c, int rank, uint64_t start, uint64_t address,
		     const char *backend)
{
	struct op_event ev = of_rank(rank, &allreduce, start);
	work = (struct value){.kind = VALUE_WORK, .work = {address, backend}};
	ev.results = &work;
	ev.nresults = 1;
	see(c, ev);
}

static void see_wait(struct collectives *c, int rank, uint64_t start, uint64_t end,
		     uint64_t address)
{
	struct op_event ev = call(&wait_op, 100 + rank, start, end);
	add_arg(&ev, (struct value){.kind = VALUE_WORK, .work = {address, NULL}});
	see(c, ev);
}

static void see_done(struct collectives *c, int rank, uint64_t ns, uint64_t address)
{
	const struct trace_item item = {.type = TRACE_DONE,
					.done = {.pid = 100 + rank, .address = address, .ns = ns}};
	assert_int_equal(collectives_see(c, &item), 0);
}

static const struct collective_call *nth_call(const struct collectives *c, size_t nth)
{
	return &c->groups[0].calls[NUMBERED].all[nth];
}

/* Two calls whose Works have one address, after each other; the second is done before it returns.
 */
static void calls_are_waited_for(void **state)
{
	(void)state;
	for (int lost = 0; lost < 2; lost++) {
		struct collectives *c = two_ranks(true, "here");
		see_work(c, 0, 10 * MS, 0x100, "gloo");
		see_work(c, 0, 40 * MS, 0x100, "gloo");
		see_work(c, 0, 50 * MS, 0x200, "nccl");
		see_wait(c, 0, 15 * MS, 22 * MS, 0x100);
		see_wait(c, 0, 23 * MS, 24 * MS, 0x100);
		see_done(c, 0, 20 * MS, 0x100);
		see_done(c, 0, 40 * MS + 5, 0x100);
		see_wait(c, 0, 41 * MS, 42 * MS, 0x100);
		/* of a call that is not known */
		see_done(c, 0, 60 * MS, 0x100);
		see_wait(c, 0, 55 * MS, 61 * MS, 0x100);
		see_done(c, 0, 60 * MS, 0x200);
		if (lost) {
			const struct trace_item item = {.type = TRACE_LOST, .lost = {.count = 1}};
			assert_int_equal(collectives_see(c, &item), 0);
		}
		assert_int_equal(collectives_match(c), 0);
		assert_int_equal(nth_call(c, 0)->done_ns, lost ? 0 : 20 * MS);
		assert_int_equal(nth_call(c, 0)->waited_ns, lost ? 0 : 8 * MS);
		assert_int_equal(nth_call(c, 1)->done_ns, lost ? 0 : 40 * MS + 5);
		assert_int_equal(nth_call(c, 1)->waited_ns, lost ? 0 : MS);
		assert_int_equal(nth_call(c, 2)->done_ns, 0);
		collectives_free(c);
	}
}

/* Rank 1 calls all of them later, but nobody waits for one before that. */
static void nobody_waits_meanwhile(void **state)
{
	(void)state;
	for (int waits = 0; waits < 2; waits++) {
		struct collectives *c = two_ranks(true, "here");
		for (uint64_t i = 1; i <= STEPS; i++)
			for (int rank = 0; rank < 2; rank++) {
				uint64_t at = i * 100 * MS + (rank ? 12 * MS : 0);
				see_work(c, rank, at, 0x100, "gloo");
				see_wait(c, rank, at + (waits ? MS : 50 * MS), at + 52 * MS, 0x100);
			}
		assert_int_equal(collectives_match(c), 0);
		struct skew *s = skew_new(c);
		assert_non_null(s);
		assert_int_equal(skew_verdict(skew_first(s))->is_named, waits);
		assert_int_equal(skew_first(s)->ranks[0].waits_ns, waits ? STEPS * 11ULL * MS : 0);
		skew_free(s);
		collectives_free(c);
	}
}

/* Three are under way at once: the time that rank 1 is late is waited for once, not three times. */
static void several_are_under_way(void **state)
{
	(void)state;
	struct collectives *c = two_ranks(true, "here");
	for (uint64_t i = 1; i <= STEPS; i++)
		for (uint64_t k = 0; k < 3; k++)
			for (int rank = 0; rank < 2; rank++)
				see(c, of_rank(rank, &allreduce,
					       i * 100 * MS + k * MS + (rank ? 80 * MS : 0)));
	assert_int_equal(collectives_match(c), 0);
	struct skew *s = skew_new(c);
	assert_non_null(s);
	struct skew_verdict v = *skew_verdict(skew_first(s));
	assert_int_equal(v.rank, 1);
	assert_int_equal(skew_first(s)->n, STEPS);
	assert_true(v.median_ns > 77 * MS && v.median_ns < 83 * MS);
	assert_true(v.percent > 75 && v.percent < 90);
	skew_free(s);
	collectives_free(c);
}

static void reducer(struct collectives *c, const struct op_desc *op, int number, uint64_t at)
{
	static struct value parameters[] = {{.kind = VALUE_TENSOR, .tensor = &sample_tensor},
					    {.kind = VALUE_TENSOR, .tensor = &sample_tensor}};
	static struct value names[] = {{.kind = VALUE_STRING, .str = "fc.bias", .count = 7},
				       {.kind = VALUE_NONE}};
	struct value results[] = {{.kind = VALUE_LIST, .items = parameters, .count = 2},
				  {.kind = VALUE_LIST, .items = names, .count = 2}};
	struct op_event ev = call(op, 100, at, at);
	add_arg(&ev, int_value(0x7000));
	add_arg(&ev, int_value(number));
	ev.results = results;
	ev.nresults = op == &bucket_sent ? 2 : 0;
	see(c, ev);
}

static const struct collective_bucket *bucket(const struct collectives *c, uint64_t at)
{
	for (size_t i = 0; i < c->groups[0].calls[1].n; i++)
		if (c->groups[0].calls[1].all[i].start_ns == at)
			return &c->buckets.all[c->groups[0].calls[1].all[i].bucket1 - 1];
	fail();
	return NULL;
}

/* Bucket 1 is ready first and is sent second; what the thread calls then is the program's. With a
 * static graph each is told to be bucket 0. */
static void buckets_of_a_backward(void **state)
{
	(void)state;
	struct collectives *c = two_ranks(true, "here");
	reducer(c, &bucket_ready, 1, 10);
	reducer(c, &bucket_ready, 0, 20);
	for (int i = 0; i < 2; i++) {
		reducer(c, &bucket_sent, i, 30 + 100 * (uint64_t)i);
		see(c, of_rank(0, &allreduce, 40 + 100 * (uint64_t)i));
	}
	see(c, of_rank(0, &allreduce, 300));
	reducer(c, &backward_over, 0, 400);
	for (uint64_t i = 0; i < 2; i++) {
		reducer(c, &bucket_sent, 0, 500 + 100 * i);
		see(c, of_rank(0, &allreduce, 550 + 100 * i));
	}
	assert_int_equal(collectives_match(c), 0);
	for (int i = 0; i < 4; i++) {
		uint64_t at = (uint64_t[]){40, 140, 550, 650}[i];
		struct op_event ev = of_rank(0, &allreduce, at);
		assert_int_equal(collectives_bucket(c, &ev), i % 2);
		assert_int_equal(bucket(c, at)->ready_ns, i == 0 ? 20 : i == 1 ? 10 : 0);
		assert_int_equal(bucket(c, at)->over_ns, i < 2 ? 400 : 0);
	}
	struct op_event ev = of_rank(0, &allreduce, 300);
	assert_int_equal(collectives_bucket(c, &ev), -1);
	assert_int_equal(collectives_sum(c), 0);
	assert_int_equal(c->buckets.nrows, 2);
	assert_non_null(strstr(c->buckets.rows[0].parameters, "fc.bias\n("));
	assert_true(c->buckets.rows[0].bytes == 96 && c->buckets.rows[0].calls == 2);
	collectives_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_a_call_is),
	    cmocka_unit_test(ranks_are_matched),
	    cmocka_unit_test(chosen_calls),
	    cmocka_unit_test(ranks_that_are_not_compared),
	    cmocka_unit_test(groups_of_some_ranks),
	    cmocka_unit_test(a_group_that_is_not_compared),
	    cmocka_unit_test(calls_that_differ),
	    cmocka_unit_test(the_last_start_is_compared),
	    cmocka_unit_test(what_is_not_known_does_not_differ),
	    cmocka_unit_test(a_rank_that_is_late),
	    cmocka_unit_test(the_usual_is_compared),
	    cmocka_unit_test(a_rank_that_is_late_sometimes),
	    cmocka_unit_test(a_rank_without_processor),
	    cmocka_unit_test(a_quota_is_told_from_other_threads),
	    cmocka_unit_test(counters_that_cannot_be),
	    cmocka_unit_test(clocks_that_are_hardly_known),
	    cmocka_unit_test(no_rank_is_named),
	    cmocka_unit_test(a_rank_that_is_late_for_longer),
	    cmocka_unit_test(calls_are_waited_for),
	    cmocka_unit_test(nobody_waits_meanwhile),
	    cmocka_unit_test(several_are_under_way),
	    cmocka_unit_test(buckets_of_a_backward),
	};
	return unit_run(tests, NULL, NULL);
}
