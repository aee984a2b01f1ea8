#ifndef TRACER_SHIM_EXTENSION_MODES_STATS_H
#define TRACER_SHIM_EXTENSION_MODES_STATS_H

#include "tracer/shim/extension/python.h"

/* statistics(tensor): inf_or_nan, min, max, mean, std, norm, nan, inf, -inf, zeros and hash as
 * texts (perf/events/print_stats.h), a list; None without memory. Raises what a tensor without
 * numbers raises.
 */
object *modes_measure(object *self, object *tensor);

#endif
