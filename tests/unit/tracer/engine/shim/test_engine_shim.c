/* The engine shim against hostile clients: invalid greetings, and corrupted shared memory. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <poll.h>

#include "tests/unit/shim_client.h"
#include "tracer/engine/ring.h"

static struct shim_seen seen;

static void on_hit(const struct hit *h, void *arg)
{
	assert_true(h->size >= sizeof(*h));
	++*(unsigned *)arg;
}

static int setup(void **state)
{
	(void)state;
	seen = (struct shim_seen){0};
	return shim_open(&seen.engine);
}

static int teardown(void **state)
{
	(void)state;
	seen.engine->close(seen.engine);
	unsetenv("LD_PRELOAD");
	unsetenv(SHIM_SOCKET);
	return 0;
}

/* Another client that connects meanwhile is served. */
static void serves(void)
{
	unsigned hits = 0, came = seen.came, went = seen.went;
	int fd;
	struct shim_share *s = shim_join(&seen, &fd);
	assert_non_null(s);
	assert_int_equal(s->on, 1);
	assert_int_equal(seen.came, came + 1);
	shim_part(&seen, fd, s, on_hit, &hits);
	assert_int_equal(seen.went, went + 1);
}

/* Rejected: no process is added, and the connection is closed. */
static void refused(const void *bytes, size_t n)
{
	unsigned hits = 0;
	char c;
	int fd = shim_dial();
	assert_true(fd >= 0);
	if (n)
		assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
	else
		shutdown(fd, SHUT_WR);
	for (unsigned i = 0; i < 4; i++) {
		seen.engine->follow(seen.engine, shim_on_follow, &seen);
		seen.engine->consume(seen.engine, on_hit, &hits);
	}
	assert_int_equal(seen.came, 0);
	/* Unread data shows as a connection reset. */
	ssize_t got = recv(fd, &c, 1, MSG_DONTWAIT);
	assert_true(got == 0 || (got < 0 && errno == ECONNRESET));
	close(fd);
}

static void test_greetings(void **state)
{
	uint8_t garbage[2 * sizeof(struct shim_hello)];
	struct shim_hello hello = shim_greeting();
	(void)state;
	memset(garbage, 0xa5, sizeof(garbage));
	refused(&hello, sizeof(hello) - 1);
	refused(&hello, 1);
	refused(NULL, 0);
	refused(garbage, sizeof(hello));
	refused(garbage, sizeof(garbage));
	hello.version++;
	refused(&hello, sizeof(hello));
	hello = shim_greeting();
	hello.bytes -= 8;
	refused(&hello, sizeof(hello));
	hello = shim_greeting();
	hello.unused = 1;
	refused(&hello, sizeof(hello));
	serves();
}

/* Data after a valid greeting ends the connection. */
static void test_too_much(void **state)
{
	struct shim_hello hello[2] = {shim_greeting(), shim_greeting()};
	unsigned hits = 0;
	(void)state;
	int fd = shim_dial();
	assert_int_equal(send(fd, hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
	seen.engine->follow(seen.engine, shim_on_follow, &seen);
	assert_int_equal(seen.came, 1);
	struct shim_share *s = shim_map(shim_receive(fd));
	assert_non_null(s);
	seen.engine->follow(seen.engine, shim_on_follow, &seen);
	shim_part(&seen, fd, s, on_hit, &hits);
	assert_int_equal(seen.went, 1);
	serves();
}

/* A silent client keeps nobody waiting. */
static void test_silent(void **state)
{
	(void)state;
	int fd = shim_dial();
	assert_true(fd >= 0);
	seen.engine->follow(seen.engine, shim_on_follow, &seen);
	serves();
	close(fd);
	serves();
}

static void put(struct shim_share *s, unsigned ring, uint32_t size)
{
	static struct chunks_writer w;
	struct chunks *c = &s->thread[ring].records;
	if (!c->ring.head)
		chunks_begin(c, &w, s->chunks);
	struct hit *h = chunks_room(c, &w, s->ring[ring], size, 0);
	assert_non_null(h);
	*h = (struct hit){.size = size, .kind = HIT_ENTRY};
	chunks_done(c, h);
}

/* Rings that fill slowly are read again late; one that has filled is not. */
static void test_pause(void **state)
{
	enum { LARGE = 16 << 10 };
	unsigned hits = 0;
	int fd;
	(void)state;
	struct shim_share *s = shim_join(&seen, &fd);
	assert_non_null(s);
	s->thread[0].tid = 1;
	s->nthreads = 1;
	seen.engine->consume(seen.engine, on_hit, &hits);
	seen.engine->consume(seen.engine, on_hit, &hits);
	assert_true(seen.engine->pause_ms > 1);
	for (unsigned n = 0; n <= s->chunks * (CHUNK / LARGE) / 8; n++)
		put(s, 0, LARGE);
	seen.engine->consume(seen.engine, on_hit, &hits);
	assert_int_equal(seen.engine->pause_ms, 1);
	shim_part(&seen, fd, s, on_hit, &hits);
}

/* A call as one that was sent before, but for its times and its last word. */
static void put_call(struct shim_share *s, struct chunks_writer *w, struct brief *sent,
		     uint64_t seq)
{
	struct {
		struct hit hit;
		uint64_t words[20], behind[8];
	} r = {.hit = {.size = sizeof(r.hit) + sizeof(r.words),
		       .kind = HIT_ENTRY,
		       .op = 1,
		       .tid = 9,
		       .ts = (1ULL << 40) + seq,
		       .seq = seq}};
	r.words[19] = seq * seq;
	struct chunks *c = &s->thread[0].records;
	struct hit *to = chunks_room(c, w, s->ring[0], sizeof(r) + BRIEF_BYTES, 0);
	assert_non_null(to);
	brief_put(sent, &r.hit, to);
	chunks_done(c, to);
}

static void on_call(const struct hit *h, void *arg)
{
	const uint64_t *words = (const uint64_t *)(h + 1);
	const uint64_t seq = ++*(unsigned *)arg;
	assert_int_equal(h->size, sizeof(*h) + 160);
	assert_int_equal(h->seq, seq);
	assert_int_equal(h->ts, (1ULL << 40) + seq);
	assert_int_equal(h->tid, 9);
	assert_int_equal(words[18], 0);
	assert_int_equal(words[19], seq * seq);
}

/* Brief records come as whole ones, also from the next thread with that ring, which begins anew.
 * One that is none is the last. */
static void test_brief(void **state)
{
	static struct chunks_writer w;
	static struct brief sent;
	unsigned hits = 0;
	int fd;
	(void)state;
	struct shim_share *s = shim_join(&seen, &fd);
	assert_non_null(s);
	s->nthreads = 1;
	for (unsigned thread = 0; thread < 2; thread++) {
		s->thread[0].tid = 9;
		memset(&sent, 0, sizeof(sent));
		chunks_begin(&s->thread[0].records, &w, s->chunks);
		const uint64_t was = s->thread[0].records.ring.head;
		for (uint64_t seq = hits + 1; seq <= 10 * (thread + 1); seq++)
			put_call(s, &w, &sent, seq);
		assert_true(s->thread[0].records.ring.head - was < 2 * 208 + 8 * 40);
		seen.engine->consume(seen.engine, on_call, &hits);
		assert_int_equal(hits, 10 * (thread + 1));
		s->thread[0].ended = 1;
		seen.engine->consume(seen.engine, on_call, &hits);
		assert_int_equal(s->thread[0].tid, 0);
	}
	s->thread[0].tid = 9;
	const uint64_t at = s->thread[0].records.ring.head;
	put_call(s, &w, &sent, hits + 1);
	s->ring[0][s->thread[0].records.at[at / CHUNK] * (uint64_t)CHUNK + at % CHUNK + 1] = 1;
	seen.engine->consume(seen.engine, on_call, &hits);
	assert_int_equal(hits, 20);
	assert_int_equal(seen.engine->trouble.code, -EPROTO);
	assert_int_equal(s->on, 0);
	seen.engine->trouble = (struct err){0};
	shim_part(&seen, fd, s, on_call, &hits);
	serves();
}

/* Valid records come; after an invalid one nothing more is read from the process, and the user is
 * told. */
static void test_corrupted(void **state)
{
	static const uint32_t sizes[] = {1, sizeof(struct hit) - 1, 56 << 10, UINT32_MAX};
	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		unsigned hits = 0, ring = i % 2 ? SHIM_THREADS - 1 : 0;
		int fd;
		struct shim_share *s = shim_join(&seen, &fd);
		assert_non_null(s);
		s->thread[ring].tid = 1;
		s->nthreads = SHIM_THREADS;
		put(s, ring, 64);
		put(s, ring, 128);
		put(s, ring, 64);
		((struct hit *)&s->ring[ring][64 + 128])->size = sizes[i];
		seen.engine->consume(seen.engine, on_hit, &hits);
		assert_int_equal(hits, 2);
		assert_int_equal(seen.engine->trouble.code, -EPROTO);
		assert_int_equal(s->on, 0);
		put(s, ring, 64);
		seen.engine->consume(seen.engine, on_hit, &hits);
		assert_int_equal(hits, 2);
		seen.engine->trouble = (struct err){0};
		shim_part(&seen, fd, s, on_hit, &hits);
	}
	serves();
}

/* Whether the thread of the first ring is stopped, as its record says. */
static void on_standing(const struct hit *h, void *arg)
{
	const struct shim_share *s = *(struct shim_share **)arg;
	const bool stands = h->flags & HIT_STOPPED;
	assert_int_equal(s->thread[0].stand == SHIM_LOOKED_AT, stands);
	*(struct shim_share **)arg = NULL;
}

/* A thread resumes once its record was read; the record of one that does not wait says so. */
static void test_stands(void **state)
{
	unsigned hits = 0;
	int fd;
	(void)state;
	struct shim_share *s = shim_join(&seen, &fd), *at;
	struct pollfd wake = {.fd = seen.engine->wake, .events = POLLIN};
	assert_non_null(s);
	s->thread[0].tid = 1;
	s->nthreads = 1;
	for (unsigned i = 0; i < 4; i++) {
		put(s, 0, 64);
		((struct hit *)&s->ring[0][64ULL * i])->flags = HIT_STOPPED;
		s->thread[0].stand = i % 2 ? SHIM_STANDS : SHIM_GOES;
		assert_int_equal(send(fd, &(const char){SHIM_WAKE}, 1, 0), 1);
		assert_int_equal(poll(&wake, 1, 60000), 1);
		seen.engine->follow(seen.engine, shim_on_follow, &seen);
		assert_int_equal(poll(&wake, 1, 0), 0);
		at = s;
		seen.engine->consume(seen.engine, on_standing, &at);
		assert_null(at);
		assert_int_equal(s->thread[0].stand, SHIM_GOES);
	}
	assert_int_equal(send(fd, "wxw", 3, 0), 3);
	shim_part(&seen, fd, s, on_hit, &hits);
	assert_int_equal(seen.went, 1);
}

/* Random contents of the shared memory. */
static void test_hostile(void **state)
{
	(void)state;
	srand(1);
	for (unsigned i = 0; i < 50; i++) {
		struct engine_counters c;
		unsigned hits = 0;
		int fd;
		struct shim_share *s = shim_join(&seen, &fd);
		assert_non_null(s);
		uint8_t *bytes = (uint8_t *)s;
		for (size_t k = 0; k < offsetof(struct shim_share, sums); k++)
			bytes[k] = (uint8_t)(rand() % 4 ? rand() : 0);
		bytes = (uint8_t *)&s->sums[i];
		for (size_t k = 0; k < offsetof(struct sums, record) + 4096; k++)
			bytes[k] = (uint8_t)(rand() % 4 ? rand() : 0);
		s->sums[i].nrows %= SUMS_ROWS + 2;
		seen.engine->consume(seen.engine, on_hit, &hits);
		seen.engine->counters(seen.engine, &c);
		shim_part(&seen, fd, s, on_hit, &hits);
	}
	serves();
}

static void on_sum(const struct hit *h, void *arg)
{
	assert_int_equal(h->kind, HIT_SUM);
	++*(unsigned *)arg;
}

/* What was summed up comes once, and before the code in its stack is freed. */
static void test_sums(void **state)
{
	static struct sums_writer w;
	struct hit h = {.size = sizeof(h), .kind = HIT_ENTRY, .op = 1};
	unsigned hits = 0;
	int fd;
	(void)state;
	struct shim_share *s = shim_join(&seen, &fd);
	assert_non_null(s);
	assert_true(s->may_sum);
	s->thread[2].tid = 1;
	s->nthreads = 3;
	sums_begin(&s->sums[2], &w, &s->code);
	for (unsigned i = 0; i < 5; i++)
		sums_leave(&s->sums[2], &w, sums_enter(&s->sums[2], &w, &h, true), 10, 20, 0,
			   false);
	seen.engine->consume(seen.engine, on_sum, &hits);
	assert_int_equal(hits, 1);
	seen.engine->consume(seen.engine, on_sum, &hits);
	assert_int_equal(hits, 1);
	s->thread[2].ended = 1;
	sums_leave(&s->sums[2], &w, sums_enter(&s->sums[2], &w, &h, true), 10, 20, 0, false);
	shim_part(&seen, fd, s, on_sum, &hits);
	assert_int_equal(hits, 2);
	assert_int_equal(seen.went, 1);
}

/* The memory cannot be truncated, which would crash its reader. */
static void test_sealed(void **state)
{
	const struct shim_hello hello = shim_greeting();
	unsigned hits = 0;
	(void)state;
	int fd = shim_dial();
	assert_int_equal(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
	seen.engine->follow(seen.engine, shim_on_follow, &seen);
	int memory = shim_receive(fd);
	assert_true(memory >= 0);
	assert_int_equal(ftruncate(memory, 4096), -1);
	assert_int_equal(errno, EPERM);
	close(memory);
	shim_part(&seen, fd, NULL, on_hit, &hits);
}

/* Counters of each thread, and of threads without a ring. */
static void test_counters(void **state)
{
	struct engine_counters c;
	unsigned hits = 0;
	int fd;
	(void)state;
	struct shim_share *s = shim_join(&seen, &fd);
	assert_non_null(s);
	s->thread[0].hits = 10;
	s->thread[5].hits = 5;
	s->thread[5].lost = 2;
	s->thread[0].sampled = 2;
	s->thread[0].sampled_ns = 600;
	s->lost = 3;
	seen.engine->counters(seen.engine, &c);
	assert_int_equal(c.hits, 15);
	assert_int_equal(c.lost, 5);
	assert_int_equal(c.probe_ns, 15 * 300);
	assert_true(c.probe_is_least);
	shim_part(&seen, fd, s, on_hit, &hits);
	seen.engine->counters(seen.engine, &c);
	assert_int_equal(c.hits, 15);
	assert_int_equal(c.lost, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_greetings, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_too_much, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_silent, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_pause, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_brief, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_corrupted, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_stands, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_hostile, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_sums, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_sealed, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_counters, setup, teardown),
	};

	return unit_run(tests, NULL, NULL);
}
