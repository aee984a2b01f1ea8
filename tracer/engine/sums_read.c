/* The reader's half of tracer/engine/sums.h. */
#include <string.h>

#include "tracer/engine/sums.h"

enum { TRIES = 4, RECORD_MAX = 16 << 10, ROOM = RECORD_MAX + 128 };

struct sum_record {
	_Alignas(8) uint8_t bytes[ROOM];
};

/* Copy a row and its entry as they were at one moment; with `ended`, as they are. 1; 0: it is being
 * written; -1: it is none. */
static int row_copy(struct sums *s, uint32_t i, bool ended, struct sum_row *row, struct hit *h)
{
	for (unsigned k = 0; k < TRIES; k++) {
		uint32_t seq = atomic_load_explicit(&s->row[i].seq, memory_order_acquire);
		if (seq & 1 && !ended)
			continue;
		memcpy((char *)row + sizeof(row->seq), (const char *)&s->row[i] + sizeof(row->seq),
		       sizeof(*row) - sizeof(row->seq));
		if (row->at % 8 || row->at > SUMS_BYTES - sizeof(*h))
			return -1;
		memcpy(h, &s->record[row->at], sizeof(*h));
		uint32_t size = h->size;
		bool fits = size >= sizeof(*h) && size <= RECORD_MAX && size % 8 == 0 &&
			    size <= SUMS_BYTES - row->at;
		if (fits)
			memcpy(h + 1, &s->record[row->at + sizeof(*h)], size - sizeof(*h));
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&s->row[i].seq, memory_order_relaxed) == seq)
			return fits ? 1 : -1;
	}
	return 0;
}

/* What was added since `was`, which becomes `now`. False: nothing, or it has become less. */
static bool take_new(struct sum_counts *was, const struct sum_counts *now, struct sum_counts *new)
{
	bool grew = now->calls > was->calls && now->ns >= was->ns &&
		    now->inner_ns >= was->inner_ns && now->thrown >= was->thrown;
	*new = (struct sum_counts){
	    .calls = now->calls - was->calls,
	    .thrown = now->thrown - was->thrown,
	    .ns = now->ns - was->ns,
	    .inner_ns = now->inner_ns - was->inner_ns,
	    .min_ns = now->min_ns,
	    .max_ns = now->max_ns,
	    .first_ns = was->calls ? was->last_ns : now->first_ns,
	    .last_ns = now->last_ns,
	};
	*was = *now;
	return grew;
}

static void give(struct hit *h, uint16_t proc, const struct sum_counts *new, sums_fn *fn, void *arg)
{
	struct item *it = (struct item *)((uint8_t *)h + h->size);
	*it = (struct item){.kind = ITEM_SUM, .read = ITEM_NO_READ, .len = sizeof(*new)};
	memcpy(it + 1, new, sizeof(*new));
	h->size += (uint32_t)(sizeof(*it) + sizeof(*new));
	h->kind = HIT_SUM;
	h->flags &= HIT_BACKWARD | HIT_NESTED | HIT_AGAIN;
	h->proc = proc;
	fn(h, arg);
}

bool sums_read(struct sums *s, struct sums_reader *r, uint16_t proc, bool ended, sums_fn *fn,
	       void *arg)
{
	uint32_t written = atomic_load_explicit(&s->written, memory_order_acquire);
	uint32_t n = atomic_load_explicit(&s->nrows, memory_order_acquire);
	bool all = true;
	if (n > SUMS_ROWS)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		struct sum_record record;
		struct sum_counts new;
		struct sum_row row;
		struct hit *h = (struct hit *)record.bytes;
		int found = row_copy(s, i, ended, &row, h);
		if (found < 0)
			return false;
		all &= found;
		if (!found)
			continue;
		if (row.round != r->round[i])
			r->counts[i] = (struct sum_counts){0};
		r->round[i] = row.round;
		if (take_new(&r->counts[i], &row.counts, &new))
			give(h, proc, &new, fn, arg);
	}
	if (all)
		atomic_store_explicit(&s->read, written, memory_order_release);
	return true;
}
