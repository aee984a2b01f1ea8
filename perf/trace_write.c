#include "perf/trace_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/clock.h"
#include "base/io.h"
#include "perf/trace_encode.h"
#include "perf/trace_ids.h"

enum {
	COMPRESSION_LEVEL = 1,
	FLUSH_NS = 250 * 1000 * 1000,
	SCRATCH = TRACE_RECORD_MAX,
	HEAD_MAX = 256, /* an EVENT without its values */
};

struct trace_writer {
	int fd;
	bool failed;
	uint8_t *raw; /* TRACE_BLOCK_MAX: the block being filled */
	size_t raw_len;
	uint8_t *scratch; /* SCRATCH: the values of one event, or one definition */
	uint8_t *packed;  /* a block header and compressed records */
	size_t packed_max;
	ZSTD_CCtx *zstd;
	uint64_t offset; /* file size, whole blocks only */
	uint64_t nblocks;
	uint64_t waiting_ns; /* since when the block has had records, 0: not known yet */
	uint64_t nevents, nlost;
	uint64_t last_id, last_ns, last_sample_ns;
	struct trace_ids ids;
};

/* The failed state: what is on disk is cut back to whole blocks. */
static int fail(struct trace_writer *w, int code)
{
	w->failed = true;
	w->raw_len = 0;
	if (w->offset && ftruncate(w->fd, (off_t)w->offset) < 0)
		return code; /* a reader stops at the last whole block as well */
	return code;
}

static int flush(struct trace_writer *w)
{
	struct trace_block_header h = {.magic = TRACE_BLOCK_MAGIC, .index = w->nblocks};
	if (!w->raw_len)
		return 0;
	size_t n = ZSTD_compressCCtx(w->zstd, w->packed + sizeof(h), w->packed_max - sizeof(h) - 8,
				     w->raw, w->raw_len, COMPRESSION_LEVEL);
	if (ZSTD_isError(n))
		return fail(w, -ENOMEM);
	size_t total = sizeof(h) + ((n + 7) & ~(size_t)7);
	memset(w->packed + sizeof(h) + n, 0, total - sizeof(h) - n);
	h.size = (uint32_t)n;
	h.raw_size = (uint32_t)w->raw_len;
	memcpy(w->packed, &h, sizeof(h));
	h.crc = trace_crc(0, w->packed + 8, total - 8);
	memcpy(w->packed + 4, &h.crc, sizeof(h.crc));
	int r = io_write_all(w->fd, w->packed, total);
	if (r)
		return fail(w, r);
	w->offset += total;
	w->nblocks++;
	w->raw_len = 0;
	w->waiting_ns = 0;
	w->last_id = w->last_ns = w->last_sample_ns = 0;
	return 0;
}

/* Room for a record of TRACE_RECORD_MAX. */
static int make_room(struct trace_writer *w)
{
	return w->raw_len >= TRACE_BLOCK_FULL ? flush(w) : 0;
}

/* The record whose payload ends at `end` and begins after a header at raw + raw_len becomes part of
 * the block. */
static void seal_record(struct trace_writer *w, enum trace_type type, const uint8_t *end)
{
	uint8_t *start = w->raw + w->raw_len;
	size_t used = (size_t)(end - start), size = (used + 7) & ~(size_t)7;
	struct trace_record_header h = {.size = (uint32_t)size, .type = (uint16_t)type};
	memcpy(start, &h, sizeof(h));
	memset(start + used, 0, size - used);
	w->raw_len += size;
}

static struct out record_out(struct trace_writer *w)
{
	uint8_t *start = w->raw + w->raw_len;
	return (struct out){.p = start + sizeof(struct trace_record_header),
			    .end = start + TRACE_RECORD_MAX - 8};
}

static int write_record(void *writer, enum trace_type type, const void *payload, size_t len)
{
	struct trace_writer *w = writer;
	int r = make_room(w);
	if (r)
		return r;
	struct out o = record_out(w);
	out_bytes(&o, payload, len);
	if (o.full)
		return -EMSGSIZE;
	seal_record(w, type, o.p);
	return 0;
}

static int put_values(struct trace_writer *w, struct out *o, const struct op_event *ev)
{
	struct meta_numbers metas = {.number = trace_ids_meta, .arg = &w->ids};
	int r = 0;
	for (uint16_t i = 0; i < ev->nargs && !r; i++)
		r = trace_encode_value(o, &ev->args[i], &metas);
	for (uint16_t i = 0; i < ev->nresults && !r; i++)
		r = trace_encode_value(o, &ev->results[i], &metas);
	struct out without = *o;
	if (!r)
		trace_encode_stats(o, ev->stats);
	if (!without.full && o->full)
		*o = without;
	if (r || !o->full)
		return r;
	*o = (struct out){.p = w->scratch, .end = w->scratch + SCRATCH};
	for (int i = 0; i < ev->nargs + ev->nresults; i++)
		trace_encode_not_decoded(o, "too large for a record of the trace file");
	return 0;
}

struct event_refs {
	int64_t op, thread, stack, where; /* numbers in the file; -1: no stack */
};

/* The text of the line that locates the event, which may have become known only now. */
static int write_text(struct trace_writer *w, const struct op_event *ev)
{
	const struct py_frame *where = py_stack_where(ev->where_stack);
	return where ? trace_ids_frame_text(&w->ids, where) : 0;
}

static int find_refs(struct trace_writer *w, const struct op_event *ev, struct event_refs *r)
{
	r->op = trace_ids_op(&w->ids, ev->op);
	r->thread = trace_ids_thread(&w->ids, ev->pid, ev->tid, NULL);
	r->stack = ev->stack ? trace_ids_stack(&w->ids, ev->stack) : -1;
	r->where = ev->where_stack == ev->stack ? r->stack
		   : ev->where_stack		? trace_ids_stack(&w->ids, ev->where_stack)
						: -1;
	if (r->op < 0 || r->thread < 0)
		return (int)(r->op < 0 ? r->op : r->thread);
	if ((ev->stack && r->stack < 0) || (ev->where_stack && r->where < 0))
		return (int)(r->stack < 0 && ev->stack ? r->stack : r->where);
	return 0;
}

static uint8_t event_flags(const struct op_event *ev, const struct event_refs *r)
{
	return (uint8_t)((ev->phase == PHASE_BACKWARD ? EVENT_BACKWARD : 0) |
			 (ev->thrown ? EVENT_THROWN : 0) | (ev->end_ns ? EVENT_ENDED : 0) |
			 (ev->parent ? EVENT_HAS_PARENT : 0) |
			 (ev->forward_id ? EVENT_HAS_FORWARD_ID : 0) |
			 (r->stack >= 0 ? EVENT_HAS_STACK : 0) |
			 (r->where >= 0 && r->where != r->stack ? EVENT_HAS_WHERE : 0) |
			 (r->where < 0 && r->stack >= 0 ? EVENT_NO_WHERE : 0));
}

static void put_event_head(struct trace_writer *w, struct out *o, const struct op_event *ev,
			   const struct event_refs *r)
{
	uint8_t flags = event_flags(ev, r);
	out_b(o, flags);
	out_u(o, (uint64_t)r->op);
	out_u(o, (uint64_t)r->thread);
	out_s(o, (int64_t)(ev->id - w->last_id));
	if (flags & EVENT_HAS_PARENT)
		out_s(o, (int64_t)(ev->id - ev->parent));
	if (flags & EVENT_HAS_FORWARD_ID)
		out_s(o, (int64_t)(ev->id - ev->forward_id));
	out_s(o, (int64_t)(ev->start_ns - w->last_ns));
	if (flags & EVENT_ENDED)
		out_s(o, (int64_t)(ev->end_ns - ev->start_ns));
	out_u(o, ev->child_ns);
	out_u(o, ev->depth);
	if (flags & EVENT_HAS_STACK)
		out_u(o, (uint64_t)r->stack);
	if (flags & EVENT_HAS_WHERE)
		out_u(o, (uint64_t)r->where);
	out_u(o, ev->nargs);
	out_u(o, ev->nresults);
}

/* Failures other than of the file (no memory, an op too large to describe) end the trace as well:
 * from there on numbers would not fit together. */
static int checked(struct trace_writer *w, int r)
{
	return r && !w->failed ? fail(w, r) : r;
}

static int write_event(struct trace_writer *w, const struct op_event *ev)
{
	struct event_refs refs;
	int r = find_refs(w, ev, &refs);
	if (!r)
		r = write_text(w, ev);
	if (r)
		return r;
	struct out values = {.p = w->scratch, .end = w->scratch + SCRATCH - HEAD_MAX};
	r = put_values(w, &values, ev);
	if (!r)
		r = make_room(w);
	if (r)
		return r;
	struct out o = record_out(w);
	put_event_head(w, &o, ev, &refs);
	out_bytes(&o, w->scratch, (size_t)(values.p - w->scratch));
	if (o.full)
		return -EMSGSIZE;
	seal_record(w, TRACE_EVENT, o.p);
	w->last_id = ev->id;
	w->last_ns = ev->end_ns ? ev->end_ns : ev->start_ns;
	w->nevents++;
	return w->raw_len >= TRACE_BLOCK_FULL ? flush(w) : 0;
}

int trace_write_event(struct trace_writer *w, const struct op_event *ev)
{
	return w->failed ? 0 : checked(w, write_event(w, ev));
}

static int write_lost(struct trace_writer *w, enum trace_type type, uint64_t time_ns,
		      uint64_t count)
{
	uint8_t buf[32];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	if (w->failed)
		return 0;
	out_u(&o, time_ns);
	out_u(&o, count);
	return checked(w, write_record(w, type, buf, (size_t)(o.p - buf)));
}

int trace_write_lost(struct trace_writer *w, uint64_t time_ns, uint64_t count)
{
	w->nlost += w->failed ? 0 : count;
	return write_lost(w, TRACE_LOST, time_ns, count);
}

int trace_write_samples_lost(struct trace_writer *w, uint64_t time_ns, uint64_t count)
{
	return write_lost(w, TRACE_SAMPLES_LOST, time_ns, count);
}

int trace_write_sampling(struct trace_writer *w, const struct sampling *s)
{
	uint8_t buf[128];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	if (w->failed)
		return 0;
	out_u(&o, s->frequency);
	out_str(&o, s->event, strnlen(s->event, 64));
	out_b(&o, s->kernel);
	return checked(w, write_record(w, TRACE_SAMPLING, buf, (size_t)(o.p - buf)));
}

int trace_write_build(struct trace_writer *w, const char *file, const void *id, size_t len)
{
	uint8_t buf[128];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	if (w->failed)
		return 0;
	int64_t name = trace_ids_string(&w->ids, file);
	if (name < 0)
		return checked(w, (int)name);
	out_u(&o, (uint64_t)name);
	out_str(&o, id, len < 64 ? len : 64);
	return checked(w, write_record(w, TRACE_BUILD, buf, (size_t)(o.p - buf)));
}

struct sample_refs {
	int64_t thread, op, python, native; /* numbers in the file; -1: none */
};

static int find_sample_refs(struct trace_writer *w, const struct sample *s, struct sample_refs *r)
{
	r->thread = trace_ids_thread(&w->ids, s->pid, s->tid, NULL);
	r->op = s->op ? trace_ids_op(&w->ids, s->op) : -1;
	r->python = s->python ? trace_ids_stack(&w->ids, s->python) : -1;
	r->native = s->native ? trace_ids_stack(&w->ids, s->native) : -1;
	if (r->thread < 0 || (s->op && r->op < 0))
		return (int)(r->thread < 0 ? r->thread : r->op);
	if ((s->python && r->python < 0) || (s->native && r->native < 0))
		return (int)(s->python && r->python < 0 ? r->python : r->native);
	return 0;
}

static uint8_t sample_flags(const struct sample *s, const struct sample_refs *r)
{
	return (uint8_t)((s->phase == PHASE_BACKWARD ? SAMPLE_BACKWARD : 0) |
			 (s->in_kernel ? SAMPLE_IN_KERNEL : 0) |
			 (s->mismatched ? SAMPLE_MISMATCHED : 0) |
			 (r->op >= 0 ? SAMPLE_HAS_OP : 0) |
			 (r->python >= 0 ? SAMPLE_HAS_PYTHON : 0) |
			 (r->native >= 0 ? SAMPLE_HAS_NATIVE : 0));
}

static int write_sample(struct trace_writer *w, const struct sample *s)
{
	struct sample_refs refs;
	const struct py_frame *where = py_stack_where(s->python);
	int r = find_sample_refs(w, s, &refs);
	if (!r && where)
		r = trace_ids_frame_text(&w->ids, where);
	if (!r)
		r = make_room(w); /* after it the times in the block are settled */
	if (r)
		return r;
	struct out o = record_out(w);
	out_b(&o, sample_flags(s, &refs));
	out_u(&o, (uint64_t)refs.thread);
	out_s(&o, (int64_t)(s->time_ns - w->last_sample_ns));
	out_u(&o, s->weight);
	for (size_t i = 0; i < 3; i++) {
		int64_t ref = i == 0 ? refs.op : i == 1 ? refs.python : refs.native;
		if (ref >= 0)
			out_u(&o, (uint64_t)ref);
	}
	seal_record(w, TRACE_SAMPLE, o.p);
	w->last_sample_ns = s->time_ns;
	return w->raw_len >= TRACE_BLOCK_FULL ? flush(w) : 0;
}

int trace_write_sample(struct trace_writer *w, const struct sample *s)
{
	return w->failed ? 0 : checked(w, write_sample(w, s));
}

int trace_write_target(struct trace_writer *w, const struct trace_target *t)
{
	const char *strings[] = {t->comm,	    t->argv,   t->torch_version,
				 t->python_version, t->engine, t->torch_dir};
	enum { EACH_MAX = 8192 };
	if (w->failed)
		return 0;
	struct out o = {.p = w->scratch, .end = w->scratch + SCRATCH};
	out_s(&o, t->pid);
	out_s(&o, t->start_ns);
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		out_str(&o, strings[i] ? strings[i] : "",
			strings[i] ? strnlen(strings[i], EACH_MAX) : 0);
	return checked(w, write_record(w, TRACE_TARGET, w->scratch, (size_t)(o.p - w->scratch)));
}

int trace_write_thread(struct trace_writer *w, int32_t pid, int32_t tid, const char *name)
{
	if (w->failed)
		return 0;
	int64_t id = trace_ids_thread(&w->ids, pid, tid, name);
	return id < 0 ? checked(w, (int)id) : 0;
}

int trace_write_stats(struct trace_writer *w, const struct trace_stats *s)
{
	uint8_t buf[64];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	if (w->failed)
		return 0;
	out_u(&o, s->probe_ns);
	out_u(&o, s->seen_permille);
	out_u(&o, s->wall_ns);
	return checked(w, write_record(w, TRACE_STATS, buf, (size_t)(o.p - buf)));
}

void trace_writer_forget(struct trace_writer *w)
{
	trace_ids_forget(&w->ids);
}

int trace_writer_flush(struct trace_writer *w)
{
	return w->failed ? 0 : flush(w);
}

int trace_writer_tick(struct trace_writer *w, uint64_t now_ns)
{
	if (w->failed || !w->raw_len)
		return 0;
	if (!w->waiting_ns)
		w->waiting_ns = now_ns;
	return now_ns - w->waiting_ns >= FLUSH_NS ? flush(w) : 0;
}

uint64_t trace_writer_bytes(const struct trace_writer *w)
{
	return w->offset;
}

static void writer_free(struct trace_writer *w)
{
	trace_ids_free(&w->ids);
	ZSTD_freeCCtx(w->zstd);
	free(w->raw);
	free(w->scratch);
	free(w->packed);
	if (w->fd >= 0)
		close(w->fd);
	free(w);
}

static int write_end(struct trace_writer *w)
{
	uint8_t buf[32];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	out_u(&o, w->nevents);
	out_u(&o, w->nlost);
	return write_record(w, TRACE_END, buf, (size_t)(o.p - buf));
}

int trace_writer_close(struct trace_writer *w, bool clean)
{
	int r = 0;
	if (!w)
		return 0;
	if (!w->failed && clean)
		r = write_end(w);
	if (!w->failed && !r)
		r = flush(w);
	writer_free(w);
	return r;
}

static struct trace_writer *writer_alloc(void)
{
	struct trace_writer *w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->fd = -1;
	w->packed_max = sizeof(struct trace_block_header) + ZSTD_compressBound(TRACE_BLOCK_MAX) + 8;
	w->raw = malloc(TRACE_BLOCK_MAX);
	w->scratch = malloc(SCRATCH);
	w->packed = malloc(w->packed_max);
	w->zstd = ZSTD_createCCtx();
	w->ids.record = write_record;
	w->ids.arg = w;
	w->ids.scratch = w->scratch;
	w->ids.scratch_size = SCRATCH;
	if (w->raw && w->scratch && w->packed && w->zstd)
		return w;
	writer_free(w);
	return NULL;
}

static int write_file_header(struct trace_writer *w)
{
	struct trace_file_header h = {.magic = TRACE_MAGIC,
				      .version = TRACE_VERSION,
				      .size = sizeof(h),
				      .monotonic_ns = clock_ns(CLOCK_MONOTONIC),
				      .realtime_ns = clock_ns(CLOCK_REALTIME)};
	h.crc = trace_crc(0, &h, offsetof(struct trace_file_header, crc));
	int r = io_write_all(w->fd, &h, sizeof(h));
	if (!r)
		w->offset = sizeof(h);
	return r;
}

/* Open without truncating first: another ditrace may be writing there. */
static int open_locked(struct trace_writer *w, const char *path, struct err *e)
{
	w->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
	if (w->fd < 0) {
		int code = -errno;
		err_set(e, code, "cannot write %s: %s", path, strerror(-code));
		err_hint(e, "name a file in a directory where you may write: -o FILE");
		return code;
	}
	struct stat st;
	if (flock(w->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
		err_set(e, -EBUSY, "%s is being written or read by another ditrace", path);
		return err_hint(e, "wait for it, or name another file: -o FILE");
	}
	if (fstat(w->fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(w->fd, 0) < 0)
		return err_set(e, -errno, "cannot write %s: %s", path, strerror(errno));
	return 0;
}

int trace_writer_open(const char *path, struct trace_writer **out, struct err *e)
{
	struct trace_writer *w = writer_alloc();
	if (!w)
		return err_set(e, -ENOMEM, "no memory to write %s", path);
	int r = open_locked(w, path, e);
	if (!r) {
		r = write_file_header(w);
		if (r) {
			err_set(e, r, "cannot write %s: %s", path, strerror(-r));
			err_hint(e, "free some space, or name another file: -o FILE");
		}
	}
	if (r) {
		writer_free(w);
		return r;
	}
	*out = w;
	return 0;
}
