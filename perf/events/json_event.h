/* Events as JSON, one object each. Written straight to the stream: with a tree in between
 * (jansson), a training's millions of events would spend most of their time in malloc. */
#ifndef PERF_EVENTS_JSON_EVENT_H
#define PERF_EVENTS_JSON_EVENT_H

#include <stdio.h>

#include "symbolizer/event/event.h"

/* One JSON object without a newline. Keys, in this order:
 *
 *   id, parent (null: none), depth, pid, tid, phase ("forward", "backward"), op, start_ns,
 *   end_ns (null: the op had not ended), thrown, forward_id (null: none or not known), args,
 *   results, stack
 *
 * An argument or result: {"name", "kind", ...}; the name is the schema's, "" where it gives none.
 * By kind:
 *
 *   tensor       shape, stride, storage_offset, numel, dtype, device, layout, requires_grad,
 *                data_ptr; null for what is not known; dtype and layout without "torch."; a code
 *                without a name is "dtype 57"
 *   list         items: values, without a name
 *   not_decoded  reason
 *   others       value: int, float, bool, scalar (a number or a bool), complex [re, im], string,
 *                dtype, device, layout, memory_format, generator (null: it has no name), none
 * (null)
 *
 * Floats are the shortest decimals that read back as the same double; NaN and the infinities, which
 * JSON lacks, are the strings "nan", "inf", "-inf". Integers are exact. Bytes that are not UTF-8
 * become U+FFFD.
 *
 * stack: the Python stack that locates the op, innermost frame first, of {file, line, function,
 * column, end_column}; columns are null when not known; [] for none. For a backward event it is
 * that of the forward op where it is known. */
void json_event(FILE *f, const struct op_event *ev);

/* A JSON array of the arguments (or of the results) as above. */
void json_args(FILE *f, const struct op_event *ev);
void json_results(FILE *f, const struct op_event *ev);

/* A JSON number, or a string for what is none, as above. */
void json_write_float(FILE *f, double d);

/* A JSON string of the first `len` bytes of s. */
void json_write_string(FILE *f, const char *s, size_t len);

/* The statistics of an event as JSON. */

/* One JSON object without a newline, of an event whose `stats` is not NULL:
 *
 *   stats_of   the id of the event
 *   tensors    an array, for each tensor of it that was looked at: name (as event_rows names it),
 * of
 *              ("args" or "results"), and either reason (why it could not be measured) or count,
 *              nan, inf, neg_inf, zeros, min, max, mean, std, norm and hash; of a dtype without
 *              numbers only count and hash. Numbers are as json_event writes them, hash is a string
 *              of 16 hexadecimal digits.
 */
void json_stats(FILE *f, const struct op_event *ev);

#endif
