#include "tracer/engine/sums.h"

#include <stddef.h>
#include <string.h>

#include "tracer/engine/remote.h"

enum { HALF = SUMS_ROWS / 2, FRAME_WORDS = STACK_FRAME_SIZE / 8 };
static const uint64_t multiplier = 0x9e3779b97f4a7c15;

uint32_t sums_code_freed(struct sums_code *code)
{
	return atomic_fetch_add_explicit(&code->freed, 1, memory_order_relaxed) + 1;
}

void sums_code_known(struct sums_code *code, uint32_t number)
{
	if ((int32_t)(number - code->known) > 0)
		atomic_store_explicit(&code->known, number, memory_order_release);
}

void sums_begin(struct sums *s, struct sums_writer *w, const struct sums_code *code)
{
	atomic_store_explicit(&s->nrows, 0, memory_order_release);
	w->code = code;
	w->freed = atomic_load_explicit(&code->freed, memory_order_relaxed);
	w->round++;
	w->nrows = w->bytes = w->open = 0;
	for (unsigned i = 0; i < SUMS_PLACES; i++)
		w->place[i] = 0;
}

static struct item *items_first(struct hit *h)
{
	return (struct item *)(h + 1);
}

static uint32_t padded(uint32_t n)
{
	return (n + 7) & ~7U;
}

/* The next item; NULL at the end. */
static struct item *items_after(const struct hit *h, struct item *i)
{
	uint8_t *next = (uint8_t *)(i + 1) + padded(i->len);
	return next < (const uint8_t *)h + h->size ? (struct item *)next : NULL;
}

/* The stack, the last item; NULL: none. */
static struct item *stack_of(struct hit *h)
{
	struct item *i = h->size > sizeof(*h) ? items_first(h) : NULL;
	while (i && i->kind != ITEM_STACK)
		i = items_after(h, i);
	return i;
}

static void drop_locals(struct hit *h)
{
	struct item *s = stack_of(h);
	if (!s)
		return;
	uint64_t(*frame)[FRAME_WORDS] = (uint64_t(*)[FRAME_WORDS])(s + 1);
	for (unsigned i = 0; i < s->len / STACK_FRAME_SIZE; i++)
		frame[i][FRAME_WORDS - 1] = 0;
}

/* And what follows it; it remains known that there was one. */
static void drop_stack(struct hit *h)
{
	struct item *s = stack_of(h);
	if (!s)
		return;
	if (s->len)
		s->aux = stack_left_out(s->aux);
	s->len = 0;
	h->size = (uint32_t)((uint8_t *)(s + 1) - (uint8_t *)h);
}

/* Of what rows are told apart by: op, flags, and all items. */
static uint64_t hash_of(const struct hit *h)
{
	const uint64_t *w = (const uint64_t *)(h + 1);
	uint64_t x = (uint64_t)h->op << 8 | h->flags;
	for (uint32_t i = 0; i < (h->size - sizeof(*h)) / 8; i++)
		x = ((x << 29 | x >> 35) ^ w[i]) * multiplier;
	return x ^ x >> 32;
}

static bool is_same(const struct hit *a, const struct hit *b)
{
	const uint64_t *x = (const uint64_t *)(a + 1), *y = (const uint64_t *)(b + 1);
	if (a->op != b->op || a->flags != b->flags || a->size != b->size)
		return false;
	for (uint32_t i = 0; i < (a->size - sizeof(*a)) / 8; i++)
		if (x[i] != y[i])
			return false;
	return true;
}

/* Where the row with that key is, or would be. */
static uint16_t *place_of(struct sums *s, struct sums_writer *w, const struct hit *h, uint64_t hash)
{
	for (uint64_t i = hash;; i++) {
		uint16_t *p = &w->place[i % SUMS_PLACES];
		if (!*p || (w->hash[*p - 1] == hash &&
			    is_same((struct hit *)&s->record[s->row[*p - 1].at], h)))
			return p;
	}
}

static void change_begins(struct sum_row *row)
{
	atomic_store_explicit(&row->seq, row->seq + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

static void change_ends(struct sums *s, struct sum_row *row)
{
	atomic_store_explicit(&row->seq, row->seq + 1, memory_order_release);
	atomic_store_explicit(&s->written, s->written + 1, memory_order_release);
}

/* The row of the key, made if there is none, while there are less than that many, in that many
 * bytes. */
static struct sum_row *sum_row_find(struct sums *s, struct sums_writer *w, const struct hit *h,
				    uint32_t rows, uint32_t bytes)
{
	uint64_t hash = hash_of(h);
	uint16_t *p = place_of(s, w, h, hash);
	if (*p)
		return &s->row[*p - 1];
	if (w->nrows >= rows || h->size > bytes || w->bytes > bytes - h->size)
		return NULL;
	struct sum_row *row = &s->row[w->nrows];
	change_begins(row);
	row->round = w->round;
	row->at = w->bytes;
	row->counts = (struct sum_counts){.min_ns = UINT64_MAX};
	own_copy(&s->record[w->bytes], h, h->size);
	change_ends(s, row);
	w->hash[w->nrows] = hash;
	w->bytes += h->size;
	*p = (uint16_t)++w->nrows;
	atomic_store_explicit(&s->nrows, w->nrows, memory_order_release);
	return row;
}

/* Make room, once all has been read: rows of stacks that do not come again, or whose code is gone,
 * have taken it. */
static void renew(struct sums *s, struct sums_writer *w)
{
	const bool may_name = sums_code_is_known(w->code) && w->freed != w->code->freed;
	if (w->open || (!may_name && w->nrows < HALF))
		return;
	if (atomic_load_explicit(&s->read, memory_order_acquire) == s->written)
		sums_begin(s, w, w->code);
}

/* Whether the stack of a call may be kept: it may not be what it was when the row with these
 * addresses was made. */
static bool may_name_code(const struct sums_writer *w)
{
	return w->freed == w->code->freed && sums_code_is_known(w->code);
}

struct sum_row *sums_enter(struct sums *s, struct sums_writer *w, struct hit *h, bool may_name)
{
	renew(s, w);
	struct sum_row *row = NULL;
	if (may_name && may_name_code(w)) {
		row = sum_row_find(s, w, h, SUMS_FULL, SUMS_BYTES - SUMS_SPARED);
		if (!row)
			drop_locals(h);
		row = row ? row : sum_row_find(s, w, h, SUMS_PLAIN, SUMS_BYTES - SUMS_SPARED);
	}
	if (!row) {
		drop_stack(h);
		row = sum_row_find(s, w, h, SUMS_ROWS, SUMS_BYTES);
	}
	w->open += row != NULL;
	return row;
}

void sums_leave(struct sums *s, struct sums_writer *w, struct sum_row *row, uint64_t since,
		uint64_t ts, uint64_t inner_ns, bool thrown)
{
	struct sum_counts *c = &row->counts;
	uint64_t ns = ts > since ? ts - since : 0;
	change_begins(row);
	if (!c->calls)
		c->first_ns = since;
	c->calls++;
	c->thrown += thrown;
	c->ns += ns;
	c->inner_ns += inner_ns;
	c->min_ns = ns < c->min_ns ? ns : c->min_ns;
	c->max_ns = ns > c->max_ns ? ns : c->max_ns;
	c->last_ns = ts;
	change_ends(s, row);
	w->open--;
}

/* The reader's half of tracer/engine/sums.h. */

enum { TRIES = 4, RECORD_MAX = 16 << 10, ROOM = RECORD_MAX + 128 };

struct sum_record {
	_Alignas(8) uint8_t bytes[ROOM];
};

/* Copy a row and its entry as they were at one moment; if the writer has `ended`, as they are. 1;
 * 0: it is being written; -1: it is none. */
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

void sums_make_hit(struct hit *h, uint16_t proc, const struct sum_counts *new)
{
	struct item *it = (struct item *)((uint8_t *)h + h->size);
	*it = (struct item){.kind = ITEM_SUM, .read = ITEM_NO_READ, .len = sizeof(*new)};
	memcpy(it + 1, new, sizeof(*new));
	h->size += (uint32_t)(sizeof(*it) + sizeof(*new));
	h->kind = HIT_SUM;
	h->flags &= HIT_BACKWARD | HIT_NESTED | HIT_AGAIN;
	h->proc = proc;
}

/* Whether the row has frames. Its items are checked as they may be anything. */
static bool names_code(const struct hit *h)
{
	const uint8_t *end = (const uint8_t *)h + h->size, *at = (const uint8_t *)(h + 1);
	while (at + sizeof(struct item) <= end) {
		const struct item *i = (const struct item *)at;
		if (i->kind == ITEM_STACK)
			return i->len;
		at += sizeof(*i) + padded(i->len);
	}
	return false;
}

bool sums_read(struct sums *s, struct sums_reader *r, uint16_t proc, unsigned which, sums_fn *fn,
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
		int found = row_copy(s, i, which & SUMS_ENDED, &row, h);
		if (found < 0)
			return false;
		if (found && which & SUMS_BARE && names_code(h))
			found = 0;
		all &= found;
		if (!found)
			continue;
		if (row.round != r->round[i])
			r->counts[i] = (struct sum_counts){0};
		r->round[i] = row.round;
		if (!take_new(&r->counts[i], &row.counts, &new))
			continue;
		sums_make_hit(h, proc, &new);
		fn(h, arg);
	}
	if (all)
		atomic_store_explicit(&s->read, written, memory_order_release);
	return true;
}
