/* Command lines: the options of every command are parsed and described here. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum option_type {
	OPTION_FLAG,	  /* bool *: set to true */
	OPTION_STRING,	  /* const char **: points into argv */
	OPTION_STRINGS,	  /* struct option_strings *: may be given again and again */
	OPTION_DEFAULTED, /* the same, but the value may be left out, and then it is "";
			   '--x=value', but also '--x 1/50' */
	OPTION_COUNT,	  /* uint64_t *: decimal digits */
	OPTION_DURATION,  /* uint64_t *, ns: "10s", "500ms", "2m", "1h", "250us", a number without
			     unit is seconds */
	OPTION_SIZE,   /* uint64_t *, bytes: "2G", "500M", "1.5GiB", "64k"; units are powers of 1024
			*/
	OPTION_CHOICE, /* int *: index into choices */
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
	void *value;		    /* see option_type; left alone when the option is not given */
	const char *argument;	    /* as --help shows it, "FILE"; NULL for a flag */
	const char *help;	    /* one sentence without a full stop */
	const char *const *choices; /* OPTION_CHOICE: the words, ended by NULL */
};

struct command {
	const char *name;		  /* "script" */
	const char *operands;		  /* "[FILE]", as the usage line shows them */
	const char *about;		  /* what the command does: one sentence */
	const struct option_def *options; /* ended by one without a name; --help is added */
	const char *notes;		  /* printed at the end of --help, may be NULL */
	bool stop_at_operand; /* what follows the first operand is not ours (the command line of
				 run) */
	int min_operands, max_operands; /* max: -1 for any number */
};

enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Parse argv (argv[0] is the command's name), moving operands to the end. Returns the index of the
 * first operand, 0 when --help was asked for, or -EINVAL with *e. Prints nothing. */
int options_parse(const struct command *c, int argc, char **argv, struct err *e);

/* What every command begins with: options_parse, and print the help (stdout) or the error (stderr).
 * Returns the index of the first operand (>= 1), or when the command has to end here 0 with *status
 * the exit status. */
int options_start(const struct command *c, int argc, char **argv, int *status);

/* Read a duration as OPTION_DURATION has it. 0 or -EINVAL. */
int options_duration(const char *text, uint64_t *out);

void options_help(const struct command *c, FILE *f);

#endif
