#include "base/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { OPTIONS_MAX = 64, LONG_BASE = 256 };

static int bad_value(const struct command *c, const struct option_def *d, const char *text,
		     const char *want, struct err *e)
{
	err_set(e, -EINVAL, "--%s %s: not %s", d->name, text, want);
	err_hint(e, "see: ditrace %s --help", c->name);
	return -EINVAL;
}

int options_duration(const char *text, uint64_t *out)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"ns", 1},	  {"us", 1e3}, {"ms", 1e6},   {"s", 1e9},
		     {"m", 60e9}, {"", 1e9},   {"min", 60e9}, {"h", 3600e9}};
	char *end;
	if ((text[0] < '0' || text[0] > '9') && text[0] != '.')
		return -EINVAL;
	double n = strtod(text, &end);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].unit) != 0)
			continue;
		if (!(n * units[i].ns < 9e18))
			return -EINVAL;
		*out = (uint64_t)(n * units[i].ns + 0.5);
		return 0;
	}
	return -EINVAL;
}

/* "2G", "2g", "2GB" and "2GiB" are the same. */
static int parse_size(const char *text, uint64_t *out)
{
	static const char units[] = "kmgt";
	char *end;
	int shift = 0;
	if ((text[0] < '0' || text[0] > '9') && text[0] != '.')
		return -EINVAL;
	double n = strtod(text, &end);
	const char *unit = *end ? strchr(units, *end | 0x20) : NULL;
	if (unit) {
		shift = 10 * (int)(unit - units + 1);
		end += end[1] == 'i' ? 2 : 1;
	}
	end += *end == 'B';
	double bytes = n * (double)(UINT64_C(1) << shift);
	if (*end || !(bytes < 9e18))
		return -EINVAL;
	*out = (uint64_t)bytes;
	return 0;
}

static int parse_choice(const struct command *c, const struct option_def *d, const char *text,
			struct err *e)
{
	char list[256] = "";
	size_t len = 0;
	const char *before = d->choices[0] && d->choices[1] ? "one of " : "";
	for (int i = 0; d->choices[i]; i++) {
		if (!strcmp(d->choices[i], text)) {
			*(int *)d->value = i;
			return 0;
		}
		int n = snprintf(list + len, sizeof(list) - len, "%s%s", i ? ", " : before,
				 d->choices[i]);
		len += n > 0 && (size_t)n < sizeof(list) - len ? (size_t)n : 0;
	}
	return bad_value(c, d, text, list, e);
}

/* "1/50" */
static bool is_share(const char *word)
{
	return word && !strncmp(word, "1/", 2) && word[2] &&
	       !word[2 + strspn(word + 2, "0123456789")];
}

static int take_value(const struct command *c, const struct option_def *d, const char *text,
		      struct err *e)
{
	if (text && !strcmp(text, "--")) /* it was left out before the program to start */
		return bad_value(c, d, text, d->argument, e);
	switch (d->type) {
	case OPTION_FLAG:
		*(bool *)d->value = true;
		return 0;
	case OPTION_DEFAULTED:
		*(const char **)d->value = text ? text : "";
		return 0;
	case OPTION_STRINGS: {
		struct option_strings *l = d->value;
		if (l->n == OPTION_STRINGS_MAX)
			return bad_value(c, d, text, "one of the first 32", e);
		l->list[l->n++] = text;
		return 0;
	}
	case OPTION_STRING:
		*(const char **)d->value = text;
		return 0;
	case OPTION_COUNT:
		return text_number(text, d->value) ? 0 : bad_value(c, d, text, "a number", e);
	case OPTION_POSITIVE:
		return text_number(text, d->value) && *(uint64_t *)d->value
			   ? 0
			   : bad_value(c, d, text, "a number from 1 on", e);
	case OPTION_DURATION:
		return options_duration(text, d->value) || !*(uint64_t *)d->value
			   ? bad_value(c, d, text, "a time such as 10s, 500ms or 2m", e)
			   : 0;
	case OPTION_SIZE:
		return parse_size(text, d->value)
			   ? bad_value(c, d, text, "a size such as 2G, 500M or 64k", e)
			   : 0;
	case OPTION_CHOICE:
		return parse_choice(c, d, text, e);
	}
	return -EINVAL;
}

/* Build the tables for getopt_long; returns the number of options. */
static int fill_getopt(const struct command *c, struct option *longs, char *shorts)
{
	int n = 0;
	*shorts++ = c->stop_at_operand ? '+' : ':';
	if (c->stop_at_operand)
		*shorts++ = ':';
	for (; c->options && c->options[n].name && n < OPTIONS_MAX - 2; n++) {
		const struct option_def *d = &c->options[n];
		int has_arg = d->type == OPTION_FLAG	    ? no_argument
			      : d->type == OPTION_DEFAULTED ? optional_argument
							    : required_argument;
		longs[n] = (struct option){d->name, has_arg, NULL, LONG_BASE + n};
		if (!d->letter)
			continue;
		*shorts++ = d->letter;
		if (has_arg)
			*shorts++ = ':';
	}
	longs[n] = (struct option){"help", no_argument, NULL, 'h'};
	longs[n + 1] = (struct option){0};
	*shorts++ = 'h';
	*shorts = '\0';
	return n;
}

/* The long options that `word` ("--fo") is a prefix of, as text; "" for none. */
static void meant(const struct option *longs, const char *word, char *out, size_t size)
{
	size_t len = 0, n = strcspn(word + 2, "=");
	*out = '\0';
	for (; longs->name; longs++)
		if (!strncmp(longs->name, word + 2, n) && len < size)
			len += (size_t)snprintf(out + len, size - len, "%s--%s", len ? " or " : "",
						longs->name);
}

static int unknown_option(const struct command *c, const struct option *longs, const char *word,
			  struct err *e)
{
	char name[SUGGESTIONS_WORD], found[256];
	struct suggestions near = {.word = name};
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (; longs->name; longs++)
		suggestions_add(&near, longs->name);
	err_set(e, -EINVAL, "unknown option %s", word);
	near.n = near.n ? 1 : 0;
	if (suggestions_list(&near, found, sizeof(found)))
		return err_hint(e, "did you mean --%s? See: ditrace %s --help", found, c->name);
	return err_hint(e, "see: ditrace %s --help", c->name);
}

static int bad_option(const struct command *c, const struct option *longs, int got, char **argv,
		      struct err *e)
{
	const char *word = argv[optind - 1];
	char names[256] = "";
	if (got == ':')
		err_set(e, -EINVAL, "option %s needs a value", word);
	else if (strncmp(word, "--", 2) != 0)
		err_set(e, -EINVAL, "unknown option -%c", optopt);
	else if (optopt)
		err_set(e, -EINVAL, "option %.*s takes no value", (int)strcspn(word, "="), word);
	else
		meant(longs, word, names, sizeof(names));
	if (*names) {
		err_set(e, -EINVAL, "option %s is ambiguous", word);
		return err_hint(e, "write out %s; see: ditrace %s --help", names, c->name);
	}
	if (got != ':' && !optopt)
		return unknown_option(c, longs, word, e);
	return err_hint(e, "see: ditrace %s --help", c->name);
}

/* The first required operand in `operands`: "PROGRAM" of "[--] PROGRAM". Returns its length. */
static int needed_operand(const char *operands, const char **name)
{
	while (*operands == '[') {
		operands += strcspn(operands, " ");
		operands += strspn(operands, " ");
	}
	*name = operands;
	return (int)strcspn(operands, " ");
}

static int check_operands(const struct command *c, int n, char **argv, struct err *e)
{
	const char *name;
	int len = needed_operand(c->operands, &name);
	if (n < c->min_operands)
		err_set(e, -EINVAL, "ditrace %s: %.*s is missing", c->name, len, name);
	else if (c->max_operands >= 0 && n > c->max_operands)
		err_set(e, -EINVAL, "one argument too many: %s", argv[optind + c->max_operands]);
	else
		return optind;
	return err_hint(e, "see: ditrace %s --help", c->name);
}

static const struct option_def *find_def(const struct command *c, int got, int n)
{
	if (got >= LONG_BASE)
		return &c->options[got - LONG_BASE];
	for (int i = 0; i < n; i++)
		if (c->options[i].letter == got)
			return &c->options[i];
	return NULL;
}

int options_parse(const struct command *c, int argc, char **argv, struct err *e)
{
	struct option longs[OPTIONS_MAX];
	char shorts[2 * OPTIONS_MAX + 4];
	int n = fill_getopt(c, longs, shorts);
	int got;
	opterr = 0;
	optind = 0;
	while ((got = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const struct option_def *d = got == '?' || got == ':' ? NULL : find_def(c, got, n);
		if (got == 'h' && !d)
			return 0;
		if (!d)
			return bad_option(c, longs, got, argv, e);
		bool apart = d->type == OPTION_DEFAULTED && !optarg && is_share(argv[optind]);
		int r = take_value(c, d, apart ? argv[optind++] : optarg, e);
		if (r)
			return r;
	}
	return check_operands(c, argc - optind, argv, e);
}

int options_start(const struct command *c, int argc, char **argv, int *status)
{
	struct err e = {0};
	int first = options_parse(c, argc, argv, &e);
	if (first > 0)
		return first;
	*status = first == 0 ? EXIT_GOOD : EXIT_USAGE;
	if (first == 0)
		options_help(c, stdout);
	else
		err_print(&e);
	return 0;
}

enum { HELP_WIDTH = 79, HELP_COLUMN = 28 };

/* The length of a word; one in '' may have blanks. */
static size_t help_word(const char *text)
{
	const char *end = text[0] == '\'' ? strchr(text + 1, '\'') : NULL;
	return end ? (size_t)(end - text) + strcspn(end, " ") : strcspn(text, " ");
}

/* Print words from column `at`; lines that follow begin at `indent`. */
static void help_words(FILE *f, const char *text, size_t at, size_t indent)
{
	bool begins = true;
	while (*text) {
		size_t blanks = strspn(text, " "), n = help_word(text + blanks);
		if (!begins && at + blanks + n > HELP_WIDTH) {
			fprintf(f, "\n%*s", (int)indent, "");
			at = indent;
			blanks = 0;
			text += strspn(text, " ");
		}
		fprintf(f, "%.*s", (int)(blanks + n), text);
		text += blanks + n;
		at += blanks + n;
		begins = false;
	}
	putc('\n', f);
}

/* The column of the second word of a line such as "csv    a row an op", else 0. */
static size_t help_hang(const char *line)
{
	size_t n = strcspn(line, " "), blanks = strspn(line + n, " ");
	return blanks > 1 ? n + blanks : 0;
}

/* Print text of one or more lines, each wrapped. */
static void help_text(FILE *f, const char *text)
{
	char line[1024];
	while (*text) {
		size_t n = strcspn(text, "\n");
		snprintf(line, sizeof(line), "%.*s", (int)n, text);
		help_words(f, line, 0, help_hang(line));
		text += n + (text[n] == '\n');
	}
}

/* "  -o, --output FILE   help", the help from column 28 or on the next line. */
static void help_option(const struct option_def *d, FILE *f)
{
	char left[128];
	if (d->letter)
		snprintf(left, sizeof(left), "  -%c, --%s %s", d->letter, d->name,
			 d->argument ? d->argument : "");
	else
		snprintf(left, sizeof(left),
			 d->type == OPTION_DEFAULTED ? "      --%s[=%s]" : "      --%s %s", d->name,
			 d->argument ? d->argument : "");
	if (strlen(left) >= HELP_COLUMN)
		fprintf(f, "%s\n%*s", left, HELP_COLUMN, "");
	else
		fprintf(f, "%-*s", HELP_COLUMN, left);
	help_words(f, d->help, HELP_COLUMN, HELP_COLUMN);
}

void options_help(const struct command *c, FILE *f)
{
	static const struct option_def help = {'h',  "help",	       OPTION_FLAG, NULL,
					       NULL, "show this text", NULL};
	char usage[256];
	int n = snprintf(usage, sizeof(usage), "usage: ditrace %s", c->name);
	snprintf(usage + n, sizeof(usage) - (size_t)n, " [OPTIONS]%s%s", c->operands[0] ? " " : "",
		 c->operands);
	help_words(f, usage, 0, (size_t)n + 1);
	putc('\n', f);
	help_text(f, c->about);
	putc('\n', f);
	for (const struct option_def *d = c->options; d && d->name; d++)
		help_option(d, f);
	help_option(&help, f);
	if (c->notes)
		putc('\n', f);
	if (c->notes)
		help_text(f, c->notes);
}
