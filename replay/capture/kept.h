/* Tensors kept with their bytes, each as it was at its own moment, until they are written together.
 */
#ifndef REPLAY_CAPTURE_KEPT_H
#define REPLAY_CAPTURE_KEPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "replay/capture/source.h"
#include "symbolizer/event/event.h"

struct kept_tensor;

/* Zero-initialise. */
struct kept {
	struct arena arena;
	struct kept_tensor *last;
	size_t bytes; /* of memory copied */
};

/* Copy `t` and its bytes, from the first of its storage to its last, as `src` has them now. *out is
 * the copy, which lives as long as `k`. 0; -ENOTSUP when there are no bytes to read (extent_of);
 * -EFBIG for more than `max` bytes; -EEXIST when it lies where another kept tensor lay, with other
 * bytes; -ENOMEM; the -errno of src->read. */
int kept_add(struct kept *k, const struct tensor *t, const struct source *src, size_t max,
	     struct tensor **out);

/* A source that reads the tensors of `k`, which must outlive it, and nothing else. */
struct source kept_source(struct kept *k);

void kept_free(struct kept *k);

#endif
