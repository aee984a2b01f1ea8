/* A trace file that is read: its header, and its blocks, checked and decompressed. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "perf/trace/internal.h"

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
