#include "perf/trace/trace_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "perf/trace/internal.h"

/* A cursor over the payload of the block's next record. 1, 0 at the end of the block, -EBADMSG. */
static int next_record(struct trace_reader *r, struct in *in, uint16_t *type, struct err *e)
{
	struct trace_record_header h;
	size_t left = r->raw_len - r->pos;
	if (left == 0)
		return 0;
	if (left < sizeof(h))
		return trace_reader_damaged(r, e, "a record is cut");
	memcpy(&h, r->raw + r->pos, sizeof(h));
	if (h.size < sizeof(h) || h.size % 8 || h.size > left || h.size > TRACE_RECORD_MAX ||
	    h.zero)
		return trace_reader_damaged(r, e, "a record of impossible size");
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
	return code ? trace_reader_damaged(r, e, "an event does not make sense") : 0;
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

static int read_lost(enum trace_type type, struct in *in, struct trace_item *item)
{
	item->lost.time_ns = in_u(in);
	item->lost.count = in_u(in);
	uint64_t summed = type == TRACE_LOST ? in_later_u(in) : 0;
	if (summed > item->lost.count)
		return -EBADMSG;
	item->lost.count -= summed;
	return item->lost.count > 0;
}

static int read_stats(struct in *in, struct trace_stats *s)
{
	*s = (struct trace_stats){.probe_ns = in_u(in)};
	s->seen_permille = (uint32_t)in_u(in);
	s->wall_ns = in_u(in);
	s->cpu_ns = in_later_u(in);
	s->lean = in_later_u(in);
	s->turns = in_later_u(in);
	s->slowdown = in_later_s(in);
	s->slowdown_error = in_later_u(in);
	s->turns_ops = in_later_u(in);
	s->probe_is_least = in_later_u(in);
	s->no_blocks = in_later_u(in);
	return 1;
}

static int read_done(struct in *in, struct work_done *d)
{
	d->pid = in_s32(in);
	d->address = in_u(in);
	d->ns = in_u(in);
	return 1;
}

static int read_usage(struct in *in, struct trace_usage *u)
{
	u->pid = in_s32(in);
	u->ns = in_u(in);
	u->run_ns = in_u(in);
	u->wait_ns = in_u(in);
	u->minor_faults = in_u(in);
	u->major_faults = in_u(in);
	const uint64_t throttled1 = in_later_u(in);
	u->is_throttled_known = throttled1;
	u->throttled_ns = throttled1 ? throttled1 - 1 : 0;
	u->throttled_is_least = in_later_u(in);
	return 1;
}

static int read_activity(struct trace_reader *r, struct in *in, struct activity *a)
{
	int code = trace_decode_activity(&r->defs, in, r->last_activity_ns, a);
	r->last_activity_ns = a->of.start_ns;
	return code;
}

static int read_memory(struct trace_reader *r, struct in *in, struct memory_event *m)
{
	int code = trace_decode_memory(&r->defs, in, &r->last_memory, m);
	r->last_memory = *m;
	return code;
}

static int read_sample(struct trace_reader *r, struct in *in, struct sample *s)
{
	int code = trace_decode_sample(&r->defs, in, r->last_sample_ns, s);
	r->last_sample_ns = s->time_ns;
	return code;
}

static int read_build(struct trace_reader *r, struct in *in, struct trace_build *b)
{
	int code = trace_decode_build(&r->defs, in, b);
	return code > 0 && late_symbols_build(r->late, b) ? -ENOMEM : code;
}

static int read_end(struct trace_reader *r, struct in *in, struct err *e)
{
	r->ended = true;
	return in_u(in) == r->progress.events
		   ? 1
		   : trace_reader_damaged(r, e,
					  "the number of events is not that of the end record");
}

static int read_definition(struct trace_reader *r, uint16_t type, struct in *in)
{
	int code = trace_decode_definition(&r->defs, type, in);
	return code || type != TRACE_FRAME
		   ? code
		   : late_symbols_name(r->late, r->defs.frames[r->defs.nframes - 1]);
}

/* Any record but an EVENT. 1, 0, -EBADMSG or -ENOMEM; in->bad is to be looked at, too. */
static int read_payload(struct trace_reader *r, uint16_t type, struct in *in,
			struct trace_item *item, struct err *e)
{
	switch (type) {
	case TRACE_LOST:
	case TRACE_SAMPLES_LOST:
	case TRACE_ACTIVITIES_LOST:
	case TRACE_MEMORY_LOST:
		return read_lost(type, in, item);
	case TRACE_STATS:
		return read_stats(in, &item->stats);
	case TRACE_TARGET:
		return trace_decode_target(&r->defs, in, &item->target);
	case TRACE_THREAD:
		return trace_decode_thread(&r->defs, in, &item->thread.pid, &item->thread.tid,
					   &item->thread.name);
	case TRACE_SUM:
		return trace_decode_sum(&r->defs, in, &item->sum);
	case TRACE_DONE:
		return read_done(in, &item->done);
	case TRACE_USAGE:
		return read_usage(in, &item->usage);
	case TRACE_ACTIVITY:
		return read_activity(r, in, &item->activity);
	case TRACE_MEMORY:
		return read_memory(r, in, &item->memory);
	case TRACE_SAMPLE:
		return read_sample(r, in, &item->sample);
	case TRACE_SAMPLING:
		return trace_decode_sampling(&r->defs, in, &item->sampling);
	case TRACE_PROCESS:
		return trace_decode_process(in, &item->process);
	case TRACE_CHOSEN:
		return trace_decode_chosen(&r->defs, in, &item->chosen);
	case TRACE_BUILD:
		return read_build(r, in, &item->build);
	case TRACE_END:
		return read_end(r, in, e);
	default:
		return read_definition(r, type, in);
	}
}

/* 1: *item is filled; 0: the record was a definition or of unknown type. */
static int read_record(struct trace_reader *r, uint16_t type, struct in *in,
		       struct trace_item *item, struct err *e)
{
	item->type = (enum trace_type)type;
	if (r->ended)
		return trace_reader_damaged(r, e, "there is more after the end record");
	if (type == TRACE_EVENT)
		return read_event(r, in, item, e);
	int code = read_payload(r, type, in, item, e);
	if (code == -ENOMEM)
		return err_set(e, code, "no memory to read %s", r->path);
	if (r->damage.code) /* and it was said in what way */
		return r->damage.code;
	return code < 0 || in->bad ? trace_reader_damaged(r, e, "a record does not make sense")
				   : code;
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
			n = trace_reader_block(r, e);
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

int trace_reader_open(const char *path, struct trace_reader **out, struct err *e)
{
	struct trace_reader *r = reader_alloc(path);
	if (!r)
		return err_set(e, -ENOMEM, "no memory to read %s", path);
	int code = trace_reader_open_file(r, path, e);
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
