/* Fuzzes the socket and the shared memory of a process with the shim: the engine shim reads within
 * bounds, returns only complete records, and terminates. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/input.h"
#include "tests/unit/shim_client.h"
#include "tracer/engine/ring.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { RECORD_MAX = 48 << 10, RINGS = 3 };

static void on_hit(const struct hit *h, void *arg)
{
	volatile uint8_t sum = 0;
	(void)arg;
	if (h->size < sizeof(*h) || h->size > RECORD_MAX)
		abort();
	for (uint32_t i = 0; i < h->size; i++)
		sum = (uint8_t)(sum + ((const uint8_t *)h)[i]);
}

/* Records of the input, as a shim writes them, at the start of a ring, whose bytes they then take.
 */
static uint64_t fill_brief(uint8_t *ring, struct input *in)
{
	static struct brief sent;
	struct {
		struct hit hit;
		uint64_t words[BRIEF_MOST];
	} r = {0};
	uint8_t b[6] = {0};
	uint64_t end = 0;
	memset(&sent, 0, sizeof(sent));
	for (unsigned n = 0; n < 8 && in->left; n++) {
		take(in, b, sizeof(b));
		r.hit.size = (uint32_t)sizeof(r.hit) + 8 * (b[0] % 64u);
		r.hit.kind = b[1] & 1 ? HIT_ENTRY : HIT_EXIT;
		r.hit.depth = b[1] >> 4;
		r.hit.op = b[2] % 4;
		r.hit.ts += b[3];
		r.hit.seq += b[4] & 1;
		take(in, (uint8_t *)r.words, b[4] >> 1);
		brief_put(&sent, &r.hit, ring + end);
		end += ring_bytes(((struct hit *)(ring + end))->size);
		take(in, ring + end - 16, b[5] & 7);
	}
	return end;
}

/* Put input into three rings, the last one included, at their start and near their end. */
static void fill(struct shim_share *s, struct input *in)
{
	static const unsigned rings[RINGS] = {0, 1, SHIM_THREADS - 1};
	s->nthreads = SHIM_THREADS;
	for (unsigned i = 0; i < RINGS; i++) {
		struct shim_thread *t = &s->thread[rings[i]];
		uint8_t b[8] = {0};
		take(in, b, sizeof(b));
		uint64_t tail = (uint64_t)b[0] * 8;
		if (b[1] & 1)
			tail += SHIM_RING - 512;
		tail += b[1] & 2 ? (b[1] >> 4) : 0;
		t->tid = b[2];
		t->ended = b[3] & 1;
		t->records.ring.tail = tail;
		t->records.ring.head =
		    tail + (b[4] & 1 ? (uint64_t)b[5] << (b[6] & 63) : b[5] * 8ULL);
		take(in, s->ring[rings[i]] + tail % (SHIM_RING - 512), b[7] * 4ULL);
		if (b[3] & 2) {
			t->records.ring.tail = 0;
			t->records.ring.head = fill_brief(s->ring[rings[i]], in);
		}
	}
	struct sums *sums = &s->sums[SHIM_THREADS - 1];
	take(in, sums, in->left / 2 < 256 ? in->left / 2 : 256);
	take(in, sums->record, in->left / 2 < 256 ? in->left / 2 : 256);
	take(in, s,
	     in->left < offsetof(struct shim_share, thread) ? in->left
							    : offsetof(struct shim_share, thread));
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static struct shim_seen seen;
	struct engine_counters c;
	struct input in = {data, size};
	struct shim_hello hello = shim_greeting();
	uint8_t b[2] = {0};
	if (!seen.engine && shim_open(&seen.engine))
		abort();
	take(&in, b, sizeof(b));
	int fd = shim_dial();
	if (fd < 0)
		abort();
	if (b[0] & 1)
		take(&in, (uint8_t *)&hello + b[1] % sizeof(hello), 1);
	if (send(fd, &hello, b[0] & 2 ? b[1] % (sizeof(hello) + 1) : sizeof(hello), MSG_NOSIGNAL) <
	    0)
		abort();
	seen.engine->follow(seen.engine, shim_on_follow, &seen);
	int memory = shim_receive(fd);
	struct shim_share *s = memory < 0 ? NULL : shim_map(memory);
	if (s)
		fill(s, &in);
	shim_part(&seen, fd, s, on_hit, NULL);
	seen.engine->counters(seen.engine, &c);
	if (c.probe_ns && !c.hits)
		abort();
	return 0;
}
