
#include "tests/unit/unit.h"

#include "tests/unit/sample_events.h"
#include "tui/model/internal.h"
#include "tui/model/view.h"

static const uint64_t MS = 1000000;

static void add(struct view *v, struct op_event ev)
{
	struct trace_item item = {.type = TRACE_EVENT, .event = ev};
	item.raw = (struct trace_raw_event){.id = ev.id, .payload = (const uint8_t *)"", .size = 1};
	assert_int_equal(view_add(v, &item), 0);
}

/* `n` state samples from `from` on, `step` apart. */
static void look(struct view *v, int32_t tid, uint64_t from, uint64_t step, unsigned n, bool ran)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(view_look(v, 41, tid, from + i * step, ran), 0);
}

static struct view_head head(const struct view *v)
{
	struct view_head h;
	view_head(v, &h);
	return h;
}

static void a_thread_runs_and_waits(void **state)
{
	(void)state;
	struct view *v = view_new();
	assert_true(head(v).python_ran < 0);
	look(v, 42, 1, 1, 50, false); /* before all ops: not counted */
	add(v, sample_event(1, 0, 0, 100 * MS, 200 * MS));
	look(v, 42, 110 * MS, 1, 50, false); /* within the op */
	look(v, 42, 200 * MS, MS, 30, true);
	look(v, 42, 250 * MS, MS, 10, false);
	look(v, 42, 400 * MS, 1, 50, false); /* at the start of the next op: belongs to it */
	add(v, sample_event(3, 2, 1, 410 * MS, 420 * MS));
	assert_true(head(v).python_ran < 0); /* not known yet within an op */
	struct op_event outer = sample_event(2, 0, 0, 400 * MS, 500 * MS);
	outer.child_ns = 10 * MS;
	add(v, outer);
	struct view_head h = head(v);
	assert_int_equal(h.outside * 100, 5000);
	assert_int_equal(h.python * 100, 5000);
	assert_int_equal(h.python_ran * 100, 3750);
	assert_int_equal(h.waited * 100, 1250);
	assert_int_equal(h.other_ran, 0);
	assert_int_equal(view_reset(v), 0);
	add(v, sample_event(4, 0, 0, 600 * MS, 700 * MS));
	add(v, sample_event(5, 0, 0, 800 * MS, 900 * MS));
	h = head(v);
	assert_true(h.python_ran < 0);
	assert_int_equal(h.python * 100, 3333);
	view_free(v);
}

static void a_thread_without_python(void **state)
{
	(void)state;
	struct view *v = view_new();
	add(v, sample_event(1, 0, 0, 1 * MS, 101 * MS));
	add(v, sample_backward(2, 1, 1 * MS, 26 * MS));
	look(v, 43, 30 * MS, MS, 10, true);
	look(v, 43, 50 * MS, MS, 9, false);
	add(v, sample_backward(3, 1, 76 * MS, 101 * MS));
	struct view_head h = head(v);
	assert_int_equal(h.other * 100, 2500);
	assert_int_equal(h.python, 0);
	assert_true(h.waited < 0); /* 19 samples are too few */
	look(v, 43, 102 * MS, MS, 21, false);
	add(v, sample_backward(4, 1, 201 * MS, 202 * MS));
	h = head(v);
	assert_int_equal((h.other_ran + h.waited) * 100, h.other * 100);
	assert_int_equal(h.other_ran * 400, h.other * 100); /* 10 of 40 */
	assert_int_equal(h.python_ran, 0);
	view_free(v);
}

static void of_the_interval(void **state)
{
	(void)state;
	struct view *v = view_new();
	assert_int_equal(view_set_interval(v, true), 0);
	for (unsigned i = 0; i < 5; i++) { /* running in the first two seconds, then waiting */
		look(v, 42, i * 1000 * MS + 1, MS, 40, i < 2);
		add(v,
		    sample_event(i + 1, 0, 0, i * 1000 * MS + 500 * MS, i * 1000 * MS + 1000 * MS));
	}
	struct view_head h = head(v);
	assert_true(h.python_ran < 1);
	assert_true(h.waited > 30);
	assert_int_equal(view_set_interval(v, false), 0);
	h = head(v);
	assert_int_equal(h.python_ran * 4, h.outside); /* the first of four gaps between ops */
	view_free(v);
}

/* When samples are merged for lack of events, their weight and division stay the same. */
static void looks_are_merged(void **state)
{
	(void)state;
	enum { N = LOOKS_KEPT * 4 };
	struct looks l = {0};
	struct off_op_part out;
	struct op_event ev = sample_event(1, 0, 0, N, N + 1);
	for (uint64_t i = 0; i < N; i++)
		assert_int_equal(looks_add(&l, ev.pid, ev.tid, i, i >= N / 2), 0);
	looks_take(&l, &ev, 0, &out);
	assert_in_range(out.ran + out.waited, N * 9 / 10, N * 11 / 10);
	assert_in_range(out.ran, out.waited * 8 / 10, out.waited * 12 / 10);
	looks_take(&l, &ev, 0, &out);
	assert_int_equal(out.ran + out.waited, 0);
	looks_free(&l);
}

static void threads_that_are_gone_make_room(void **state)
{
	(void)state;
	struct looks l = {0};
	struct off_op_part out;
	for (int32_t tid = 1; tid <= LOOKS_THREADS + 1; tid++)
		assert_int_equal(looks_add(&l, 41, tid, 1, true), 0);
	assert_int_equal(l.n, LOOKS_THREADS);
	const uint64_t later = 20000 * MS;
	assert_int_equal(looks_add(&l, 41, 42 + LOOKS_THREADS, later, true), 0);
	struct op_event ev = sample_event(1, 0, 0, later + 1, later + 2);
	ev.tid = 42 + LOOKS_THREADS;
	looks_take(&l, &ev, 0, &out);
	assert_int_equal(out.ran, 1);
	looks_free(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_thread_runs_and_waits),
	    cmocka_unit_test(a_thread_without_python),
	    cmocka_unit_test(of_the_interval),
	    cmocka_unit_test(looks_are_merged),
	    cmocka_unit_test(threads_that_are_gone_make_room),
	};
	return unit_run(tests, NULL, NULL);
}
