/* Which calls a table was made of: each that differs in its function, place, shapes, dtypes,
 * devices and plain values, once. */
#ifndef TRACER_SHIM_EXTENSION_MODES_DEDUP_H
#define TRACER_SHIM_EXTENSION_MODES_DEDUP_H

#include <stdint.h>

#include "tracer/shim/extension/python.h"

enum { SEEN_SLOTS = 8192 };

struct seen {
	uint64_t slots[SEEN_SLOTS];
	unsigned n;
};

/* Whether a call is new; is_new, class Seen of modes/, decides for what is not known here. Errors
 * count as no. */
bool seen_is_new(struct seen *s, object *is_new, object *plan, object *at, object *args,
		 object *kwargs);

/* Of the types, shapes, dtypes, devices and plain values among a call's arguments. */
uint64_t seen_hash(object *args, object *kwargs);

/* Nothing was seen so far. Before all else. */
void seen_forget(struct seen *s);

#endif
