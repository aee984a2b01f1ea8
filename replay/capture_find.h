/* Where captures lie: folders that have an input.pth, as ditorch lays them out. */
#ifndef REPLAY_CAPTURE_FIND_H
#define REPLAY_CAPTURE_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* One captured call. Strings are owned by the list. */
struct capture_place {
	char *dir;
	char *op;   /* name of the op, from input.pth.json or the folder; "" when neither tells */
	char *file; /* source line of the call, from input.pth.json; NULL: not known */
	char *function;		       /* NULL: not known */
	char *python, *python_changed; /* its interpreter, as in replay/capture/interpreter.h; both
					  NULL: not known */
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

#endif
