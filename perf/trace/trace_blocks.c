#include "perf/trace/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/system.h"

enum {
	COMPRESSION_LEVEL = 1,
	FLUSH_NS = 250 * 1000 * 1000,
};

int trace_blocks_fail(struct trace_blocks *b, int code)
{
	b->failed = true;
	b->raw_len = 0;
	if (b->offset && ftruncate(b->fd, (off_t)b->offset) < 0)
		return code; /* readers stop at the last whole block anyway */
	return code;
}

int trace_blocks_flush(struct trace_blocks *b)
{
	struct trace_block_header h = {.magic = TRACE_BLOCK_MAGIC, .index = b->nblocks};
	if (!b->raw_len)
		return 0;
	size_t n = ZSTD_compressCCtx(b->zstd, b->packed + sizeof(h), b->packed_max - sizeof(h) - 8,
				     b->raw, b->raw_len, COMPRESSION_LEVEL);
	if (ZSTD_isError(n))
		return trace_blocks_fail(b, -ENOMEM);
	size_t total = sizeof(h) + ((n + 7) & ~(size_t)7);
	memset(b->packed + sizeof(h) + n, 0, total - sizeof(h) - n);
	h.size = (uint32_t)n;
	h.raw_size = (uint32_t)b->raw_len;
	memcpy(b->packed, &h, sizeof(h));
	h.crc = trace_crc(0, b->packed + 8, total - 8);
	memcpy(b->packed + 4, &h.crc, sizeof(h.crc));
	int r = io_write_all(b->fd, b->packed, total);
	if (r)
		return trace_blocks_fail(b, r);
	b->offset += total;
	b->nblocks++;
	b->raw_len = 0;
	b->waiting_ns = 0;
	b->last = (struct trace_last){0};
	return 0;
}

int trace_blocks_room(struct trace_blocks *b)
{
	return b->raw_len >= TRACE_BLOCK_FULL ? trace_blocks_flush(b) : 0;
}

void trace_blocks_seal(struct trace_blocks *b, enum trace_type type, const uint8_t *end)
{
	uint8_t *start = b->raw + b->raw_len;
	size_t used = (size_t)(end - start), size = (used + 7) & ~(size_t)7;
	struct trace_record_header h = {.size = (uint32_t)size, .type = (uint16_t)type};
	memcpy(start, &h, sizeof(h));
	memset(start + used, 0, size - used);
	b->raw_len += size;
}

struct out trace_blocks_record(struct trace_blocks *b)
{
	uint8_t *start = b->raw + b->raw_len;
	return (struct out){.p = start + sizeof(struct trace_record_header),
			    .end = start + TRACE_RECORD_MAX - 8};
}

int trace_blocks_tick(struct trace_blocks *b, uint64_t now_ns)
{
	if (!b->raw_len)
		return 0;
	if (!b->waiting_ns)
		b->waiting_ns = now_ns;
	return now_ns - b->waiting_ns >= FLUSH_NS ? trace_blocks_flush(b) : 0;
}

void trace_blocks_close(struct trace_blocks *b)
{
	ZSTD_freeCCtx(b->zstd);
	free(b->raw);
	free(b->packed);
	if (b->fd >= 0)
		close(b->fd);
}

static int get_memory(struct trace_blocks *b)
{
	b->packed_max = sizeof(struct trace_block_header) + ZSTD_compressBound(TRACE_BLOCK_MAX) + 8;
	b->raw = malloc(TRACE_BLOCK_MAX);
	b->packed = malloc(b->packed_max);
	b->zstd = ZSTD_createCCtx();
	return b->raw && b->packed && b->zstd ? 0 : -ENOMEM;
}

/* The same moment on both clocks: of a few tries the one in which least time passed. */
static void read_clocks(struct trace_file_header *h)
{
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < 5; i++) {
		uint64_t before = clock_ns(CLOCK_MONOTONIC), day = clock_ns(CLOCK_REALTIME),
			 took = clock_ns(CLOCK_MONOTONIC) - before;
		if (took >= least)
			continue;
		least = took;
		h->monotonic_ns = before + took / 2;
		h->realtime_ns = day;
	}
}

static int write_file_header(struct trace_blocks *b)
{
	struct trace_file_header h = {
	    .magic = TRACE_MAGIC, .version = TRACE_VERSION, .size = sizeof(h)};
	read_clocks(&h);
	clock_identify(h.clock);
	h.crc = trace_crc(0, &h, offsetof(struct trace_file_header, crc));
	int r = io_write_all(b->fd, &h, sizeof(h));
	if (!r)
		b->offset = sizeof(h);
	return r;
}

/* A process that a ditrace had started just before it was killed may not have let go of the file
 * yet (files_let_go). */
static int begin_file(struct new_file *f, const char *path, struct err *e)
{
	enum { TRIES = 25 };
	const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
	int r = -EBUSY;
	for (unsigned i = 0; i < TRIES && r == -EBUSY; i++) {
		if (i)
			nanosleep(&pause, NULL);
		r = new_file_open(f, path, O_NONBLOCK, NULL);
	}
	return r ? new_file_open(f, path, O_NONBLOCK, e) : 0;
}

/* The file gets its name with its header: a reader of the name finds a trace, the old or this one.
 */
static int open_file(struct trace_blocks *b, const char *path, struct err *e)
{
	struct new_file f;
	int r = begin_file(&f, path, e);
	if (r)
		return r;
	b->fd = f.fd;
	r = write_file_header(b);
	r = r ? r : new_file_name_keep(&f, &b->kept_old);
	if (!r)
		return 0;
	new_file_close(&f);
	b->fd = -1;
	err_set(e, r, "cannot write %s: %s", path, strerror(-r));
	return err_hint(e, "free some space, or name another file: -o FILE");
}

int trace_blocks_open(struct trace_blocks *b, const char *path, struct err *e)
{
	*b = (struct trace_blocks){.fd = -1};
	int r = get_memory(b);
	r = r ? err_set(e, r, "no memory to write %s", path) : open_file(b, path, e);
	if (r)
		trace_blocks_close(b);
	return r;
}
