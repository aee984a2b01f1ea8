/* Shared by the files of this folder. */
#ifndef PERF_EXPORT_INTERNAL_H
#define PERF_EXPORT_INTERNAL_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"
#include "base/map.h"
#include "perf/export/export.h"
#include "perf/report/report.h"
#include "symbolizer/event/event.h"

/* Samples in Trace Event JSON, as CPU profiles of V8: events of phase "P" named Profile and
 * ProfileChunk, one profile per thread. Field names are those of Chrome's DevTools protocol
 * (Profiler.ProfileNode, Runtime.CallFrame); Perfetto's importer,
 * src/trace_processor/importers/common/legacy_v8_cpu_profile_tracker.cc, shows which of them it
 * reads. */
struct export_profile;

/* NULL if out of memory. */
struct export_profile *export_profile_new(void);

/* Write the sample as an event in the array that is open, each event on a line of its own, preceded
 * by the thread's Profile event if it is the first. `us` is its time in the trace. 0 or -ENOMEM. */
int export_profile_add(struct export_profile *p, struct json_out *j, const struct sample *s,
		       int64_t us);

void export_profile_free(struct export_profile *p);

/* What surrounds the profiles and the frames of a file for speedscope: open it, up to its profiles;
 * after them go on with the frames; after those close it, with a newline. */
void export_speedscope_open(struct json_out *j);
void export_speedscope_frames(struct json_out *j);
void export_speedscope_close(struct json_out *j);

/* Python frames and the ops in them as slices of time, one inside the other. A frame begins with
 * its first op and ends with its last one: consecutive ops with the same frames are taken to be of
 * the same call. */
struct slices;

struct slice {
	const struct py_frame *frame; /* NULL: the op itself */
	const struct op_event *event; /* the op, or the first one in the frame */
	uint32_t thread;	      /* see slices_thread */
	uint32_t depth;		      /* slices that it is in */
	uint64_t start_ns;
};

struct slice_end {
	int32_t pid, tid;
	uint32_t thread;
	uint32_t number; /* what `open` returned */
	uint64_t end_ns;
};

struct slices_to {
	/* Returns a number for `close`, or -errno. */
	int64_t (*open)(void *arg, const struct slice *s);
	int (*close)(void *arg, const struct slice_end *end);
	void *arg;
};

/* NULL if out of memory; free with slices_free, NULL allowed. */
struct slices *slices_new(const struct slices_to *to);
void slices_free(struct slices *s);

/* The index of the thread, counted from 0 as threads come; or -ENOMEM. */
int64_t slices_thread(struct slices *s, int32_t pid, int32_t tid);

/* Add an event; events come in the order of their starts, and their stacks stay valid. On each
 * thread slices open and close in order of time, properly nested, also where the clocks of two CPUs
 * disagree. 0, -ENOMEM, or what `to` returned. */
int slices_add(struct slices *s, const struct op_event *ev);

/* Close all that is open; unfinished ops at the last time of their thread. */
int slices_finish(struct slices *s);

/* Consecutive outermost ops of a thread in one module. */
struct module_span {
	int32_t pid, tid;
	bool is_first; /* of its thread */
	const char *name;
	uint64_t start_ns, end_ns;
};

typedef int module_span_fn(void *arg, const struct module_span *m); /* 0 or -errno */

struct module_spans;

/* `fn` is called when a span has ended. NULL if out of memory; free with module_spans_free, NULL
 * allowed. */
struct module_spans *module_spans_new(module_span_fn *fn, void *arg);
void module_spans_free(struct module_spans *m);

/* Events in the order of their starts; what autograd runs is of the module of its forward op. 0,
 * -ENOMEM, or what `fn` returned. */
int module_spans_add(struct module_spans *m, const struct op_event *ev);
int module_spans_finish(struct module_spans *m);

/* Flows from events, by number: the first pass notes how many begin at each. Zero-initialise. */
struct export_flows {
	uint64_t *ids; /* of events, one for each flow */
	size_t n, room;
	/* By the first of an event: flows ended + 1; 0: the event is not in the output. */
	uint32_t *given1;
};

/* The event is in the output. Returns how many flows begin there, numbered from *first. */
size_t export_flows_begin(struct export_flows *f, uint64_t id, size_t *first);

/* The number of the next flow from the event that is to end; -ENOENT: there is none. */
int64_t export_flows_end(struct export_flows *f, uint64_t id);
void export_flows_free(struct export_flows *f);

/* What devices did, kept until all of it is known. Strings are those of the trace. */
struct export_activity {
	uint64_t start_ns, end_ns, launched_ns, bytes;
	uint64_t op_id;		  /* of the event that launched it; 0: not known */
	const struct op_desc *op; /* activity_op */
	const char *name;
	const char *module, *parameter;		    /* NULL: none */
	const struct py_frame *where, *backward_of; /* NULL: not known */
	int32_t tid;				    /* that launched it; 0: not known */
	uint32_t stream;			    /* index */
	uint8_t kind, phase;
	bool has_op, in_graph;
	bool has_flow; /* export_is_launch_known */
};

/* A stream of a device, as one process sees it. */
struct export_stream {
	int32_t pid;
	uint32_t rank1; /* of the process: its rank + 1; 0: not known */
	int8_t device_type, device_index;
	char device_name[32]; /* "cuda:0" */
	uint32_t stream;
	uint32_t device; /* number of the device of this process, from 0 */
};

/* Zero-initialise. */
struct export_activities {
	struct export_activity *list;
	size_t n, room;
	struct export_stream *streams;
	size_t streams_room;
	struct intern stream_ids, device_ids;
};

/* "kernel", "gpu_memcpy", "gpu_memset", as torch.profiler names them; by enum activity_kind. */
extern const char *const export_activity_categories[];

/* Whether it is known in which event and when it was launched. */
bool export_is_launch_known(const struct activity *a);

int export_activities_add(struct export_activities *x, const struct activity *a); /* 0, -ENOMEM */

/* On one lane of a stream they do not overlap; the first is lane 0. */
typedef int export_activity_fn(void *arg, const struct export_activity *a,
			       const struct export_stream *s, uint32_t lane);

/* By stream, and in the order of their starts. 0, -ENOMEM or what `fn` returned. */
int export_activities_each(struct export_activities *x, export_activity_fn *fn, void *arg);
void export_activities_free(struct export_activities *x);

/* The "args" of an event in Trace Event JSON. */
void chrome_op_args(struct json_out *j, const struct op_event *ev);
void chrome_activity_args(struct json_out *j, const struct export_activity *a,
			  const struct export_stream *s);

/* A file in Perfetto's own format: packets, each with a track's description or an event. */

/* Bytes of a message being made. */
struct perfetto_message {
	uint8_t *bytes;
	size_t n, room;
	bool failed; /* no memory */
};

enum perfetto_texts {
	PERFETTO_CATEGORIES,
	PERFETTO_NAMES,
	PERFETTO_ANNOTATIONS,
	PERFETTO_STRINGS,
	PERFETTO_TEXTS
};

/* Set `f` and `query`; free with perfetto_free. */
struct perfetto {
	FILE *f;
	const struct trace_query *query; /* whose times they are */
	struct intern texts[PERFETTO_TEXTS];
	struct intern tracks; /* the keys of those that were described */
	struct perfetto_message interned, event, inner, packet; /* packet.failed: no memory */
	bool has_begun;
};

/* Tracks by what they are of. */
enum perfetto_track_kind {
	PERFETTO_OF_PROCESS = 1,
	PERFETTO_OF_THREAD,
	PERFETTO_OF_STEPS,
	PERFETTO_OF_MODULES,
	PERFETTO_OF_BLOCKS,
	PERFETTO_OF_DEVICE,
	PERFETTO_OF_STREAM,
	PERFETTO_OF_MEMORY
};

/* The number of a track; it is to be described if it is new. */
uint64_t perfetto_track(struct perfetto *x, enum perfetto_track_kind kind, int32_t pid, int32_t tid,
			bool *is_new);
uint64_t perfetto_track_of_process(struct perfetto *x, int32_t pid);

/* The number of the track of a process or thread. It is described if it is new, and if `again`, as
 * it may get another name (NULL: none, for a thread). */
uint64_t perfetto_describe(struct perfetto *x, enum perfetto_track_kind kind, int32_t pid,
			   int32_t tid, const char *name, bool again);

/* The same of a track below another one, by two numbers of its own. */
uint64_t perfetto_describe_below(struct perfetto *x, uint64_t parent, enum perfetto_track_kind kind,
				 int32_t a, int32_t b, const char *name);

/* The start of a slice; annotations and flows may follow before perfetto_end_event, which has its
 * time. A flow has a single end. */
void perfetto_begin_slice(struct perfetto *x, uint64_t track, const char *category,
			  const char *name);
void perfetto_annotate(struct perfetto *x, const char *name, const char *text, uint64_t n);
void perfetto_flow(struct perfetto *x, uint64_t id, bool ends);
void perfetto_end_event(struct perfetto *x, uint64_t ns);
void perfetto_end_slice(struct perfetto *x, uint64_t track, uint64_t ns);

/* The value of a counter's track from then on. */
void perfetto_counter(struct perfetto *x, uint64_t track, uint64_t ns, uint64_t value);

void perfetto_free(struct perfetto *x);

/* A database of SQLite being written. */

enum sql_table {
	SQL_META,
	SQL_PROCESS,
	SQL_THREAD,
	SQL_OP,
	SQL_FRAME,
	SQL_STACK,
	SQL_EVENT,
	SQL_SAMPLE,
	SQL_NAME,
	SQL_ACTIVITY,
	SQL_MEMORY,
	SQL_BUILD,
	SQL_BLOCK,
	SQL_TABLES
};

/* Zero-initialise; end with sql_close. */
struct sql_out {
	sqlite3 *db;
	sqlite3_stmt *insert[SQL_TABLES];
	sqlite3_stmt *row; /* the row being filled */
	int column;
	unsigned in_transaction;
	int error; /* the first error, -errno */
};

/* Make the tables in the empty file `fd`. From then on, see out->error. */
void sql_open(struct sql_out *out, int fd);

/* A new row, its columns in their order, and its end. */
void sql_row(struct sql_out *out, enum sql_table which);
void sql_int(struct sql_out *out, int64_t n);
void sql_known(struct sql_out *out, uint64_t n);   /* NULL for 0 */
void sql_text(struct sql_out *out, const char *s); /* NULL for NULL; invalid UTF-8 is escaped */
void sql_given(struct sql_out *out, char *text);   /* malloc'd, and given away; NULL: no memory */
void sql_null(struct sql_out *out);
void sql_done(struct sql_out *out);

void sql_no_memory(struct sql_out *out);
void sql_commit_now_and_then(struct sql_out *out);  /* call it for each item */
void sql_finish(struct sql_out *out);		    /* make the indices */
const char *sql_message(const struct sql_out *out); /* of the last error */
void sql_close(struct sql_out *out);

struct export_backward;

/* What the first pass notes about backward nodes. */
struct export_notes {
	/* export_csv: the nodes' texts, and the sums for each forward op */
	FILE *spill;
	uint64_t spill_len;
	struct intern ids; /* forward id -> index into backwards */
	struct export_backward *backwards;
	uint32_t size;
	/* export_chrome: from forward ops to backward nodes, and from ops to activities */
	struct export_flows nodes, launches;
	/* export_chrome: whole training steps */
	struct breakdown *breakdown;
	struct breakdown_step *steps;
	size_t nsteps, steps_room;
};

/* The forward op of a backward node; 0: not a node, or unknown. Ops called by a node have a
 * forward_id too, but get no flows. */
uint64_t export_maker(const struct op_event *ev);

/* The notes of export_chrome_note, after the first pass, or empty ones; NULL if out of memory. */
struct export_notes *export_noted(struct export_in *in);

/* The notes of `in`, allocated on first use; NULL if out of memory. */
struct export_notes *export_notes(struct export_in *in);

#endif
