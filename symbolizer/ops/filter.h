/* Which ops: the lists that --ops and --not-ops take. */
#ifndef SYMBOLIZER_OPS_FILTER_H
#define SYMBOLIZER_OPS_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct op_desc;
struct filter_item;

/* Zero-initialise; empty, it matches nothing. Not changed once compiled; threads may share it. */
struct filter {
	const char *option; /* "--ops", for messages */
	struct filter_item *items;
	size_t n;
};

/* Read `list`, items between commas, into `out`. Commas inside (), [] and {} and after a backslash
 * belong to their item; blanks around an item and empty items are dropped. `option` names the list
 * in messages and must outlive `out`. An item with none of * + ? ( ) [ ] { } | ^ $ \ is a name:
 * - "aten::add.Tensor": that operator
 * - "aten::add": all its overloads
 * - "add.Tensor": the same in any namespace
 * - "add": all its overloads in any namespace
 * - "AddmmBackward0": that backward node; "AddmmBackward": whatever number it ends in
 * - "MyFunctionBackward": that Python autograd.Function
 * - "torch.Tensor.add": what opnames_match says
 *
 * Any other is a POSIX extended regular expression that is searched for: it matches when it is
 * found in one of "aten::add.Tensor", "aten::add", "add.Tensor", "add", "torch.add",
 * "torch.Tensor.add" (in the one name of a backward node). "^" and "$" tie it to the ends of one of
 * these.
 *
 * Returns 0; -EINVAL for an empty list or an expression that is not one; -ENOMEM. */
int filter_compile(const char *option, const char *list, struct filter *out, struct err *e);

bool filter_match(const struct filter *f, const struct op_desc *op);

/* Fails with -ENOENT when an item of `f` matches none of the `n` ops: names it, and names that are
 * near it. Not held against an item: a namespace that none of the ops has (an operator may be
 * registered later), and a name that ends in "Backward" (the class of a Python autograd.Function is
 * met when it runs). */
int filter_check(const struct filter *f, const struct op_desc *const *ops, size_t n, struct err *e);

/* Whether an item of `f` that matches none of the `n` ops may match one that comes later: what
 * filter_check does not hold against it. */
bool filter_may_come(const struct filter *f, const struct op_desc *const *ops, size_t n);

void filter_free(struct filter *f);

#endif
