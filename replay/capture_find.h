/* Where captures lie: folders that have an input.pth, as ditorch lays them out. */
#ifndef REPLAY_CAPTURE_FIND_H
#define REPLAY_CAPTURE_FIND_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "symbolizer/event/event.h"

/* One captured call. Strings are owned by the list. */
struct capture_place {
	char *dir;
	char *op;   /* name of the op, from input.pth.json or the folder; "" when neither tells */
	char *file; /* source line of the call, from input.pth.json; NULL: not known */
	char *function;		       /* NULL: not known */
	char *python, *python_changed; /* its interpreter, as in replay/capture/capture_files.h;
					  both NULL: not known */
	int64_t line;		       /* 0: not known */
	int64_t pid, id;	       /* from the path OP/PID/ID/TIME; -1: not known */
};

/* Zero-initialise; capture_places_free gives everything back. */
struct capture_places {
	struct capture_place *list;
	size_t n, size;
};

/* Add every folder in the tree `root` (or `root` itself) that holds an input.pth, by process and
 * id. Symbolic links are followed at `root` only. -ENOENT when there is none; the -errno of a
 * folder that cannot be read. */
int capture_find(const char *root, struct capture_places *out, struct err *e);

/* Give back the places whose `keep` is false; the others stay in their order. */
void capture_places_choose(struct capture_places *p, const bool *keep);

void capture_places_free(struct capture_places *p);

/* A captured call as an op event: what the runner says of it (replay/runner/65_describe.py). */

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
