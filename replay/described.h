/* A captured call as an op event: what the runner says of it (replay/runner/65_describe.py). */
#ifndef REPLAY_DESCRIBED_H
#define REPLAY_DESCRIBED_H

#include <jansson.h>

#include "base/arena.h"
#include "replay/capture_find.h"
#include "symbolizer/event/event.h"

/* {"schema": "aten::add.Tensor(...) -> Tensor", "args": [...]}, an argument each; or, for a
 * function that is no operator, {"name": ..., "names": [...], "args": [...]}, where the names may
 * be "". Arguments are null, true, false, integers, strings, lists, and objects of one member:
 * "tensor", "float" and "complex" (as text), "dtype", "layout", "memory_format", "device", "other"
 * (a type that conditions know nothing of).
 *
 * Fills `out`, and all that it points to lies in `a`: op, args, where_stack, and of `p` id and pid;
 * p->file and p->function must stay as long. Of tensors the data_ptr is not known. Results are
 * absent, and the op's id is 0. Returns 0, -EPROTO for what does not fit that, or -ENOMEM. */
int described_event(json_t *message, const struct capture_place *p, struct arena *a,
		    struct op_event *out);

/* Such arguments alone, in `a`. A "tensor" may have a "piece": its bytes are those of the piece of
 * that number of what came with the message, from its first on, and described_piece of it stands
 * for their address. 0, -EPROTO or -ENOMEM. */
int described_values(json_t *list, struct arena *a, struct value **out, size_t *n);

enum { DESCRIBED_PIECE_BITS = 44 }; /* no piece has more than 2^44 bytes */

static inline uint64_t described_piece(int64_t number)
{
	return (uint64_t)(number + 1) << DESCRIBED_PIECE_BITS;
}

#endif
