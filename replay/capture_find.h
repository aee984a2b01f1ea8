/* Finding captures: folders with an input.pth, in ditorch's layout. */
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
	char *op;	/* from input.pth.json or the folder; "" if unknown */
	char *file;	/* source file of the call, from input.pth.json; NULL: unknown */
	char *function; /* NULL: unknown */
	char *python, *python_changed; /* its interpreter, see replay/capture/capture_files.h; both
					  NULL: unknown */
	int64_t line;		       /* 0: unknown */
	int64_t pid, id;	       /* from the path OP/PID/ID/TIME; -1: unknown */
};

/* Zero-initialise; free with capture_places_free. */
struct capture_places {
	struct capture_place *list;
	size_t n, size;
};

/* Append every folder in the tree `root` (itself included) that holds an input.pth, sorted by
 * process and id. Only `root` itself may be a symbolic link. 0; -ENOENT if there is none; -errno of
 * a folder that cannot be read. */
int capture_find(const char *root, struct capture_places *out, struct err *e);

/* Drop the places whose `keep` is false; the others keep their order. */
void capture_places_choose(struct capture_places *p, const bool *keep);

void capture_places_free(struct capture_places *p);

/* A captured call as an op event, from the runner's description (replay/runner/describe.py). */

/* The message is {"schema": "aten::add.Tensor(...) -> Tensor", "args": [...]}, or {"name": ...,
 * "names": [...], "args": [...]} for a function that is no operator, where names may be "".
 * Arguments are null, true, false, integers, strings, lists, and objects of one member: "tensor",
 * "float" and "complex" (as text), "dtype", "layout", "memory_format", "device", "other" (a type
 * that conditions cannot use).
 *
 * Fills `out` with op, args, where_stack, and id and pid of `p`; all it points to is allocated in
 * `a`, except p->file and p->function, which must stay. data_ptr of tensors is unknown, there are
 * no results, and the op's id is 0. 0, -EPROTO for a malformed message, or -ENOMEM. */
int described_event(json_t *message, const struct capture_place *p, struct arena *a,
		    struct op_event *out);

/* The arguments alone, allocated in `a`. A "tensor" may have a "piece": its data is piece number N
 * of the bytes that came with the message, from its start, and its address is described_piece(N).
 * 0, -EPROTO or -ENOMEM. */
int described_values(json_t *list, struct arena *a, struct value **out, size_t *n);

enum { DESCRIBED_PIECE_BITS = 44 }; /* no piece has more than 2^44 bytes */

static inline uint64_t described_piece(int64_t number)
{
	return ((uint64_t)number + 1) << DESCRIBED_PIECE_BITS;
}

#endif
