/* Internal to tracer/intervene. */
#ifndef TRACER_INTERVENE_INTERNAL_H
#define TRACER_INTERVENE_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/table.h"
#include "replay/capture/capture_files.h"
#include "replay/replay.h"
#include "symbolizer/event/event.h"
#include "tracer/intervene/intervene.h"
#include "tracer/engine/shim/shim_share.h"

/* Strings in the messages of the modes in a process. */

/* The string in `s`, owned by it; "" when `s` is NULL or no string. */
static inline const char *json_text(const json_t *s)
{
	return json_is_string(s) ? json_string_value(s) : "";
}

/* That of the member `key` of an object; of element `i` of an array. */
static inline const char *json_text_of(const json_t *object, const char *key)
{
	return json_text(json_object_get(object, key));
}

static inline const char *json_text_at(const json_t *array, size_t i)
{
	return json_text(json_array_get(array, i));
}

/* intervene_casts.c: the dtypes of --cast and of ditorch's variables. */

/* Parse "FROM->TO,..." and add the pairs to `out`, an object: names of PyTorch's dtypes without
 * "torch.". `option` is the origin of the text, for messages. 0; -EINVAL with *e: not a dtype, or
 * results of such a cast could not be told from others; -ENOMEM. */
int intervene_casts_read(const char *option, const char *text, json_t *out, struct err *e);

/* intervene_apply.c: a call as described by the library in the process (tracer/shim/modes),
 * converted to an event that conditions can be evaluated on. */

/* The function `name` with arguments [[name, value], ...]. A value is null, a number, a boolean, a
 * list, or an object: {"tensor": {shape, stride, offset, dtype, device, layout, requires_grad}},
 * {"text"}, {"dtype"}, {"device"}, {"layout"}, {"format"}; any other object is not decoded. The
 * address of a tensor is not known. *out is allocated from `a`, but strings stay owned by the JSON.
 * 0; -EPROTO for a malformed description; -ENOMEM. */
int intervene_facts(const char *name, const json_t *args, struct arena *a, struct op_event *out);

/* intervene_tables.c: what a process reports of a call, printed in the style of ditorch: its
 * forward_id, its line, and tables. */

/* Print {"title", "where", "stack": [line, ...], "tables": [[columns, rows], ...]}, all strings,
 * and then `last`, a filled table, or NULL. Missing members are left out. */
void intervene_tables_print(FILE *f, const json_t *m, const struct table *last);

/* intervene_compare.c: the findings of --compare: the worst results of each function at each line,
 * in bounded memory. */

/* Counts of a place; its rows are the worst of all its calls. */
struct intervene_tally {
	uint64_t calls, judged_grads;
	uint64_t wrong;	     /* of both together */
	uint64_t not_judged; /* tensors */
};

/* Zero-initialise. */
struct intervene_compare {
	struct capture_places places;	 /* functions at lines of the program */
	struct intervene_tally *tallies; /* one for each */
	size_t tallies_room;
	struct rows rows;
	int64_t *numbers; /* by row.number: forward_id of the row's call */
	size_t numbers_room;
	uint64_t tensors, not_judged;
	double spent_ns, passed_ns; /* of all threads: spent on comparing; from their first calls to
				       their last */
};

/* The call of a process that is being judged. */
struct intervene_call {
	size_t place;
	int64_t number; /* forward_id */
	bool open, wrong, newly_wrong;
	json_t *shown;	       /* owned: its tables, printed if it has a new failure; or NULL */
	struct table *results; /* likewise: its results */
};

/* Handle its messages: an op begins (fills *call), a tensor or value of it (in the memory of `w`),
 * the op ends. New failures are printed on standard error. 0, -EPROTO or -ENOMEM. */
int intervene_compare_op(struct intervene_compare *c, struct intervene_call *call, json_t *m);
int intervene_compare_row(struct intervene_compare *c, struct intervene_call *call, json_t *m,
			  struct worker *w);
int intervene_compare_end(struct intervene_compare *c, struct intervene_call *call);

/* Free what the call owns; it may be unfinished. */
void intervene_compare_drop(struct intervene_call *call);

/* Add calls that were compared in the process with nothing new: [[name, file, line, function,
 * calls, gradients, tensors judged, tensors not judged], ...]. 0, -EPROTO or -ENOMEM. */
int intervene_compare_silent(struct intervene_compare *c, json_t *calls);

/* What was found of a function, at all lines. */
struct intervene_tally intervene_compare_of(const struct intervene_compare *c, const char *name);

/* Why a result of it was not judged, of the first one of which that is known; else "". Owned by
 * `c`. */
const char *intervene_compare_why(const struct intervene_compare *c, const char *name);

/* Print on standard error whether all that was compared is right. */
void intervene_compare_print_verdict(const struct intervene_compare *c);

/* Print the rest of the summary on standard error, worst first, and write the worst rows as CSV
 * (intervene_result_csv) to op_tools_results/op_autocompare_result. `budget`: share of the time; 0:
 * none was given. */
void intervene_compare_print(struct intervene_compare *c, double budget);

void intervene_compare_free(struct intervene_compare *c);

/* intervene_tables.c: a judged result in the columns of ditorch's autocompare. */

enum { INTERVENE_RESULT_SIZE = 96 };

/* The name of a result within its call: "output", "output[1]", "grad[weight]". Returns `out`. */
const char *intervene_result_name(char out[static INTERVENE_RESULT_SIZE],
				  const struct replay_row *r);

/* Add to an empty table the columns name ("torch.add output[1]"), allclose, max_abs_diff,
 * max_relative_diff, atol, rtol and error_info; add a row to it. `op` is the function's name. */
void intervene_result_columns(struct table *t);
void intervene_result_cells(struct table *t, const char *op, const struct replay_row *r);

/* Write all rows as CSV: forward_id first, ditorch's columns, then ditrace's own: verdict, cosine,
 * ulp, dtype, device, file, line. numbers[r->number] is the forward_id of row r. 0 or -EIO. */
int intervene_result_csv(FILE *f, const struct capture_places *places, const struct rows *rows,
			 const int64_t *numbers);

/* intervene_save.c: writes calls chosen by the library in the process
 * (tracer/shim/modes/saved.py) as captures. */

/* Zero-initialise, then set files.root and files.max_bytes. */
struct intervene_save {
	struct capture_files files;
	uint64_t calls;			 /* whose files are all written */
	struct err trouble;		 /* why saving has stopped; code 0: it has not */
	char refused[CAPTURE_NAME_SIZE]; /* the op last reported as not saved */
};

/* Write one file of a call of process `pid`, whose tensors are in the memory of `w`: {"op": name,
 * "above": folder, "part": name (capture_write_content), "id", "time": seconds since 1970, "where":
 * [file, line, function], "args" and "kwargs" ([name, value] each): values as in described_values,
 * "in_one": the args are one tuple, "of": null or a name for each of args, "last": this is the last
 * file of the call, and for each piece N of memory "pN": {"offset": bytes}}. *failed, kept per
 * process, becomes whether this or an earlier file of the call was not saved. Prints on standard
 * error what was saved, or why not. 0, -EPROTO or -ENOMEM; a full disk is no error. */
int intervene_save(struct intervene_save *s, json_t *m, struct worker *w, pid_t pid, bool *failed);

/* Print the totals on standard error; `most`: limit per function and line, 0: none. */
void intervene_save_print(const struct intervene_save *s, uint64_t most);

/* intervene_times.c: how long calls take (--apply OP:measure_op_time): ditorch's CSV, and a table
 * of all at the end. */

/* A function at a line of the program. */
struct intervene_timed {
	char *name, *where;
	struct intervene_spent {
		uint64_t n, total, least, most; /* calls; ns */
	} forward, backward;
};

/* Zero-initialise; free with intervene_times_free. */
struct intervene_times {
	struct intervene_timed *list;
	size_t n, size;
	struct times_list calls; /* not yet in the CSV; calls.list[i] is of places.list[i] */
	struct capture_places places;
	FILE *csv;
	char path[160];
	bool failed; /* the CSV cannot be written, which has been reported */
};

/* Add one call: {"name", "where", "id"} with "forward": [ns] and the strings "input" and "output";
 * or with "backward": [ns], "grad_inputs" and "grad_outputs" for a call added before. 0; -ENOMEM;
 * -EPROTO. */
int intervene_times_add(struct intervene_times *t, json_t *m);

/* Write the remaining calls to the CSV, and print the table and the path of the CSV on standard
 * error; nothing when there was no call. */
void intervene_times_print(struct intervene_times *t);

void intervene_times_free(struct intervene_times *t);

/* intervene_found.c: the first operator that made a NaN or an infinity of finite inputs, as the
 * library measures it (tracer/shim/modes/first_nan.py). */

enum { INTERVENE_FOUND_LINE = 768 };

/* Zero-initialise. */
struct intervene_found {
	pid_t pid, thread;		   /* where it was; 0: none was found */
	bool over;			   /* all of it was told */
	char line[INTERVENE_FOUND_LINE];   /* what was found */
	char passed[INTERVENE_FOUND_LINE]; /* the first that had been given such numbers, or "" */
};

struct intervene_totals;

/* Print what process `pid` found: {"name", "id", "counts": [NaN, +inf, -inf], "place", "node": the
 * backward's, or "", "python", "forward": lines of stacks, "thread", "kept", and what
 * intervene_tables_print takes}. False: another one was
 * found before. */
bool intervene_found_op(struct intervene_found *f, json_t *m, pid_t pid);

/* What belongs to it was saved; `holds`: its process is going to stop. */
void intervene_found_over(struct intervene_found *f, bool holds);

/* {"name", "id", "place"} of a call that gave such numbers, and had been given some. */
void intervene_found_passed(struct intervene_found *f, const json_t *m);

/* Print the finding, or that there is none, on standard error. */
void intervene_found_print(const struct intervene_found *f, const struct intervene_totals *t);

/* EXIT_FOUND; EXIT_FAILED: nothing was found, but not all could be measured; EXIT_GOOD. */
int intervene_found_status(const struct intervene_found *f, const struct intervene_totals *t);

/* intervene_totals.c: what was done in all processes, for the summary. */

struct intervene_total {
	char *feature, *name, *reason; /* reason: why it was left alone; NULL: it was changed */
	uint64_t calls;
};

/* Zero-initialise. */
struct intervene_totals {
	struct intervene_total *list;
	size_t n, room;
};

/* Add the totals of a process: [[feature, name, reason or null, calls], ...]; NULL: none. */
void intervene_totals_add(struct intervene_totals *t, json_t *totals);

/* Add what a process has that computes without calling a function that could be changed, and its
 * threads that ran ops: each [[what, count], ...], or NULL. */
void intervene_totals_unseen(struct intervene_totals *t, json_t *unseen, json_t *threads);

/* Those threads as a string, "2 entered, 1 without Python", a new reference; NULL: none. */
json_t *intervene_totals_threads(const struct intervene_totals *t);

/* Pseudo-feature of calls that gave a NaN or an infinity and had been given some. */
#define INTERVENE_PASSED "passed"

/* The calls counted under a feature, changed or not. */
uint64_t intervene_totals_calls(const struct intervene_totals *t, const char *feature);

/* Whether anything escaped --first-nan: calls that were left alone, but for those on the device
 * meta, threads without a mode, and what calls no function. */
bool intervene_totals_unmeasured(const struct intervene_totals *t);

/* Print on standard error, for each feature that was used, a line and a table of functions; of
 * compare with the verdicts in `c`. */
void intervene_totals_print(const struct intervene_totals *t, const struct intervene_rules *rules,
			    const struct intervene_compare *c);

void intervene_totals_free(struct intervene_totals *t);

/* intervene.c and intervene_messages.c */

enum { INTERVENE_PEERS = 256 };

/* A process that has the library in it. */
struct intervene_peer {
	struct worker link; /* the connection; its process is not our child */
	json_t *totals;	    /* as last reported */
	json_t *unseen;	    /* likewise: what it has that no mode sees */
	json_t *threads;    /* likewise: threads that run ops */
	bool greeted;
	struct intervene_call call; /* the one being judged */
	pid_t pid;
	double spent_ns, passed_ns; /* as in struct intervene_compare */
	bool save_failed;	    /* a file of the call being saved could not be written */
};

struct intervene {
	struct intervene_rules *rules;
	struct shim_listener *listener;
	pid_t entered; /* the injected process; 0: it was started with the library preloaded */
	struct intervene_peer *peers[INTERVENE_PEERS];
	unsigned npeers, greeted;
	uint64_t began_ns; /* intervene_began */
	int shared;	   /* memfd of `control` */
	struct modes_control *control;
	struct intervene_totals totals;
	struct intervene_compare compare;
	struct intervene_times times;
	struct intervene_save save;
	struct intervene_found found;
	bool refused;
};

/* Handle a message. False: it violates the protocol. */
bool intervene_handle(struct intervene *v, struct intervene_peer *p, json_t *m);

#endif
