/* A call as the library inside a process describes it (tracer/shim/extension/modes), as an event
 * that a condition can be asked about. */
#ifndef TRACER_INTERVENE_INTERVENE_FACTS_H
#define TRACER_INTERVENE_INTERVENE_FACTS_H

#include <jansson.h>

#include "base/arena.h"
#include "symbolizer/event/event.h"

/* Of the function `name` and its arguments [[name, value], ...], where a value is null, a number,
 * true, a list, or an object: {"tensor": {shape, stride, offset, dtype, device, layout,
 * requires_grad}},
 * {"text"}, {"dtype"}, {"device"}, {"layout"}, {"format"}; what is none of them is not decoded. Of
 * a tensor the address is not known. All of *out lies in `a`, but for the names, which are those of
 * the JSON. 0; -EPROTO for what is described otherwise; -ENOMEM. */
int intervene_facts(const char *name, const json_t *args, struct arena *a, struct op_event *out);

#endif
