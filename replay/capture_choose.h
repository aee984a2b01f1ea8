/* Which captures: --ops and --not-ops on the names of their ops. */
#ifndef REPLAY_CAPTURE_CHOOSE_H
#define REPLAY_CAPTURE_CHOOSE_H

#include "base/err.h"
#include "replay/capture_find.h"

/* Keep the captures whose op the list `ops` names (NULL: all) and `not_ops` (NULL: none) does not;
 * lists as in symbolizer/ops/filter.h. A capture's name, of ditorch or of an operator, is taken for
 * the operator in it: torch.Tensor.add for aten::add. -EINVAL for a list that is none, -ENOENT when
 * nothing is left. */
int capture_choose(struct capture_places *p, const char *ops, const char *not_ops, struct err *e);

#endif
