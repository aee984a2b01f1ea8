/* A condition as a tree. */
#ifndef SYMBOLIZER_WHEN_WHEN_NODE_H
#define SYMBOLIZER_WHEN_WHEN_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "symbolizer/when/when.h"
#include "symbolizer/when/when_words.h"

enum when_node_kind {
	WHEN_N_CONSTANT,  /* value */
	WHEN_N_NAME,	  /* name: of an argument or a result */
	WHEN_N_WORD,	  /* word */
	WHEN_N_VARIABLE,  /* slot: what any or all is at */
	WHEN_N_ATTRIBUTE, /* attribute of a; b: an index or string, may be NULL */
	WHEN_N_ITEM,	  /* a[b] */
	WHEN_N_LEN,	  /* len(a) */
	WHEN_N_MINUS,	  /* -a */
	WHEN_N_ARITH,	  /* a op b, see when_arith */
	WHEN_N_LIST,	  /* a and what follows it by next; count of them */
	WHEN_N_COMPARE,	  /* a, and WHEN_N_LINKs from b on: a < b < c asks for each neighbours, and
			     evaluates each once */
	WHEN_N_LINK,	  /* op and the right side a; the next comparison by next */
	WHEN_N_TRUTH,	  /* of a, where a condition is wanted */
	WHEN_N_NOT,
	WHEN_N_AND,
	WHEN_N_OR,
	WHEN_N_ANY, /* b for one of the items of a, each in turn in slot */
	WHEN_N_ALL,
};

enum when_comparison {
	WHEN_EQUAL,
	WHEN_NOT_EQUAL,
	WHEN_LESS,
	WHEN_LESS_EQUAL,
	WHEN_GREATER,
	WHEN_GREATER_EQUAL,
	WHEN_IN,
	WHEN_NOT_IN,
	WHEN_IS,
	WHEN_IS_NOT,
};

enum {
	WHEN_TEXT_MAX = 4096, /* bytes of a condition */
	WHEN_NESTING_MAX = 64,
	WHEN_SLOTS_MAX = 3, /* any and all within each other */
};

struct when_node {
	uint8_t kind; /* enum when_node_kind */
	uint8_t op;   /* a character of when_arith, or enum when_comparison */
	uint8_t slot;
	uint16_t seen;	  /* the checker's: what it may be for one of the ops */
	uint32_t at, len; /* place in the text */
	uint32_t count;
	struct when_node *a, *b, *next;
	struct when_value value;
	const char *name;
	const struct when_word_def *word;
	const struct when_attribute_def *attribute;
};

struct when {
	const char *option;
	char *text;
	struct when_node *root; /* WHEN_N_TRUTH or a kind that gives truth */
	bool needs_exit;
	struct arena arena;
};

/* Where a name of an op stands: its arguments are looked at first, then its results; "out" and
 * "result" also stand for the first result, and "arg0" for the first argument. */
struct when_place {
	bool found, is_result;
	uint16_t index;
};

struct when_place when_find_name(const struct op_desc *op, const char *name);

/* Read w->text into w->root, which lies in w->arena. 0, -EINVAL with *e, -ENOMEM. */
int when_parse(struct when *w, struct err *e);

/* Wrong at `n`: as when_wrong. */
int when_wrong_node(const struct when *w, const struct when_node *n, struct err *e, const char *fmt,
		    ...) __attribute__((format(printf, 4, 5)));

#endif
