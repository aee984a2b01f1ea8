#include "base/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"

enum { LONG_BASE = 256, RENAMED_BASE = LONG_BASE + OPTIONS_MAX };

/* Names that options had before: of a command that has the new one and no other of that name. They
 * are understood for one release. */
static const struct renamed {
	const char *old, *name;
	const char *value; /* NULL: the one that is given */
} renamed[] = {{"no-pager", "pager", "never"}, {"repeat", "count", NULL}, {"steps", "step", NULL}};

enum { NRENAMED = sizeof(renamed) / sizeof(renamed[0]) };

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

static int keep_string(const struct command *c, const struct option_def *d,
		       struct option_strings *l, const char *text, struct err *e)
{
	if (l->n == OPTION_STRINGS_MAX)
		return bad_value(c, d, text, "one of the first 32", e);
	l->list[l->n++] = text;
	return 0;
}

/* Of OPTION_LIST and OPTION_ONCE, given before. */
static int take_again(const struct command *c, const struct option_def *d, const char *text,
		      struct err *e)
{
	static struct arena joined; /* values point into it until the program ends */
	const char **value = d->value;
	size_t len = strlen(*value) + strlen(text) + 2;
	if (d->type == OPTION_ONCE) {
		err_set(e, -EINVAL, "--%s is given twice: %s, and %s", d->name, *value, text);
		return err_hint(e, "give one; see: ditrace %s --help", c->name);
	}
	char *both = arena_alloc(&joined, len);
	if (!both)
		return err_set(e, -ENOMEM, "out of memory");
	snprintf(both, len, "%s,%s", *value, text);
	*value = both;
	return 0;
}

/* `operands`: where those of OPTION_OPERAND go. */
static int take_value(const struct command *c, const struct option_def *d, const char *text,
		      bool again, struct option_strings *operands, struct err *e)
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
	case OPTION_STRINGS:
		return keep_string(c, d, d->value, text, e);
	case OPTION_OPERAND:
		return keep_string(c, d, operands, text, e);
	case OPTION_LIST:
	case OPTION_ONCE:
		if (again)
			return take_again(c, d, text, e);
		/* fall through */
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

static const struct option_def *find_name(const struct command *c, const char *name)
{
	for (const struct option_def *d = c->options; d && d->name; d++)
		if (!strcmp(d->name, name))
			return d;
	return NULL;
}

/* Append the old names that `c` understands to `longs`. */
static struct option *fill_renamed(const struct command *c, struct option *longs)
{
	for (int i = 0; i < NRENAMED; i++) {
		int has_arg = renamed[i].value ? no_argument : required_argument;
		if (find_name(c, renamed[i].name) && !find_name(c, renamed[i].old))
			*longs++ = (struct option){renamed[i].old, has_arg, NULL, RENAMED_BASE + i};
	}
	return longs;
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
	*fill_renamed(c, &longs[n + 1]) = (struct option){0};
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

/* Another name of the option that was given before it, with another value; else NULL. */
static const struct option_def *other_name(const struct command *c, const struct option_def *d,
					   const bool *given, int before)
{
	for (int i = 0; c->options[i].name; i++)
		if (given[i] && &c->options[i] != d && c->options[i].value == d->value &&
		    d->type == OPTION_CHOICE && *(int *)d->value != before)
			return &c->options[i];
	return NULL;
}

static int given_both(const struct command *c, const struct option_def *d,
		      const struct option_def *other, const char *text, int before, struct err *e)
{
	err_set(e, -EINVAL, "--%s %s and --%s %s are two values of the same option", other->name,
		other->choices[before], d->name, text);
	return err_hint(e, "give one; see: ditrace %s --help", c->name);
}

/* One option as getopt_long returned it; given: which were, by their index. 0 or -EINVAL with *e.
 */
static int take_option(const struct command *c, int got, int n, char **argv, bool *given,
		       struct option_strings *operands, struct err *e)
{
	const struct renamed *old = got >= RENAMED_BASE ? &renamed[got - RENAMED_BASE] : NULL;
	const struct option_def *d = old ? find_name(c, old->name) : find_def(c, got, n);
	bool apart = d->type == OPTION_DEFAULTED && !optarg && is_share(argv[optind]);
	const char *value = old && old->value ? old->value : apart ? argv[optind++] : optarg;
	int before = d->type == OPTION_CHOICE ? *(int *)d->value : 0;
	int r = take_value(c, d, value, given[d - c->options], operands, e);
	const struct option_def *other = r ? NULL : other_name(c, d, given, before);
	if (other)
		return given_both(c, d, other, value, before, e);
	given[d - c->options] = true;
	if (!r && old)
		err_hint(e, "--%s is called --%s%s%s now", old->old, old->name,
			 old->value ? " " : "", old->value ? old->value : "");
	return r;
}

int options_parse(const struct command *c, int argc, char **argv, struct err *e)
{
	struct option_strings operands = {0};
	struct option longs[OPTIONS_MAX + NRENAMED];
	bool given[OPTIONS_MAX] = {0};
	char shorts[2 * OPTIONS_MAX + 4];
	int n = fill_getopt(c, longs, shorts);
	int got;
	opterr = 0;
	optind = 0;
	while ((got = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		if (got == '?' || got == ':')
			return bad_option(c, longs, got, argv, e);
		if (got == 'h' && !find_def(c, got, n))
			return 0;
		int r = take_option(c, got, n, argv, given, &operands, e);
		if (r)
			return r;
	}
	/* All words before optind are read by now, each of these from one or two of them. */
	while (operands.n)
		argv[--optind] = (char *)(uintptr_t)operands.list[--operands.n];
	return check_operands(c, argc - optind, argv, e);
}

static struct {
	void (*fn)(const struct command *c, void *arg);
	void *arg;
} describe;

void options_describe(void (*fn)(const struct command *c, void *arg), void *arg)
{
	describe.fn = fn;
	describe.arg = arg;
}

bool options_described(void)
{
	return describe.fn;
}

void options_add(struct option_list *to, const struct option_def *some, size_t n)
{
	n = n < OPTIONS_MAX - to->n ? n : OPTIONS_MAX - to->n;
	memcpy(to->of + to->n, some, n * sizeof(*some));
	to->n += n;
}

int options_start(const struct command *c, int argc, char **argv, int *status)
{
	struct err e = {0};
	if (describe.fn) {
		describe.fn(c, describe.arg);
		*status = EXIT_GOOD;
		return 0;
	}
	int first = options_parse(c, argc, argv, &e);
	if (first > 0 && e.hint[0])
		fprintf(stderr, "ditrace: %s\n", e.hint);
	if (first > 0)
		return first;
	*status = first == 0 ? EXIT_GOOD : EXIT_USAGE;
	if (first == 0)
		options_help(c, stdout);
	else
		err_print(&e);
	return 0;
}
