/* Which captures: --when on what their calls were given. */
#ifndef REPLAY_CAPTURE_WHEN_H
#define REPLAY_CAPTURE_WHEN_H

#include <stdbool.h>

#include "base/err.h"
#include "replay/capture_find.h"
#include "replay/pool.h"
#include "symbolizer/when/when.h"

/* Read a condition for captures into *out (when_free it): as when_compile, and -EINVAL for one that
 * asks for what a capture does not keep: results, and when and where in the run the call was. */
int capture_when_compile(const char *text, struct when **out, struct err *e);

/* For which of the captures `w` holds, into `keep`, one for each. `pool` is open, and is as before
 * afterwards; its runners look at the captures (`trust`: also at those that hold more than
 * numbers). A capture that cannot be read is kept, so that running it says why. -EINVAL for a
 * condition that applies to none of them, else as pool_run. */
int capture_when(const struct capture_places *p, struct when *w, struct pool *pool, bool trust,
		 bool *keep, struct when_counts *counts, struct err *e);

/* Record in *e that it holds for none of `all` captures: -ENOENT. */
int capture_when_none(size_t all, const struct when_counts *counts, struct err *e);

#endif
