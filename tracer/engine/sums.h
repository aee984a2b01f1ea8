/* Calls of ops that are summed up in place, where there is no room for a record of each: rows by op
 * and Python stack, in memory that the writer and the reader have mapped. The writer, one thread,
 * neither waits nor calls the kernel or libc. */
#ifndef TRACER_ENGINE_SUMS_H
#define TRACER_ENGINE_SUMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/plan/plan.h"

/* Rows are made with their whole stack up to SUMS_FULL of them, then without the first local
 * variables of its frames up to SUMS_PLAIN, and then without a stack. */
enum {
	SUMS_ROWS = 1024,
	SUMS_FULL = 512,
	SUMS_PLAIN = 768,
	SUMS_BYTES = 1 << 20,
	SUMS_BARE = 256 << 10, /* bytes that are kept for rows without a stack */
	SUMS_PLACES = 4096,    /* of the index, a power of two */
};

struct sum_row {
	_Atomic uint32_t seq; /* a seqlock: odd while the row is being written */
	uint32_t round;	      /* of struct sums, in which it was made */
	uint32_t at;	      /* its entry in `record`, a struct hit with items */
	uint32_t unused;
	struct sum_counts counts; /* since it was made */
};

/* Shared. All that the reader has not written himself may be anything. */
struct sums {
	_Atomic uint32_t nrows;
	_Atomic uint32_t written; /* incremented with each change */
	_Atomic uint32_t read;	  /* by the reader: `written` before he last read all rows */
	struct sum_row row[SUMS_ROWS];
	_Alignas(8) uint8_t record[SUMS_BYTES];
};

/* The writer's private state. Zero-initialise. */
struct sums_writer {
	uint32_t round, nrows, bytes;
	uint32_t open;		     /* calls that have begun and not ended */
	uint16_t place[SUMS_PLACES]; /* rows by hash, from 1 on; 0: none */
	uint64_t hash[SUMS_ROWS];
	uint32_t stale; /* sums_code_freed then */
};

/* Become the writer, and forget all rows, those of an earlier writer, too: all of them were read.
 */
void sums_begin(struct sums *s, struct sums_writer *w);

/* A call begins whose entry, with the items that tell its op and its stack, is `h`, which is
 * changed. Its row; NULL: there is no room. */
struct sum_row *sums_enter(struct sums *s, struct sums_writer *w, struct hit *h);

/* It ends at `ts` (ns), having begun at `since`, of which `inner_ns` in ops that it called. General
 * registers alone. */
void sums_leave(struct sums *s, struct sums_writer *w, struct sum_row *row, uint64_t since,
		uint64_t ts, uint64_t inner_ns, bool thrown);

/* A Python code object that records may name was freed: another may be at its address from now on.
 */
void sums_code_freed(void);

/* The reader: what he knows of the rows. Zero-initialise. */
struct sums_reader {
	uint32_t round[SUMS_ROWS];
	struct sum_counts counts[SUMS_ROWS];
};

/* Called with the entry of a row, of kind HIT_SUM, to which an ITEM_SUM is appended: what has been
 * added to it since. Valid during the call. */
typedef void sums_fn(struct hit *h, void *arg);

/* Read all rows that have changed; h->proc is set to `proc`. A row that is being written is left
 * for the next time, unless the writer has `ended`, perhaps in the middle of it. False: this memory
 * is no such thing. */
bool sums_read(struct sums *s, struct sums_reader *r, uint16_t proc, bool ended, sums_fn *fn,
	       void *arg);

/* Make of the entry of a row, which has room for it, the hit of that kind. */
void sums_make_hit(struct hit *h, uint16_t proc, const struct sum_counts *new);

/* Whether there is anything to be read. */
static inline bool sums_changed(const struct sums *s)
{
	return s->written != s->read;
}

#endif
