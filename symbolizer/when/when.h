/* The condition of --when, which selects calls: a small expression over the arguments and results
 * of an op and over the call itself. ditrace(1) describes its syntax. */
#ifndef SYMBOLIZER_WHEN_WHEN_H
#define SYMBOLIZER_WHEN_WHEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "symbolizer/event/event.h"

struct when;

enum when_result {
	WHEN_FALSE, /* or it does not apply: the op has no such argument, a list no such item */
	WHEN_TRUE,
	WHEN_UNKNOWN, /* depends on a value that is not decoded */
	WHEN_LATER,   /* at the entry: depends on a fact known only at the exit */
};

enum when_moment {
	WHEN_AT_ENTRY, /* arguments are available; results, end and exception are not looked at */
	WHEN_AT_EXIT,
	WHEN_ENTRY_ONLY, /* as WHEN_AT_ENTRY, and nobody asks again at the exit */
};

/* Parse `text` into *out (free with when_free). `option` names it in messages ("--when") and must
 * outlive *out. Returns 0; -EINVAL with the error, the text quoted, and a hint; -ENOMEM. */
int when_compile(const char *option, const char *text, struct when **out, struct err *e);

/* Check a condition against the `n` ops that it is to select from: -EINVAL if a part of it applies
 * to none of them (a name that none has, a comparison without meaning), -ENOMEM. `more`: ops not
 * known yet may follow, so unknown names are accepted. Must not run concurrently with when_eval. */
int when_check(struct when *w, const struct op_desc *const *ops, size_t n, bool more,
	       struct err *e);

/* Refuse a condition that uses one of the `words` of the call (NULL-terminated): -EINVAL with
 * "--when: WHY "word"", the place in the text, and the hint; else 0. */
int when_refuse(const struct when *w, const char *const *words, const char *why, const char *hint,
		struct err *e);

/* Whether the condition depends on a fact known only at an exit, for any of the ops that it was
 * checked against. If not, when_eval at the entry gives WHEN_LATER only for an argument that is not
 * decoded at the entry. */
bool when_needs_exit(const struct when *w);

/* Whether the condition holds for a call. A result at the entry other than WHEN_LATER is final: the
 * exit gives the same. Allocates nothing; threads may share `w`. */
enum when_result when_eval(const struct when *w, const struct op_event *ev, enum when_moment at);

/* Numbers of calls that a condition did not choose. */
struct when_counts {
	uint64_t left_out;  /* it does not hold */
	uint64_t unknown;   /* it is unknown whether it holds */
	const char *option; /* of what left them out; NULL: --when */
};

enum when_decision {
	WHEN_NO,
	WHEN_YES,
	WHEN_WAIT, /* at the entry: ask again at the exit */
};

/* Whether the condition `w` (NULL: none) chooses a call. A call that it does not choose is counted
 * in *c, unless that is NULL. */
enum when_decision when_decide(const struct when *w, const struct op_event *ev, enum when_moment at,
			       struct when_counts *c);

/* "--when left out 1,234 ops, and 3 because a value that it asks for is not known" into out;
 * returns out. 160 bytes are always enough. */
const char *when_counts_text(char *out, size_t size, const struct when_counts *c);

void when_free(struct when *w);

#endif
