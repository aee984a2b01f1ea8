#include "tests/unit/unit.h"

#include "tracer/device/internal.h"
#include "tracer/device/launches.h"

enum { PID = 100, T = 101, MS = 1000 * 1000, ALL = 1 << 20 };

static const struct op_desc outer = {.name = "aten::linear"}, inner = {.name = "aten::addmm"};
static struct launches *l;
static struct activity got[ALL];
static unsigned ngot;
static uint64_t now, open_since;

static void on_activity(const struct activity *a, void *arg)
{
	(void)arg;
	assert_true(ngot < ALL);
	got[ngot++] = *a;
}

static uint64_t since_when(int32_t pid, int32_t tid, void *arg)
{
	(void)pid;
	(void)tid;
	(void)arg;
	return open_since;
}

/* The process is known from time 1 on. */
static int begin(void **state)
{
	(void)state;
	ngot = 0;
	now = 1;
	open_since = UINT64_MAX;
	l = launches_new(on_activity, since_when, NULL);
	launches_record(l, &(struct activity_record){.kind = RECORD_LOST, .pid = PID}, now);
	return 0;
}

static int end(void **state)
{
	(void)state;
	launches_free(l);
	return 0;
}

static uint64_t ids;

static struct op_event op_in(int32_t tid, const struct op_desc *op, uint64_t from, uint64_t to)
{
	return (struct op_event){
	    .id = ++ids, .op = op, .pid = PID, .tid = tid, .start_ns = from, .end_ns = to};
}

static uint64_t ended(const struct op_desc *op, uint64_t from, uint64_t to)
{
	struct op_event ev = op_in(T, op, from, to);
	launches_op(l, &ev);
	return ev.id;
}

static void launched_in(int32_t tid, uint32_t correlation, uint64_t t)
{
	launches_record(l,
			&(struct activity_record){.kind = RECORD_LAUNCH,
						  .pid = PID,
						  .tid = tid,
						  .correlation = correlation,
						  .start_ns = t,
						  .end_ns = t + 1},
			now);
}

static void launched(uint32_t correlation, uint64_t t)
{
	launched_in(T, correlation, t);
}

static void ran_as(uint32_t correlation, bool in_graph)
{
	launches_record(l,
			&(struct activity_record){.kind = RECORD_RAN,
						  .pid = PID,
						  .correlation = correlation,
						  .start_ns = 5000,
						  .end_ns = 5010,
						  .stream = correlation,
						  .in_graph = in_graph},
			now);
}

static void ran(uint32_t correlation)
{
	ran_as(correlation, false);
}

/* Time passes as the session tells it. */
static void wait_ms(unsigned ms)
{
	for (unsigned i = 0; i < ms; i += 10)
		launches_tick(l, now += 10 * MS, false);
}

/* Nothing but this has come since the last time. */
static void only(enum activity_launch launch, uint64_t t, uint64_t id)
{
	assert_int_equal(ngot, 1);
	assert_int_equal(got[0].launch, launch);
	assert_int_equal(got[0].launched_ns, t);
	assert_int_equal(got[0].of.tid, launch == LAUNCH_NO_THREAD ? 0 : T);
	assert_int_equal(got[0].of.pid, PID);
	assert_int_equal(got[0].of.id, id);
	assert_int_equal(got[0].of.op != NULL, launch == LAUNCH_IN_OP);
	assert_int_equal(got[0].of.start_ns, 5000);
	ngot = 0;
}

static void nothing_yet(void)
{
	assert_int_equal(ngot, 0);
}

static void the_innermost_op_that_has_ended(void **state)
{
	(void)state;
	static const struct {
		struct py_stack head;
	} at, where, of;
	struct op_event ev = op_in(T, &inner, 20, 30);
	ev.stack = &at.head;
	ev.where_stack = &where.head;
	ev.backward_of = &of.head;
	ev.phase = PHASE_BACKWARD;
	launches_op(l, &ev);
	ended(&inner, 40, 50);
	uint64_t around = ended(&outer, 10, 60);
	launched(1, 25);
	nothing_yet();
	ran(1);
	assert_ptr_equal(got[0].of.stack, &at.head);
	assert_ptr_equal(got[0].of.where_stack, &where.head);
	assert_ptr_equal(got[0].of.backward_of, &of.head);
	assert_int_equal(got[0].of.phase, PHASE_BACKWARD);
	assert_int_equal(got[0].stream, 1);
	only(LAUNCH_IN_OP, 25, ev.id);
	static const uint64_t in_outer[] = {10, 19, 30, 39, 50, 59};
	for (unsigned i = 0; i < sizeof(in_outer) / sizeof(in_outer[0]); i++) {
		launched(2 + i, in_outer[i]);
		ran(2 + i);
		only(LAUNCH_IN_OP, in_outer[i], around);
	}
}

static void either_comes_first(void **state)
{
	(void)state;
	uint64_t id = ended(&outer, 10, 60);
	ran(1);
	ran(1);
	nothing_yet();
	launched(1, 25);
	assert_int_equal(ngot, 2);
	ngot = 1;
	only(LAUNCH_IN_OP, 25, id);
	ran(1);
	only(LAUNCH_IN_OP, 25, id);
	/* The host's call within it has the same number. */
	launched(1, 90);
	ran(1);
	only(LAUNCH_IN_OP, 25, id);
}

static void it_waits_for_an_op_that_is_open(void **state)
{
	(void)state;
	open_since = 10;
	launched(1, 25);
	ran(1);
	launched(2, 45);
	launched(3, 5);
	uint64_t within = ended(&inner, 20, 30);
	only(LAUNCH_IN_OP, 25, within);
	ran(2);
	ran(3);
	wait_ms(500);
	nothing_yet();
	wait_ms(120000);
	only(LAUNCH_IN_NO_OP, 5, 0);
	uint64_t around = ended(&outer, 10, 60);
	only(LAUNCH_IN_OP, 45, around);
}

static void in_no_op(void **state)
{
	(void)state;
	ended(&inner, 20, 30);
	launched(1, 30);
	ran(1);
	launches_tick(l, now += 900ULL * 1000 * MS, false);
	nothing_yet(); /* this process has been stopped: ops may still be decoded */
	for (int i = 0; i < 1000; i++)
		launches_tick(l, now += 10 * MS, true);
	nothing_yet();
	wait_ms(1100);
	only(LAUNCH_IN_NO_OP, 30, 0);
}

static void threads_apart(void **state)
{
	(void)state;
	struct op_event ev = op_in(T + 1, &outer, 10, 60);
	launches_op(l, &ev);
	launched(1, 25);
	ran(1);
	launched_in(T + 1, 2, 25);
	ran(2);
	assert_int_equal(got[0].of.tid, T + 1);
	assert_int_equal(got[0].of.id, ev.id);
	ngot = 0;
	wait_ms(1200);
	only(LAUNCH_IN_NO_OP, 25, 0);
}

static void summed_up(void **state)
{
	(void)state;
	uint64_t id = ended(&outer, 10, 20);
	struct op_sum s = {.of = op_in(T, &inner, 15, 40), .calls = 3};
	launched(1, 17);
	ran(1);
	only(LAUNCH_IN_OP, 17, id);
	launched(2, 30);
	ran(2);
	launches_sum(l, &s);
	wait_ms(1200);
	only(LAUNCH_UNKNOWN, 30, 0);
	launched(3, 40);
	ran(3);
	wait_ms(1200);
	only(LAUNCH_IN_NO_OP, 40, 0);
	launches_lost(l, 50, 60);
	launched(4, 55);
	ran(4);
	wait_ms(1200);
	only(LAUNCH_UNKNOWN, 55, 0);
}

/* An op that was thrown out of ended some time before that was noticed. */
static void ends_that_are_not_known(void **state)
{
	(void)state;
	uint64_t within = ended(&inner, 22, 25);
	struct op_event thrown = op_in(T, &inner, 20, 30);
	thrown.thrown = true;
	launches_op(l, &thrown);
	uint64_t around = ended(&outer, 10, 40);
	launched(1, 23);
	ran(1);
	only(LAUNCH_IN_OP, 23, within);
	launched(2, 27);
	ran(2);
	only(LAUNCH_UNKNOWN, 27, 0);
	launched(3, 30);
	ran(3);
	only(LAUNCH_IN_OP, 30, around);
	ended(&inner, 50, 0);
	launched(4, 55);
	ran(4);
	wait_ms(1200);
	only(LAUNCH_UNKNOWN, 55, 0);
	uint64_t next = ended(&inner, 60, 70);
	launched(5, 58);
	ran(5);
	wait_ms(1200);
	only(LAUNCH_UNKNOWN, 58, 0);
	launched(6, 65);
	ran(6);
	only(LAUNCH_IN_OP, 65, next);
	launched(7, 75);
	ran(7);
	wait_ms(1200);
	only(LAUNCH_IN_NO_OP, 75, 0);
}

/* The same where the launches come before the ends do. */
static void it_waits_and_the_end_is_not_known(void **state)
{
	(void)state;
	open_since = 10;
	for (uint32_t i = 1; i <= 5; i++) {
		launched(i, 10 + 5 * i); /* 15 20 25 30 35 */
		ran(i);
	}
	uint64_t within = ended(&inner, 20, 24);
	only(LAUNCH_IN_OP, 20, within);
	struct op_event thrown = op_in(T, &inner, 18, 28);
	thrown.thrown = true;
	launches_op(l, &thrown);
	only(LAUNCH_UNKNOWN, 25, 0);
	ended(&inner, 33, 0);
	nothing_yet();
	struct op_event around = op_in(T, &outer, 12, 50);
	launches_op(l, &around);
	assert_int_equal(ngot, 3);
	for (unsigned i = 0; i < ngot; i++) {
		assert_int_equal(got[i].launch,
				 got[i].launched_ns == 35 ? LAUNCH_UNKNOWN : LAUNCH_IN_OP);
		assert_int_equal(got[i].of.id, got[i].launched_ns == 35 ? 0 : around.id);
	}
}

/* Then the order in which ops nest is not known. */
static void ends_out_of_order(void **state)
{
	(void)state;
	open_since = 10;
	launched(1, 35);
	ran(1);
	ended(&inner, 40, 50);
	ended(&inner, 30, 38);
	open_since = UINT64_MAX;
	wait_ms(1200);
	only(LAUNCH_UNKNOWN, 35, 0);
	launched(2, 45);
	ran(2);
	only(LAUNCH_UNKNOWN, 45, 0);
	uint64_t id = ended(&inner, 52, 60);
	launched(3, 55);
	ran(3);
	only(LAUNCH_IN_OP, 55, id);
}

static void of_one_there_is_nothing(void **state)
{
	(void)state;
	launched(1, 25);
	ran(2);
	wait_ms(4000);
	nothing_yet();
	wait_ms(2000);
	only(LAUNCH_NO_THREAD, 0, 0);
	ran(2);
	only(LAUNCH_NO_THREAD, 0, 0);
	uint64_t id = ended(&outer, 10, 60);
	launched(2, 15);
	ran(2);
	only(LAUNCH_IN_OP, 15, id);
}

static void before_the_first_record(void **state)
{
	(void)state;
	launches_free(l);
	l = launches_new(on_activity, since_when, NULL);
	ended(&inner, 20, 30);
	now = 500;
	launched(1, 25);
	ran(1);
	only(LAUNCH_UNKNOWN, 25, 0);
	/* Another may have ended before it, and within it. */
	uint64_t id = ended(&outer, 40, 100);
	launched(2, 60);
	ran(2);
	only(LAUNCH_UNKNOWN, 60, 0);
	id = ended(&outer, 110, 120);
	launched(3, 115);
	ran(3);
	only(LAUNCH_IN_OP, 115, id);
}

static void the_oldest_ops_are_forgotten(void **state)
{
	(void)state;
	enum { N = 100 * 1000, KEPT = 1 << 16 };
	uint64_t first = ids + 1;
	for (uint64_t i = 1; i <= N; i++)
		ended(&inner, 10 * i, 10 * i + 5);
	uint64_t around = ended(&outer, 5, 10 * N + 10);
	for (uint64_t i = 1; i <= N; i += 50) {
		uint64_t t = 10 * i + 2, none = 10 * i + 7;
		bool known = i > N + 1 - KEPT;
		launched((uint32_t)i, t);
		ran((uint32_t)i);
		only(known ? LAUNCH_IN_OP : LAUNCH_UNKNOWN, t, known ? first + i - 1 : 0);
		launched((uint32_t)i + 1, none);
		ran((uint32_t)i + 1);
		only(known ? LAUNCH_IN_OP : LAUNCH_UNKNOWN, none, known ? around : 0);
	}
}

static void the_oldest_launches_are_forgotten(void **state)
{
	(void)state;
	uint64_t id = ended(&outer, 10, 60);
	launched(1, 12);
	launched(2, 13);
	ran_as(2, true);
	only(LAUNCH_IN_OP, 13, id);
	launched(3, 99); /* waits */
	ran(3);
	for (uint32_t i = 4; i < LAUNCHES_MOST + 10; i++)
		launched(i, 20);
	only(LAUNCH_UNKNOWN, 99, 0);
	ran(1);
	wait_ms(6000);
	only(LAUNCH_NO_THREAD, 0, 0);
	ran_as(2, true);
	only(LAUNCH_IN_OP, 13, id);
	/* The graph was not used for long. */
	wait_ms(11000);
	for (uint32_t i = 0; i < LAUNCHES_MOST; i++)
		launched(LAUNCHES_MOST + 10 + i, 20);
	ran_as(2, true);
	nothing_yet();
	launches_end(l, PID, 0);
	only(LAUNCH_NO_THREAD, 0, 0);
}

static void too_many_wait(void **state)
{
	(void)state;
	enum { MORE = 1000 };
	launched(1, 25);
	for (uint32_t i = 0; i < RANS_MOST + MORE; i++)
		ran(i < 10 ? 1 : 2 + i);
	assert_int_equal(ngot, MORE < 10 ? 10 : MORE);
	for (unsigned i = 0; i < ngot; i++)
		assert_int_equal(got[i].launch, i < 10 ? LAUNCH_UNKNOWN : LAUNCH_NO_THREAD);
	launches_end(l, PID, UINT64_MAX);
	assert_int_equal(ngot, RANS_MOST + MORE);
}

static void the_end(void **state)
{
	(void)state;
	ended(&inner, 20, 30);
	launched(1, 35);
	launched(2, 45);
	launched(3, 25);
	ran(1);
	launches_end(l, PID + 1, UINT64_MAX);
	nothing_yet();
	launches_end(l, PID, 40);
	only(LAUNCH_IN_NO_OP, 35, 0);
	/* Another process, with the same PID. */
	now = 1000;
	ran(2);
	ran(3);
	launched(3, 25);
	only(LAUNCH_UNKNOWN, 25, 0);
	launched(2, 1045);
	nothing_yet();
	launched(4, 1044);
	ran(4);
	/* The one that was launched as recording ended is of no recorded time. */
	launches_end(l, 0, 1045);
	only(LAUNCH_IN_NO_OP, 1044, 0);
}

/* Of those that were dropped nothing is known. */
static void many_threads(void **state)
{
	(void)state;
	enum { N = 1000, KEPT = 256 };
	uint64_t first = ids + 1;
	for (int32_t i = 0; i < N; i++) {
		wait_ms(10);
		struct op_event ev = op_in(T + i, &outer, now - 9, now - 4);
		launches_op(l, &(struct op_event){
				   .pid = PID, .tid = T + i, .start_ns = 1, .end_ns = now - 20});
		launches_op(l, &ev);
	}
	uint64_t t = now - 7;
	for (int32_t i = N - 1; i >= 0; i--, t -= 10 * MS) {
		launched_in(T + i, 1 + (uint32_t)i, t);
		ran(1 + (uint32_t)i);
		assert_int_equal(ngot, N - i);
		const struct activity *a = &got[ngot - 1];
		assert_int_equal(a->launch, i >= N - KEPT ? LAUNCH_IN_OP : LAUNCH_UNKNOWN);
		assert_int_equal(a->of.id, i >= N - KEPT ? first + (uint64_t)i : 0);
	}
}

static void names(void **state)
{
	(void)state;
	static const struct {
		struct activity_record r;
		const char *name;
	} cases[] = {
	    {{.activity = ACTIVITY_KERNEL, .name = 7}, "void at::gemm<float, 32>(float*)"},
	    {{.activity = ACTIVITY_KERNEL, .name = 8}, "triton_poi_fused_0"},
	    {{.activity = ACTIVITY_KERNEL, .name = 9}, "(name not known)"},
	    {{.activity = ACTIVITY_COPY, .name = 1, .from = 1, .to = 3},
	     "Memcpy HtoD (Pageable -> Device)"},
	    {{.activity = ACTIVITY_COPY, .name = 2, .from = 3, .to = 2},
	     "Memcpy DtoH (Device -> Pinned)"},
	    {{.activity = ACTIVITY_COPY, .name = 8, .from = 3, .to = 3},
	     "Memcpy DtoD (Device -> Device)"},
	    {{.activity = ACTIVITY_COPY, .name = 10, .from = 3, .to = 6},
	     "Memcpy PtoP (Device -> Device Static)"},
	    {{.activity = ACTIVITY_COPY, .name = 11, .from = 0, .to = 8},
	     "Memcpy <unknown> (Unknown -> Unrecognized)"},
	    {{.activity = ACTIVITY_SET, .to = 3}, "Memset (Device)"},
	};
	enum { N = sizeof(cases) / sizeof(cases[0]) };
	struct activity_record name = {.kind = RECORD_NAME, .pid = PID, .name = 7};
	char text[] = "_ZN2at4gemmIfLi32EEEvPT_";
	name.text = text;
	launches_record(l, &name, now);
	memset(text, 'x', sizeof(text) - 1);
	name.name = 8;
	name.text = "triton_poi_fused_0";
	launches_record(l, &name, now);
	for (unsigned i = 0; i < N; i++) {
		struct activity_record r = cases[i].r;
		r.kind = RECORD_RAN;
		r.pid = PID;
		r.correlation = i % 3;
		launches_record(l, &r, now);
	}
	ran(0);
	launches_end(l, 0, 0);
	assert_int_equal(ngot, N + 1);
	for (unsigned i = 0; i < N; i++) {
		unsigned found = 0;
		for (unsigned k = 0; k < ngot; k++)
			found += !strcmp(got[k].name, cases[i].name) &&
				 got[k].kind == cases[i].r.activity;
		if (!found)
			fail_msg("no activity is named %s", cases[i].name);
	}
}

static void spans(void **state)
{
	(void)state;
	struct spans s = {0};
	spans_add(&s, 20, 30);
	spans_add(&s, 5, 10);
	spans_add(&s, 12, 15);
	assert_int_equal(s.n, 3);
	for (uint64_t t = 0; t < 40; t++)
		assert_int_equal(spans_find(&s, t) != NULL,
				 (t >= 5 && t < 10) || (t >= 12 && t < 15) || (t >= 20 && t < 30));
	spans_add(&s, 9, 13);
	assert_int_equal(s.n, 2);
	assert_int_equal(spans_find(&s, 5)->to, 15);
	for (uint64_t i = 0; i < 1000; i++)
		spans_add(&s, 100 + 10 * i, 105 + 10 * i);
	assert_int_equal(s.n, SPANS_MOST);
	for (uint64_t i = 0; i < 1000; i++)
		assert_non_null(spans_find(&s, 102 + 10 * i));
	assert_null(spans_find(&s, 100 + 10 * 999 - 2));
}

/* Against a simple model: ops of some threads that nest at random, launches at random times, and
 * each of their records at random times after it. */

enum { THREADS = 3, OPS = 3000, LAUNCHES = 4000, STEP = 5 * MS };
static const uint64_t length = 20ULL * 1000 * MS;

struct model_op {
	struct op_event ev;
	uint64_t end; /* in truth */
};

struct model_launch {
	uint64_t t, told[2]; /* when LAUNCH and RAN come */
	int32_t tid;
	bool found;
};

static struct model_op ops[THREADS][OPS];
static struct model_launch model[LAUNCHES];
static unsigned nops[THREADS], next_op[THREADS];
static uint64_t delay;

static uint64_t rnd(uint64_t below)
{
	return ((uint64_t)rand() << 31 | (uint64_t)rand()) % below;
}

/* Ops in [from, to), those within before those around them. */
static void make_ops(unsigned th, uint64_t from, uint64_t to, unsigned depth)
{
	while (nops[th] < OPS && to > from + 2) {
		uint64_t unit = (to - from) / (depth ? 6 : 200) + 1;
		bool is_long = !depth && !rnd(100);
		uint64_t start = from + rnd(unit),
			 stop = start + 1 + rnd(unit * (is_long ? 20 : 1));
		if (stop > to)
			return;
		if (is_long || !rnd(4))
			make_ops(th, start + rnd(2), stop - (rnd(2) && stop > start + 1),
				 depth + 1);
		if (nops[th] == OPS)
			return;
		ops[th][nops[th]++] =
		    (struct model_op){op_in(T + (int32_t)th, &outer, start, stop), stop};
		from = stop;
	}
}

/* As far as the decoder is. */
static uint64_t model_open(int32_t pid, int32_t tid, void *arg)
{
	uint64_t first = UINT64_MAX;
	(void)pid;
	(void)arg;
	for (unsigned i = next_op[tid - T]; i < nops[tid - T]; i++) {
		uint64_t start = ops[tid - T][i].ev.start_ns;
		first = start + delay <= now && start < first ? start : first;
	}
	return first;
}

static void compare(const struct activity *a, void *arg)
{
	struct model_launch *m = &model[a->stream];
	const struct model_op *in = NULL;
	bool *exact = arg;
	assert_false(m->found);
	m->found = true;
	assert_int_equal(a->of.tid, m->tid);
	assert_int_equal(a->launched_ns, m->t);
	for (unsigned i = 0; i < nops[m->tid - T] && !in; i++) {
		const struct model_op *o = &ops[m->tid - T][i];
		if (o->ev.start_ns <= m->t && m->t < o->end)
			in = o;
	}
	bool is_known = !in || (in->ev.end_ns && !in->ev.thrown);
	if (!is_known || (a->launch == LAUNCH_UNKNOWN && !*exact)) {
		assert_int_equal(a->launch, LAUNCH_UNKNOWN);
		return;
	}
	assert_int_equal(a->launch, in ? LAUNCH_IN_OP : LAUNCH_IN_NO_OP);
	assert_int_equal(a->of.id, in ? in->ev.id : 0);
}

static void model_step(void)
{
	for (unsigned th = 0; th < THREADS; th++)
		while (next_op[th] < nops[th] && ops[th][next_op[th]].end + delay <= now)
			launches_op(l, &ops[th][next_op[th]++].ev);
	for (unsigned i = 0; i < LAUNCHES; i++) {
		for (unsigned k = 0; k < 2; k++) {
			if (model[i].told[k] > now || model[i].told[k] + STEP <= now)
				continue;
			if (!k)
				launched_in(model[i].tid, i, model[i].t);
			else
				ran(i);
		}
	}
	launches_tick(l, now, false);
}

/* `spoiled`: of so many in a thousand ops the end is not known. */
static void run_model(unsigned seed, unsigned spoiled)
{
	bool exact = !spoiled;
	unsigned nunknown = 0;
	srand(seed);
	launches_free(l);
	l = launches_new(compare, model_open, &exact);
	now = 1;
	launches_record(l, &(struct activity_record){.kind = RECORD_LOST, .pid = PID}, now);
	delay = rnd(500 * MS);
	for (unsigned th = 0; th < THREADS; th++) {
		nops[th] = next_op[th] = 0;
		make_ops(th, 2 * MS, length, 0);
		for (unsigned i = 0; i < nops[th]; i++) {
			struct op_event *ev = &ops[th][i].ev;
			bool is_spoiled = rnd(1000) < spoiled;
			ev->thrown = is_spoiled && rnd(2);
			ev->end_ns = is_spoiled && !ev->thrown ? 0 : ev->end_ns;
			nunknown += is_spoiled;
		}
	}
	for (unsigned i = 0; i < LAUNCHES; i++) {
		unsigned th = (unsigned)rnd(THREADS);
		const struct model_op *near = &ops[th][rnd(nops[th])];
		uint64_t t = rnd(8) ? near->ev.start_ns + rnd(near->end - near->ev.start_ns + 2)
				    : 2 * MS + rnd(length);
		model[i] = (struct model_launch){
		    t, {t + rnd(2000ULL * MS), t + rnd(2000ULL * MS)}, T + (int32_t)th, false};
	}
	for (; now < length + 5000ULL * MS; now += STEP)
		model_step();
	launches_end(l, PID, UINT64_MAX);
	for (unsigned i = 0; i < LAUNCHES; i++)
		assert_true(model[i].found);
	assert_int_equal(nunknown != 0, spoiled != 0);
}

static void as_a_simple_model(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed < 6; seed++)
		run_model(seed, 0);
}

static void never_a_wrong_op(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed < 6; seed++)
		run_model(seed, seed < 4 ? 10 : 200);
}

#define LAUNCHES_TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    LAUNCHES_TEST(the_innermost_op_that_has_ended),
	    LAUNCHES_TEST(either_comes_first),
	    LAUNCHES_TEST(it_waits_for_an_op_that_is_open),
	    LAUNCHES_TEST(in_no_op),
	    LAUNCHES_TEST(threads_apart),
	    LAUNCHES_TEST(summed_up),
	    LAUNCHES_TEST(ends_that_are_not_known),
	    LAUNCHES_TEST(it_waits_and_the_end_is_not_known),
	    LAUNCHES_TEST(ends_out_of_order),
	    LAUNCHES_TEST(of_one_there_is_nothing),
	    LAUNCHES_TEST(before_the_first_record),
	    LAUNCHES_TEST(the_oldest_ops_are_forgotten),
	    LAUNCHES_TEST(the_oldest_launches_are_forgotten),
	    LAUNCHES_TEST(too_many_wait),
	    LAUNCHES_TEST(the_end),
	    LAUNCHES_TEST(many_threads),
	    LAUNCHES_TEST(names),
	    LAUNCHES_TEST(as_a_simple_model),
	    LAUNCHES_TEST(never_a_wrong_op),
	    cmocka_unit_test(spans),
	};
	return unit_run(tests, NULL, NULL);
}
