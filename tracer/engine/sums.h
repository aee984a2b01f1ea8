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
	SUMS_SPARED = 256 << 10, /* bytes that are kept for rows without a stack */
	SUMS_PLACES = 4096,	 /* of the index, a power of two */
};

/* Shared, one for all writers whose rows may name the same Python code objects. A row with a stack
 * is made, and read, only while the reader has handled the records of all that were freed: another
 * object may be at the address of one. */
struct sums_code {
	_Atomic uint32_t freed; /* objects that were freed */
	_Atomic uint32_t known; /* by the reader: the number of the last one that he has handled */
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
	const struct sums_code *code;
	uint32_t freed; /* code->freed when the rows were begun */
};

/* Become the writer, and forget all rows, those of an earlier writer, too: all of them were read.
 * `code` must outlive `w`. */
void sums_begin(struct sums *s, struct sums_writer *w, const struct sums_code *code);

/* A call begins whose entry, with the items that tell its op and its stack, is `h`, which is
 * changed. `may_name`: the reader knows the code objects of the stack. Its row; NULL: there is no
 * room. */
struct sum_row *sums_enter(struct sums *s, struct sums_writer *w, struct hit *h, bool may_name);

/* It ends at `ts` (ns), having begun at `since`, of which `inner_ns` in ops that it called. General
 * registers alone. */
void sums_leave(struct sums *s, struct sums_writer *w, struct sum_row *row, uint64_t since,
		uint64_t ts, uint64_t inner_ns, bool thrown);

/* A Python code object that records may name is being freed. Its number, for `seq` of its record.
 */
uint32_t sums_code_freed(struct sums_code *code);

/* The reader has handled the record with that number. */
void sums_code_known(struct sums_code *code, uint32_t number);

/* Whether the reader has handled all. */
static inline bool sums_code_is_known(const struct sums_code *code)
{
	return code->freed == code->known;
}

/* The reader: what he knows of the rows. Zero-initialise. */
struct sums_reader {
	uint32_t round[SUMS_ROWS];
	struct sum_counts counts[SUMS_ROWS];
};

/* Which rows are read: */
enum {
	SUMS_BARE = 1,	/* those without a stack alone */
	SUMS_ENDED = 2, /* of a writer that has ended, perhaps in the middle of one */
};

/* Called with the entry of a row, of kind HIT_SUM, to which an ITEM_SUM is appended: what has been
 * added to it since. Valid during the call. */
typedef void sums_fn(struct hit *h, void *arg);

/* Read the rows that have changed; h->proc is set to `proc`. `which`: of the enum above, 0: all
 * that are not being written. False: this memory is no such thing. */
bool sums_read(struct sums *s, struct sums_reader *r, uint16_t proc, unsigned which, sums_fn *fn,
	       void *arg);

/* Make of the entry of a row, which has room for it, the hit of that kind. */
void sums_make_hit(struct hit *h, uint16_t proc, const struct sum_counts *new);

/* Whether there is anything to be read. */
static inline bool sums_changed(const struct sums *s)
{
	return s->written != s->read;
}

#endif
