/* Events and samples as text and as JSON. */
#ifndef PERF_EVENTS_PRINT_EVENT_H
#define PERF_EVENTS_PRINT_EVENT_H

#include <stddef.h>
#include <stdio.h>

#include "base/json.h"
#include "base/table.h"
#include "symbolizer/event/event.h"

/* An event as text, in the layout of ditorch's dump_op_args. */

struct event_printer;

/* NULL if out of memory. Prints to `f`, which the caller keeps. */
struct event_printer *event_printer_new(FILE *f);

/* Print one block: a line with the op's name, ids, duration and source line with its text, a boxed
 * table with a row for each argument and result (see event_rows), the table of statistics if it was
 * measured, and an empty line; on a terminal no line is wider than it. Text from the target is
 * escaped for the terminal. 0, -ENOMEM, or if writing failed -EPIPE (the reader is gone) or -EIO.
 */
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

/* What devices did. */

/* "kernel", "copy", "set"; by enum activity_kind. */
extern const char *const activity_kind_names[];

/* "op", "no op", "op not known", "not known"; by enum activity_launch. */
extern const char *const activity_launch_names[];

/* "0.001064 s  cuda:0 stream 7  80 us  add_kernel(float*)  launched 4.0 us before by aten::add
 * id:12" and the op's source line; without a newline. The time is since `origin_ns`. */
void activity_print(FILE *f, const struct activity *a, uint64_t origin_ns);

/* One JSON object without a newline: activity (kernel, copy or set), name, device, stream,
 * start_ns, end_ns, launched_ns (null: not known), bytes (null: a kernel), in_graph, pid, tid
 * (null: not known), launch (activity_launch_names), op, op_id, phase (null: no op, or not known),
 * stack and backward_of as in json_event. */
void activity_json(FILE *f, const struct activity *a);

/* What was done with memory. */

/* "0.001064 s  1234/1235  cuda:0  4.0 MiB allocated at 0x7f..., now 5.0 MiB of 20.0 MiB reserved by
 * aten::empty id:12" and the op's source line; without a newline. The time is since `origin_ns`. */
void memory_print(FILE *f, const struct memory_event *m, uint64_t origin_ns);

/* One JSON object without a newline: memory ("allocated" or "freed"), time_ns, pid, tid, device,
 * address, bytes (null: not known), total (what of the device's memory is allocated then),
 * reserved (null: not known), launch, op, op_id, phase, stack, backward_of as in activity_json. */
void memory_json(FILE *f, const struct memory_event *m);

/* The source line of a call, as tables show it. */

enum { WHERE_TEXT_MAX = 2048, PLACE_MAX = 512 };

/* "train.py:33", the file as `files` (NULL: its base name) has it; without a line number the file
 * alone. PLACE_MAX bytes are enough for usual ones. Returns out. */
const char *place_text(char *out, size_t size, const char *file, int32_t line,
		       const struct file_names *files);

/* Why an op, by its name (NULL: none), has no line: "(no Python frame)", "(forward op not known)";
 * the node that adds to a leaf's gradient, of a tensor
 * whose name is not known, has no forward op: "(gradient accumulation)". */
const char *where_unknown(const char *op, int phase);

/* "train.py:33 Attention.forward: q = self.qkv(x)": the file as `files` (NULL: its base name) has
 * it, line, function, and the text of the line when known; without a frame the reason in
 * parentheses, where_unknown. Not escaped for a terminal. Returns out. */
const char *where_text(char *out, size_t size, const struct py_frame *frame, const char *op,
		       int phase, const struct file_names *files);

/* "gradient accumulation of layers.0.weight". Returns out. */
const char *parameter_text(char *out, size_t size, const char *parameter);

/* Where an event is, as one of these two, the file by its base name. Returns out. */
const char *event_where_text(char *out, size_t size, const struct op_event *ev);

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

/* Events as JSON, one object each, written straight to the stream: building a tree first (jansson)
 * would spend most of the time in malloc for the millions of events of a training run. */

/* One JSON object without a newline. Keys, in this order:
 *
 *   id, parent (null: none), depth, pid, tid, phase (op_phase_names), op, start_ns, end_ns (null:
 *   the op has not ended), thrown, forward_id (null: none or unknown), args, results, stack,
 *   backward_of, parameter (null: see struct py_stack)
 *
 * An argument or result: {"name", "kind", ...}; the name is the schema's, "" where it has none.
 * By kind:
 *
 *   tensor       shape, stride, storage_offset, numel, dtype, device, layout, requires_grad,
 *                data_ptr; null when unknown; dtype and layout without "torch."; an unnamed
 *                code is "dtype 57"
 *   list         items: values, without a name
 *   not_decoded  reason
 *   others       value: int, float, bool, scalar (a number or a bool), complex [re, im], string,
 *                dtype, device, layout, memory_format, generator (always null), none (null)
 *   process_group  address, and the rank of the process in it and its size; null when unknown
 *
 * Floats are as json_float writes them, integers are exact.
 *
 * stack: the Python stack of the call, innermost frame first, of {file, line, function, column,
 * end_column}; columns are null when unknown; [] without a stack. It is
 * that of where_stack if this is known; backward_of is that of the event's backward_of. */
void json_event(FILE *f, const struct op_event *ev);

/* The arguments or the results, an array as in json_event; `key` as for json_open. */
typedef void json_values_fn(struct json_out *j, const char *key, const struct op_event *ev);
json_values_fn json_args, json_results;

/* The tensor statistics of an event (ev->stats is not NULL), one JSON object without a newline:
 *
 *   stats_of   the id of the event
 *   tensors    an array, for each tensor selected: name (as event_rows names it), of ("args" or
 *              "results"), and either reason (why it could not be measured) or count, nan, inf,
 *              neg_inf, zeros, min, max, mean, std, norm and hash; of a dtype that is not numeric
 *              only count and hash. Numbers are as in json_event, hash is a string of 16
 *              hexadecimal digits. */
void json_stats(FILE *f, const struct op_event *ev);

/* The arguments and results of an event as named rows. */

struct event_row {
	const char *name;
	const struct value *value; /* a list that holds tensors has a row for each item instead */
	struct tensor_place place; /* for tensors */
};

typedef void event_row_fn(const struct event_row *row, void *arg);

/* Call `fn` for each argument, then for each result. Arguments have their schema names. Results are
 * "outputs", with index or schema name when there are several. Those of a backward node are
 * "grad_outputs" (its inputs) and "grad_inputs" (what it computed), as in ditorch. Items of lists
 * with tensors are "tensors[0]", at most 1000 a list. A row is valid only during the call. */
void event_rows(const struct op_event *ev, event_row_fn *fn, void *arg);

/* Print the tensor statistics of `ev` (ev->stats is not NULL) as a boxed table, a row for each
 * tensor: ditorch's overflow check. The columns are name, inf_or_nan, min, max, mean, std and norm,
 * as in ditorch's op_overflow_check_hook.py, then nan, inf, -inf, zeros and hash. `t` is
 * overwritten. Prints nothing when no tensor was measured. 0, -ENOMEM, or -EIO when writing failed.
 */
int stats_print(struct table *t, FILE *f, const struct op_event *ev, int width);

#endif
