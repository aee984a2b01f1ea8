/* Lists of operators in environment variables (OP_CAPTURE_LIST), read as ditorch reads them. */
#ifndef TRACER_CAPTURE_OPLISTS_H
#define TRACER_CAPTURE_OPLISTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct op_desc;
struct oplist_item;

/* A list as is_opname_match (op_tools/utils.py of ditorch) takes it: items between commas, each a
 * name or a regular expression that, searched for by re.findall, gives the whole name. So ".*" is
 * all, "torch.Tensor.add" or "torch.*add" is add, "add" alone is nothing; and of an expression with
 * one group the group must be the whole name, with more than one nothing ever is. Regular
 * expressions are PCRE2's, which agree with Python's in all that is common.
 *
 * ditorch's name says how Python called, and the dispatcher does not know that: an item stands for
 * an op when it is the op's name (opnames_match), or when as an expression it gives the name that
 * ditrace shows (opnames_python) or "torch.Tensor.X" of the same X. Zero-initialise. */
struct oplist {
	struct oplist_item *items;
	size_t n, room;
};

/* Returns 0; -EINVAL when an item is not a regular expression (ditorch fails there); -ENOMEM.
 * `name` is the variable's, for messages. The list owns what it points to until oplist_free. */
int oplist_compile(const char *name, const char *text, struct oplist *out, struct err *e);

/* Add the items of `text`; on a failure the list is as it was. */
int oplist_append(const char *name, const char *text, struct oplist *l, struct err *e);

/* Take those out that are written as items of `gone` are. */
void oplist_subtract(struct oplist *l, const struct oplist *gone);

/* The i-th item as it was written; NULL behind the last. */
const char *oplist_item(const struct oplist *l, size_t i);

/* The items with commas between, "" for none; free it. NULL without memory. */
char *oplist_text(const struct oplist *l);

bool oplist_match(const struct oplist *l, const struct op_desc *op);

/* The same where Python's name is known, as in ditorch: an item is `name`, or gives all of it. */
bool oplist_has_name(const struct oplist *l, const char *name);

void oplist_free(struct oplist *l);

#endif
