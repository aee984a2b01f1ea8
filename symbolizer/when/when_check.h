/* Inside of the checker of conditions. */
#ifndef SYMBOLIZER_WHEN_WHEN_CHECK_H
#define SYMBOLIZER_WHEN_WHEN_CHECK_H

#include "symbolizer/when/when_node.h"

/* Describe what is wrong with part `n` of a condition, which is nothing for any of the `count` ops;
 * what its parts may be is in their `seen`. Fills *e with -EINVAL. */
void when_tell(const struct when *w, const struct when_node *n, const struct op_desc *const *ops,
	       size_t count, struct err *e);

#endif
