/* The words and signs that a condition is written with. */
#ifndef SYMBOLIZER_WHEN_WHEN_LEX_H
#define SYMBOLIZER_WHEN_WHEN_LEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "symbolizer/when/when_value.h"

enum when_token_kind {
	TOKEN_END,
	TOKEN_NAME,  /* names and words, and, or ... */
	TOKEN_VALUE, /* numbers and strings */
	TOKEN_SIGN,  /* one or two characters: sign[] */
};

struct when_token {
	uint8_t kind;
	char sign[3];
	uint32_t at, len;	 /* bytes in the text */
	const char *name;	 /* TOKEN_NAME, in the arena */
	struct when_value value; /* TOKEN_VALUE; strings in the arena */
};

/* Where a condition is read, and what for. */
struct when_lexer {
	const char *option, *text;
	size_t at;
	struct arena *arena;
	struct err *e;
};

/* The next token into *out. 0; -EINVAL with *l->e; -ENOMEM. */
int when_lex(struct when_lexer *l, struct when_token *out);

/* Describe what is wrong with `len` bytes from `at` on. -EINVAL. */
int when_wrong(const struct when_lexer *l, size_t at, size_t len, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
