#include "perf/trace/trace_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "perf/trace/internal.h"

/* How far the reader has got. */
struct trace_progress {
	uint64_t records; /* all, definitions too */
	uint64_t events;
	uint64_t bytes; /* the file was read and is good up to here */
};

struct trace_reader {
	int fd;
	char *path;
	struct trace_file_header header;
	struct trace_defs defs;
	struct late_symbols *late;
	struct arena values;
	uint8_t *packed, *raw; /* the block: compressed, decompressed */
	size_t packed_max, raw_len, pos;
	struct trace_progress progress;
	uint64_t block_end; /* file offset after the block being read */
	uint64_t nblocks;
	uint64_t last_id, last_ns, last_sample_ns, last_activity_ns;
	struct memory_event last_memory;
	ZSTD_DCtx *zstd;
	bool no_values;
	bool (*values_of)(const struct op_desc *op); /* with no_values: these have them */
	bool ended;				     /* END was read */
	struct err damage;			     /* set once the file is known to be damaged */
};

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

static int stopped(struct trace_reader *r, int code, struct err *e, const char *why)
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

static int damaged(struct trace_reader *r, struct err *e, const char *why)
{
	stopped(r, -EBADMSG, &r->damage, why);
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
		return damaged(r, e, "no block where one should begin");
	if (h->raw_size > TRACE_BLOCK_MAX || h->raw_size < sizeof(struct trace_record_header) ||
	    h->size == 0 || h->size > r->packed_max - sizeof(*h) - 8)
		return damaged(r, e, "a block of impossible size");
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
		return damaged(r, e, "there is more after the end record");
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
		return damaged(r, e, "the checksum of a block does not match");
	if (h.index != r->nblocks)
		return damaged(r, e, "a block is missing");
	size_t n =
	    ZSTD_decompressDCtx(r->zstd, r->raw, TRACE_BLOCK_MAX, r->packed + sizeof(h), h.size);
	if (ZSTD_isError(n) || n != h.raw_size)
		return damaged(r, e, "a block cannot be decompressed");
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
		return stopped(r, -ENODATA, e, "the file ends in the middle of a block");
	if (r->progress.records == 0)
		return stopped(r, -ENODATA, e, "the file holds no records");
	return stopped(r, -ENODATA, e,
		       "there is no end record (ditrace was killed, or its disk was full)");
}

/* 1: a block was read; 0: the file is complete; otherwise like trace_read_next. */
static int next_block(struct trace_reader *r, struct err *e)
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
		return partial ? damaged(r, e, "there is more after the end record") : 0;
	return writing ? -EAGAIN : no_more(r, partial, e);
}

/* A cursor over the payload of the block's next record. 1, 0 at the end of the block, -EBADMSG. */
static int next_record(struct trace_reader *r, struct in *in, uint16_t *type, struct err *e)
{
	struct trace_record_header h;
	size_t left = r->raw_len - r->pos;
	if (left == 0)
		return 0;
	if (left < sizeof(h))
		return damaged(r, e, "a record is cut");
	memcpy(&h, r->raw + r->pos, sizeof(h));
	if (h.size < sizeof(h) || h.size % 8 || h.size > left || h.size > TRACE_RECORD_MAX ||
	    h.zero)
		return damaged(r, e, "a record of impossible size");
	*in = (struct in){.p = r->raw + r->pos + sizeof(h), .end = r->raw + r->pos + h.size};
	*type = h.type;
	r->pos += h.size;
	return 1;
}

int trace_decode_event(struct trace_reader *r, const struct trace_raw_event *raw,
		       struct op_event *out, struct err *e)
{
	int code = -EAGAIN;
	if (r->no_values)
		code = trace_decode_event_payload(&r->defs, raw, NULL, out);
	if (!code && r->values_of && r->values_of(out->op))
		code = -EAGAIN;
	if (code == -EAGAIN) {
		arena_reset(&r->values);
		code = trace_decode_event_payload(&r->defs, raw, &r->values, out);
	}
	if (code == -ENOMEM)
		return err_set(e, code, "no memory to read %s", r->path);
	return code ? damaged(r, e, "an event does not make sense") : 0;
}

static int read_event(struct trace_reader *r, const struct in *in, struct trace_item *item,
		      struct err *e)
{
	struct trace_raw_event raw = {.last_id = r->last_id,
				      .last_ns = r->last_ns,
				      .payload = in->p,
				      .size = (uint32_t)(in->end - in->p)};
	int code = trace_decode_event(r, &raw, &item->event, e);
	if (code)
		return code;
	raw.id = r->last_id = item->event.id;
	r->last_ns = item->event.end_ns ? item->event.end_ns : item->event.start_ns;
	item->raw = raw;
	r->progress.events++;
	return 1;
}

/* 1: *item is filled; 0: the record was a definition or of unknown type. */
static int read_record(struct trace_reader *r, uint16_t type, struct in *in,
		       struct trace_item *item, struct err *e)
{
	int code = 1;
	item->type = (enum trace_type)type;
	if (r->ended)
		return damaged(r, e, "there is more after the end record");
	if (type == TRACE_EVENT)
		return read_event(r, in, item, e);
	if (type == TRACE_LOST || type == TRACE_SAMPLES_LOST || type == TRACE_ACTIVITIES_LOST ||
	    type == TRACE_MEMORY_LOST) {
		item->lost.time_ns = in_u(in);
		item->lost.count = in_u(in);
		uint64_t summed = type == TRACE_LOST && in->p < in->end ? in_u(in) : 0;
		if (summed > item->lost.count)
			return damaged(r, e, "a record does not make sense");
		item->lost.count -= summed;
		code = item->lost.count > 0;
	} else if (type == TRACE_STATS) {
		item->stats.probe_ns = in_u(in);
		item->stats.seen_permille = (uint32_t)in_u(in);
		item->stats.wall_ns = in_u(in);
		item->stats.cpu_ns = in->p < in->end ? in_u(in) : 0;
		item->stats.lean = in->p < in->end ? in_u(in) : 0;
		if (in->p < in->end) {
			item->stats.turns = in_u(in);
			item->stats.slowdown = in_s(in);
			item->stats.slowdown_error = in_u(in);
			item->stats.turns_ops = in_u(in);
			item->stats.probe_most_ns =
			    in->p < in->end ? in_u(in) : item->stats.probe_ns;
		}
	} else if (type == TRACE_TARGET) {
		code = trace_decode_target(&r->defs, in, &item->target);
	} else if (type == TRACE_THREAD) {
		code = trace_decode_thread(&r->defs, in, &item->thread.pid, &item->thread.tid,
					   &item->thread.name);
	} else if (type == TRACE_SUM) {
		code = trace_decode_sum(&r->defs, in, &item->sum);
	} else if (type == TRACE_DONE) {
		item->done.pid = in_s32(in);
		item->done.address = in_u(in);
		item->done.ns = in_u(in);
	} else if (type == TRACE_ACTIVITY) {
		code = trace_decode_activity(&r->defs, in, r->last_activity_ns, &item->activity);
		r->last_activity_ns = item->activity.of.start_ns;
	} else if (type == TRACE_MEMORY) {
		code = trace_decode_memory(&r->defs, in, &r->last_memory, &item->memory);
		r->last_memory = item->memory;
	} else if (type == TRACE_SAMPLE) {
		code = trace_decode_sample(&r->defs, in, r->last_sample_ns, &item->sample);
		r->last_sample_ns = item->sample.time_ns;
	} else if (type == TRACE_SAMPLING) {
		code = trace_decode_sampling(&r->defs, in, &item->sampling);
	} else if (type == TRACE_PROCESS) {
		code = trace_decode_process(in, &item->process);
	} else if (type == TRACE_CHOSEN) {
		code = trace_decode_chosen(&r->defs, in, &item->chosen);
	} else if (type == TRACE_BUILD) {
		code = trace_decode_build(&r->defs, in, &item->build);
		if (code > 0 && late_symbols_build(r->late, &item->build))
			code = -ENOMEM;
	} else if (type == TRACE_END) {
		r->ended = true;
		if (in_u(in) != r->progress.events)
			return damaged(r, e, "the number of events is not that of the end record");
	} else {
		code = trace_decode_definition(&r->defs, type, in);
		if (!code && type == TRACE_FRAME)
			code = late_symbols_name(r->late, r->defs.frames[r->defs.nframes - 1]);
	}
	if (code == -ENOMEM)
		return err_set(e, code, "no memory to read %s", r->path);
	if (code < 0 || in->bad)
		return damaged(r, e, "a record does not make sense");
	return code;
}

int trace_read_next(struct trace_reader *r, struct trace_item *item, struct err *e)
{
	if (r->damage.code) {
		if (e)
			*e = r->damage;
		return r->damage.code;
	}
	for (;;) {
		struct in in;
		uint16_t type = 0;
		int n = next_record(r, &in, &type, e);
		if (n == 0) {
			if (r->nblocks)
				r->progress.bytes = r->block_end;
			n = next_block(r, e);
			if (n <= 0)
				return n;
			continue;
		}
		if (n > 0)
			n = read_record(r, type, &in, item, e);
		if (n >= 0)
			r->progress.records++;
		if (n)
			return n;
	}
}

void trace_reader_no_values(struct trace_reader *r)
{
	r->no_values = true;
}

void trace_reader_values_of(struct trace_reader *r, bool (*fn)(const struct op_desc *op))
{
	r->no_values = true;
	r->values_of = fn;
}

const char *trace_reader_path(const struct trace_reader *r)
{
	return r->path;
}

const uint8_t *trace_reader_clock(const struct trace_reader *r)
{
	return r->header.clock;
}

uint64_t trace_reader_origin(const struct trace_reader *r)
{
	return r->header.monotonic_ns;
}

uint64_t trace_reader_begun(const struct trace_reader *r)
{
	return r->header.realtime_ns;
}

void trace_reader_number_ids(struct trace_reader *r, uint32_t first, uint32_t step)
{
	r->defs.first_id = first;
	r->defs.id_step = step;
}

void trace_reader_close(struct trace_reader *r)
{
	if (!r)
		return;
	trace_defs_free(&r->defs);
	late_symbols_free(r->late);
	arena_free(&r->values);
	ZSTD_freeDCtx(r->zstd);
	free(r->packed);
	free(r->raw);
	free(r->path);
	if (r->fd >= 0)
		close(r->fd);
	free(r);
}

static struct trace_reader *reader_alloc(const char *path)
{
	struct trace_reader *r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->fd = -1;
	r->packed_max = sizeof(struct trace_block_header) + ZSTD_compressBound(TRACE_BLOCK_MAX) + 8;
	r->path = strdup(path);
	r->packed = malloc(r->packed_max);
	r->raw = malloc(TRACE_BLOCK_MAX);
	r->zstd = ZSTD_createDCtx();
	if (r->path && r->packed && r->raw && r->zstd)
		return r;
	trace_reader_close(r);
	return NULL;
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

static int open_file(struct trace_reader *r, const char *path, struct err *e)
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

int trace_reader_open(const char *path, struct trace_reader **out, struct err *e)
{
	struct trace_reader *r = reader_alloc(path);
	if (!r)
		return err_set(e, -ENOMEM, "no memory to read %s", path);
	int code = open_file(r, path, e);
	if (code) {
		trace_reader_close(r);
		return code;
	}
	*out = r;
	return 0;
}

double trace_reader_share(const struct trace_reader *r)
{
	struct stat st;
	double all = fstat(r->fd, &st) ? 0 : (double)st.st_size, done = (double)r->progress.bytes;
	return done < all ? done / all : 1;
}
