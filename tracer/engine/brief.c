
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"
#include "tracer/engine/ring.h"

enum { WHOLE, NEAR, FAR, LATELY }; /* the byte before what is sent of a word */
enum { AT_ONCE = 8, BLOCK = 64, BLOCKS = (BRIEF_MOST + BLOCK - 1) / BLOCK };
enum {
	HEAD = sizeof(struct hit) / 8, /* words */
	TS = offsetof(struct hit, ts) / 8,
	SEQ = offsetof(struct hit, seq) / 8,
	LENGTH_SHIFT = 8,
	PLACE_SHIFT = 16,
	TIME_SHIFT = 32,
};

_Static_assert(8 + (BRIEF_MOST + 7) / 8 + BRIEF_MOST * 9 + 8 <= 0xff * 8,
	       "a byte tells the length");
_Static_assert(BRIEF_PLACES <= 1 << (31 - PLACE_SHIFT), "and RING_BRIEF is above the place");

static const uint64_t multiplier = 0x9e3779b97f4a7c15;

static inline uint64_t load(const void *from)
{
	uint64_t w;
	memcpy(&w, from, sizeof(w));
	return w;
}

static inline void store(void *to, uint64_t w)
{
	memcpy(to, &w, sizeof(w));
}

/* Where the word is in `lately` if it was sent. */
static inline uint8_t lately_at(uint64_t w)
{
	uint64_t at = w * multiplier >> 56;
	return (uint8_t)(at < LATELY ? at + LATELY : at);
}

static inline uint32_t place_of(const struct hit *h, uint32_t n)
{
	uint64_t key = (uint64_t)h->op << 17 | (uint64_t)(h->kind & 1) << 16 | n;
	return (uint32_t)(key * multiplier >> 32) % BRIEF_PLACES;
}

static inline uint8_t *words_at(struct brief *b, uint32_t place)
{
	return b->words + (size_t)place * BRIEF_UNIT * 8;
}

/* What of a record is known without looking: to be compared with it. */
static inline void expect(struct brief *b, uint8_t *old, const struct hit *h)
{
	const uint64_t seq = h->kind == HIT_ENTRY ? b->seq + 1 : b->open[h->depth % OPEN_MAX];
	store(old + 8 * (size_t)TS, b->ts);
	store(old + 8 * (size_t)SEQ, seq);
}

static inline void note(struct brief *b, const struct hit *h)
{
	if (h->kind == HIT_ENTRY)
		b->seq = b->open[h->depth % OPEN_MAX] = h->seq;
}

static inline bool is_plain(const struct hit *h)
{
	const uint8_t special = HIT_MORE | HIT_CONT | HIT_STOPPED;
	return (h->kind == HIT_ENTRY || h->kind == HIT_EXIT) && !(h->flags & special);
}

static inline uint8_t *put(struct brief *b, uint8_t *at, uint64_t old, uint64_t w)
{
	const uint8_t k = lately_at(w);
	*at = k;
	if (__builtin_expect(b->lately[k] == w, 1))
		return at + 1;
	const uint64_t by = w - old;
	const bool is_near = by == (uint64_t)(int16_t)by, is_far = by == (uint64_t)(int32_t)by;
	b->lately[k] = w;
	*at = is_near ? NEAR : is_far ? FAR : WHOLE;
	store(at + 1, is_far ? by : w);
	return at + 1 + (is_near ? sizeof(int16_t) : is_far ? sizeof(int32_t) : sizeof(w));
}

/* A bit for each of `n` words, rounded up to AT_ONCE, that differs. */
static inline uint64_t differ(const uint8_t *a, const uint8_t *b, uint32_t n)
{
	uint64_t bits = 0;
	for (size_t i = (n + AT_ONCE - 1) & ~(size_t)(AT_ONCE - 1); i > 0; i -= AT_ONCE)
#pragma GCC unroll 8
		for (size_t k = 1; k <= AT_ONCE; k++) {
			const size_t at = 8 * (i - k);
			bits = arch_shift_in(bits, load(a + at) ^ load(b + at));
		}
	return bits & (UINT64_MAX >> (BLOCK - n));
}

/* Append what differs, and remember it. */
static inline uint8_t *put_block(struct brief *b, uint8_t *at, uint64_t bits, uint8_t *old,
				 const uint8_t *now)
{
	for (; bits; bits &= bits - 1) {
		const size_t i = 8 * (size_t)__builtin_ctzll(bits);
		const uint64_t w = load(now + i);
		at = put(b, at, load(old + i), w);
		store(old + i, w);
	}
	return at;
}

static void put_brief(struct brief *b, const struct hit *h, uint32_t n, uint64_t since, uint8_t *to)
{
	const uint32_t place = place_of(h, n);
	const uint8_t *now = (const uint8_t *)h;
	uint8_t *old = words_at(b, place), *at = to + 8 + (n + 7) / 8;
	uint64_t bits[BLOCKS];
	*brief_last(b, h->op, h->kind) = (uint16_t)place;
	expect(b, old, h);
	note(b, h);
	for (uint32_t i = 0; i < n; i += BLOCK) {
		const size_t from = 8 * (size_t)i;
		bits[i / BLOCK] = differ(old + from, now + from, n - i < BLOCK ? n - i : BLOCK);
		store(to + 8 + i / 8, bits[i / BLOCK]);
	}
	for (uint32_t i = 0; i < n; i += BLOCK)
		at = put_block(b, at, bits[i / BLOCK], old + 8 * (size_t)i, now + 8 * (size_t)i);
	store(at, 0);
	store(to, since << TIME_SHIFT | RING_BRIEF | place << PLACE_SHIFT | n << LENGTH_SHIFT |
		      (uint32_t)(at - to + 7) / 8);
}

void brief_put(struct brief *b, const struct hit *h, void *to)
{
	const uint32_t n = h->size / 8;
	const uint64_t since = h->ts - b->ts;
	b->ts = h->ts;
	if (n <= BRIEF_MOST && h->size % 8 == 0 && !(since >> 32) && is_plain(h)) {
		put_brief(b, h, n, since, to);
		return;
	}
	for (size_t i = 0; i < h->size; i += 8)
		store((uint8_t *)to + i, load((const uint8_t *)h + i));
}

static inline uint64_t word_take(struct brief *b, const uint8_t **from, uint64_t old)
{
	const uint8_t *at = *from, code = *at;
	const uint64_t sent = load(at + 1), lately = b->lately[code];
	const uint64_t by = code == NEAR ? (uint64_t)(int16_t)sent : (uint64_t)(int32_t)sent;
	const uint64_t here = code == WHOLE ? sent : old + by;
	const uint64_t w = code >= LATELY ? lately : here;
	const size_t len = code == NEAR	 ? sizeof(int16_t)
			   : code == FAR ? sizeof(int32_t)
					 : sizeof(w);
	*from = at + 1 + (code >= LATELY ? 0 : len);
	b->lately[lately_at(w)] = w;
	return w;
}

static uint64_t bits_of(const uint8_t *bits, uint32_t n)
{
	return load(bits) & (UINT64_MAX >> (n < BLOCK ? BLOCK - n : 0));
}

struct hit *brief_read(struct brief *b, const void *record)
{
	const uint8_t *start = record;
	const uint64_t head = load(start);
	const uint32_t n = head >> LENGTH_SHIFT & 0xff;
	const uint32_t place = (head & ~RING_BRIEF & UINT32_MAX) >> PLACE_SHIFT;
	if (n < HEAD || n > BRIEF_MOST || place >= BRIEF_PLACES)
		return NULL;
	const uint8_t *at = start + 8 + (n + 7) / 8;
	uint8_t *words = words_at(b, place);
	struct hit *h = (struct hit *)words;
	b->ts += head >> TIME_SHIFT;
	for (uint32_t i = 0; i < n; i += BLOCK) {
		uint64_t left = bits_of(start + 8 + i / 8, n - i);
		if (!i && left & 1)
			store(words, word_take(b, &at, load(words)));
		if (!i) {
			expect(b, words, h);
			left &= ~1ULL;
		}
		for (; left; left &= left - 1) {
			uint8_t *w = words + 8 * ((size_t)i + (size_t)__builtin_ctzll(left));
			store(w, word_take(b, &at, load(w)));
		}
	}
	note(b, h);
	if ((uint64_t)(at - start) > (head & 0xff) * 8 || h->size != n * 8 || h->ts != b->ts ||
	    !is_plain(h))
		return NULL;
	return h;
}
