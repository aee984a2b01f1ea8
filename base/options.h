/* Command lines: the options of every command are parsed and described here. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum option_type {
	OPTION_FLAG,   /* bool *: set to true */
	OPTION_STRING, /* const char **: points into argv */
	OPTION_LIST,   /* the same, of items with commas between: given again, all of their items */
	OPTION_ONCE,   /* the same, refused if given again */
	OPTION_STRINGS,	  /* struct option_strings *: repeatable */
	OPTION_DEFAULTED, /* const char **, value optional, "" if omitted; '--x=value', but also
			     '--x 1/50' */
	OPTION_COUNT,	  /* uint64_t *: decimal digits */
	OPTION_POSITIVE,  /* the same, not 0 */
	OPTION_DURATION, /* uint64_t *, ns, not 0: "10s", "500ms", "2m", "1h", "250us", seconds when
			    there is no unit */
	OPTION_SIZE,   /* uint64_t *, bytes: "2G", "500M", "1.5GiB", "64k"; units are powers of 1024
			*/
	OPTION_CHOICE, /* int *: index into choices */
	OPTION_OPERAND, /* NULL: the value stands before the operands, as one of them; repeatable.
			   Not of commands that stop at the operand */
};

enum { OPTION_STRINGS_MAX = 32 };
struct option_strings {
	const char *list[OPTION_STRINGS_MAX]; /* point into argv */
	size_t n;
};

struct option_def {
	char letter;	  /* 'o' for -o, 0 for none */
	const char *name; /* "output" for --output */
	enum option_type type;
	void *value;	      /* see option_type; unchanged when the option is not given */
	const char *argument; /* as --help shows it, "FILE"; NULL for a flag */
	const char *help;     /* one sentence without a full stop */
	/* Words, NULL-terminated: the values of OPTION_CHOICE; for other types those that are
	 * offered for completion, of a list each of its items. */
	const char *const *choices;
};

/* For commands whose operands are processes. */
#define PID_OPTION                                                                                 \
	{                                                                                          \
		'p', "pid", OPTION_OPERAND, NULL, "PID", "the process, as without -p", NULL        \
	}

struct command {
	const char *name;		  /* "script" */
	const char *operands;		  /* "[FILE]", as the usage line shows them */
	const char *about;		  /* what the command does: one sentence */
	const struct option_def *options; /* terminated by one without a name; --help is added */
	const char *notes;    /* lines printed at the end of --help, wrapped; may be NULL */
	bool stop_at_operand; /* everything after the first operand is passed on (the command line
				 of run) */
	int min_operands, max_operands;	     /* max: -1 for any number */
	const char *const *operand_words[3]; /* what completion offers for the first ones; NULL */
};

/* Options of a command that has many, in parts. Zero-initialise. */
enum { OPTIONS_MAX = 64 }; /* of a command */
struct option_list {
	struct option_def of[OPTIONS_MAX + 1]; /* zero at the end */
	size_t n;
};

/* Add `n` options, of at most OPTIONS_MAX in all. */
void options_add(struct option_list *to, const struct option_def *some, size_t n);

/* EXIT_FOUND: --first-nan found one. */
enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_FOUND = 3 };

/* Parse argv (argv[0] is the command's name), permuting operands to the end. Returns the index of
 * the first operand, 0 when --help was asked for, or -EINVAL with *e. Where an option was given by
 * a name that it had before, e->hint says the new one, with e->code 0. Prints nothing. */
int options_parse(const struct command *c, int argc, char **argv, struct err *e);

/* The start of every command: options_parse, then print the help (stdout) or the error (stderr) if
 * any. Returns the index of the first operand (>= 1), or 0 when the command has to end here with
 * exit status *status. */
int options_start(const struct command *c, int argc, char **argv, int *status);

/* From now on options_start hands the command to `fn`, and ends it with EXIT_GOOD. */
void options_describe(void (*fn)(const struct command *c, void *arg), void *arg);
bool options_described(void);

/* complete.c: print to `f` what the last of `n` words behind the command may become, a line each:
 * the word, a tab, and what it is; ":file": or a file; ":program I": from word I on it is the
 * command line of another program. Whether it may be the PID of a process, too. */
bool complete_words(const struct command *c, int n, char **words, FILE *f);

/* Parse a duration in the syntax of OPTION_DURATION into ns. 0 or -EINVAL. */
int options_duration(const char *text, uint64_t *out);

/* Print the --help text of `c` to `f`, in lines of at most 79 columns. */
void options_help(const struct command *c, FILE *f);

/* Lists of numbers and ranges as users write them: "3,10-20,50-". */

struct range {
	uint64_t first, last; /* inclusive; last is UINT64_MAX for "50-" */
};

/* Zero-initialised: all numbers. Owns `list`. */
struct ranges {
	struct range *list;
	size_t n;
};

/* Parse `text`; `option` is the option's name for messages. Numbers start at 1. Returns 0 (free
 * with ranges_free), or -EINVAL or -ENOMEM with *e. */
int ranges_parse(const char *option, const char *text, struct ranges *out, struct err *e);

/* The same of numbers that start at `least`. */
int ranges_parse_from(const char *option, const char *text, uint64_t least, struct ranges *out,
		      struct err *e);

/* Whether `n` is in one of the ranges. */
bool ranges_have(const struct ranges *r, uint64_t n);

/* Whether all ranges end before `n`. */
bool ranges_over(const struct ranges *r, uint64_t n);

void ranges_free(struct ranges *r);

#endif
