#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "tracer/engine/bpf/internal.h"

/* A ring buffer in the kernel, which `move` empties. */
struct source {
	struct backlog *backlog;
	atomic_uint waiting; /* records in it */
	unsigned at_once;    /* of which it gives so many; 0: all */
	atomic_ullong next;  /* number of the next one */
	uint32_t extra;	     /* bytes behind each hit, at most EXTRA_MOST */
	atomic_int failing;
};

enum { EXTRA_MOST = 3000, BIG = 2 << 20 };

static int move(void *arg)
{
	struct source *s = arg;
	union {
		struct hit hit;
		uint8_t bytes[sizeof(struct hit) + EXTRA_MOST];
	} r;
	unsigned n = 0;
	if (s->failing)
		return s->failing;
	for (; s->waiting && (!s->at_once || n < s->at_once); n++) {
		r.hit = (struct hit){.size = sizeof(r.hit) + s->extra, .seq = s->next++};
		memset(&r.hit + 1, (int)(r.hit.seq & 0xff), s->extra);
		backlog_put(s->backlog, &r, sizeof(r));
		s->waiting--;
	}
	return (int)n;
}

struct seen {
	uint64_t next;
	uint32_t extra;
};

static void see(const struct hit *h, void *arg)
{
	struct seen *s = arg;
	const uint8_t *bytes = (const uint8_t *)(h + 1);
	bool same = true;
	assert_int_equal(h->seq, s->next);
	assert_int_equal(h->size, sizeof(*h) + s->extra);
	for (uint32_t i = 0; i < s->extra; i++)
		same &= bytes[i] == (s->next & 0xff);
	assert_true(same);
	s->next++;
}

static void source_open(struct source *s)
{
	assert_int_equal(backlog_open(move, s, &s->backlog), 0);
}

static void test_order(void **state)
{
	(void)state;
	struct source s = {.extra = 1001};
	struct seen seen = {.extra = 1001};
	source_open(&s);
	for (unsigned i = 1; i < 60; i++) {
		s.waiting += 100 * i;
		assert_true(backlog_consume(s.backlog, see, &seen) <= (int)(100 * i));
	}
	assert_int_equal(seen.next, s.next);
	assert_int_equal(s.next, 59 * 60 / 2 * 100);
	assert_int_equal(backlog_consume(s.backlog, see, &seen), 0);
	assert_int_equal(backlog_lost(s.backlog), 0);
	backlog_close(s.backlog);
}

/* While the consumer is busy with a record, those behind it leave the ring buffer. */
static void wait_until_moved(const struct hit *h, void *arg)
{
	struct source *s = arg;
	if (h->seq)
		return;
	s->waiting = 1000;
	while (s->waiting)
		poll(NULL, 0, 1);
}

static void test_busy_consumer(void **state)
{
	(void)state;
	struct source s = {.extra = EXTRA_MOST};
	struct seen seen = {.next = 1, .extra = EXTRA_MOST};
	source_open(&s);
	s.waiting = 1;
	while (!backlog_consume(s.backlog, wait_until_moved, &s))
		poll(NULL, 0, 1);
	assert_int_equal(s.next, 1001);
	assert_int_equal(backlog_consume(s.backlog, see, &seen), 1000);
	backlog_close(s.backlog);
}

/* When there is no room the rest stays where it is, until there is. */
static void test_full(void **state)
{
	(void)state;
	enum { MOST = 256 << 20, A_TIME = 1000, MS = 300 };
	const uint64_t size = sizeof(struct hit) + EXTRA_MOST;
	struct source s = {
	    .extra = EXTRA_MOST, .at_once = A_TIME, .waiting = 3 * MOST / EXTRA_MOST};
	struct seen seen = {.extra = EXTRA_MOST};
	source_open(&s);
	while (s.next * size < MOST - 16 * A_TIME * size)
		poll(NULL, 0, 1);
	poll(NULL, 0, MS); /* one without a limit goes on */
	assert_true(s.next * size < MOST + A_TIME * size);
	while (s.waiting || seen.next < s.next)
		backlog_consume(s.backlog, see, &seen);
	assert_int_equal(backlog_lost(s.backlog), 0);
	backlog_close(s.backlog);
}

static void test_odd_records(void **state)
{
	(void)state;
	struct source s = {.failing = -EIO};
	struct seen seen = {0};
	struct hit *big = calloc(1, BIG);
	assert_non_null(big);
	source_open(&s);
	assert_int_equal(backlog_consume(s.backlog, see, &seen), -EIO);
	*big = (struct hit){.size = sizeof(*big) - 1};
	backlog_put(s.backlog, big, sizeof(*big));
	*big = (struct hit){.size = sizeof(*big) + 1};
	backlog_put(s.backlog, big, sizeof(*big));
	backlog_put(s.backlog, big, sizeof(*big) - 1);
	assert_int_equal(backlog_lost(s.backlog), 0);
	*big = (struct hit){.size = BIG};
	backlog_put(s.backlog, big, BIG);
	assert_int_equal(backlog_lost(s.backlog), 1);
	*big = (struct hit){.size = sizeof(*big)};
	backlog_put(s.backlog, big, sizeof(*big));
	assert_int_equal(backlog_consume(s.backlog, see, &seen), 1);
	backlog_close(s.backlog);
	backlog_close(NULL);
	free(big);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_order),
	    cmocka_unit_test(test_busy_consumer),
	    cmocka_unit_test(test_full),
	    cmocka_unit_test(test_odd_records),
	};
	return unit_run(tests, NULL, NULL);
}
