#include "tests/unit/unit.h"

#include "tracer/engine/ring.h"

enum { SIZE = 1024 };

struct fixture {
	struct ring ring;
	_Alignas(8) uint8_t data[SIZE];
};

/* Bytes to reserve, if more than the record needs. */
static uint32_t most;

static int put(struct fixture *f, uint32_t extra, uint64_t seq)
{
	uint32_t n = (uint32_t)sizeof(struct hit) + extra;
	struct hit *h = ring_room(&f->ring, f->data, SIZE, most > n ? most : n);
	if (!h)
		return -1;
	*h = (struct hit){.size = n, .seq = seq};
	memset(h + 1, (int)(seq & 0xff), extra);
	ring_done(&f->ring, f->data, SIZE, h);
	return 0;
}

static const struct hit *next(struct fixture *f, int *bad)
{
	*bad = 0;
	return ring_next(&f->ring, f->data, SIZE, bad);
}

/* Records of all lengths, many times around. */
static void test_around(void **state)
{
	struct fixture f = {0};
	uint64_t in = 0, out = 0;
	int bad;
	(void)state;
	for (unsigned i = 0; i < 5000; i++) {
		while (!put(&f, (uint32_t)(in * 7 % 131), in))
			in++;
		assert_true(in > out);
		for (unsigned k = 0; k < 1 + i % 4; k++) {
			const struct hit *h = next(&f, &bad);
			if (!h)
				break;
			assert_int_equal(h->seq, out);
			assert_int_equal(h->size, sizeof(*h) + out * 7 % 131);
			for (uint32_t b = sizeof(*h); b < h->size; b++)
				assert_int_equal(((const uint8_t *)h)[b], out & 0xff);
			ring_drop(&f.ring, h);
			out++;
		}
		assert_int_equal(bad, 0);
	}
	assert_true(out > 1000);
}

static void test_around_with_more_room(void **state)
{
	most = SIZE / 4;
	test_around(state);
	most = 0;
}

static void test_full(void **state)
{
	static struct fixture f;
	int bad;
	(void)state;
	unsigned n = 0;
	while (!put(&f, 64, n))
		n++;
	assert_true(n > 0 && n <= SIZE / (sizeof(struct hit) + 64));
	ring_drop(&f.ring, next(&f, &bad));
	assert_int_equal(put(&f, 0, n), 0);
}

/* Corruption by a process that writes into its own ring. */
static void test_nonsense(void **state)
{
	static const uint32_t sizes[] = {1, 7, sizeof(struct hit) - 1, SIZE + 8, UINT32_MAX};
	int bad;
	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct fixture f = {0};
		put(&f, 0, 1);
		((struct hit *)f.data)->size = sizes[i];
		assert_null(next(&f, &bad));
		assert_int_equal(bad, 1);
	}
	static const uint64_t heads[] = {3, SIZE + 8, UINT64_MAX};
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		struct fixture f = {0};
		f.ring.head = heads[i];
		assert_null(next(&f, &bad));
		assert_int_equal(bad, 1);
	}
	struct fixture last = {0};
	last.ring.tail = SIZE - 2;
	last.ring.head = SIZE;
	assert_null(next(&last, &bad));
	assert_int_equal(bad, 1);
	/* A wrap to the start, where there is nothing. */
	struct fixture f = {0};
	f.ring.head = 8;
	assert_null(next(&f, &bad));
	assert_int_equal(bad, 1);
	/* Random contents: records returned are within the ring. */
	srand(1);
	for (unsigned i = 0; i < 100000; i++) {
		for (size_t b = 0; b < SIZE; b += 4)
			*(uint32_t *)(void *)&f.data[b] =
			    rand() % 3 ? (uint32_t)rand() % 256 : (uint32_t)rand();
		f.ring.tail = (uint64_t)(rand() % 4096) * 8 + (rand() % 8 ? 0 : rand() % 8);
		f.ring.head = f.ring.tail + (uint64_t)(rand() % (SIZE / 8 + 2)) * 8;
		const struct hit *h = next(&f, &bad);
		if (!h)
			continue;
		assert_true((const uint8_t *)h >= f.data && h->size >= sizeof(*h));
		assert_true((const uint8_t *)h + h->size <= f.data + SIZE);
	}
}

enum { OURS = 128, ALL = OURS * CHUNK, BIG = 24 << 10 };

static struct chunks ring;
static struct chunks_writer writer;
static _Alignas(8) uint8_t data[CHUNKS * CHUNK];

static int chunks_setup(void **state)
{
	(void)state;
	memset(&ring, 0, sizeof(ring));
	memset(data, 0xff, ALL);
	chunks_begin(&ring, &writer, OURS);
	return 0;
}

static int chunks_put(uint32_t extra, uint64_t seq)
{
	uint32_t n = (uint32_t)sizeof(struct hit) + extra;
	struct hit *h = chunks_room(&ring, &writer, data, BIG, 0);
	if (!h)
		return -1;
	assert_true((uint8_t *)h >= data && (uint8_t *)h + BIG <= data + ALL);
	*h = (struct hit){.size = n, .seq = seq};
	memset(h + 1, (int)(seq & 0xff), extra);
	chunks_done(&ring, h);
	return 0;
}

static uint32_t extra_of(uint64_t seq)
{
	return (uint32_t)(seq * 7919 % 5000);
}

/* Take the next record, which must be number `seq`; returns its address. */
static const uint8_t *chunks_get(uint64_t seq)
{
	int bad = 0;
	const struct hit *h = chunks_next(&ring, data, &bad);
	assert_int_equal(bad, 0);
	if (!h)
		return NULL;
	assert_int_equal(h->seq, seq);
	assert_int_equal(h->size, sizeof(*h) + extra_of(seq));
	for (uint32_t b = sizeof(*h); b < h->size; b++)
		assert_int_equal(((const uint8_t *)h)[b], seq & 0xff);
	chunks_drop(&ring, h);
	return (const uint8_t *)h;
}

/* Filled completely and emptied in part, many times around; then by another writer. */
static void test_chunks_around(void **state)
{
	uint64_t in = 0, out = 0;
	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		while (!chunks_put(extra_of(in), in))
			in++;
		assert_true(in - out > ALL / 5000 / 2);
		for (uint64_t until = i % 3 ? (in + out) / 2 : in; out < until; out++)
			assert_non_null(chunks_get(out));
	}
	while (chunks_get(out))
		out++;
	assert_int_equal(in, out);
	chunks_begin(&ring, &writer, OURS);
	while (!chunks_put(extra_of(in), in))
		in++;
	assert_true(in - out > ALL / 5000 / 2);
	while (chunks_get(out))
		out++;
	assert_int_equal(in, out);
}

/* While the reader keeps up, most of the memory stays untouched. */
static void test_stays(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 50000; i++) {
		assert_int_equal(chunks_put(extra_of(i), i), 0);
		const uint8_t *at = chunks_get(i);
		assert_true(at && at < data + 2 * CHUNK);
	}
}

/* Corruption by a process that writes into its own ring. */
static void test_chunks_nonsense(void **state)
{
	int bad = 0;
	(void)state;
	chunks_put(0, 1);
	ring.at[0] = CHUNKS;
	assert_null(chunks_next(&ring, data, &bad));
	assert_int_equal(bad, 1);
	srand(1);
	for (unsigned i = 0; i < 100000; i++) {
		uint64_t tail =
		    (uint64_t)(rand() % (4 * CHUNKS)) * CHUNK + (uint64_t)(rand() % 64) * 8;
		tail -= rand() % 2 ? 256 : 0;
		ring.ring.tail = tail;
		ring.ring.head = tail + (uint64_t)(rand() % 64) * (rand() % 2 ? 8 : CHUNK);
		uint16_t chunk = (uint16_t)(rand() % (CHUNKS + 8));
		ring.at[tail / CHUNK % CHUNKS] = chunk;
		uint32_t size = rand() % 2 ? (uint32_t)rand() % 512 : (uint32_t)rand();
		memcpy(&data[(uint64_t)(chunk % CHUNKS) * CHUNK + tail % CHUNK], &size,
		       sizeof(size));
		const struct hit *h = chunks_next(&ring, data, &bad);
		if (!h)
			continue;
		assert_true((const uint8_t *)h >= data && h->size >= sizeof(*h));
		assert_true((const uint8_t *)h + h->size <= data + sizeof(data));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_around),
	    cmocka_unit_test(test_around_with_more_room),
	    cmocka_unit_test(test_full),
	    cmocka_unit_test(test_nonsense),
	    cmocka_unit_test_setup(test_chunks_around, chunks_setup),
	    cmocka_unit_test_setup(test_stays, chunks_setup),
	    cmocka_unit_test_setup(test_chunks_nonsense, chunks_setup),
	};
	return unit_run(tests, NULL, NULL);
}
