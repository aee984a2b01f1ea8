/* Lists of operators in environment variables (OP_CAPTURE_LIST), read as ditorch reads them. */
#ifndef TRACER_CAPTURE_OPLISTS_H
#define TRACER_CAPTURE_OPLISTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct op_desc;
struct oplist_item;

/* A list as is_opname_match (op_tools/utils.py of ditorch) takes it: comma-separated items, each a
 * name, or a regular expression for which re.findall returns the whole name. So ".*" matches all,
 * "torch.Tensor.add" or "torch.*add" matches add, "add" alone matches nothing. If an expression has
 * one group, the group must match the whole name; with more than one it never matches. The regular
 * expressions are PCRE2's, which agree with Python's in all common syntax.
 *
 * ditorch's name depends on how Python made the call, which the dispatcher does not know. So an
 * item matches an op if it is the op's name (opnames_match), or if as an expression it matches the
 * name that ditrace shows (opnames_python) or "torch.Tensor.X" for the same X. Zero-initialise. */
struct oplist {
	struct oplist_item *items;
	size_t n, room;
};

/* Returns 0; -EINVAL if an item is not a regular expression (ditorch fails there, too); -ENOMEM.
 * `name` is the variable's, for messages. Free with oplist_free. */
int oplist_compile(const char *name, const char *text, struct oplist *out, struct err *e);

/* Append the items of `text`; on failure the list is unchanged. */
int oplist_append(const char *name, const char *text, struct oplist *l, struct err *e);

/* Remove the items that are spelled like an item of `gone`. */
void oplist_subtract(struct oplist *l, const struct oplist *gone);

/* The text of the i-th item; NULL past the last. */
const char *oplist_item(const struct oplist *l, size_t i);

/* The items, comma-separated, "" for none; free() it. NULL without memory. */
char *oplist_text(const struct oplist *l);

bool oplist_match(const struct oplist *l, const struct op_desc *op);

/* The same if Python's name is known, as in ditorch: an item is `name`, or matches all of it. */
bool oplist_has_name(const struct oplist *l, const char *name);

void oplist_free(struct oplist *l);

#endif
