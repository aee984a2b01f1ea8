/* Compilations of torch.compile, by the counters that PyTorch keeps of what it waits for. */
#include <string.h>

#include "symbolizer/decode/internal.h"

/* dynamo_timed(..., log_waitcounter) of torch/_dynamo/utils.py, PyTorch 2.11 and 2.13. */
static const char prefix[] = "pytorch.wait_counter.";

static bool is_named(const struct item *i, const char *name)
{
	const char *text = (const char *)(i + 1);
	size_t n = sizeof(prefix) - 1, len = strlen(name);
	return i->len == n + len && !memcmp(text, prefix, n) && !memcmp(text + n, name, len);
}

static enum compilation_kind kind_of(const struct items *it)
{
	const struct item *i = items_find(it, COUNTER_NAME_READ, NULL);
	if (!i || i->kind != ITEM_STRING)
		return COMPILATION_NONE;
	return is_named(i, "entire_forward_compile")	? COMPILATION_FORWARD
	       : is_named(i, "entire_backward_compile") ? COMPILATION_BACKWARD
							: COMPILATION_NONE;
}

static uint64_t word_of(const struct items *it, unsigned read)
{
	uint64_t w = 0;
	items_data(it, read, &w, sizeof(w));
	return w;
}

void compilation_counter(struct compilation *c, const struct hit *h, const struct items *it)
{
	if (h->kind == HIT_ENTRY) {
		c->made_kind = (uint8_t)kind_of(it);
		c->made_seq = h->seq;
	} else if (h->seq == c->made_seq && c->made_kind) {
		c->counter[c->made_kind] = word_of(it, COUNTER_MADE_READ);
	}
}

enum compilation_kind compilation_starts(struct compilation *c, const struct items *it)
{
	uint64_t of = word_of(it, COUNTER_READ);
	if (c->running) {
		c->nested += of == c->running;
		return COMPILATION_NONE;
	}
	for (int kind = COMPILATION_FORWARD; of && kind < COMPILATION_KINDS; kind++) {
		if (of != c->counter[kind])
			continue;
		c->running = of;
		c->nested = 0;
		return kind;
	}
	return COMPILATION_NONE;
}

bool compilation_stops(struct compilation *c, const struct items *it)
{
	uint64_t of = word_of(it, COUNTER_READ);
	if (!c->running || of != c->running)
		return false;
	if (c->nested) {
		c->nested--;
		return false;
	}
	return true;
}
