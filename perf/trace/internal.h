/* Shared by the files of this folder. */
#ifndef PERF_TRACE_INTERNAL_H
#define PERF_TRACE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zstd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "base/options.h"
#include "perf/trace/coding.h"
#include "perf/trace/trace_format.h"
#include "perf/trace/trace_read.h"
#include "symbolizer/event/event.h"
#include "symbolizer/ops/filter.h"

/* Encoding values into records: the writer's half. */

/* Numbers tensor metadata: returns the number of a META payload, -ENOENT if the payload is to be
 * written in place, or another -errno, which ends the encoding. */
struct meta_numbers {
	int64_t (*number)(void *arg, const void *payload, uint32_t len);
	void *arg;
	struct meta_known *known; /* META_KNOWN of them, at first all zeros; NULL: none */
};

enum { META_KNOWN = 1024 };

/* The number of the metadata of tensors that have this in tensor.same. */
struct meta_known {
	uint64_t same;
	int64_t number;
};

/* One value. 0 (check o->full), or what `metas` returned. */
int trace_encode_value(struct out *o, const struct value *v, const struct meta_numbers *metas);

/* The statistics of an event; nothing for NULL. Check o->full. */
void trace_encode_stats(struct out *o, const struct event_stats *s);

/* A value of kind "not decoded". */
void trace_encode_not_decoded(struct out *o, const char *reason);

/* A trace file being written: its header, and the blocks that records are packed into.
 * trace_write.c decides what the records contain. */

/* The base of the numbers in a block's next record; 0 at the start of a block. */
struct trace_last {
	uint64_t id, ns;	       /* of the last EVENT */
	uint64_t sample_ns;	       /* of the last SAMPLE */
	uint64_t activity_ns;	       /* start of the last ACTIVITY */
	uint64_t memory_ns, memory_at; /* time and address of the last MEMORY */
};

struct trace_blocks {
	int fd;
	bool failed;   /* write nothing more */
	bool kept_old; /* see trace_writer_kept_old */
	uint8_t *raw;  /* TRACE_BLOCK_MAX: the block being filled */
	size_t raw_len;
	uint8_t *packed; /* a block header and compressed records */
	size_t packed_max;
	ZSTD_CCtx *zstd;
	uint64_t offset; /* file size, whole blocks only */
	uint64_t nblocks;
	uint64_t waiting_ns; /* when the block was first seen with records; 0: not yet */
	struct trace_last last;
};

/* Like trace_writer_open; end with trace_blocks_close. */
int trace_blocks_open(struct trace_blocks *b, const char *path, struct err *e);

/* Make room for a record of TRACE_RECORD_MAX. Call it before encoding: it may begin a new block and
 * reset `last`. 0 or -errno. */
int trace_blocks_room(struct trace_blocks *b);

/* Where the payload of the next record goes. */
struct out trace_blocks_record(struct trace_blocks *b);

/* Add the record whose payload was put there and ends at `end` to the block. */
void trace_blocks_seal(struct trace_blocks *b, enum trace_type type, const uint8_t *end);

/* Write the block: now, or (tick) once it has waited for 250 ms. 0, or -errno and the file has
 * failed. */
int trace_blocks_flush(struct trace_blocks *b);
int trace_blocks_tick(struct trace_blocks *b, uint64_t now_ns);

/* Give up: cut the file back to whole blocks. Returns `code`. */
int trace_blocks_fail(struct trace_blocks *b, int code);

/* Close the file without writing, and free. */
void trace_blocks_close(struct trace_blocks *b);

/* A trace file, or all files of a folder of traces, as one trace: items of all of them by time,
 * with ids that are unique among them. */

struct trace_set;

struct trace_set_opts {
	bool by_start, follow; /* as in struct trace_query_opts */
	int (*tap)(void *arg,
		   const struct trace_item *item); /* with by_start; see trace_order_tap */
	void *tap_arg;
};

/* A folder's files that cannot be opened are treated as cut before their first record, unless that
 * is all of them. 0 or -errno with *e: those of trace_reader_open, -ENOENT for a folder without
 * traces. */
int trace_set_open(const char *path, const struct trace_set_opts *opts, struct trace_set **out,
		   struct err *e);

/* Like trace_read_next; with by_start like trace_order_next. item->raw is not to be used. Where one
 * file ends early the others go on, and the end is as of the first that did. STATS are those of all
 * files together. */
int trace_set_next(struct trace_set *s, struct trace_item *item, struct err *e);

void trace_set_no_values(struct trace_set *s);
void trace_set_values_of(struct trace_set *s, bool (*fn)(const struct op_desc *op));

/* The clocks but the first one, from 0; NULL: there are no more. */
const struct trace_clock *trace_set_clock(const struct trace_set *s, size_t i);

/* When the first of the files was begun, CLOCK_MONOTONIC and CLOCK_REALTIME ns. */
uint64_t trace_set_origin(const struct trace_set *s);
uint64_t trace_set_begun(const struct trace_set *s);

/* The share of all that was read so far, 0 to 1. */
double trace_set_share(const struct trace_set *s);

void trace_set_close(struct trace_set *s); /* NULL allowed */

/* One of its files. */
struct trace_source {
	uint64_t number, nfiles; /* its number among how many */
	char host[sizeof(((struct process_rank *)NULL)->host)];
	const struct trace_clock *clock; /* NULL: all files have one */
	struct trace_process *processes; /* that it told of so far; free() it */
	size_t nprocesses, room;
};

/* The file's time *ns, 0 if it is not known, as of the first clock. */
void trace_source_time(const struct trace_source *s, uint64_t *ns);

/* Fill in what is not known from the record alone. 0 or -ENOMEM. */
int trace_source_finish(struct trace_source *s, struct trace_item *item);

/* The clocks of its files. */

struct clock_source {
	const char *path, *host; /* host "": not known */
	const uint8_t *id;	 /* trace_reader_clock */
	int32_t rank;		 /* -1: none */
	uint64_t origin_ns, begun_ns;
	unsigned clock; /* set: the number of its clock */
};

/* All files with one clock: *n is 1, and *out stays as it is. Else *out are the clocks, to be freed
 * with free(). 0 or -ENOMEM. */
int trace_clocks_find(struct clock_source *files, size_t nfiles, struct trace_clock **out,
		      size_t *n);

/* Ops, stacks and frames get the ids `first`, first + step, ... instead of 0, 1, ... Call it before
 * anything is read. */
void trace_reader_number_ids(struct trace_reader *r, uint32_t first, uint32_t step);

/* Numbers for what a trace file defines once: ops, stacks, frames, strings, threads, tensor
 * metadata. */

/* Zero-initialise, then set the four fields below. */
struct trace_ids {
	/* Writes a definition record; 0 or -errno. Called once for each definition, before its
	 * number is returned. */
	int (*record)(void *arg, enum trace_type type, const void *payload, size_t len);
	void *arg;
	uint8_t *scratch; /* buffer for definitions; the caller's */
	size_t scratch_size;

	struct intern strings, ops, metas, frames, stacks, threads, groups;
	struct map op_ids, frame_ids, stack_ids; /* cache of numbers by address */
	struct meta_known known[META_KNOWN];
	int32_t last_pid, last_tid; /* whose number was asked for last, and that */
	int64_t last_thread;
	bool *frame_has_text;
	uint32_t frame_has_text_size;
};

/* The number of the object, or -errno (-EMSGSIZE: too large for a record; -ENOMEM; what `record`
 * returned). Objects of equal content share a number, whoever owns them. */
int64_t trace_ids_op(struct trace_ids *t, const struct op_desc *op);
int64_t trace_ids_stack(struct trace_ids *t, const struct py_stack *s);
int64_t trace_ids_string(struct trace_ids *t, const char *s);
int64_t trace_ids_group(struct trace_ids *t, const struct group_desc *g);

/* Write a TEXT record if the frame got its text after it was numbered as part of a stack. 0 or
 * -errno. */
int trace_ids_frame_text(struct trace_ids *t, const struct py_frame *f);

/* The number of a thread. Its THREAD record is written if it is new, or `name` is not NULL. */
int64_t trace_ids_thread(struct trace_ids *t, int32_t pid, int32_t tid, const char *name);

/* The same for a META payload, as the callback of struct meta_numbers; `ids` is a struct trace_ids.
 * Once too much memory is in use, new metas get -ENOENT. */
int64_t trace_ids_meta(void *ids, const void *payload, uint32_t len);

/* Forget all addresses, since other objects may take them. */
void trace_ids_forget(struct trace_ids *t);

void trace_ids_free(struct trace_ids *t);

/* One trace file being written: the functions of trace_write.h for a single file. */

struct trace_file {
	struct trace_blocks blocks;
	uint8_t *scratch; /* TRACE_RECORD_MAX bytes: the values of one event, or one definition */
	uint64_t nevents, nlost;
	struct trace_ids ids;
};

int trace_file_open(const char *path, struct trace_file **out, struct err *e);
int trace_file_event(struct trace_file *f, const struct op_event *ev);
int trace_file_sum(struct trace_file *f, const struct op_sum *s);
int trace_file_done(struct trace_file *f, const struct work_done *d);
int trace_file_usage(struct trace_file *f, const struct trace_usage *u);
int trace_file_activity(struct trace_file *f, const struct activity *a);
int trace_file_memory(struct trace_file *f, const struct memory_event *m);
int trace_file_memory_lost(struct trace_file *f, uint64_t time_ns, uint64_t count);
int trace_file_activities_lost(struct trace_file *f, uint64_t time_ns, uint64_t count);
int trace_file_lost(struct trace_file *f, uint64_t time_ns, uint64_t count);
int trace_file_sampling(struct trace_file *f, const struct sampling *s);
int trace_file_sample(struct trace_file *f, const struct sample *s);
int trace_file_samples_lost(struct trace_file *f, uint64_t time_ns, uint64_t count);
int trace_file_build(struct trace_file *f, const char *file, const void *id, size_t len);
int trace_file_target(struct trace_file *f, const struct trace_target *t);
int trace_file_process(struct trace_file *f, const struct trace_process *p);
int trace_file_thread(struct trace_file *f, int32_t pid, int32_t tid, const char *name);
int trace_file_chosen(struct trace_file *f, const char *options);
int trace_file_stats(struct trace_file *f, const struct trace_stats *s);
void trace_file_forget(struct trace_file *f);
int trace_file_tick(struct trace_file *f, uint64_t now_ns);
bool trace_file_kept_old(const struct trace_file *f);
int trace_file_flush(struct trace_file *f);
uint64_t trace_file_bytes(const struct trace_file *f);
uint64_t trace_file_events(const struct trace_file *f);
int trace_file_close(struct trace_file *f, bool clean);

/* A record of that type; `file`: a struct trace_file, of which it is trace_ids.record. 0 or -errno.
 */
int trace_file_record(void *file, enum trace_type type, const void *payload, size_t len);

/* What was lost; `summed`: calls that are in a SUM instead. */
int trace_file_write_lost(struct trace_file *f, enum trace_type type, uint64_t time_ns,
			  uint64_t count, uint64_t summed);

/* Returns r. Failures other than of the file (no memory, an op too large to describe) end the
 * trace, too: later numbers would be wrong. */
int trace_file_checked(struct trace_file *f, int r);

/* A trace being written: a file, or a folder. */

enum { TRACE_NOT_OPEN = -1, TRACE_FAILED = -2 };

/* A process of a folder. Its file is opened for its first event or sample: a launcher has none. */
struct trace_written {
	struct trace_process process;
	struct trace_target target; /* strings are copies; comm NULL: none yet */
	int file;		    /* index, TRACE_NOT_OPEN or TRACE_FAILED */
};

struct trace_written_build {
	char *file;
	uint8_t id[64];
	size_t len;
};

struct trace_writer {
	char *path;
	bool is_folder, one_file, kept_old;
	struct trace_file **files; /* files[0] alone, if it is no folder */
	size_t n, room;
	struct trace_written *processes;
	size_t nprocesses, processes_room;
	struct map by_pid;
	/* For files that are opened later. */
	char *chosen; /* NULL: none */
	struct sampling sampling;
	bool is_sampling;
	struct trace_written_build *builds;
	size_t nbuilds, builds_room;
	uint64_t lost, samples_lost, lost_ns;
};

static inline void keep_first_error(int *r, int code)
{
	if (!*r)
		*r = code;
}

/* The process `pid`, added if it is new; NULL if out of memory. */
struct trace_written *trace_writer_process(struct trace_writer *w, int32_t pid);

/* The file for what process `pid` did; NULL with *r, which is 0 if its failure has been told. */
struct trace_file *trace_writer_file_of(struct trace_writer *w, int32_t pid, int *r);

/* Open the file of a process, which has none. 0 or -errno. */
int trace_writer_open_file(struct trace_writer *w, struct trace_written *p);

/* The file becomes a folder in its place. 0 or -errno, and it stays a file. */
int trace_writer_become_folder(struct trace_writer *w);

/* *to has copies of the strings, and is freed first. 0 or -ENOMEM. */
int trace_target_copy(struct trace_target *to, const struct trace_target *t);
void trace_target_free(struct trace_target *t);

void trace_writer_free(struct trace_writer *w);

/* Decoding events and samples. Every length, count and number is checked. */

struct trace_defs;

/* The statistics after the values of an event (perf/trace/trace_encode.c). NULL if there are none;
 * also NULL, with in->bad set, if they are malformed or if out of memory. */
const struct event_stats *trace_decode_stats(struct in *in, struct arena *a);

/* Decode `n` values, at most as many as there are bytes left; *out is allocated from `a`. 0,
 * -EBADMSG or -ENOMEM. */
int trace_decode_values(const struct trace_defs *d, struct in *in, struct arena *a, size_t n,
			struct value **out);

/* Skip `n` values; sets in->bad if they are incomplete or malformed. */
void trace_pass_values(const struct trace_defs *d, struct in *in, size_t n);

/* 0, -EBADMSG or -ENOMEM. Values are allocated from `values`. With NULL they are skipped and *out
 * has none; an event that has statistics, which need the arena, then gives -EAGAIN. */
int trace_decode_event_payload(const struct trace_defs *d, const struct trace_raw_event *raw,
			       struct arena *values, struct op_event *out);

/* A SUM. 1 or -EBADMSG. */
int trace_decode_sum(const struct trace_defs *d, struct in *in, struct op_sum *out);

/* A MEMORY; *last: the previous one in its block. 1 or -EBADMSG. */
int trace_decode_memory(const struct trace_defs *d, struct in *in, const struct memory_event *last,
			struct memory_event *out);

/* An ACTIVITY; last_ns: the start of the previous one in its block. 1 or -EBADMSG. */
int trace_decode_activity(const struct trace_defs *d, struct in *in, uint64_t last_ns,
			  struct activity *out);

/* A SAMPLE; last_ns: the time of the previous one in its block. 1 or -EBADMSG. */
int trace_decode_sample(const struct trace_defs *d, struct in *in, uint64_t last_ns,
			struct sample *out);

/* Decoding what a trace file defines once. Every length, count and number is checked. */

struct trace_thread_def {
	int32_t pid, tid;
};

/* What the file has defined so far. Zero-initialise. */
struct trace_defs {
	struct arena arena;
	size_t
	    bytes; /* taken from the arena; limited, so that a small file cannot exhaust memory */
	char **strings;
	struct op_desc **ops;
	struct tensor_meta **metas;
	struct py_frame **frames;
	struct py_stack **stacks;
	struct trace_thread_def **threads;
	struct group_desc **groups;
	uint32_t nstrings, nops, nmetas, nframes, nstacks, nthreads, ngroups;
	uint32_t first_id, id_step; /* trace_reader_number_ids; step 0: 1 */
};

/* Add a definition (STRING, OP, META, FRAME, TEXT, STACK, GROUP). 0 (also for unknown types),
 * -EBADMSG or -ENOMEM. */
int trace_decode_definition(struct trace_defs *d, uint16_t type, struct in *in);

/* 1, -EBADMSG or -ENOMEM. The strings live as long as `d`. */
int trace_decode_target(struct trace_defs *d, struct in *in, struct trace_target *out);
int trace_decode_thread(struct trace_defs *d, struct in *in, int32_t *pid, int32_t *tid,
			const char **name);
int trace_decode_sampling(struct trace_defs *d, struct in *in, struct sampling *out);
int trace_decode_chosen(struct trace_defs *d, struct in *in, const char **out);
int trace_decode_process(struct in *in, struct trace_process *out);
int trace_decode_build(struct trace_defs *d, struct in *in, struct trace_build *out);

/* A META payload: first everything except shape and stride; then these, into `dims` (2 * ndim),
 * which *m points to afterwards. Check in->bad after each call. */
void trace_meta_head(struct in *in, struct tensor_meta *m);
void trace_meta_dims(struct in *in, struct tensor_meta *m, int64_t *dims);

void trace_defs_free(struct trace_defs *d);

/* A trace file being read. */

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

/* Open and check the header. 0 or -errno: see trace_reader_open. */
int trace_reader_open_file(struct trace_reader *r, const char *path, struct err *e);

/* 1: a block was read; 0: the file is complete; otherwise like trace_read_next. */
int trace_reader_block(struct trace_reader *r, struct err *e);

/* The file is damaged, and stays so. Returns -EBADMSG. */
int trace_reader_damaged(struct trace_reader *r, struct err *e, const char *why);

/* For the end of a query. The clocks are as of trace_set_clock. */
const char *trace_query_path(const struct trace_query *q);
const struct trace_clock *trace_query_clock(const struct trace_query *q, size_t i);

/* A part of a trace: --time and --step of a query. */

struct trace_steps;

/* Zero-initialise. */
struct trace_span {
	const char *step, *step_op; /* as in struct trace_choice */
	bool whole;		    /* as whole_steps there */
	uint64_t from_ns, to_ns;    /* CLOCK_MONOTONIC */
	struct ranges ranges;
	struct filter op;
	struct intern pids;
	struct trace_steps *processes; /* by the number in `pids` */
	size_t room;
};

/* Parse the texts of `c`, which must outlive *s; `origin`: see trace_reader_origin. 0, -EINVAL or
 * -ENOMEM. */
int trace_span_parse(struct trace_span *s, const struct trace_choice *c, uint64_t origin,
		     struct err *e);

/* Count steps: call it for each event, in the order of their starts. 0 or -ENOMEM. */
int trace_span_see(struct trace_span *s, const struct op_event *ev);

/* Check that one of the requested steps was seen. 0 or -ENOENT; `path` names the trace. */
int trace_span_check(const struct trace_span *s, const char *path, struct err *e);

/* See trace_query_steps. */
uint64_t trace_span_steps(const struct trace_span *s);

/* Whether the event started within the part, according to the steps seen. */
bool trace_span_has(const struct trace_span *s, const struct op_event *ev);

void trace_span_close(struct trace_span *s);

#endif
