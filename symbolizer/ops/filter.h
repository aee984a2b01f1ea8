/* Which ops: the lists that --ops and --not-ops take. */
#ifndef SYMBOLIZER_OPS_FILTER_H
#define SYMBOLIZER_OPS_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "symbolizer/event/event.h"

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

/* The names that ditorch's users know, "torch.Tensor.add_", and the operators they stand for: the
 * one place. */

struct op_desc;

/* Is `name` written as ditorch writes names: does it begin with "torch."? */
bool opnames_is_ditorch(const char *name);

/* Does `name`, a ditorch name, stand for `op`?
 *
 * A ditorch name says how Python called (torch.add, torch.Tensor.add and a + b are one operator to
 * the dispatcher), so it stands for every overload of the operators that this call reaches
 * directly:
 * - torch.X, torch.Tensor.X, torch.functional.X and so on: aten::X
 * - torch.nn.functional.X: aten::X, and aten::X_ (inplace=True)
 * - torch.linalg.X, torch.fft.X, torch.special.X: aten::linalg_X, aten::fft_X, aten::special_X
 * - Python's operators, and what it calls by other names, by a table: torch.Tensor.__add__ is
 *   aten::add, torch.Tensor.float is aten::to, torch.nn.functional.cross_entropy is
 *   aten::cross_entropy_loss
 * - what opnames_ditorch names so
 *
 * Backward nodes have no ditorch names. */
bool opnames_match(const char *name, const struct op_desc *op);

/* How ditorch would name `op`, into `out` of `size` bytes: torch.nn.functional.X where that exists,
 * else torch.X, else torch.Tensor.X. false, and "" in `out`, when Python has no public function for
 * it (aten::_to_copy), for operators outside aten, and for backward nodes. */
bool opnames_ditorch(const struct op_desc *op, char *out, size_t size);

/* The name under which Python finds `op`, into `out` of `size` bytes: opnames_ditorch's where there
 * is one, else "torch.ops.aten._to_copy.default" (NAMESPACE.NAME.OVERLOAD, torch/_ops.py). A
 * backward node keeps its own name. false, and "" in `out`, when it does not fit. */
bool opnames_python(const struct op_desc *op, char *out, size_t size);

/* The name of a function of Python that takes the operator's own arguments: opnames_python's, but
 * "torch.ops.aten.embedding.default" where Python's function has others, or the same in another
 * order. false, and "" in `out`, when it does not fit. */
bool opnames_callable(const struct op_desc *op, char *out, size_t size);

/* Which training step an op belongs to. */

/* The steps of one process. Zero-initialise; `op` may be set before the first event.
 *
 * Steps are counted from 1. The first ends with the first call of the optimizer's step, the next
 * begins there. A call of it shows in the Python stacks of its ops: a frame "step" of a file of
 * torch/optim, or the wrapper that torch.optim.Optimizer puts around the step of its subclasses; it
 * is over when the same thread does an op outside of it, or in a call from another line. A call
 * that does no op is not seen, nor the end of one that the same line follows with another at once.
 * Only one thread counts: the first that is seen in an optimizer.
 *
 * With `op` a call of an op that it matches, and what that calls, is the end of a step. */
struct steps {
	const struct filter *op; /* --step-op, NULL: the optimizer's step. Not owned */
	uint64_t done;		 /* steps that have ended */
	bool inside;		 /* of an ending step */
	int32_t tid;
	uint32_t caller; /* id of the frame that called the optimizer's step, plus 1; 0: unknown */
	uint16_t depth;	 /* of the op that ends the step */
};

/* See one more event, in the order in which they start, when it starts. Returns the step that it
 * belongs to. Backward nodes and ops of other threads belong to the step that is going on. */
uint64_t steps_see(struct steps *s, const struct op_event *ev);

#endif
