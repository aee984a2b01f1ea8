/* The names that ditorch's users know, "torch.Tensor.add_", and the operators they stand for: the
 * one place. */
#ifndef SYMBOLIZER_OPS_OPNAMES_H
#define SYMBOLIZER_OPS_OPNAMES_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
