/* Evaluating a condition: what its parts share. */
#ifndef SYMBOLIZER_WHEN_WHEN_EVAL_H
#define SYMBOLIZER_WHEN_WHEN_EVAL_H

#include "symbolizer/when/when_node.h"

struct when_ctx {
	const struct op_event *ev;
	bool at_entry;
	struct when_value slots[WHEN_SLOTS_MAX]; /* what any and all are at */
};

struct when_value when_node_eval(struct when_ctx *c, const struct when_node *n);

/* Facts of the call. */
struct when_value when_word_eval(const struct when_ctx *c, enum when_word word);

/* An argument or a result by its name. */
struct when_value when_name_eval(const struct when_ctx *c, const char *name);

/* A fact of a value; without the index or string that may follow. */
struct when_value when_attribute_eval(struct when_value v, enum when_attribute attribute);

/* Lists. Each takes what is special for what it is, and gives ABSENT for what is no list. */
struct when_value when_list_len(struct when_ctx *c, struct when_value list);
struct when_value when_list_item(struct when_ctx *c, struct when_value list, __int128 i);

/* Whether all that both hold is equal, one by one; also of values that are no lists. */
struct when_value when_list_equal(struct when_ctx *c, struct when_value a, struct when_value b);

/* Whether `item` is among what the list holds. */
struct when_value when_list_has(struct when_ctx *c, struct when_value list, struct when_value item);

/* A loop over a list: `take` is called for each item until it returns false. */
typedef bool when_take_fn(struct when_ctx *c, struct when_value item, void *arg);
void when_list_each(struct when_ctx *c, struct when_value list, when_take_fn *take, void *arg);

#endif
