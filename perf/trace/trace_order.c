#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/system.h"
#include "perf/trace/trace_read.h"

enum { HELD_MAX = 65536, HELD_BYTES_MAX = 64 << 20 };
static const uint64_t HELD_NS_MAX = 1000000000;

struct held {
	struct trace_raw_event raw; /* its payload is our own copy */
	uint64_t since_ns;
};

struct trace_order {
	struct trace_reader *reader;
	int (*tap)(void *arg, const struct trace_item *item); /* or NULL */
	void *tap_arg;
	bool follow;
	struct held *heap; /* smallest id first */
	size_t n, size, bytes;
	uint64_t expected; /* 1 + the largest id returned */
	uint8_t *given;	   /* payload of the last event returned */
	bool ended;
	int end_code;
	struct err end_err;
};

struct trace_order *trace_order_new(struct trace_reader *r, bool follow)
{
	struct trace_order *o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	o->reader = r;
	o->follow = follow;
	o->expected = 1;
	return o;
}

void trace_order_tap(struct trace_order *o, int (*fn)(void *arg, const struct trace_item *item),
		     void *arg)
{
	o->tap = fn;
	o->tap_arg = arg;
}

void trace_order_free(struct trace_order *o)
{
	if (!o)
		return;
	for (size_t i = 0; i < o->n; i++)
		free((void *)o->heap[i].raw.payload);
	free(o->heap);
	free(o->given);
	free(o);
}

static int hold(struct trace_order *o, const struct trace_raw_event *raw)
{
	uint8_t *copy = malloc(raw->size + 1);
	if (!copy || array_grow(&o->heap, &o->size, o->n + 1, sizeof(*o->heap))) {
		free(copy);
		return -ENOMEM;
	}
	memcpy(copy, raw->payload, raw->size);
	size_t i = o->n++;
	for (; i && o->heap[(i - 1) / 2].raw.id > raw->id; i = (i - 1) / 2)
		o->heap[i] = o->heap[(i - 1) / 2];
	o->heap[i] =
	    (struct held){.raw = *raw, .since_ns = o->follow ? clock_ns(CLOCK_MONOTONIC) : 0};
	o->heap[i].raw.payload = copy;
	o->bytes += raw->size;
	return 0;
}

static struct trace_raw_event order_pop(struct trace_order *o)
{
	struct held top = o->heap[0], last = o->heap[--o->n];
	size_t i = 0, child;
	for (; (child = 2 * i + 1) < o->n; i = child) {
		if (child + 1 < o->n && o->heap[child + 1].raw.id < o->heap[child].raw.id)
			child++;
		if (o->heap[child].raw.id >= last.raw.id)
			break;
		o->heap[i] = o->heap[child];
	}
	if (o->n)
		o->heap[i] = last;
	o->bytes -= top.raw.size;
	return top.raw;
}

static bool ready(const struct trace_order *o)
{
	if (o->n == 0)
		return false;
	if (o->ended || o->n >= HELD_MAX || o->bytes >= HELD_BYTES_MAX)
		return true;
	const struct held *top = &o->heap[0];
	return top->raw.id <= o->expected ||
	       (o->follow && clock_ns(CLOCK_MONOTONIC) - top->since_ns > HELD_NS_MAX);
}

static int give(struct trace_order *o, struct trace_item *item, struct err *e)
{
	struct trace_raw_event raw = order_pop(o);
	free(o->given);
	o->given = (uint8_t *)raw.payload;
	if (raw.id >= o->expected)
		o->expected = raw.id + 1;
	item->type = TRACE_EVENT;
	item->raw = raw;
	int r = trace_decode_event(o->reader, &raw, &item->event, e);
	return r ? r : 1;
}

int trace_order_next(struct trace_order *o, struct trace_item *item, struct err *e)
{
	for (;;) {
		if (ready(o))
			return give(o, item, e);
		if (o->ended) {
			if (e && o->end_code)
				*e = o->end_err;
			return o->end_code;
		}
		struct err end = {0};
		int n = trace_read_next(o->reader, item, &end);
		if (n == -EAGAIN)
			return n;
		int r = n > 0 && o->tap ? o->tap(o->tap_arg, item) : 0;
		if (r)
			return r;
		if (n <= 0) {
			o->ended = true;
			o->end_code = n;
			o->end_err = end;
		} else if (item->type != TRACE_EVENT) {
			return n;
		} else if (hold(o, &item->raw)) {
			return err_set(e, -ENOMEM, "no memory to put the events in order");
		}
	}
}
