#include "base/options.h"

#include <string.h>

#include "base/text.h"

enum { HELP_WIDTH = 79, HELP_COLUMN = 28 };

/* Print words from column `at`; lines that follow begin at `indent`. */
static void help_words(FILE *f, const char *text, size_t at, size_t indent)
{
	text_print_words(f, text, at, indent, HELP_WIDTH);
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
