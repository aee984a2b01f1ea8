/* What the files of this folder share. */
#ifndef PERF_TRACE_INTERNAL_H
#define PERF_TRACE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <zstd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/intern.h"
#include "base/ranges.h"
#include "perf/trace/trace_format.h"
#include "perf/trace/trace_query.h"
#include "perf/trace/trace_read.h"
#include "symbolizer/event/event.h"
#include "symbolizer/ops/filter.h"

/* A record's payload being read: the forms of trace_format.h. Short, and called many times for each
 * event. */

/* Once `bad` (the payload ended, or a number made no sense) what is read means nothing. */
struct in {
	const uint8_t *p, *end;
	bool bad;
};

/* in_u for any length; for in_u alone. */
uint64_t in_long(struct in *in);

static inline uint8_t in_b(struct in *in)
{
	if (in->p < in->end)
		return *in->p++;
	in->bad = true;
	return 0;
}

static inline uint64_t in_u(struct in *in)
{
	const uint8_t *p = in->p;
	if (in->end - p >= 2 && p[0] < 0x80) {
		in->p = p + 1;
		return p[0];
	}
	if (in->end - p >= 2 && p[1] < 0x80) {
		in->p = p + 2;
		return (p[0] & 0x7fu) | (unsigned)p[1] << 7;
	}
	return in_long(in);
}

static inline int64_t in_s(struct in *in)
{
	uint64_t n = in_u(in);
	return (int64_t)((n >> 1) ^ (0 - (n & 1)));
}

int32_t in_s32(struct in *in);

/* A number below `limit`, at most 2^32. */
static inline uint32_t in_below(struct in *in, uint64_t limit)
{
	uint64_t n = in_u(in);
	if (n < limit)
		return (uint32_t)n;
	in->bad = true;
	return 0;
}

static inline double in_f(struct in *in)
{
	double f = 0;
	if (in->end - in->p < (ptrdiff_t)sizeof(f)) {
		in->bad = true;
		return 0;
	}
	memcpy(&f, in->p, sizeof(f));
	in->p += sizeof(f);
	return f;
}

/* The bytes of a str; *len of them, without a NUL. */
const char *in_str(struct in *in, uint32_t *len);

/* As many u or s as `n`, unread. */
void in_pass(struct in *in, unsigned n);

/* So many bytes, unread. */
static inline void in_pass_bytes(struct in *in, size_t n)
{
	if (n > (size_t)(in->end - in->p))
		in->bad = true;
	else
		in->p += n;
}

/* From values to the bytes of a record; the writer's other half. */

/* Bytes being put together; once `full` nothing more is added. */
struct out {
	uint8_t *p, *end;
	bool full;
};

/* The forms of trace_format.h: b, u, s, f, str, and plain bytes. */
void out_b(struct out *o, uint8_t b);
void out_u(struct out *o, uint64_t n);
void out_s(struct out *o, int64_t n);
void out_f(struct out *o, double f);
void out_str(struct out *o, const char *s, size_t len);
void out_bytes(struct out *o, const void *bytes, size_t len);

/* Where tensor metadata get their numbers: for a META payload its number, -ENOENT when it is to be
 * written in place, or another -errno, which ends the encoding. */
struct meta_numbers {
	int64_t (*number)(void *arg, const void *payload, uint32_t len);
	void *arg;
};

/* One value. 0 (look at o->full) or what `metas` gave. */
int trace_encode_value(struct out *o, const struct value *v, const struct meta_numbers *metas);

/* The statistics of an event; nothing for NULL. Look at o->full. */
void trace_encode_stats(struct out *o, const struct event_stats *s);

/* A value of kind not decoded. */
void trace_encode_not_decoded(struct out *o, const char *reason);

/* A trace file being written: its header, and the blocks that records are packed into. What the
 * records say is perf/trace/trace_write's. */

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

/* Numbers for the things that a trace file defines once: ops, stacks, frames, strings, threads,
 * tensor metadata. */

/* Zero-initialise, then set the four fields below. */
struct trace_ids {
	/* Writes a definition record; 0 or -errno. Called once for each thing, before its number is
	 * given out. */
	int (*record)(void *arg, enum trace_type type, const void *payload, size_t len);
	void *arg;
	uint8_t *scratch; /* where definitions are put together; the caller's */
	size_t scratch_size;

	struct intern strings, ops, metas, frames, stacks, threads;
	struct ptrmap op_ids, frame_ids, stack_ids; /* numbers found before, by address */
	bool *frame_has_text;
	uint32_t frame_has_text_size;
};

/* The number of the thing, or -errno (-EMSGSIZE: too large for a record; -ENOMEM; what `record`
 * gave). Things of equal content have one number, whoever owns them. */
int64_t trace_ids_op(struct trace_ids *t, const struct op_desc *op);
int64_t trace_ids_stack(struct trace_ids *t, const struct py_stack *s);
int64_t trace_ids_string(struct trace_ids *t, const char *s);

/* Writes a TEXT record when the frame, part of a stack that has a number, got its text after that.
 * 0 or -errno. */
int trace_ids_frame_text(struct trace_ids *t, const struct py_frame *f);

/* The number of a thread; `name` (may be NULL) is written when it is given, or the thread is new.
 */
int64_t trace_ids_thread(struct trace_ids *t, int32_t pid, int32_t tid, const char *name);

/* The same for a META payload, for struct meta_numbers (trace_encode.h); `ids` is a struct
 * trace_ids. When too much memory is in use, metas not known yet get -ENOENT. */
int64_t trace_ids_meta(void *ids, const void *payload, uint32_t len);

/* Forget addresses, because what stands there may change. */
void trace_ids_forget(struct trace_ids *t);

void trace_ids_free(struct trace_ids *t);

/* The values of an event in a trace file. */

struct trace_defs;

/* `n` values, at most as many as there are bytes: *out, allocated from `a`. 0, -EBADMSG or -ENOMEM.
 */
int trace_decode_values(const struct trace_defs *d, struct in *in, struct arena *a, size_t n,
			struct value **out);

/* Go behind `n` values; in->bad when they are not whole. */
void trace_pass_values(const struct trace_defs *d, struct in *in, size_t n);

/* Events and samples: from the bytes of a record to what they mean. Every length, count and number
 * is checked. */

struct trace_defs;

/* The statistics behind the values of an event (perf/trace/trace_encode.c). NULL without any, and
 * when they make no sense, or without memory: then in->bad is set. */
const struct event_stats *trace_decode_stats(struct in *in, struct arena *a);

/* 0, -EBADMSG or -ENOMEM. Values are allocated from `values`; NULL: they are passed over, and
 * *out has none; -EAGAIN then when it has statistics, for which there has to be such an arena. */
int trace_decode_event_payload(const struct trace_defs *d, const struct trace_raw_event *raw,
			       struct arena *values, struct op_event *out);

/* A SAMPLE; last_ns: the time of the one before in its block. 1 or -EBADMSG. */
int trace_decode_sample(const struct trace_defs *d, struct in *in, uint64_t last_ns,
			struct sample *out);

/* What a trace file defines once: from the bytes of its records to things with numbers. Every
 * length, count and number is checked. */

struct trace_thread_def {
	int32_t pid, tid;
};

/* What the file has defined so far. Zero-initialise. */
struct trace_defs {
	struct arena arena;
	size_t
	    bytes; /* taken from the arena; limited, so that a small file cannot fill the memory */
	char **strings;
	struct op_desc **ops;
	struct tensor_meta **metas;
	struct py_frame **frames;
	struct py_stack **stacks;
	struct trace_thread_def **threads;
	uint32_t nstrings, nops, nmetas, nframes, nstacks, nthreads;
};

/* Take in a definition (STRING, OP, META, FRAME, TEXT, STACK). 0 (also for types not known),
 * -EBADMSG or -ENOMEM. */
int trace_decode_definition(struct trace_defs *d, uint16_t type, struct in *in);

/* 1, -EBADMSG or -ENOMEM. The strings live as long as `d`. */
int trace_decode_target(struct trace_defs *d, struct in *in, struct trace_target *out);
int trace_decode_thread(struct trace_defs *d, struct in *in, int32_t *pid, int32_t *tid,
			const char **name);
int trace_decode_sampling(struct trace_defs *d, struct in *in, struct sampling *out);
int trace_decode_build(struct trace_defs *d, struct in *in, struct trace_build *out);

/* A META payload: all but shape and stride, then these, to `dims` (2 * ndim of them), which *m
 * points to from then on. Look at in->bad after each. */
void trace_meta_head(struct in *in, struct tensor_meta *m);
void trace_meta_dims(struct in *in, struct tensor_meta *m, int64_t *dims);

void trace_defs_free(struct trace_defs *d);

/* A part of a trace: --time and --step of a query. */

struct trace_steps;

/* Zero-initialise. */
struct trace_span {
	const char *step, *step_op; /* as in struct trace_choice */
	uint64_t from_ns, to_ns;    /* CLOCK_MONOTONIC */
	struct ranges ranges;
	struct filter op;
	struct intern pids;
	struct trace_steps *processes; /* by the number in `pids` */
	size_t room;
};

/* Read the texts of `c`, which must outlive *s; `origin`: see trace_reader_origin. 0, -EINVAL or
 * -ENOMEM. */
int trace_span_parse(struct trace_span *s, const struct trace_choice *c, uint64_t origin,
		     struct err *e);

/* Count steps: each event, in the order in which they start. 0 or -ENOMEM. */
int trace_span_see(struct trace_span *s, const struct op_event *ev);

/* Whether one of the steps that were asked for was seen. 0 or -ENOENT; `path` names the trace. */
int trace_span_check(const struct trace_span *s, const char *path, struct err *e);

/* Whether the event started in the part, by the steps that were seen. */
bool trace_span_has(const struct trace_span *s, const struct op_event *ev);

void trace_span_close(struct trace_span *s);

#endif
