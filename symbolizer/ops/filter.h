/* Selecting and naming ops: the lists that --ops and --not-ops take, ditorch's names, training
 * steps. */
#ifndef SYMBOLIZER_OPS_FILTER_H
#define SYMBOLIZER_OPS_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "symbolizer/event/event.h"

struct op_desc;
struct filter_item;

/* Zero-initialise; an empty filter matches nothing. Immutable once compiled; threads may share it.
 */
struct filter {
	const char *option; /* "--ops", for messages */
	struct filter_item *items;
	size_t n;
};

/* Compile `list`, comma-separated items, into `out` (free with filter_free). Commas inside (), []
 * and {} and after a backslash belong to their item; blanks around an item and empty items are
 * dropped. `option` names the list in messages and must outlive `out`. An item with none of * + ? (
 * ) [ ] { } | ^ $ \ is a name:
 *   - "aten::add.Tensor": that operator
 *   - "aten::add": all its overloads
 *   - "add.Tensor": the same in any namespace
 *   - "add": all its overloads in any namespace
 *   - "AddmmBackward0": that backward node; "AddmmBackward": with any number
 *   - "MyFunctionBackward": that Python autograd.Function
 *   - "torch.Tensor.add": see opnames_match
 *
 * Any other item is a POSIX extended regular expression. It matches when it is found in one of
 * "aten::add.Tensor", "aten::add", "add.Tensor", "add", "torch.add", "torch.Tensor.add" (for a
 * backward node, in its only name); "^" and "$" anchor it to the ends of one of these.
 *
 * Returns 0; -EINVAL with *e for an empty list or an invalid expression; -ENOMEM. */
int filter_compile(const char *option, const char *list, struct filter *out, struct err *e);

/* Whether an item of `f` matches `op`. */
bool filter_match(const struct filter *f, const struct op_desc *op);

/* 0, or -ENOENT with *e when an item of `f` matches none of the `n` ops: names the item and similar
 * names. Items are exempt if their namespace is unknown (an operator may be registered later) or
 * c10d, or if they end in "Backward" (the class of a Python autograd.Function is met only when it
 * runs), and those that match marks (op_mark). */
int filter_check(const struct filter *f, const struct op_desc *const *ops, size_t n, struct err *e);

/* Whether an item of `f` that matches none of the `n` ops may match a later one: those that
 * filter_check exempts. */
bool filter_may_come(const struct filter *f, const struct op_desc *const *ops, size_t n);

void filter_free(struct filter *f);

/* ditorch's names, "torch.Tensor.add_", and the operators they stand for. */

struct op_desc;

/* Whether `name` is a ditorch name: it begins with "torch.". */
bool opnames_is_ditorch(const char *name);

/* Whether `name`, a ditorch name, stands for `op`.
 *
 * A ditorch name is that of the Python call (torch.add, torch.Tensor.add and a + b are one operator
 * to the dispatcher), so it stands for every overload of the operators that this call reaches
 * directly:
 *   - torch.X, torch.Tensor.X, torch.functional.X and so on: aten::X
 *   - torch.nn.functional.X: aten::X, and aten::X_ (inplace=True)
 *   - torch.linalg.X, torch.fft.X, torch.special.X: aten::linalg_X, aten::fft_X, aten::special_X
 *   - Python's operators and calls with other names, by a table: torch.Tensor.__add__ is aten::add,
 *     torch.Tensor.float is aten::to, torch.nn.functional.cross_entropy is aten::cross_entropy_loss
 *   - what opnames_ditorch names so
 *
 * Backward nodes have no ditorch names. */
bool opnames_match(const char *name, const struct op_desc *op);

/* ditorch's name of `op`, into `out` of `size` bytes: torch.nn.functional.X if that exists, else
 * torch.X, else torch.Tensor.X. False, and "" in `out`, when Python has no public function for it
 * (aten::_to_copy), for operators outside aten, for backward nodes, and when it does not fit. */
bool opnames_ditorch(const struct op_desc *op, char *out, size_t size);

/* The Python name of `op`, into `out` of `size` bytes: opnames_ditorch's if there is one, else
 * "torch.ops.aten._to_copy.default" (NAMESPACE.NAME.OVERLOAD, torch/_ops.py). A backward node keeps
 * its own name. False, and "" in `out`, when it does not fit. */
bool opnames_python(const struct op_desc *op, char *out, size_t size);

/* The name of a Python function with the operator's own arguments: opnames_python's, but
 * "torch.ops.aten.embedding.default" if Python's function has other arguments or another order.
 * False, and "" in `out`, when it does not fit. */
bool opnames_callable(const struct op_desc *op, char *out, size_t size);

/* Training steps: the step that an op belongs to. */

/* The steps of one process. Zero-initialise; `op` may be set before the first event.
 *
 * Steps count from 1. A step ends with a call of the optimizer's step, where the next one begins.
 * The call is recognised in the Python stacks of its ops: a frame "step" of a file of torch/optim,
 * or the wrapper that torch.optim.Optimizer puts around the step of its subclasses. It is over when
 * the same thread runs an op outside of it, or in a call from another line. A call without ops goes
 * unnoticed, as does the boundary between two calls in a row from the same line. Only one thread
 * counts: the first one seen in an optimizer.
 *
 * With `op`, a call of a matching op, including what it calls, ends a step. */
struct steps {
	const struct filter *op; /* --step-op; NULL: the optimizer's step. Borrowed */
	uint64_t done;		 /* completed steps */
	bool inside;		 /* in the call that ends a step */
	int32_t tid;
	uint32_t caller; /* id of the frame that called the optimizer's step, plus 1; 0: unknown */
	uint16_t depth;	 /* of the op that ends the step */
};

/* Process the next event, in start order, when it starts. Returns its step. Backward nodes and ops
 * of other threads belong to the current step. */
uint64_t steps_see(struct steps *s, const struct op_event *ev);

#endif
