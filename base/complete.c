/* What may follow on a command line, from the same tables as the options and --help. */
#include <stdlib.h>
#include <string.h>

#include "base/options.h"

enum { MOST_WORDS = sizeof((struct command){0}.operand_words) / sizeof(char **) };

/* A command line as far as it is typed. */
struct typed {
	const struct command *c;
	const struct option_def *of; /* the option whose value the last word is; NULL: none */
	int operand;		     /* the place of the last word among the operands */
	int program;	    /* where the program begins that the command starts; -1: not yet */
	bool only_operands; /* "--" was there */
	const char *last;   /* the last word, or of --name=value the value */
	int before;	    /* the length of what stands before that in the word */
};

static const struct option_def *find_option(const struct command *c, const char *word, size_t len)
{
	for (const struct option_def *d = c->options; d && d->name; d++)
		if ((len == 1 && d->letter == word[0]) ||
		    (strlen(d->name) == len && !strncmp(d->name, word, len)))
			return d;
	return NULL;
}

/* The option that a word names, "-o" or "--output"; `value`: what follows "=", or NULL. */
static const struct option_def *option_of(const struct command *c, const char *word,
					  const char **value)
{
	*value = NULL;
	if (word[0] != '-' || !word[1] || !word[2])
		return word[0] == '-' && word[1] ? find_option(c, word + 1, 1) : NULL;
	if (word[1] != '-')
		return NULL;
	size_t len = strcspn(word + 2, "=");
	if (word[2 + len])
		*value = word + 2 + len + 1;
	return len > 1 ? find_option(c, word + 2, len) : NULL;
}

static bool takes_word(const struct option_def *d)
{
	return d->type != OPTION_FLAG && d->type != OPTION_DEFAULTED;
}

/* Take the words before the last one. bash makes three of "--name=value". */
static void read_before(struct typed *t, int n, char **words)
{
	const char *value;
	for (int i = 0; i < n && t->program < 0; i++) {
		const struct option_def *d =
		    t->only_operands ? NULL : option_of(t->c, words[i], &value);
		if (!t->only_operands && !strcmp(words[i], "--")) {
			t->only_operands = true;
			t->program = t->c->stop_at_operand ? i + 1 : -1;
		} else if (d && !value && i + 1 < n && !strcmp(words[i + 1], "=")) {
			t->of = i + 2 == n ? d : NULL;
			i += 2;
		} else if (d && !value && takes_word(d)) {
			t->of = i + 1 == n ? d : NULL;
			i++;
		} else if (t->only_operands || words[i][0] != '-') {
			t->program = t->c->stop_at_operand ? i : -1;
			t->operand++;
		}
	}
}

static void read_last(struct typed *t, const char *word)
{
	const char *value;
	t->last = word;
	if (t->of || t->only_operands)
		return;
	const struct option_def *d = option_of(t->c, word, &value);
	if (!value || !d)
		return;
	t->of = d;
	t->last = value;
	t->before = (int)(value - word);
}

static void offer(const struct typed *t, const char *word, const char *value, const char *about,
		  FILE *f)
{
	if (!strncmp(value, t->last, strlen(t->last)))
		fprintf(f, "%.*s%s\t%s\n", t->before, word, value, about);
}

/* Of a list the last item. */
static void offer_values(struct typed *t, const char *word, FILE *f)
{
	const char *comma = t->of->type == OPTION_CHOICE ? NULL : strrchr(t->last, ',');
	if (comma) {
		t->before += (int)(comma + 1 - t->last);
		t->last = comma + 1;
	}
	for (int i = 0; t->of->choices[i]; i++)
		offer(t, word, t->of->choices[i], "", f);
}

static bool has_word(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (strstr(text, *words))
			return true;
	return false;
}

/* What an argument of this name is. Whether it is a PID. */
static bool offer_kind(const char *argument, FILE *f)
{
	static const char *const files[] = {"FILE", "DIR", "PATH", "A B", NULL};
	if (argument && has_word(argument, files))
		fputs(":file\n", f);
	return argument && strstr(argument, "PID");
}

static void offer_options(const struct typed *t, const char *word, FILE *f)
{
	char name[64];
	for (const struct option_def *d = t->c->options; d && d->name; d++) {
		snprintf(name, sizeof(name), "--%s", d->name);
		offer(t, word, name, d->help, f);
	}
	offer(t, word, "--help", "show this text", f);
}

/* Whether it may be a PID. `at`: which word it is. */
static bool offer_operand(const struct typed *t, int at, const char *word, FILE *f)
{
	const struct command *c = t->c;
	bool starts_program = c->stop_at_operand && !strncmp(c->operands, "[--]", 4);
	if (starts_program)
		fprintf(f, ":program %d\n", at);
	if (t->operand < MOST_WORDS && c->operand_words[t->operand]) {
		for (const char *const *w = c->operand_words[t->operand]; *w; w++)
			offer(t, word, *w, "", f);
		return false;
	}
	bool any = t->operand < c->max_operands || c->max_operands < 0;
	return any && !starts_program && (!t->operand || !c->operand_words[1]) &&
	       offer_kind(c->operands, f);
}

bool complete_words(const struct command *c, int n, char **words, FILE *f)
{
	struct typed t = {.c = c, .program = -1};
	const char *last = words[n - 1];
	read_before(&t, n - 1, words);
	read_last(&t, last);
	if (t.program >= 0) {
		fprintf(f, ":program %d\n", t.program);
	} else if (t.of && t.of->choices) {
		offer_values(&t, last, f);
	} else if (t.of) {
		return offer_kind(t.of->argument, f);
	} else if (last[0] == '-' && !t.only_operands) {
		offer_options(&t, last, f);
	} else {
		return offer_operand(&t, n - 1, last, f);
	}
	return false;
}
