/* Fuzzes records of the kernel (samples, mappings), and the unwinding and mapping code that uses
 * them. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/input.h"
#include "tracer/proc/follow.h"
#include "tracer/sample/internal.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check(const struct perf_sample *s, struct input *in)
{
	struct native_place places[4] = {0};
	uint64_t pairs[2][2] = {0};
	struct py_top top = {0};
	struct py_walk walk = {0};
	struct sample_check c = {.regs = s->regs,
				 .stack = {s->regs[ARCH_SP], s->len, s->stack, s->stack},
				 .places = places,
				 .nplaces = 4,
				 .interpreter = s->pid % 4,
				 .whole = true,
				 .walk = &walk,
				 .top = &top,
				 .pairs = pairs,
				 .n = 2};
	if (c.interpreter < 0)
		c.interpreter = -1;
	take(in, places, sizeof(places));
	take(in, &top, sizeof(top));
	take(in, &walk, sizeof(walk));
	take(in, &c.code_start, 16);
	sample_check(&c);
}

/* Mappings added one after the other stay sorted and disjoint. */
static void map_all(struct input in)
{
	struct known_maps k = {0};
	struct {
		struct perf_event_header h;
		uint8_t body[96];
	} r;
	for (unsigned n = 0; n < 32 && in.left; n++) {
		struct perf_mmap m;
		uint8_t choice[2];
		memset(&r, 0, sizeof(r));
		take(&in, choice, sizeof(choice));
		r.h.type = PERF_RECORD_MMAP2;
		r.h.misc = choice[0] & 1 ? PERF_RECORD_MISC_MMAP_BUILD_ID : 0;
		r.h.size = (uint16_t)(sizeof(r) - choice[1] % sizeof(r.body));
		take(&in, r.body, sizeof(r.body));
		if (!perf_mmap_parse(&r.h, &m))
			continue;
		m.map.start &= 0xff;
		m.map.end = m.map.start + 1 + (m.map.end & 0xff);
		known_maps_replaces(&k, &m.map);
		known_maps_add(&k, NULL, &m.map);
		if (!maps_find(&k.maps, m.map.start))
			abort();
	}
	for (size_t i = 0; i + 1 < k.maps.n; i++)
		if (k.maps.map[i].end > k.maps.map[i + 1].start)
			abort();
	known_maps_free(&k);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct input in = {data, size};
	struct perf_event_header h = {0};
	struct perf_sample s;
	size_t n = size > 1 ? (size_t)data[0] * 8 : 0;
	map_all(in);
	if (n > size)
		n = size;
	struct perf_event_header *record = malloc(sizeof(h) + n);
	if (!record)
		abort();
	h.type = PERF_RECORD_SAMPLE;
	h.size = (uint16_t)(sizeof(h) + n);
	memcpy(record, &h, sizeof(h));
	take(&in, record + 1, n);
	if (perf_sample_parse(record, &s))
		check(&s, &in);
	free(record);
	return 0;
}
