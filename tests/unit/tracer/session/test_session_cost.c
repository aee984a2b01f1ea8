/* The CPU time that the cost of probes is compared with. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/system.h"
#include "symbolizer/target/process.h"
#include "tracer/session/internal.h"

static struct session session;

static uint64_t hits;

static void counters(struct engine *g, struct engine_counters *out)
{
	(void)g;
	*out = (struct engine_counters){.hits = hits, .probe_ns = 100 * hits};
}

/* CPU time of this thread that counts after a hit at that time is met. */
static uint64_t spent_since(uint64_t ts)
{
	static struct target target;
	static struct engine engine = {.counters = counters};
	struct hit h = {.tid = (uint32_t)gettid(), .ts = ts};
	session.engine = &engine;
	target.pid = getpid();
	session.cost = (struct session_cost){0};
	session.procs[0].target = &target;
	session_cost_hit(&session, &h);
	session_cost_update(&session);
	return session_cost_cpu(&session);
}

/* A hit that is read late counts from when it was: here, from before the thread began. */
static void test_late(void **state)
{
	char text[64] = "";
	uint64_t cpu = 0;
	(void)state;
	/* until the scheduler has counted something */
	while (!cpu && clock_ns(CLOCK_PROCESS_CPUTIME_ID) < 1000 * 1000 * 1000)
		cpu = process_file(getpid(), "schedstat", text, sizeof(text)) > 0
			  ? strtoull(text, NULL, 10)
			  : 0;
	if (!cpu)
		skip(); /* this kernel does not tell it */
	assert_true(spent_since(0) >= cpu);
}

/* What is spent while probes are placed does not count. */
static void test_placing(void **state)
{
	struct engine engine = {.counters = counters};
	struct engine_counters c;
	struct target target = {.pid = getpid()};
	const struct hit h = {.tid = (uint32_t)gettid()};
	(void)state;
	session = (struct session){.engine = &engine};
	session.procs[0].target = &target;
	hits = 10;
	session_cost_placing(&session);
	hits = 50;
	const uint64_t before = session_now();
	session_cost_placed(&session);
	hits = 150;
	session_cost_hit(&session, &h);
	session_cost_update(&session);
	assert_true(session_cost_cpu(&session) <= session_now() - before);
	counters(&engine, &c);
	assert_int_equal(session_cost_probes(&session, &c), 100 * (10 + 100));
	session_cost_restart(&session);
	hits = 200;
	session_cost_update(&session);
	/* nor what is hit after CPU times were read last */
	hits = 400;
	counters(&engine, &c);
	assert_int_equal(session_cost_probes(&session, &c), 100 * 50);
}

enum { THREADS = COST_THREADS + 1 };

static pthread_barrier_t started, ended;

static void *wait_for_end(void *arg)
{
	pthread_barrier_wait(&started);
	pthread_barrier_wait(&ended);
	return arg;
}

/* Threads that hit no probe do not count: a process may have more than there is room for. */
static void test_many_threads(void **state)
{
	static pthread_t threads[THREADS];
	struct engine engine = {.counters = counters};
	struct target target = {.pid = getpid()};
	(void)state;
	session = (struct session){.engine = &engine};
	session.procs[0].target = &target;
	pthread_barrier_init(&started, NULL, THREADS + 1);
	pthread_barrier_init(&ended, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(0, pthread_create(&threads[i], NULL, wait_for_end, NULL));
	pthread_barrier_wait(&started);
	session_cost_placing(&session);
	session_cost_placed(&session);
	session_cost_hit(&session, &(struct hit){.tid = (uint32_t)gettid()});
	assert_int_equal(session.cost.n, 1);
	assert_false(session.cost.unknown);
	for (int i = 0; i < THREADS; i++)
		session_cost_hit(&session, &(struct hit){.tid = (uint32_t)(i + 1)});
	assert_true(session.cost.unknown);
	pthread_barrier_wait(&ended);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_late),
					   cmocka_unit_test(test_placing),
					   cmocka_unit_test(test_many_threads)};
	return unit_run(tests, NULL, NULL);
}
