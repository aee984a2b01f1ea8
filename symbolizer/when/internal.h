/* Declarations shared by the files of this folder. */
#ifndef SYMBOLIZER_WHEN_INTERNAL_H
#define SYMBOLIZER_WHEN_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"
#include "symbolizer/event/event.h"
#include "symbolizer/when/when.h"

/* Values during the evaluation of a condition, with Python's rules for them. */

enum when_kind {
	/* Special: there is no value; the kind says why. See when_weaker. */
	WHEN_V_ABSENT, /* does not exist here: the operation does not apply */
	WHEN_V_UNKNOWN,
	WHEN_V_LATER,
	WHEN_V_NONE,
	WHEN_V_INT, /* also truth values */
	WHEN_V_FLOAT,
	WHEN_V_COMPLEX,
	WHEN_V_STRING,
	WHEN_V_DTYPE, /* code in i, as for the next three */
	WHEN_V_LAYOUT,
	WHEN_V_MEMORY_FORMAT,
	WHEN_V_PHASE, /* enum op_phase */
	WHEN_V_DEVICE,
	WHEN_V_TENSOR,
	WHEN_V_VALUES,	/* a list of values */
	WHEN_V_DIMS,	/* a shape or stride */
	WHEN_V_TENSORS, /* the tensors among values, including those in lists */
	WHEN_V_LITERAL, /* a list written in the condition */
	WHEN_V_OTHER,	/* generators: can only be compared with None */
};

struct when_node;

struct when_value {
	uint8_t kind;	/* enum when_kind */
	uint32_t count; /* VALUES, DIMS, LITERAL: items; TENSORS: of `values` */
	union {
		__int128 i;
		double f;
		struct {
			double re, im;
		} c;
		struct {
			const char *bytes;
			size_t len;
		} s;
		struct {
			int8_t type, index;
		} device;
		const struct tensor *tensor;
		const int64_t *dims;
		const struct when_node *items; /* LITERAL: the first, the others linked by next */
		struct {
			const struct value *values;
			const struct op_arg *types; /* TENSORS: of the values; NULL: unknown */
		};
	};
};

static inline struct when_value when_none(enum when_kind why)
{
	return (struct when_value){.kind = (uint8_t)why};
}

static inline struct when_value when_int(__int128 i)
{
	return (struct when_value){.kind = WHEN_V_INT, .i = i};
}

static inline struct when_value when_string(const char *s, size_t len)
{
	return (struct when_value){.kind = WHEN_V_STRING, .s = {s, len}};
}

/* One of WHEN_V_ABSENT, UNKNOWN, LATER. */
static inline bool when_is_special(struct when_value v)
{
	return v.kind <= WHEN_V_LATER;
}

bool when_is_list(struct when_value v);

/* The result of an operation on two values, at least one of them special: ABSENT takes precedence
 * over LATER, LATER over UNKNOWN. */
struct when_value when_weaker(struct when_value a, struct when_value b);

/* Convert a decoded value; one that is not decoded is UNKNOWN, or LATER at the entry
 * (`at_entry`). */
struct when_value when_of(const struct value *v, bool at_entry);

/* Logic with special values. `a` and `b` are INT 0 or 1, or special. A false decides an `and`, a
 * true decides an `or`; otherwise LATER takes precedence over UNKNOWN, and UNKNOWN over ABSENT, so
 * that no call is chosen for which the condition may not hold. */
struct when_value when_and(struct when_value a, struct when_value b);
struct when_value when_or(struct when_value a, struct when_value b);
struct when_value when_not(struct when_value a);

/* Python's + - * / % // on numbers (`op` is the character, '|' for //); ABSENT where Python would
 * raise and on overflow. */
struct when_value when_arith(char op, struct when_value a, struct when_value b);
struct when_value when_minus(struct when_value a);

/* a < b if `or_equal` is false, a <= b if it is true; for numbers and strings, else ABSENT. */
struct when_value when_less(struct when_value a, struct when_value b, bool or_equal);

/* a == b for values that are not lists. Values of different kinds are unequal, except for numbers,
 * and a device and a string that names it ("cuda": of any index). ABSENT for tensors and
 * generators, unless compared with None. */
struct when_value when_equal(struct when_value a, struct when_value b);

/* The truth of a value that is not a list, as in Python; ABSENT unless it is a number, a string or
 * None. */
struct when_value when_truth(struct when_value v);

/* The words of conditions other than the names of arguments and results, and their types as far as
 * known without a call. */

/* The types that a part of a condition may have, or-ed; 0: it does not apply. */
enum {
	WHEN_T_NONE = 1 << 0,
	WHEN_T_NUMBER = 1 << 1,
	WHEN_T_STRING = 1 << 2,
	WHEN_T_DTYPE = 1 << 3,
	WHEN_T_LAYOUT = 1 << 4,
	WHEN_T_MEMORY_FORMAT = 1 << 5,
	WHEN_T_PHASE = 1 << 6,
	WHEN_T_DEVICE = 1 << 7,
	WHEN_T_TENSOR = 1 << 8,
	WHEN_T_LIST = 1 << 9,
	WHEN_T_OTHER = 1 << 10,
	WHEN_T_ANY = (1 << 11) - 1,
};

struct when_type {
	uint16_t may_be;
	uint16_t item; /* of a list: the types of its items */
};

/* Facts of a call. */
enum when_word {
	WHEN_OP,
	WHEN_OVERLOAD,
	WHEN_PHASE,
	WHEN_ID,
	WHEN_FORWARD_ID,
	WHEN_DEPTH,
	WHEN_PID,
	WHEN_TID,
	WHEN_FILE,
	WHEN_LINE,
	WHEN_FUNCTION,
	WHEN_PARAMETER,
	WHEN_THROWN,
	WHEN_ELAPSED,
	WHEN_ARGS,
	WHEN_RESULTS,
	WHEN_INPUTS,
	WHEN_OUTPUTS,
};

/* Facts of a value, written x.shape or x.shape(). */
enum when_attribute {
	WHEN_SHAPE,
	WHEN_STRIDE,
	WHEN_DIM,
	WHEN_NUMEL,
	WHEN_ITEMSIZE,
	WHEN_NBYTES,
	WHEN_STORAGE_OFFSET,
	WHEN_DATA_PTR,
	WHEN_DTYPE,
	WHEN_DEVICE,
	WHEN_LAYOUT,
	WHEN_REQUIRES_GRAD,
	WHEN_IS_CONTIGUOUS,
	WHEN_TYPE,
	WHEN_INDEX,
	WHEN_STARTSWITH,
	WHEN_ENDSWITH,
};

struct when_word_def {
	const char *name;
	uint8_t word; /* enum when_word */
	bool at_exit; /* known only at the exit */
	struct when_type type;
};

struct when_attribute_def {
	const char *name;
	uint8_t attribute; /* enum when_attribute */
	bool takes_index;  /* x.size(0) is x.size()[0] */
	bool takes_string; /* x.startswith("a") */
	uint16_t of;	   /* WHEN_T_*: the types that have it */
	struct when_type type;
};

/* NULL if there is none of that name. */
const struct when_word_def *when_word_find(const char *name);
const struct when_attribute_def *when_attribute_find(const char *name);

/* The value of "float16", "strided", "channels_last", "forward", "True", "None" ... False if `name`
 * is no constant. */
bool when_constant_find(const char *name, struct when_value *out);

/* Add the names of all words, or of all attributes, as suggestions. */
void when_words_suggest(struct suggestions *x);
void when_attributes_suggest(struct suggestions *x);

/* The type of a constant. */
struct when_type when_type_of(struct when_value v);

/* "a tensor", "None or a number" into out; returns out. 160 bytes are always enough. */
const char *when_type_text(char *out, size_t size, unsigned may_be);

/* The tokens of a condition. */

enum when_token_kind {
	TOKEN_END,
	TOKEN_NAME,  /* names, words and keywords (`and`, `or` ...) */
	TOKEN_VALUE, /* numbers and strings */
	TOKEN_SIGN,  /* one or two characters, in sign[] */
};

struct when_token {
	uint8_t kind;
	char sign[3];
	uint32_t at, len;	 /* in bytes of the text */
	const char *name;	 /* TOKEN_NAME, in the arena */
	struct when_value value; /* TOKEN_VALUE; strings in the arena */
};

/* The text being read and the position in it. */
struct when_lexer {
	const char *option, *text;
	size_t at;
	struct arena *arena;
	struct err *e;
};

/* Read the next token into *out. 0; -EINVAL with *l->e; -ENOMEM. */
int when_lex(struct when_lexer *l, struct when_token *out);

/* Describe in *l->e what is wrong with the `len` bytes at `at`. Returns -EINVAL. */
int when_wrong(const struct when_lexer *l, size_t at, size_t len, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The syntax tree of a condition. */

enum when_node_kind {
	WHEN_N_CONSTANT,  /* value */
	WHEN_N_NAME,	  /* name: an argument or a result */
	WHEN_N_WORD,	  /* word */
	WHEN_N_VARIABLE,  /* slot: of the current item of an any or all */
	WHEN_N_ATTRIBUTE, /* attribute of a; b: an index or string, may be NULL */
	WHEN_N_ITEM,	  /* a[b] */
	WHEN_N_LEN,	  /* len(a) */
	WHEN_N_MINUS,	  /* -a */
	WHEN_N_ARITH,	  /* a op b, see when_arith */
	WHEN_N_LIST,	  /* a, the others linked by next; count of them */
	WHEN_N_COMPARE,	  /* a, then WHEN_N_LINKs from b on: a < b < c compares each pair of
			     neighbours and evaluates each operand once */
	WHEN_N_LINK,	  /* op and the right side a; next: the next comparison */
	WHEN_N_TRUTH,	  /* of a, where a condition is expected */
	WHEN_N_NOT,
	WHEN_N_AND,
	WHEN_N_OR,
	WHEN_N_ANY, /* b holds for at least one item of a; slot holds each item in turn */
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
	WHEN_SLOTS_MAX = 3, /* nesting depth of any and all */
};

struct when_node {
	uint8_t kind; /* enum when_node_kind */
	uint8_t op;   /* a character of when_arith, or enum when_comparison */
	uint8_t slot;
	uint16_t seen;	  /* for the checker: types it may have for any of the ops */
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
	struct when_node *root; /* WHEN_N_TRUTH or a kind that yields a truth value */
	bool needs_exit;
	struct arena arena;
};

/* The argument or result that a name means: arguments are searched first, then results; "out" and
 * "result" also mean the first result, "arg0" the first argument. */
struct when_place {
	bool found, is_result;
	uint16_t index;
};

struct when_place when_find_name(const struct op_desc *op, const char *name);

/* Parse w->text into w->root, allocated in w->arena. 0, -EINVAL with *e, -ENOMEM. */
int when_parse(struct when *w, struct err *e);

/* Like when_wrong, for the text of node `n`. */
int when_wrong_node(const struct when *w, const struct when_node *n, struct err *e, const char *fmt,
		    ...) __attribute__((format(printf, 4, 5)));

/* The parser of conditions: shared by the operators (when_parse.c), the values (when_parse_value.c)
 * and the common steps (when_parse.c). */

/* Functions return NULL after an error, which is in `code` and *lexer.e. */
struct when_parser {
	struct when_lexer lexer;
	struct when_token now; /* the current token */
	size_t end;	       /* in bytes: end of the previous token */
	int code;
	unsigned nesting, slots;
	bool in_list;
	/* Parses the conditions within values (in parentheses, lists and calls); from
	 * when_parse.c. */
	struct when_node *(*condition)(struct when_parser *p);
};

/* Advance to the next token. */
void when_advance(struct when_parser *p);

bool when_is_sign(const struct when_parser *p, const char *sign);

/* If the current token is this one, advance and return true. */
bool when_accept(struct when_parser *p, const char *sign);
bool when_accept_name(struct when_parser *p, const char *name);

/* Report an error at a token, unless there was one before. Returns NULL. */
struct when_node *when_wrong_token(struct when_parser *p, const struct when_token *t,
				   const char *what, const char *hint);

/* Report that `what` is missing at the current token. Returns NULL. */
struct when_node *when_expected(struct when_parser *p, const char *what, const char *hint);

/* A node that begins at byte `at`; NULL after an error. */
struct when_node *when_new_node(struct when_parser *p, enum when_node_kind kind, size_t at);

/* End `n` (may be NULL) at the end of the previous token. Returns `n`; NULL after an error. */
struct when_node *when_close(struct when_parser *p, struct when_node *n);

/* The truth of an operand (may be NULL), where a condition is expected. */
struct when_node *when_truth_node(struct when_parser *p, struct when_node *a);

/* Parse a value with its attributes and items: x, x.shape[0], len(x), (1, 2). */
struct when_node *when_parse_postfix(struct when_parser *p);

/* The checker of conditions. */

/* Describe why part `n` of a condition applies to none of the `count` ops; `seen` of its parts
 * holds their types. Fills *e with -EINVAL. */
void when_tell(const struct when *w, const struct when_node *n, const struct op_desc *const *ops,
	       size_t count, struct err *e);

/* The evaluation of a condition. */

struct when_ctx {
	const struct op_event *ev;
	bool at_entry;
	struct when_value slots[WHEN_SLOTS_MAX]; /* the current items of any and all */
};

/* A fact of the call. */
struct when_value when_word_eval(const struct when_ctx *c, enum when_word word);

/* The value of an argument or a result, by its name. */
struct when_value when_name_eval(const struct when_ctx *c, const char *name);

/* A fact of a value, before any index or string argument is applied. */
struct when_value when_attribute_eval(struct when_value v, enum when_attribute attribute);

#endif
