

#include "tests/unit/unit.h"

#include "tracer/engine/ring.h"

enum { OURS = 128, ALL = OURS * CHUNK, BIG = 24 << 10 };

static struct chunks ring;
static struct chunks_writer writer;
static _Alignas(8) uint8_t data[CHUNKS * CHUNK];

static int setup(void **state)
{
	(void)state;
	memset(&ring, 0, sizeof(ring));
	memset(data, 0xff, ALL);
	chunks_begin(&ring, &writer, OURS);
	return 0;
}

static int put(uint32_t extra, uint64_t seq)
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
static const uint8_t *get(uint64_t seq)
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
static void test_around(void **state)
{
	uint64_t in = 0, out = 0;
	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		while (!put(extra_of(in), in))
			in++;
		assert_true(in - out > ALL / 5000 / 2);
		for (uint64_t until = i % 3 ? (in + out) / 2 : in; out < until; out++)
			assert_non_null(get(out));
	}
	while (get(out))
		out++;
	assert_int_equal(in, out);
	chunks_begin(&ring, &writer, OURS);
	while (!put(extra_of(in), in))
		in++;
	assert_true(in - out > ALL / 5000 / 2);
	while (get(out))
		out++;
	assert_int_equal(in, out);
}

/* While the reader keeps up, most of the memory stays untouched. */
static void test_stays(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 50000; i++) {
		assert_int_equal(put(extra_of(i), i), 0);
		const uint8_t *at = get(i);
		assert_true(at && at < data + 2 * CHUNK);
	}
}

/* Corruption by a process that writes into its own ring. */
static void test_nonsense(void **state)
{
	int bad = 0;
	(void)state;
	put(0, 1);
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
	    cmocka_unit_test_setup(test_around, setup),
	    cmocka_unit_test_setup(test_stays, setup),
	    cmocka_unit_test_setup(test_nonsense, setup),
	};

	return unit_run(tests, NULL, NULL);
}
