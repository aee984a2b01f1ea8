/* A trace file being written: its header, and the blocks that records are packed into. What the
 * records say is perf/trace/trace_write's. */
#ifndef PERF_TRACE_TRACE_BLOCKS_H
#define PERF_TRACE_TRACE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zstd.h>

#include "base/err.h"
#include "perf/trace/trace_encode.h"
#include "perf/trace/trace_format.h"

/* What numbers of a block's next record count from; 0 where a block begins. */
struct trace_last {
	uint64_t id, ns;    /* of the last EVENT */
	uint64_t sample_ns; /* of the last SAMPLE */
};

struct trace_blocks {
	int fd;
	bool failed;  /* nothing is to be written any more */
	uint8_t *raw; /* TRACE_BLOCK_MAX: the block being filled */
	size_t raw_len;
	uint8_t *packed; /* a block header and compressed records */
	size_t packed_max;
	ZSTD_CCtx *zstd;
	uint64_t offset; /* file size, whole blocks only */
	uint64_t nblocks;
	uint64_t waiting_ns; /* since when the block has had records, 0: not known yet */
	struct trace_last last;
};

/* As trace_writer_open; then trace_blocks_close. */
int trace_blocks_open(struct trace_blocks *b, const char *path, struct err *e);

/* Room for a record of TRACE_RECORD_MAX; after it, `last` is that of the record. 0 or -errno. */
int trace_blocks_room(struct trace_blocks *b);

/* Where the payload of the next record goes. */
struct out trace_blocks_record(struct trace_blocks *b);

/* The record whose payload was put there and ends at `end` becomes part of the block. */
void trace_blocks_seal(struct trace_blocks *b, enum trace_type type, const uint8_t *end);

/* Write the block now; when it has waited for 250 ms. 0 or -errno, and then the file has failed. */
int trace_blocks_flush(struct trace_blocks *b);
int trace_blocks_tick(struct trace_blocks *b, uint64_t now_ns);

/* Give up: what is on disk is cut back to whole blocks. Returns `code`. */
int trace_blocks_fail(struct trace_blocks *b, int code);

/* Write nothing more, and free. */
void trace_blocks_close(struct trace_blocks *b);

#endif
