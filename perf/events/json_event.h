/* Events as JSON, one object each, written straight to the stream: building a tree first (jansson)
 * would spend most of the time in malloc for the millions of events of a training run. */
#ifndef PERF_EVENTS_JSON_EVENT_H
#define PERF_EVENTS_JSON_EVENT_H

#include <stdio.h>

#include "base/json.h"
#include "symbolizer/event/event.h"

/* One JSON object without a newline. Keys, in this order:
 *
 *   id, parent (null: none), depth, pid, tid, phase (op_phase_names), op, start_ns, end_ns (null:
 *   the op has not ended), thrown, forward_id (null: none or unknown), args, results, stack,
 *   backward_of
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

#endif
