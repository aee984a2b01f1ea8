/* Inside of the parser of conditions: shared by what reads operators (when_parse.c), what reads
 * values (when_parse_value.c), and the steps that both take (when_parse_step.c). */
#ifndef SYMBOLIZER_WHEN_WHEN_PARSE_H
#define SYMBOLIZER_WHEN_WHEN_PARSE_H

#include "symbolizer/when/when_lex.h"
#include "symbolizer/when/when_node.h"

/* Functions return NULL when something is wrong, which `code` and *lexer.e say. */
struct when_parser {
	struct when_lexer lexer;
	struct when_token now; /* the token to be looked at */
	size_t end;	       /* of the token before */
	int code;
	unsigned nesting, slots;
	bool in_list;
};

/* On to the next token. */
void when_advance(struct when_parser *p);

bool when_is_sign(const struct when_parser *p, const char *sign);
bool when_is_name(const struct when_parser *p, const char *name);

/* Whether that is the token, and then on to the next. */
bool when_accept(struct when_parser *p, const char *sign);
bool when_accept_name(struct when_parser *p, const char *name);

/* Something is wrong at a token. What was wrong before, if anything, stays. NULL. */
struct when_node *when_wrong_token(struct when_parser *p, const struct when_token *t,
				   const char *what, const char *hint);

/* `what` is missing where the parser is. NULL. */
struct when_node *when_expected(struct when_parser *p, const char *what, const char *hint);

/* A node that begins at byte `at`; NULL when something was wrong before. */
struct when_node *when_new_node(struct when_parser *p, enum when_node_kind kind, size_t at);

/* `n` (may be NULL) reaches to the end of the token before: gives it back, or NULL when something
 * was wrong. */
struct when_node *when_close(struct when_parser *p, struct when_node *n);

/* The truth of an operand (may be NULL) where a condition is wanted. */
struct when_node *when_truth_node(struct when_parser *p, struct when_node *a);

/* An expression; a value with what follows it: x, x.shape[0], len(x), (1, 2). */
struct when_node *when_parse_or(struct when_parser *p);
struct when_node *when_parse_postfix(struct when_parser *p);

#endif
