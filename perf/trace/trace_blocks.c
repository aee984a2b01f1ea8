/* Blocks of records, compressed and under a checksum, behind the header of a file: written, and
 * read and checked. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/system.h"
#include "perf/trace/internal.h"

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

/* Read at `offset`. Returns the number of bytes (0 .. len), or -errno. */
static ssize_t read_at(int fd, uint64_t offset, void *buf, size_t len)
{
	size_t got = 0;
	while (got < len) {
		ssize_t n = pread(fd, (char *)buf + got, len - got, (off_t)(offset + got));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

static int stopped_at(struct trace_reader *r, int code, struct err *e, const char *why)
{
	const struct trace_progress *p = &r->progress;
	err_set(e, code, "%s: %s; read %llu records (%llu events) up to byte %llu", r->path, why,
		(unsigned long long)p->records, (unsigned long long)p->events,
		(unsigned long long)p->bytes);
	if (code == -EBADMSG)
		err_hint(e,
			 "what comes after byte %llu cannot be trusted: copy the file again, or "
			 "record again",
			 (unsigned long long)p->bytes);
	else
		err_hint(e, "what was read is good, the rest was never written or was cut off: "
			    "copy the file "
			    "again, or record again");
	return code;
}

int trace_reader_damaged(struct trace_reader *r, struct err *e, const char *why)
{
	stopped_at(r, -EBADMSG, &r->damage, why);
	if (e)
		*e = r->damage;
	return -EBADMSG;
}

static int still_written(const struct trace_reader *r)
{
	if (flock(r->fd, LOCK_SH | LOCK_NB) < 0)
		return errno == EWOULDBLOCK;
	flock(r->fd, LOCK_UN);
	return 0;
}

static int check_block(struct trace_reader *r, const struct trace_block_header *h, struct err *e)
{
	if (h->magic != TRACE_BLOCK_MAGIC)
		return trace_reader_damaged(r, e, "no block where one should begin");
	if (h->raw_size > TRACE_BLOCK_MAX || h->raw_size < sizeof(struct trace_record_header) ||
	    h->size == 0 || h->size > r->packed_max - sizeof(*h) - 8)
		return trace_reader_damaged(r, e, "a block of impossible size");
	return 0;
}

/* Read the block at block_end into `packed`. 1, or 0 if the file ends first (*partial: within the
 * block). */
static int fetch_block(struct trace_reader *r, size_t *total, bool *partial, struct err *e)
{
	struct trace_block_header h;
	ssize_t n = read_at(r->fd, r->block_end, &h, sizeof(h));
	*partial = n > 0;
	if (n < 0)
		return err_set(e, (int)n, "cannot read %s: %s", r->path, strerror((int)-n));
	if ((size_t)n < sizeof(h))
		return 0;
	if (r->ended)
		return trace_reader_damaged(r, e, "there is more after the end record");
	int bad = check_block(r, &h, e);
	if (bad)
		return bad;
	*total = sizeof(h) + ((h.size + 7u) & ~7u);
	n = read_at(r->fd, r->block_end, r->packed, *total);
	if (n < 0)
		return err_set(e, (int)n, "cannot read %s: %s", r->path, strerror((int)-n));
	return (size_t)n == *total;
}

static int unpack_block(struct trace_reader *r, size_t total, struct err *e)
{
	struct trace_block_header h;
	memcpy(&h, r->packed, sizeof(h));
	if (check_block(r, &h, e)) /* it may have changed since it was checked */
		return -EBADMSG;
	if (sizeof(h) + ((h.size + 7u) & ~7u) != total ||
	    trace_crc(0, r->packed + 8, total - 8) != h.crc)
		return trace_reader_damaged(r, e, "the checksum of a block does not match");
	if (h.index != r->nblocks)
		return trace_reader_damaged(r, e, "a block is missing");
	size_t n =
	    ZSTD_decompressDCtx(r->zstd, r->raw, TRACE_BLOCK_MAX, r->packed + sizeof(h), h.size);
	if (ZSTD_isError(n) || n != h.raw_size)
		return trace_reader_damaged(r, e, "a block cannot be decompressed");
	r->raw_len = n;
	r->pos = 0;
	r->block_end += total;
	r->nblocks++;
	r->last_id = r->last_ns = r->last_sample_ns = r->last_activity_ns = 0;
	r->last_memory = (struct memory_event){0};
	return 1;
}

static int no_more(struct trace_reader *r, bool partial, struct err *e)
{
	if (partial)
		return stopped_at(r, -ENODATA, e, "the file ends in the middle of a block");
	if (r->progress.records == 0)
		return stopped_at(r, -ENODATA, e, "the file holds no records");
	return stopped_at(r, -ENODATA, e,
			  "there is no end record (ditrace was killed, or its disk was full)");
}

int trace_reader_block(struct trace_reader *r, struct err *e)
{
	size_t total = 0;
	bool partial = false;
	/* Check the lock before the last read, so that what a writer wrote before it unlocked is
	 * not missed. */
	int writing = r->ended ? 0 : still_written(r);
	int n = fetch_block(r, &total, &partial, e);
	if (n < 0)
		return n;
	if (n > 0)
		return unpack_block(r, total, e);
	if (r->ended)
		return partial ? trace_reader_damaged(r, e, "there is more after the end record")
			       : 0;
	return writing ? -EAGAIN : no_more(r, partial, e);
}

static int check_version(const struct trace_file_header *h, const char *path, struct err *e)
{
	if (h->version != TRACE_VERSION || h->features) {
		err_set(
		    e, -ENOTSUP,
		    "%s is in a form of trace file that this ditrace does not know (version %u)",
		    path, h->version);
		err_hint(e, "read it with the ditrace that wrote it, or a newer one");
		return -ENOTSUP;
	}
	return 0;
}

/* `n` bytes of *h were read. */
static int check_header(const struct trace_file_header *h, size_t n, const char *path,
			struct err *e)
{
	int code = -EBADMSG;
	size_t magic = n < sizeof(h->magic) ? n : sizeof(h->magic);
	if (n == 0)
		err_set(e, code, "%s is empty: 0 records", path);
	else if (memcmp(h->magic, TRACE_MAGIC, magic) != 0)
		err_set(e, code, "%s is not a trace of ditrace (its first bytes say otherwise)",
			path);
	else if (n < sizeof(*h))
		err_set(e, code, "%s is cut in its header, after %zu of %zu bytes: 0 records", path,
			n, sizeof(*h));
	else if (trace_crc(0, h, offsetof(struct trace_file_header, crc)) != h->crc)
		err_set(e, code,
			"%s: the checksum of the file header does not match: 0 records read", path);
	else
		return check_version(h, path, e);
	err_hint(e, "record one with: ditrace run -o FILE -- python3 train.py");
	return code;
}

int trace_reader_open_file(struct trace_reader *r, const char *path, struct err *e)
{
	struct stat st;
	r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (r->fd < 0 || fstat(r->fd, &st) < 0) {
		int code = -errno;
		err_set(e, code, "cannot read %s: %s", path, strerror(-code));
		if (code == -ENOENT)
			err_hint(e, "record one with: ditrace run -- python3 train.py");
		else
			err_hint(e, "look at the permissions: ls -l %s", path);
		return code;
	}
	if (!S_ISREG(st.st_mode)) {
		bool folder = S_ISDIR(st.st_mode);
		err_set(e, -EINVAL, "cannot read %s: it is %s", path,
			folder ? "a folder" : "not a regular file");
		return err_hint(e, "give %s",
				folder ? "one of the files in it, such as rank0.data"
				       : "the file that ditrace run or ditrace attach wrote");
	}
	ssize_t n = read_at(r->fd, 0, &r->header, sizeof(r->header));
	if (n < 0)
		return err_set(e, (int)n, "cannot read %s: %s", path, strerror((int)-n));
	r->block_end = r->progress.bytes = sizeof(r->header);
	int code = check_header(&r->header, (size_t)n, path, e);
	if (!code)
		r->late = late_symbols_new(r->header.realtime_ns, r->fd);
	return code || r->late ? code : err_set(e, -ENOMEM, "no memory to read %s", path);
}
