/* Brief records say what the whole ones do, through a ring as the shim's, whatever was lost before.
 */
#include "tests/unit/unit.h"

#include "tracer/engine/ring.h"

enum { OURS = 8, BIG = 24 << 10, LONGEST = 300 };

struct fixture {
	struct chunks ring;
	struct chunks_writer writer;
	struct brief to, from; /* the writer's and the reader's */
	_Alignas(8) uint8_t data[OURS * CHUNK];
	_Alignas(8) uint8_t copy[BIG];
	uint64_t sent[LONGEST];
	uint64_t bytes, whole; /* that were put, and what they would have been */
};

static struct fixture f;

static int setup(void **state)
{
	(void)state;
	memset(&f, 0, sizeof(f));
	chunks_begin(&f.ring, &f.writer, OURS);
	return 0;
}

/* -1: there is no room, and the record is lost. */
static int put(const struct hit *h)
{
	const uint64_t was = f.ring.ring.head;
	struct hit *to = chunks_room(&f.ring, &f.writer, f.data, BIG, 0);
	if (!to)
		return -1;
	brief_put(&f.to, h, to);
	chunks_done(&f.ring, to);
	f.bytes += (f.ring.ring.head - was) % CHUNK;
	f.whole += h->size;
	return 0;
}

/* NULL: there is none, or, with *bad set, none that could be. */
static const struct hit *get(int *bad)
{
	*bad = 0;
	const struct hit *h = chunks_next_any(&f.ring, f.data, bad);
	if (!h)
		return NULL;
	const uint32_t size = h->size;
	memcpy(f.copy, h, ring_bytes(size));
	chunks_drop(&f.ring, h);
	if (size & RING_BRIEF) {
		h = brief_read(&f.from, f.copy);
		*bad = !h;
		return h;
	}
	brief_whole(&f.from, (struct hit *)f.copy);
	return (struct hit *)f.copy;
}

static void assert_comes(const struct hit *h)
{
	int bad;
	const struct hit *got = get(&bad);
	assert_int_equal(bad, 0);
	assert_non_null(got);
	assert_int_equal(got->size, h->size);
	assert_memory_equal(got, h, h->size);
}

static uint64_t dice(uint64_t n)
{
	static uint64_t at = 1;
	at = at * 6364136223846793005 + 1442695040888963407;
	return (at >> 33) % n;
}

/* As a training's: words that stay, addresses that come again, counters, and now and then anything.
 */
static const struct hit *sample(uint32_t i)
{
	static uint64_t seq, ts;
	struct hit *h = (struct hit *)f.sent;
	const uint32_t op = (uint32_t)dice(40), words = 6 + op * 7 % 60 + (uint32_t)dice(2);
	ts += dice(1000) ? dice(5000) : dice(3) << 32;
	*h = (struct hit){.size = 8 * (dice(100) ? words : 6 + (uint32_t)dice(LONGEST - 6)),
			  .kind = dice(2) ? HIT_ENTRY : HIT_EXIT,
			  .flags = dice(50) ? 0 : (uint8_t)dice(256),
			  .depth = (uint16_t)(dice(200) ? dice(4) : dice(65536)),
			  .op = op,
			  .tid = 7,
			  .ts = dice(500) ? ts : dice(ts + 1),
			  .sp = dice(3) ? 4096 : dice(1 << 20)};
	h->seq = h->kind == HIT_ENTRY ? ++seq : seq - dice(3);
	for (uint32_t k = 6; k < h->size / 8; k++)
		f.sent[k] = dice(8)   ? op * k * 0x1000000001
			    : dice(3) ? 0x7f0000000000 + 64 * dice(300)
			    : dice(2) ? i
				      : dice(UINT64_MAX);
	return h;
}

static void test_same(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 200000; i++) {
		const struct hit *h = sample(i);
		assert_int_equal(put(h), 0);
		assert_comes(h);
	}
	print_message("# %lu of %lu\n", f.bytes, f.whole);
	assert_true(f.bytes < f.whole / 2);
}

/* Records that find no room are in nobody's memory, and what comes then is right. */
static void test_lost(void **state)
{
	static uint64_t queue[1 << 20];
	uint64_t lost = 0;
	(void)state;
	for (uint32_t i = 0, turn = 0; turn < 20; turn++) {
		size_t end = 0;
		for (unsigned before = 0; before < 50; i++) {
			const struct hit *h = sample(i);
			if (end + LONGEST < sizeof(queue) / 8 && !put(h)) {
				memcpy(&queue[end], h, h->size);
				end += h->size / 8;
			} else {
				before++;
				lost++;
			}
		}
		for (size_t at = 0; at < end;) {
			const struct hit *h = (const void *)&queue[at];
			assert_comes(h);
			at += h->size / 8;
		}
	}
	assert_true(lost >= 1000);
}

/* Two ops whose records lie at the same place of the memory, and one that lies across another's. */
static void test_same_place(void **state)
{
	struct hit *h = (struct hit *)f.sent;
	uint32_t places[3] = {0};
	uint64_t seq = 0;
	(void)state;
	/* As many ops as there are places, and as many again: some meet. */
	for (uint32_t i = 0; i < 6 * BRIEF_PLACES; i++) {
		const uint32_t op = i % (2 * BRIEF_PLACES), words = op % 3 ? 20 : 200;
		*h = (struct hit){.size = 8 * words, .kind = HIT_ENTRY, .op = op, .seq = ++seq};
		for (uint32_t k = 6; k < words; k++)
			f.sent[k] = (uint64_t)op << 32 | k;
		assert_int_equal(put(h), 0);
		assert_comes(h);
		places[i / (2 * BRIEF_PLACES)]++;
	}
	assert_int_equal(places[2], 2 * BRIEF_PLACES);
}

/* The same call again takes few bytes; so does the next one. */
static void test_short(void **state)
{
	struct hit *h = (struct hit *)f.sent;
	(void)state;
	for (uint64_t i = 1; i <= 100; i++) {
		for (unsigned is_exit = 0; is_exit < 2; is_exit++) {
			*h = (struct hit){.size = 8 * 40,
					  .kind = is_exit ? HIT_EXIT : HIT_ENTRY,
					  .op = 3,
					  .ts = (1ULL << 50) + i * 1000 + is_exit,
					  .seq = i};
			for (uint32_t k = 6; k < 40; k++)
				f.sent[k] = 0x7f0000000000 + 8 * k;
			f.bytes = 0;
			assert_int_equal(put(h), 0);
			assert_comes(h);
			if (i > 2)
				assert_int_equal(f.bytes, 16);
		}
	}
}

/* What is special, or stands still, or is longer, or long after the last one, is sent whole. */
static void test_whole(void **state)
{
	const struct hit usual = {.size = 48, .kind = HIT_ENTRY, .ts = 1000};
	struct hit *h = (struct hit *)f.sent;
	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		*h = usual;
		h->kind = i == 1 ? HIT_CODE_FREED : i == 2 ? HIT_SCHEMA : HIT_ENTRY;
		h->flags = i == 3 ? HIT_MORE : i == 4 ? HIT_CONT : i == 5 ? HIT_STOPPED : 0;
		h->size = i == 6 ? 8 * (BRIEF_MOST + 1) : 48;
		h->ts = i == 7 ? 1ULL << 40 : 1000;
		assert_int_equal(put(h), 0);
		const uint32_t size =
		    ((const struct hit *)chunks_next_any(&f.ring, f.data, &(int){0}))->size;
		assert_int_equal(!(size & RING_BRIEF), i > 0);
		assert_comes(h);
	}
	/* The other rings have whole records alone. */
	int bad = 0;
	*h = usual;
	h->ts = (1ULL << 40) + 1;
	assert_int_equal(put(h), 0);
	assert_null(chunks_next(&f.ring, f.data, &bad));
	assert_int_equal(bad, 1);
}

/* A new writer, as in a child of a fork, and a new reader begin with nothing. */
static void test_anew(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 5000; i++) {
		const struct hit *h = sample(i);
		if (i % 1000 == 999) {
			memset(&f.to, 0, sizeof(f.to));
			memset(&f.from, 0, sizeof(f.from));
		}
		assert_int_equal(put(h), 0);
		assert_comes(h);
	}
}

/* What a process writes there instead is read within bounds, and is a whole record or none. */
static void test_nonsense(void **state)
{
	unsigned read = 0;
	(void)state;
	for (uint32_t i = 0; i < 300000; i++) {
		const struct hit *h = sample(i);
		int bad;
		uint8_t *to = (uint8_t *)chunks_room(&f.ring, &f.writer, f.data, BIG, 0);
		assert_int_equal(put(h), 0);
		for (uint64_t n = dice(4); n-- > 0;)
			to[dice(2) ? dice(16) : dice(64)] = (uint8_t)dice(256);
		h = get(&bad);
		if (!h) {
			f.ring.ring.tail = f.ring.ring.head;
			continue;
		}
		assert_true(h->size >= sizeof(*h) && h->size <= BIG);
		volatile uint8_t sum = 0;
		for (uint32_t k = 0; k < h->size; k++)
			sum = (uint8_t)(sum + ((const uint8_t *)h)[k]);
		f.ring.ring.tail = f.ring.ring.head;
		read++;
	}
	assert_true(read > 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_same, setup),
	    cmocka_unit_test_setup(test_lost, setup),
	    cmocka_unit_test_setup(test_same_place, setup),
	    cmocka_unit_test_setup(test_short, setup),
	    cmocka_unit_test_setup(test_whole, setup),
	    cmocka_unit_test_setup(test_anew, setup),
	    cmocka_unit_test_setup(test_nonsense, setup),
	};
	return unit_run(tests, NULL, NULL);
}
