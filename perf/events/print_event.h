/* An event as text for people: ditorch's dump_op_args. */
#ifndef PERF_EVENTS_PRINT_EVENT_H
#define PERF_EVENTS_PRINT_EVENT_H

#include <stddef.h>
#include <stdio.h>

#include "symbolizer/event/event.h"

struct event_printer;

/* NULL without memory. Prints to `f` (not owned). */
struct event_printer *event_printer_new(FILE *f);

/* One block: a line with the op's name, ids, duration and source line with its text, then a boxed
 * table with a row for each argument and result as event_rows names them, the table of statistics
 * if it was measured, then an empty line. Everything from the target is made safe for a terminal.
 * 0, or -errno when writing failed (-EPIPE: nobody reads any more; else -EIO) or without memory. */
int event_print(struct event_printer *p, const struct op_event *ev);

void event_printer_free(struct event_printer *p);

/* Samples as text and as JSON. */

/* "3.141593 s  1234/1235  aten::mm (backward)" with the frames below it, innermost first: native
 * ones, then Python's. The time is since `origin_ns`. */
void sample_print(FILE *f, const struct sample *s, uint64_t origin_ns);

/* One JSON object without a newline: sample (true), time_ns, pid, tid, weight, op (null: none),
 * phase, in_kernel, mismatched, python and native: arrays of {file, line, function}, innermost
 * first. */
void sample_json(FILE *f, const struct sample *s);

/* One of its two stacks, as there. */
void sample_json_stack(FILE *f, const struct py_stack *s);

/* Where a call comes from, as tables show it. */

enum { WHERE_TEXT_MAX = 2048 };

/* "train.py:33 Attention.forward: q = self.qkv(x)": the file without its folders, the line, the
 * function, and the text of the line when it is known; in brackets what is missing when there is no
 * frame. Not made safe for a terminal. Returns out. */
const char *where_text(char *out, size_t size, const struct py_frame *frame, int phase);

/* The tensors that an op was given, as text: what rows are grouped and events labelled by. */

enum { EVENT_TENSORS_MAX = 1024 };

/* Of the tensors among the arguments (of a backward node: what it was given), those in lists too,
 * in their order: "[2,3] [3,4] []"; "?" stands for what is not known, or not decoded. After 16
 * tensors "..." follows. "" without tensors. Returns out; EVENT_TENSORS_MAX bytes are enough for
 * what is shown of usual ones, longer text is cut. */
const char *event_shapes(char *out, size_t size, const struct op_event *ev);

/* The dtypes and the devices of the same, each named once: "float32 int64", "cpu cuda:0". */
const char *event_dtypes(char *out, size_t size, const struct op_event *ev);
const char *event_devices(char *out, size_t size, const struct op_event *ev);

#endif
