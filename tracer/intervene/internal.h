/* What the files of this folder share. */
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
#include "replay/capture_find.h"
#include "replay/row.h"
#include "replay/worker.h"
#include "symbolizer/event/event.h"
#include "tracer/intervene/intervene_rules.h"

/* Strings of what the modes in a process tell. */

/* The string that `s` is; "" when it is none or NULL. It belongs to `s`. */
static inline const char *json_text(const json_t *s)
{
	return json_is_string(s) ? json_string_value(s) : "";
}

/* That of the member `key` of an object; of the element `i` of an array. */
static inline const char *json_text_of(const json_t *object, const char *key)
{
	return json_text(json_object_get(object, key));
}

static inline const char *json_text_at(const json_t *array, size_t i)
{
	return json_text(json_array_get(array, i));
}

/* Which dtypes --cast and ditorch's variables may name. */

/* Add "FROM->TO,..." to `out`, an object: the names of PyTorch's dtypes, without "torch.". `option`
 * is where the text comes from, for messages. -EINVAL: a dtype is none, or the results of such a
 * cast could not be told from others; -ENOMEM. */
int intervene_casts_read(const char *option, const char *text, json_t *out, struct err *e);

/* A call as the library inside a process describes it (tracer/shim/extension/modes), as an event
 * that a condition can be asked about. */

/* Of the function `name` and its arguments [[name, value], ...], where a value is null, a number,
 * true, a list, or an object: {"tensor": {shape, stride, offset, dtype, device, layout,
 * requires_grad}},
 * {"text"}, {"dtype"}, {"device"}, {"layout"}, {"format"}; what is none of them is not decoded. Of
 * a tensor the address is not known. All of *out lies in `a`, but for the names, which are those of
 * the JSON. 0; -EPROTO for what is described otherwise; -ENOMEM. */
int intervene_facts(const char *name, const json_t *args, struct arena *a, struct op_event *out);

/* What a process that is changed tells of one call, in the style of ditorch: its forward_id, the
 * line it comes from, and tables. */

/* Print {"title", "where", "stack": [line, ...], "tables": [[columns, rows], ...]}, all of them
 * texts, and `last`, a table with its columns and cells, NULL for none. What is missing is left
 * out. */
void intervene_tables_print(FILE *f, const json_t *m, const struct table *last);

/* What --compare found: of each function at each line its worst results, however long the program
 * runs. */

/* How often a place was judged: its rows are the worst of all its calls. */
struct intervene_tally {
	uint64_t calls, wrong, judged_grads;
};

/* Zero-initialise. */
struct intervene_compare {
	struct capture_places places; /* functions at lines of the program */
	struct intervene_tally *tallies;
	struct rows rows;
	int64_t *numbers; /* forward_id of the call that rows.list[i] is of, by row.number */
	uint64_t tensors, not_judged;
	double spent_ns, passed_ns; /* of all processes: in comparing, and in all */
};

/* The call that a process is about to have judged. */
struct intervene_call {
	size_t place;
	int64_t number; /* forward_id */
	bool open, wrong, newly_wrong;
	json_t *shown;	       /* ours; tables of a call that has a new failure; NULL: none */
	struct table *results; /* the same: of what it gave */
};

/* Its messages: an op begins (into *call), a tensor or value of it (of the process behind `w`), the
 * op ends. Failures that are new are printed on standard error. 0, -EPROTO or -ENOMEM. */
int intervene_compare_op(struct intervene_compare *c, struct intervene_call *call, json_t *m);
int intervene_compare_row(struct intervene_compare *c, struct intervene_call *call, json_t *m,
			  struct worker *w);
int intervene_compare_end(struct intervene_compare *c, struct intervene_call *call);

/* The process is gone: forget the call. */
void intervene_compare_drop(struct intervene_call *call);

/* Calls that were compared in the process without anything new: [[name, file, line, function,
 * calls, gradients, tensors judged, tensors not judged], ...]. 0, -EPROTO or -ENOMEM. */
int intervene_compare_silent(struct intervene_compare *c, json_t *calls);

/* The summary on standard error, worst first, and the worst rows as CSV (intervene_result.h) in
 * op_tools_results/op_autocompare_result. `budget`: the share of the time, 0: none was given. */
void intervene_compare_print(struct intervene_compare *c, double budget);

void intervene_compare_free(struct intervene_compare *c);

/* One judged result in the columns of ditorch's autocompare. */

enum { INTERVENE_RESULT_SIZE = 96 };

/* Which result of its call: "output", "output[1]", "grad[weight]". Returns `out`. */
const char *intervene_result_name(char out[static INTERVENE_RESULT_SIZE],
				  const struct replay_row *r);

/* The columns name ("torch.add output[1]"), allclose, max_abs_diff, max_relative_diff, atol, rtol
 * and error_info of an empty table, and a row of them; `op` is the function's name. */
void intervene_result_columns(struct table *t);
void intervene_result_cells(struct table *t, const char *op, const struct replay_row *r);

/* Their CSV, with the forward_id before them and what ditrace knows beside: verdict, cosine, ulp,
 * dtype, device, file, line. numbers[r->number] is the forward_id of the row r. 0 or -EIO. */
int intervene_result_csv(FILE *f, const struct capture_places *places, const struct rows *rows,
			 const int64_t *numbers);

/* Calls that the library inside (tracer/shim/modes/62_saved.py) has chosen are written as captures.
 */

/* Zero-initialise, then set files.root and files.max_bytes. */
struct intervene_save {
	struct capture_files files;
	uint64_t calls;			 /* of which all files are there */
	struct err trouble;		 /* why no more can be written; code 0: more can */
	char refused[CAPTURE_NAME_SIZE]; /* the op of which that was said last */
};

/* One file of a call of process `pid`, whose tensors lie in the memory of `w`: {"op": name,
 * "above": folder, "part": name (capture_write_content), "id", "time": seconds since 1970, "where":
 * [file, line, function], "args" and "kwargs" ([name, value] each): values as described_values has
 * them, "in_one": the args are one tuple, "of": NULL or a name for each of args, "last": no other
 * file of this call comes, and for each piece N of memory "pN": {"offset": bytes}}. *failed, the
 * process's own, is then whether this file or one before it of the call is not saved. What was
 * saved or not, and why, is printed on standard error. 0, -EPROTO or -ENOMEM; a full disk is no
 * error. */
int intervene_save(struct intervene_save *s, json_t *m, struct worker *w, pid_t pid, bool *failed);

/* What was saved in all, on standard error; `most`: of each function at its line, 0: all. */
void intervene_save_print(const struct intervene_save *s, uint64_t most);

/* How long calls took while the program ran (--apply OP:measure_op_time): ditorch's CSV, and a
 * table of all at the end. */

/* A function at a line. */
struct intervene_timed {
	char *name, *where;
	struct intervene_spent {
		uint64_t n, total, least, most; /* calls, ns */
	} forward, backward;
};

/* Zero-initialise; intervene_times_free gives everything back. */
struct intervene_times {
	struct intervene_timed *list;
	size_t n, size;
	struct times_list
	    calls; /* that are not in the CSV yet; calls.list[i] is of places.list[i] */
	struct capture_places places;
	FILE *csv;
	char path[160];
	bool failed; /* the CSV cannot be written, which was said */
};

/* What is told of one call: {"name", "where", "id"} with "forward": [ns] and the texts "input" and
 * "output", or with "backward": [ns], "grad_inputs", "grad_outputs" of a call that was told before.
 * 0; -ENOMEM; -EPROTO. */
int intervene_times_add(struct intervene_times *t, json_t *m);

/* Write what is left to the CSV, and the table and where the CSV is to standard error; nothing when
 * there was no call. */
void intervene_times_print(struct intervene_times *t);

void intervene_times_free(struct intervene_times *t);

/* What was done in all processes, for the summary. */

struct intervene_total {
	char *feature, *name, *reason; /* reason: why it was left alone, NULL: it was not */
	uint64_t calls;
};

/* Zero-initialise. */
struct intervene_totals {
	struct intervene_total *list;
	size_t n;
};

/* Add those of a process: [[feature, name, reason or null, calls], ...]; NULL: none. */
void intervene_totals_add(struct intervene_totals *t, json_t *totals);

/* What computes in a process without calling a function that could be changed, and its threads that
 * were found to run ops: both [[what, how many], ...]; NULL: nothing. */
void intervene_totals_unseen(struct intervene_totals *t, json_t *unseen, json_t *threads);

/* Those threads as a text, "2 entered, 1 without Python"; NULL: none is known. */
json_t *intervene_totals_threads(const struct intervene_totals *t);

/* On standard error: for each feature that is on a line, and a table of its functions. */
void intervene_totals_print(const struct intervene_totals *t, const struct intervene_rules *rules);

void intervene_totals_free(struct intervene_totals *t);

#endif
