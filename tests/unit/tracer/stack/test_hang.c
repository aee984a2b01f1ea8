#include "tests/unit/unit.h"

#include "tracer/stack/hang.h"

enum { RANKS = 4 };

static struct hang_ranks ranks;

/* Each of `n` ranks is in a group of all, "0", of which it has called `count` collectives, and
 * waits nowhere. */
static void begin(int32_t n, uint64_t count)
{
	for (int32_t i = 0; i < n; i++) {
		struct hang_rank r = {.rank = i, .world_size = n, .pid = 100 + i};
		snprintf(r.place, sizeof(r.place), "train.py:30");
		snprintf(r.doing, sizeof(r.doing), "runs");
		snprintf(r.in, sizeof(r.in), "main");
		assert_int_equal(hang_ranks_add(&ranks, &r), 0);
	}
	for (int32_t i = 0; i < n; i++) {
		struct hang_rank *r = &ranks.all[i];
		r->ngroups = 2;
		r->groups = calloc(2, sizeof(*r->groups));
		for (unsigned k = 0; k < 2; k++) {
			struct hang_group *g = &r->groups[k];
			snprintf(g->name, sizeof(g->name), "%u", k);
			snprintf(g->backend, sizeof(g->backend), "gloo");
			g->ranks = calloc((size_t)n, sizeof(*g->ranks));
			for (int32_t x = 0; x < n; x++)
				g->ranks[g->nranks++] = x;
			g->counted = true;
			g->count = count;
		}
	}
}

/* The rank has called one more collective of the group, and waits in it. */
static void calls(int32_t rank, unsigned group, const char *kind, const char *tensors)
{
	struct hang_rank *r = &ranks.all[rank];
	struct hang_group *g = &r->groups[group];
	g->calls = calloc(1, sizeof(*g->calls));
	g->ncalls = 1;
	g->calls->number = ++g->count;
	snprintf(g->calls->kind, sizeof(g->calls->kind), "%s", kind);
	snprintf(g->calls->tensors, sizeof(g->calls->tensors), "%s", tensors);
	r->in_collective = true;
	snprintf(r->collective, sizeof(r->collective), "%s", kind);
}

static void says(const char *wanted)
{
	char *text = hang_explain(&ranks);
	assert_string_equal(text, wanted);
	free(text);
	hang_ranks_free(&ranks);
}

static void test_nothing(void **state)
{
	(void)state;
	begin(RANKS, 5);
	says("");
}

static void test_not_there(void **state)
{
	(void)state;
	begin(RANKS, 11);
	for (int32_t i = 0; i < RANKS; i++)
		if (i != 2)
			calls(i, 0, "all_reduce", "float32 (1024,)");
	snprintf(ranks.all[2].place, sizeof(ranks.all[2].place), "model.py:12");
	snprintf(ranks.all[2].in, sizeof(ranks.all[2].in), "forward");
	says("ranks 0, 1, 3 wait in all_reduce #12 of group 0 (float32 (1024,)) at train.py:30; "
	     "rank 2 is "
	     "not there: it is in forward at model.py:12 (runs)\n");
}

static void test_kinds(void **state)
{
	(void)state;
	begin(RANKS, 0);
	for (int32_t i = 0; i < 3; i++)
		calls(i, 0, "all_reduce", "float32 (4,)");
	calls(3, 0, "broadcast", "float32 (4,)");
	says(
	    "collectives differ: ranks 0-2 wait in all_reduce #1 of group 0 (float32 (4,)) at "
	    "train.py:30; rank 3 waits in broadcast #1 of group 0 (float32 (4,)) at train.py:30\n");
}

static void differ(const char *one, const char *other, const char *what)
{
	char wanted[400];
	begin(2, 6);
	calls(0, 1, "all_reduce", one);
	calls(1, 1, "all_reduce", other);
	snprintf(wanted, sizeof(wanted),
		 "%s differ: rank 0 waits in all_reduce #7 of group 1 (%s) at train.py:30; rank 1 "
		 "waits in "
		 "all_reduce #7 of group 1 (%s) at train.py:30\n",
		 what, one, other);
	says(wanted);
}

static void test_tensors(void **state)
{
	(void)state;
	differ("float32 (4,)", "float32 (8,)", "shapes");
	differ("float32 (4,)", "float64 (4,)", "dtypes");
	differ("float32 (4,)", "float64 (8,)", "tensors");
}

/* What is not known differs from nothing, and an all-to-all may differ. */
static void test_may_differ(void **state)
{
	static const char all[] =
	    "; all are there and nothing differs, so it is under way, or held "
	    "up below PyTorch\n";
	char wanted[300];
	(void)state;
	begin(2, 0);
	calls(0, 0, "all_to_all", "float32 (4,)");
	calls(1, 0, "all_to_all", "float32 (8,)");
	snprintf(wanted, sizeof(wanted),
		 "ranks 0, 1 wait in all_to_all #1 of group 0 (float32 (4,)) at train.py:30%s",
		 all);
	says(wanted);
	begin(2, 0);
	calls(0, 0, "barrier", "");
	calls(1, 0, "barrier", "");
	snprintf(wanted, sizeof(wanted),
		 "ranks 0, 1 wait in barrier #1 of group 0 at train.py:30%s", all);
	says(wanted);
}

/* One that is done with a broadcast, as its root, is no cause. */
static void test_past(void **state)
{
	(void)state;
	begin(3, 0);
	ranks.all[0].groups[0].count = 1;
	calls(1, 0, "broadcast", "float32 (4,)");
	says("rank 1 waits in broadcast #1 of group 0 (float32 (4,)) at train.py:30; rank 2 is not "
	     "there: "
	     "it is in main at train.py:30 (runs)\n");
}

static void test_order(void **state)
{
	(void)state;
	begin(2, 1);
	calls(0, 0, "all_reduce", "float32 (4,)");
	calls(1, 1, "all_reduce", "float32 (4,)");
	says(
	    "deadlock, as groups are not used in one order: rank 0 waits in all_reduce #2 of group "
	    "0 (float32 (4,)) at train.py:30 for rank 1, which waits in all_reduce #2 of group 1 "
	    "(float32 (4,)) at train.py:30 for rank 0\n");
}

static void test_ended(void **state)
{
	(void)state;
	begin(2, 3);
	calls(0, 0, "all_reduce", "");
	hang_rank_free(&ranks.all[1]);
	ranks.all[1] = (struct hang_rank){
	    .rank = 1, .world_size = 3, .pid = 7, .state = HANG_ENDED, .last = "barrier #3"};
	for (unsigned k = 0; k < 2; k++) {
		struct hang_group *g = &ranks.all[0].groups[k];
		int32_t *more = realloc(g->ranks, 3 * sizeof(*more));
		assert_non_null(more);
		g->ranks = more;
		g->ranks[g->nranks++] = 2;
	}
	assert_int_equal(hang_ranks_add_absent(&ranks), 0);
	says("rank 0 waits in all_reduce #4 of group 0 at train.py:30; rank 1 is not there: its "
	     "process "
	     "(7) has ended; its last collective recorded: barrier #3; rank 2 is none of these "
	     "processes: it has ended, or runs elsewhere\n");
}

/* Of a backend whose calls are not known, the counts tell. */
static void test_counts(void **state)
{
	(void)state;
	begin(3, 12);
	for (unsigned i = 0; i < 3; i++)
		snprintf(ranks.all[i].groups[0].backend, sizeof(ranks.all[i].groups[0].backend),
			 "nccl");
	ranks.all[1].groups[0].count = 11;
	says("ranks 0, 2 called collective #12 of group 0; rank 1 is not there: it is in main at "
	     "train.py:30 (runs)\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_nothing),    cmocka_unit_test(test_not_there),
	    cmocka_unit_test(test_kinds),      cmocka_unit_test(test_tensors),
	    cmocka_unit_test(test_may_differ), cmocka_unit_test(test_past),
	    cmocka_unit_test(test_order),      cmocka_unit_test(test_ended),
	    cmocka_unit_test(test_counts),
	};
	return unit_run(tests, NULL, NULL);
}
