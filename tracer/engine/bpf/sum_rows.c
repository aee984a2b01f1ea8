/* Reads what eBPF has summed up. */
#include "tracer/engine/bpf/sum_rows.h"

#include <bpf/bpf.h>
#include <poll.h>

#include "base/system.h"
#include "symbolizer/target/process.h"

struct sum_read {
	struct sum_value value;
	uint8_t room[sizeof(struct item) + sizeof(struct sum_counts)];
};

/* Wait until nobody begins a call in an epoch before this one. That takes no time, but that of a
 * thread which waits for a processor meanwhile. False: longer than that. */
static bool await_users(const struct sum_rows *s, uint32_t now)
{
	enum { TRIES = 1000 };
	uint32_t i = 0;
	for (unsigned tries = 0; i < SUM_EPOCHS && tries < TRIES;) {
		if (i == now % SUM_EPOCHS || !__atomic_load_n(&s->users[i], __ATOMIC_SEQ_CST)) {
			i++;
			continue;
		}
		poll(NULL, 0, 1);
		tries++;
	}
	return i == SUM_EPOCHS;
}

static void give(const struct sum_key *k, struct sum_read *r, sums_fn *fn, void *arg)
{
	const struct sum_counts counts = r->value.counts;
	struct hit *h = (struct hit *)r->value.record;
	if (!counts.calls || h->size < sizeof(*h) || h->size > SUM_RECORD || h->size % 8)
		return;
	sums_make_hit(h, (uint16_t)k->proc, &counts);
	fn(h, arg);
}

/* A row of calls that will not end is over, too. */
static bool is_over(const struct sum_rows *s, const struct sum_key *k, const struct sum_read *r)
{
	return !r->value.open || s->over || !process_alive((pid_t)k->tid);
}

/* Whether it is to be read: all, or what may name code that was freed as that number. */
static bool is_wanted(const struct sum_key *k, bool all, uint32_t number)
{
	return all || k->bare || (int32_t)(k->freed - number) < 0;
}

static bool row_take(const struct sum_rows *s, const struct sum_key *k, struct sum_read *r)
{
	return !bpf_map_lookup_elem(s->map, k, &r->value) && is_over(s, k, r) &&
	       !bpf_map_delete_elem(s->map, k);
}

static int read_rows(struct sum_rows *s, uint32_t number, sums_fn *fn, void *arg)
{
	struct sum_key keys[2], *k = &keys[0], *next = &keys[1];
	_Alignas(8) struct sum_read r;
	uint32_t least = (uint32_t)__atomic_load_n(s->freed_now, __ATOMIC_SEQ_CST);
	const uint32_t epoch = (uint32_t)__atomic_add_fetch(s->epoch, 1, __ATOMIC_SEQ_CST);
	/* After that: rows of before it name no code whose record is sent from now on. */
	const bool all = s->over || __atomic_load_n(s->sent, __ATOMIC_SEQ_CST) == s->freed;
	int n = 0;
	if (!await_users(s, epoch))
		return 0;
	for (int end = bpf_map_get_next_key(s->map, NULL, k); !end;) {
		end = bpf_map_get_next_key(s->map, k, next);
		if ((int32_t)(k->epoch - epoch) < 0 && is_wanted(k, all, number) &&
		    row_take(s, k, &r)) {
			__atomic_fetch_sub(s->rows, 1, __ATOMIC_SEQ_CST);
			give(k, &r, fn, arg);
			n++;
		} else if (!k->bare && (int32_t)(k->freed - least) < 0) {
			least = k->freed;
		}
		struct sum_key *was = k;
		k = next;
		next = was;
	}
	s->least = least;
	return n;
}

int sum_rows_freed(struct sum_rows *s, uint32_t number, sums_fn *fn, void *arg)
{
	int n = 0;
	if (__atomic_load_n(s->rows, __ATOMIC_SEQ_CST) && (int32_t)(s->least - number) < 0)
		n = read_rows(s, number, fn, arg);
	s->freed++;
	return n;
}

int sum_rows_tick(struct sum_rows *s, bool all, sums_fn *fn, void *arg)
{
	enum { EVERY_NS = 50 * 1000 * 1000 };
	const uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (!__atomic_load_n(s->rows, __ATOMIC_SEQ_CST) || (!all && now - s->read_ns < EVERY_NS))
		return 0;
	s->read_ns = now;
	return read_rows(s, s->least, fn, arg);
}
