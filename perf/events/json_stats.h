/* The statistics of an event as JSON. */
#ifndef PERF_EVENTS_JSON_STATS_H
#define PERF_EVENTS_JSON_STATS_H

#include <stdio.h>

#include "symbolizer/event/event_stats.h"

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
