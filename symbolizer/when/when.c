#include "symbolizer/when/when.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "symbolizer/when/internal.h"

/* Check without the ops already here: errors that do not depend on them are reported before
 * anything starts. */
static int compile(struct when *w, struct err *e)
{
	int r = when_parse(w, e);
	return r ? r : when_check(w, NULL, 0, true, e);
}

int when_compile(const char *option, const char *text, struct when **out, struct err *e)
{
	struct when *w;
	if (strlen(text) > WHEN_TEXT_MAX) {
		err_set(e, -EINVAL, "%s: the condition is longer than %d bytes", option,
			WHEN_TEXT_MAX);
		return err_hint(e, "write many values as a list: line in (10, 20, 30)");
	}
	w = calloc(1, sizeof(*w));
	if (w)
		w->text = strdup(text);
	if (!w || !w->text) {
		free(w);
		return err_set(e, -ENOMEM, "no memory");
	}
	w->option = option;
	int r = compile(w, e);
	if (r) {
		when_free(w);
		return r;
	}
	*out = w;
	return 0;
}

static bool is_among(const char *word, const char *const *words)
{
	for (; *words; words++)
		if (!strcmp(word, *words))
			return true;
	return false;
}

/* The first part that is one of the words, NULL if there is none. Recursion is bounded by
 * WHEN_NESTING_MAX. */
static const struct when_node *find_word(const struct when_node *n, const char *const *words)
{
	for (; n; n = n->next) {
		if (n->kind == WHEN_N_WORD && is_among(n->word->name, words))
			return n;
		const struct when_node *found = find_word(n->a, words);
		if (!found)
			found = find_word(n->b, words);
		if (found)
			return found;
	}
	return NULL;
}

int when_refuse(const struct when *w, const char *const *words, const char *why, const char *hint,
		struct err *e)
{
	const struct when_node *n = find_word(w->root, words);
	if (!n)
		return 0;
	when_wrong_node(w, n, e, "%s \"%s\"", why, n->word->name);
	return err_hint(e, "%s", hint);
}

bool when_needs_exit(const struct when *w)
{
	return w->needs_exit;
}

enum when_decision when_decide(const struct when *w, const struct op_event *ev, enum when_moment at,
			       struct when_counts *c)
{
	enum when_result r = w ? when_eval(w, ev, at) : WHEN_TRUE;
	if (r == WHEN_TRUE)
		return WHEN_YES;
	if (r == WHEN_LATER && at == WHEN_AT_ENTRY)
		return WHEN_WAIT;
	if (c && r == WHEN_FALSE)
		c->left_out++;
	else if (c)
		c->unknown++;
	return WHEN_NO;
}

const char *when_counts_text(char *out, size_t size, const struct when_counts *c)
{
	char left_out[32], unknown[32];
	const char *by = c->option ? c->option : "--when";
	text_count(left_out, sizeof(left_out), c->left_out);
	text_count(unknown, sizeof(unknown), c->unknown);
	if (c->unknown)
		snprintf(out, size,
			 "%s left out %s ops, and %s because a value that it asks for is not "
			 "known",
			 by, left_out, unknown);
	else
		snprintf(out, size, "%s left out %s op%s", by, left_out,
			 c->left_out == 1 ? "" : "s");
	return out;
}

void when_free(struct when *w)
{
	if (!w)
		return;
	arena_free(&w->arena);
	free(w->text);
	free(w);
}
