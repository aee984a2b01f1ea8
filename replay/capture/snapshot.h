/* The bytes of tensors as they were at one moment, for what may be overwritten later. */
#ifndef REPLAY_CAPTURE_SNAPSHOT_H
#define REPLAY_CAPTURE_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "replay/capture/source.h"
#include "symbolizer/event/event.h"

struct snapshot_range {
	uint64_t address;
	size_t n, at; /* bytes; where in `bytes` they are */
};

/* Zero-initialise. */
struct snapshot {
	struct snapshot_range *ranges;
	size_t nranges, ranges_size;
	unsigned char *bytes;
	size_t len, room;
	struct source live;
};

/* Copy what lies between the first and the last element of `t`, unless that is known already, or is
 * more than `max` bytes with what is there, or much more than the elements are. 0; -EFBIG for the
 * last two; -ENOTSUP when it has no bytes that can be read (extent_of); -ENOMEM; the -errno of
 * src->read. */
int snapshot_add(struct snapshot *s, const struct tensor *t, const struct source *src, size_t max);

/* A source that reads `live` as it is now, and what was copied as it was then. `s` must outlive it.
 */
struct source snapshot_source(struct snapshot *s, const struct source *live);

/* Forget what was copied, and keep some memory for the next time. */
void snapshot_clear(struct snapshot *s);

void snapshot_free(struct snapshot *s);

#endif
