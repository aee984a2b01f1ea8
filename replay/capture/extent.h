/* Which bytes of memory belong to a tensor. */
#ifndef REPLAY_CAPTURE_EXTENT_H
#define REPLAY_CAPTURE_EXTENT_H

#include <stdint.h>

#include "replay/capture/refusal.h"
#include "replay/capture/source.h"
#include "symbolizer/event/event.h"

struct extent {
	uint64_t base;	/* address of the first byte of the storage; 0 for a tensor without elements
			   or on the meta device */
	uint64_t bytes; /* from there to behind the last byte that belongs to an element */
	unsigned itemsize;
	bool is_meta;
};

/* The extent of `t`, or why there is none. All of the metadata is checked: shape and numel agree,
 * strides and offset are not negative, nothing overflows. */
enum refusal extent_of(const struct tensor *t, bool devices, struct extent *out);

#endif
