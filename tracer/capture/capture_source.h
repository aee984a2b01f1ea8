/* The memory of a traced process as a source of captures. */
#ifndef TRACER_CAPTURE_CAPTURE_SOURCE_H
#define TRACER_CAPTURE_CAPTURE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/capture/source.h"
#include "symbolizer/decode/target.h"

/* The dispatch keys that integer tensors of this run have had: those of tensors without the
 * conjugate or negative bit. Needed where the code of libtorch does not tell the bits.
 * Zero-initialise. */
struct ordinary_keys {
	uint64_t keys;
};

struct capture_source {
	struct target *target;
	struct ordinary_keys *keys;
};

/* A source that reads the process of `c`, which must outlive it. The thread that uses the tensors
 * must stand still. Memory of devices cannot be read from outside. */
struct source capture_source(struct capture_source *c);

#endif
