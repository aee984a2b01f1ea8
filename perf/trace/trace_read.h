/* Reading ditrace.data, an item at a time, and as commands read it. Any bytes are safe to read; any
 * prefix yields its whole blocks. */
#ifndef PERF_TRACE_TRACE_READ_H
#define PERF_TRACE_TRACE_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "perf/trace/trace_format.h"
#include "symbolizer/event/event.h"
#include "symbolizer/when/when.h"

/* The items of one file. */

struct trace_reader;

/* An undecoded event of the file, for trace_decode_event. */
struct trace_raw_event {
	uint64_t id;
	uint64_t last_id, last_ns; /* of the previous event */
	const uint8_t *payload;	   /* the reader's, valid until the next trace_read_next */
	uint32_t size;
};

/* The build id of a file that contains native frames of samples. */
struct trace_build {
	const char *file;
	const uint8_t *id; /* `len` bytes */
	uint32_t len;
};

/* A clock of a folder with files of several hosts: all times are told as of the first clock, that
 * of the first rank's host. */
struct trace_clock {
	char host[sizeof(((struct process_rank *)NULL)->host)];	 /* "": not known */
	char first[sizeof(((struct process_rank *)NULL)->host)]; /* of the first clock */
	/* Its time t is shift_ns + t + drift * (t - at_ns) of the first one. */
	int64_t shift_ns;
	double drift;
	uint64_t at_ns;
	/* Whether collectives of both say so; else they differ as the hosts' clocks of the day did.
	 * How much more than these, how near the ends of half of the collectives are to each other
	 * then, how far off it may be, as no end may be before a start, and of how many of the
	 * collectives that nevertheless is so. */
	bool is_found;
	int64_t more_ns;
	uint64_t spread_ns, known_ns, collectives, against;
	char why[512]; /* not found */
};

/* A line about it, without newline; it has names of hosts. Returns out. */
enum { TRACE_CLOCK_TEXT_MAX = 768 };
const char *trace_clock_text(char *out, size_t size, const struct trace_clock *c);

/* "clocks": an array of objects. */
struct json_out;
void trace_clocks_json(struct json_out *j, const struct trace_clock *const *all, size_t n);

/* A file of such a folder, and the number of its clock. */
struct trace_clock_file {
	const char *path;
	unsigned clock;
};

/* Find how the clocks 1 ... `n` - 1 differ from clock 0; shift_ns is that of the clocks of the day.
 * 0 or -ENOMEM. */
typedef int trace_clocks_fn(const struct trace_clock_file *files, size_t nfiles,
			    struct trace_clock *clocks, size_t n);

/* From now on, `fn` does that when a folder is opened. Without, no clock is found. */
void trace_clocks_by(trace_clocks_fn *fn);

/* What trace_read_next returned. The reader keeps definitions to itself. */
struct trace_item {
	/* EVENT, SUM, LOST, STATS, TARGET, PROCESS, THREAD, CHOSEN, SAMPLING, BUILD, SAMPLE,
	 * SAMPLES_LOST, ACTIVITY, ACTIVITIES_LOST, DONE, USAGE or END; of a folder first CLOCK */
	enum trace_type type;
	uint32_t rank1; /* of trace_query, of a TARGET, DONE or USAGE: its process's rank + 1; 0:
			   not known */
	union {
		struct {
			struct op_event event; /* values are valid until the next call, ops and
						  stacks until close */
			struct trace_raw_event raw;
		};
		struct op_sum sum; /* ops and stacks are valid until close */
		struct {
			uint64_t time_ns, count;
		} lost; /* also of SAMPLES_LOST and ACTIVITIES_LOST */
		struct work_done done;
		struct trace_usage usage;
		struct activity activity;   /* what it points to is valid until close */
		struct memory_event memory; /* the same */
		struct sample sample;	    /* what it points to is valid until close */
		struct sampling sampling;
		struct trace_build build;
		struct trace_stats stats;
		struct trace_target target; /* strings valid until close */
		struct trace_process process;
		const struct trace_clock *clock; /* valid until close */
		const char *chosen;		 /* the options; valid until close */
		struct {
			int32_t pid, tid;
			const char *name; /* valid until close */
		} thread;
	};
};

/* 0 and *out, or -errno with *e: no such file, empty, not a trace file, cut off within the header,
 * or of a newer version. */
int trace_reader_open(const char *path, struct trace_reader **out, struct err *e);

/* The next item in the order of the file (events in the order in which they ended).
 *
 *   1         *item is filled
 *   0         END was read: the file is complete
 *   -EAGAIN   everything so far was read, and ditrace is still writing: call again later
 *   -ENODATA  the file ends without END or within a block; *e says how much was read and where
 *             it stopped
 *   -EBADMSG  damaged: a checksum is wrong or a record malformed; *e as above; every further call
 *             returns the same
 *   -errno    read(2) failed, or no memory
 */
int trace_read_next(struct trace_reader *r, struct trace_item *item, struct err *e);

/* Decode `raw` (its payload may be a copy). *out is valid until the next call of this function or
 * of trace_read_next. 0 or -errno with *e. */
int trace_decode_event(struct trace_reader *r, const struct trace_raw_event *raw,
		       struct op_event *out, struct err *e);

/* From now on, return events without values (nargs and nresults 0) unless they have statistics.
 * This is faster: the values are skipped, though still checked to be complete. */
void trace_reader_no_values(struct trace_reader *r);

/* The same, but events of ops for which `fn` is true have their values. */
void trace_reader_values_of(struct trace_reader *r, bool (*fn)(const struct op_desc *op));

/* As it was given; valid until close. */
const char *trace_reader_path(const struct trace_reader *r);

/* 16 bytes that say which CLOCK_MONOTONIC the times are of; zeros: not known. */
const uint8_t *trace_reader_clock(const struct trace_reader *r);

/* When the recording of the file began, CLOCK_MONOTONIC ns. */
uint64_t trace_reader_origin(const struct trace_reader *r);

/* The share of the file that was read, 0 to 1. */
double trace_reader_share(const struct trace_reader *r);

/* The same moment, CLOCK_REALTIME ns. */
uint64_t trace_reader_begun(const struct trace_reader *r);

void trace_reader_close(struct trace_reader *r);

/* The events of a trace in the order of their starts. */

/* The file has events in the order of their ends, children before parents. This holds them back and
 * returns them by id. It holds up to 65,536 events (64 MiB); when that is reached, it returns the
 * one with the smallest id. So only an op that encloses more than that comes late, after its
 * children. Ids missing from the file (lost or filtered events) do no harm. */
struct trace_order;

/* `follow`: the file is read while it is written, and no event is held for longer than a second.
 * The caller keeps the reader. NULL if out of memory. */
struct trace_order *trace_order_new(struct trace_reader *r, bool follow);

/* Like trace_read_next. Items other than events come at once; the end of the file is reported after
 * all events. */
int trace_order_next(struct trace_order *o, struct trace_item *item, struct err *e);

/* Call `fn` with each item as it is read, before sorting. 0, or -errno, which trace_order_next then
 * returns. */
void trace_order_tap(struct trace_order *o, int (*fn)(void *arg, const struct trace_item *item),
		     void *arg);

void trace_order_free(struct trace_order *o);

/* Names native frames that had no symbol when they were recorded, from files with the build ids in
 * the trace and from what JITs have written since. */

/* The function of such a frame in the trace: "0x1234" is an address as in the symbols of its file,
 * "@0x1234" an offset into a file that could not be read, "+0x1234" an address in a file whose name
 * another file had before. Code that is in no file has the file name of sample_anon_file. */

struct late_symbols;

/* begun_ns: when the recording of the file began (CLOCK_REALTIME); fd: its descriptor, which the
 * caller keeps. NULL if out of memory. */
struct late_symbols *late_symbols_new(uint64_t begun_ns, int fd);
void late_symbols_free(struct late_symbols *l); /* NULL allowed */

/* A file's build id; what `b` points to must outlive *l. 0 or -ENOMEM. */
int late_symbols_build(struct late_symbols *l, const struct trace_build *b);

/* If *f is such a frame, name its function: the symbol, if it is certain; otherwise
 * "libfoo.so+0x1234", or "libfoo.so@0x1234" for an offset into the file. Code in no file gets the
 * file "[JIT]" if it is certain, otherwise "[anon]" and "(unknown)". The strings live as long as
 * `l`. 0 or -ENOMEM. */
int late_symbols_name(struct late_symbols *l, struct py_frame *f);

/* A trace as commands read it: which events (--when), which part (--time, --step), and in which
 * order. */

struct trace_query;

/* The arguments of QUERY_OPTIONS, owned by the caller; NULL: all. */
struct trace_choice {
	const char *ops;     /* only these, see symbolizer/ops/filter.h */
	const char *not_ops; /* not these */
	const char *when;    /* see symbolizer/when/when.h */
	const char *time;    /* "3s-5s", "3s-", "-500ms": since the start of the file */
	const char *step;    /* "3", "2-4": training steps of each process, counted from 1 */
	const char *rank;    /* "0,3-5": of these ranks only */
	const char *step_op; /* which op ends a step, see symbolizer/ops/filter.h */
	bool whole_steps;    /* only steps whose start and end were recorded */
};

/* The options of all commands that read a trace file; `c` is a struct trace_choice. */
#define QUERY_OPTIONS(c)                                                                           \
	{0, "ops", OPTION_LIST, &(c).ops, "LIST", "only these ops", NULL},                         \
	    {0, "not-ops", OPTION_LIST, &(c).not_ops, "LIST", "leave these ops out", NULL},        \
	    {0,		"when", OPTION_ONCE,                                                       \
	     &(c).when, "EXPR", "only calls for which EXPR holds: 'self.dim() == 2'",              \
	     NULL},                                                                                \
	    {0,		"time", OPTION_ONCE,                                                       \
	     &(c).time, "A-B",	"only what started between, since the trace was begun: 3s-5s",     \
	     NULL},                                                                                \
	    {0,		"rank", OPTION_LIST,                                                       \
	     &(c).rank, "N",	"only of these ranks of a training on many processes: 0 or 0,3-5", \
	     NULL},                                                                                \
	    {0,		"step", OPTION_LIST,                                                       \
	     &(c).step, "N",	"only these training steps, counted from 1: 3 or 2-4",             \
	     NULL},                                                                                \
	{                                                                                          \
		0, "step-op", OPTION_STRING, &(c).step_op, "OP",                                   \
		    "a step ends with a call of OP (default: of the optimizer's step)", NULL       \
	}

enum trace_kinds {
	TRACE_OPS_AND_SAMPLES,
	TRACE_OPS,
	TRACE_SAMPLES,
	TRACE_OPS_OR_SAMPLES, /* ops; samples if the file has none */
};

/* Called with each item of the first pass, as recorded and unfiltered. 0, or -errno with *e, which
 * ends the pass. */
typedef int trace_first_fn(void *arg, const struct trace_item *item, struct err *e);

struct trace_query_opts {
	struct trace_choice choice;
	enum trace_kinds kinds;
	bool by_start; /* events in the order of their starts; else as recorded: of their ends */
	/* The file is read while it is written: steps are counted as they come, and a step that is
	 * not there yet is no error; these require by_start. */
	bool follow;
	/* Also return events that --ops, --not-ops or --when leave out; the caller uses
	 * trace_query_chooses. */
	bool unchosen;
	/* Leave out marks (op_mark) unless --ops asks for them; what was done in them was done in
	 * no op. */
	bool no_marks;
	bool mark_events;      /* with no_marks: return them all the same, to be made blocks of */
	bool mark_ends;	       /* return the marks that end blocks wherever they are in the trace */
	bool samples_too;      /* with TRACE_OPS_OR_SAMPLES: of a file with ops also its samples */
	trace_first_fn *first; /* NULL: the caller needs no first pass */
	void *first_arg;
};

/* Whether it leaves out calls by what they are: by --ops, --not-ops or --when. */
bool trace_choice_of_calls(const struct trace_choice *c);

/* Whether the arguments make sense, whatever file they are for. 0, or -EINVAL with *e. */
int trace_choice_check(const struct trace_choice *c, struct err *e);

/* Whether `path` begins as a trace file does, or is a folder with a file NAME.data that does. */
bool trace_query_can_read(const char *path);

/* Open `path`, a trace file or a folder of them, which is read as one trace (`follow`: as of the
 * files that are there now, with the events of each file in order). It must outlive the query. The
 * file is read once beforehand if `first`, a condition (for its ops) or steps (unless followed)
 * need it, and up to the first event for TRACE_OPS_OR_SAMPLES. If it is damaged or truncated, that
 * pass sees what there is. 0 or -errno with *e: those of trace_reader_open, -EINVAL for a malformed
 * argument, -ENOENT if the trace has no such step or op, -ENOMEM, or what `first` returned. */
int trace_query(const char *path, const struct trace_query_opts *opts, struct trace_query **out,
		struct err *e);

/* Like trace_read_next, with the events and samples that are chosen and all items of other types.
 */
int trace_query_next(struct trace_query *q, struct trace_item *item, struct err *e);

/* Whether --ops, --not-ops and the condition choose the event. Counts those they do not. */
bool trace_query_chooses(struct trace_query *q, const struct op_event *ev);

/* From now on, return events without their values; see trace_reader_no_values. */
void trace_query_no_values(struct trace_query *q);

/* The same, but of the ops for which `fn` is true with their values. */
void trace_query_values_of(struct trace_query *q, bool (*fn)(const struct op_desc *op));

/* Whether TRACE_SAMPLES or TRACE_OPS_OR_SAMPLES selected the samples. */
bool trace_query_of_samples(const struct trace_query *q);

/* When the recording of the file began, CLOCK_MONOTONIC ns. */
uint64_t trace_query_origin(const struct trace_query *q);

/* The share of the file that was read so far, 0 to 1, not counting a first pass. */
double trace_query_share(const struct trace_query *q);

/* The same moment, CLOCK_REALTIME ns. */
uint64_t trace_query_begun(const struct trace_query *q);

/* How many steps were chosen, of the process that made most; 0: all events were. */
uint64_t trace_query_steps(const struct trace_query *q);

/* Totals of what was read so far: all samples, and the events in LOST records. */
uint64_t trace_query_samples(const struct trace_query *q);
uint64_t trace_query_activities(const struct trace_query *q);
uint64_t trace_query_activities_lost(const struct trace_query *q);
uint64_t trace_query_lost(const struct trace_query *q);

/* Of what was read so far: calls in the sums that were returned; and in those that were left out,
 * since it is not known whether the condition, the steps or the time choose them. */
uint64_t trace_query_summed(const struct trace_query *q);
uint64_t trace_query_sums_left_out(const struct trace_query *q);
bool trace_query_has_sums(const struct trace_query *q); /* any of either */

/* Counts of what trace_query_chooses left out so far; NULL if it chooses all. */
const struct when_counts *trace_query_counts(const struct trace_query *q);

/* Free the query, as trace_query_end does, and print nothing. */
void trace_query_close(struct trace_query *q);

/* What trace_query_end prints in addition. */
enum {
	TRACE_SAY_LEFT_OUT = 1,
	TRACE_SAY_LOST = 2,
	TRACE_SAY_SUMMED = 4,
	TRACE_SAY_CLOCKS = 8, /* of several hosts */
};

/* Print on stderr how reading ended, and free the query. `code` and `e` are the last ones from
 * trace_query_next, or from trace_query if that failed (`q` is then NULL). Returns the command's
 * exit status: EXIT_GOOD for a whole file and for one that is still being written, otherwise
 * EXIT_FAILED. */
int trace_query_end(struct trace_query *q, unsigned say, int code, const struct err *e);

#endif
