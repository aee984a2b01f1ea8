/* An event as text, in the layout of ditorch's dump_op_args. */
#ifndef PERF_EVENTS_PRINT_EVENT_H
#define PERF_EVENTS_PRINT_EVENT_H

#include <stddef.h>
#include <stdio.h>

#include "base/file_names.h"
#include "base/json.h"
#include "symbolizer/event/event.h"

struct event_printer;

/* NULL if out of memory. Prints to `f`, which the caller keeps. */
struct event_printer *event_printer_new(FILE *f);

/* Print one block: a line with the op's name, ids, duration and source line with its text, a boxed
 * table with a row for each argument and result (see event_rows), the table of statistics if it was
 * measured, and an empty line. Text from the target is escaped for the terminal. 0, -ENOMEM, or if
 * writing failed -EPIPE (the reader is gone) or -EIO. */
int event_print(struct event_printer *p, const struct op_event *ev);

void event_printer_free(struct event_printer *p);

/* Samples as text and as JSON. */

/* "3.141593 s  1234/1235  aten::mm (backward)" and the frames below it, native ones first, each
 * stack innermost frame first. The time is since `origin_ns`. */
void sample_print(FILE *f, const struct sample *s, uint64_t origin_ns);

/* One JSON object without a newline: sample (true), time_ns, pid, tid, weight, op (null: none),
 * phase, in_kernel, mismatched, python and native: arrays of {file, line, function}, innermost
 * first. */
void sample_json(FILE *f, const struct sample *s);

/* One stack of a sample, as in sample_json; NULL: []. */
void sample_json_stack(struct json_out *j, const char *key, const struct py_stack *s);

/* The source line of a call, as tables show it. */

enum { WHERE_TEXT_MAX = 2048 };

/* Why an op, by its name (NULL: none), has no line: "(no Python frame)", "(forward op not known)";
 * the node that adds to a leaf's gradient has no forward op: "(gradient accumulation)". */
const char *where_unknown(const char *op, int phase);

/* "train.py:33 Attention.forward: q = self.qkv(x)": the file as `files` (NULL: its base name) has
 * it, line, function, and the text of the line when known; without a frame the reason in
 * parentheses, where_unknown. Not escaped for a terminal. Returns out. */
const char *where_text(char *out, size_t size, const struct py_frame *frame, const char *op,
		       int phase, const struct file_names *files);

/* The tensor arguments of an op as text, for grouping rows and labelling events. */

enum { EVENT_TENSORS_MAX = 1024 };

/* Shapes of the tensor arguments in order (of a backward node: its inputs), those in lists too:
 * "[2,3] [3,4] []"; "?" when unknown or not decoded. "..." follows after 16 tensors. "" without
 * tensors. Returns out; EVENT_TENSORS_MAX bytes are enough for usual ones, longer text is
 * truncated. */
const char *event_shapes(char *out, size_t size, const struct op_event *ev);

/* The dtypes, and the devices, of these tensors, each listed once: "float32 int64", "cpu cuda:0".
 */
const char *event_dtypes(char *out, size_t size, const struct op_event *ev);
const char *event_devices(char *out, size_t size, const struct op_event *ev);

#endif
