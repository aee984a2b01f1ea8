/* Fuzzes brief records (tracer/engine/brief.c): whatever is written is read as it was, and whatever
 * stands in a ring instead is read within bounds, as a whole record or none. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/input.h"
#include "tracer/engine/ring.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { WORDS = BRIEF_MOST + 8 };

static struct brief to, from, hostile;

static void check_same(const struct hit *h, uint64_t *record)
{
	brief_put(&to, h, record);
	const uint32_t head = ((struct hit *)record)->size;
	if (ring_bytes(head) > BRIEF_BYTES || (head & RING_BRIEF && !ring_bytes(head)))
		abort();
	if (!(head & RING_BRIEF))
		brief_whole(&from, (struct hit *)record);
	const struct hit *got =
	    head & RING_BRIEF ? brief_read(&from, record) : (struct hit *)record;
	if (!got || memcmp(got, h, h->size))
		abort();
}

static void check_hostile(const void *record)
{
	const struct hit *h = brief_read(&hostile, record);
	volatile uint8_t sum = 0;
	if (!h)
		return;
	if (h->size < sizeof(*h) || h->size > BRIEF_MOST * 8)
		abort();
	for (uint32_t i = 0; i < h->size; i++)
		sum = (uint8_t)(sum + ((const uint8_t *)h)[i]);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct input in = {data, size};
	uint64_t *hit = calloc(1, WORDS * 8 + 16), *record = calloc(1, BRIEF_BYTES);
	if (!hit || !record)
		abort();
	memset(&to, 0, sizeof(to));
	memset(&from, 0, sizeof(from));
	memset(&hostile, 0, sizeof(hostile));
	while (in.left) {
		uint8_t b[3] = {0};
		struct hit *h = (struct hit *)hit;
		take(&in, b, sizeof(b));
		/* What is not overwritten stays as it was in the one before. */
		take(&in, (uint8_t *)hit + 8 * (b[0] % WORDS), b[1] % 16);
		h->size = 8 * (6 + b[2] % (WORDS - 6));
		if (b[0] & 1)
			h->kind = b[0] & 2 ? HIT_ENTRY : HIT_EXIT;
		check_same(h, record);
		take(&in, (uint8_t *)record, b[1] >> 4);
		check_hostile(record);
	}
	free(hit);
	free(record);
	return 0;
}
