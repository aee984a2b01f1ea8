/* Captures of ranks: their folders, their names, and what is judged or compared together. */
#include "tests/unit/unit.h"

#include "replay/internal.h"

#define RESULTS "/op_tools_results/op_capture_results/f/7/1/2026-01-01-00-00-0"

static struct capture_of_collective *of(int rank, int number, const char *ranks)
{
	char json[256];
	snprintf(json, sizeof(json),
		 "{\"kind\": \"allreduce\", \"group\": \"0\", \"ranks\": %s, \"rank\": %d,"
		 " \"size\": 2, \"number\": %d, \"reduce_op\": \"SUM\", \"root\": null}",
		 ranks, rank, number);
	json_t *o = json_loads(json, 0, NULL);
	struct capture_of_collective *c = capture_of_collective_new(o);
	json_decref(o);
	return c;
}

static struct capture_place place(const char *dir, struct capture_of_collective *c)
{
	struct capture_place p = {.dir = (char *)dir, .op = "f", .rank = -1, .collective = c};
	capture_place_read_rank(&p);
	return p;
}

static void forget(struct capture_place *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(p[i].start);
		capture_of_collective_free(p[i].collective);
	}
}

static void folders_tell_ranks(void **state)
{
	(void)state;
	static const struct {
		const char *dir;
		int rank;
		const char *start;
	} of[] = {{"/a/rank3" RESULTS, 3, "/a/.0"},  {"rank10.2" RESULTS, 10, ".2"},
		  {"/a/rank" RESULTS, -1, NULL},     {"/a/rank1x" RESULTS, -1, NULL},
		  {"/a/rank1." RESULTS, -1, NULL},   {"/rank1/b" RESULTS, -1, NULL},
		  {"rank99999999" RESULTS, -1, NULL}};
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		struct capture_place p = place(of[i].dir, NULL);
		assert_int_equal(p.rank, of[i].rank);
		assert_true(p.start ? !strcmp(p.start, of[i].start) : !of[i].start);
		forget(&p, 1);
	}
}

static void what_cannot_be_is_no_collective(void **state)
{
	(void)state;
	assert_null(capture_of_collective_new(NULL));
	assert_null(of(2, 1, "[0, 1]"));
	assert_null(of(0, 1, "[0, 1, 2]"));
	capture_of_collective_free(of(1, 1, "null"));
}

static void calls_of_ranks_are_matched(void **state)
{
	(void)state;
	struct capture_place p[] = {
	    place("a/rank1" RESULTS, of(1, 2, "[0, 1]")),
	    place("a/rank0" RESULTS, of(0, 1, "[0, 1]")),
	    place("a/rank0" RESULTS, of(0, 2, "[0, 1]")),
	    place("a/rank0.1" RESULTS, of(0, 2, "[0, 1]")), /* started again */
	    place("b/rank0" RESULTS, of(0, 2, "[0, 1]")),   /* another run */
	    place("a/rank2" RESULTS, of(0, 2, "[2, 3]")),   /* another group of that name */
	    place("a/rank1" RESULTS, of(1, 0, "[0, 1]")),   /* its number is not known */
	    place("a/rank1" RESULTS, NULL),
	};
	enum { N = sizeof(p) / sizeof(p[0]) };
	const struct capture_places all = {p, N, N};
	struct replay_jobs jobs;
	char name[64];
	assert_int_equal(replay_jobs_make(&all, &jobs), 0);
	assert_int_equal(jobs.n, N - 1);
	for (size_t i = 0; i < jobs.n; i++) {
		const struct replay_job *j = &jobs.list[i];
		if (jobs.order[j->first] != 2)
			assert_int_equal(j->n, 1);
		else
			assert_true(j->n == 2 && jobs.order[j->first + 1] == 0);
	}
	assert_string_equal(capture_place_name(name, sizeof(name), &p[0]),
			    "f #2 of group 0, rank 1");
	assert_string_equal(capture_place_name(name, sizeof(name), &p[7]), "f, rank 1");
	replay_jobs_free(&jobs);
	forget(p, N);
}

static void runs_are_in_the_order_of_time(void **state)
{
	(void)state;
	struct capture_place a[] = {place("a/rank0" RESULTS, of(0, 1, "[0, 1]")),
				    place("a/rank1" RESULTS, of(1, 1, "[0, 1]"))};
	struct capture_place b[] = {place("b/rank0" RESULTS, of(0, 1, "[0, 1]")),
				    place("b/rank1" RESULTS, of(1, 1, "[0, 1]"))};
	a[0].id = 8, a[1].id = 3; /* rank 1 was first */
	struct capture_places x = {a, 2, 2}, y = {b, 2, 2}, one = {a, 1, 1}, other = {b + 1, 1, 1};
	struct diff_match m;
	assert_int_equal(diff_match(&x, &y, &m), 0);
	assert_int_equal(m.n, 2);
	assert_int_equal(diff_order_by_time(&x, &m), 0);
	assert_true(a[0].rank == 1 && m.pairs[0].a == 0 && m.pairs[0].b == 1);
	diff_match_free(&m);
	assert_false(diff_is_of_ranks(&x, &y));
	assert_false(diff_is_of_ranks(&one, &other)); /* rank 1 of both */
	other.list = b;
	assert_true(diff_is_of_ranks(&one, &other));
	assert_int_equal(diff_match(&one, &other, &m), 0);
	assert_int_equal(m.n, 1);
	diff_match_free(&m);
	forget(a, 2);
	forget(b, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(folders_tell_ranks),
	    cmocka_unit_test(what_cannot_be_is_no_collective),
	    cmocka_unit_test(calls_of_ranks_are_matched),
	    cmocka_unit_test(runs_are_in_the_order_of_time),
	};
	return unit_run(tests, NULL, NULL);
}
