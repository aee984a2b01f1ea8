#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* Code of the last err_set, for err_hint without a struct err. */
static _Thread_local int last_code;

static const char *hint_of(int code)
{
	return code == -EMFILE	 ? "raise the limit on open files: ulimit -n 65536"
	       : code == -ENFILE ? "raise the system's limit on open files: sysctl fs.file-max"
				 : "";
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	last_code = code;
	if (!e)
		return code;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->what, sizeof(e->what), fmt, ap);
	va_end(ap);
	e->quote[0] = '\0';
	strcpy(e->hint, hint_of(code));
	e->code = code;
	return code;
}

int err_hint(struct err *e, const char *fmt, ...)
{
	if (!e)
		return last_code;
	if (*hint_of(e->code))
		return e->code;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->hint, sizeof(e->hint), fmt, ap);
	va_end(ap);
	return e->code;
}

/* Start of the UTF-8 character that contains byte `at`, or `at` if there is none. */
static size_t whole_character(const char *text, size_t at)
{
	size_t back = 0;
	while (back < 3 && back < at && ((unsigned char)text[at - back] & 0xc0) == 0x80)
		back++;
	return ((unsigned char)text[at - back] & 0xc0) == 0x80 ? at : at - back;
}

int err_quote(struct err *e, const char *text, size_t at, size_t len)
{
	enum { BEFORE = 120 };
	if (!e)
		return last_code;
	size_t n = strlen(text);
	at = at < n ? at : n;
	size_t from = at > BEFORE ? whole_character(text, at - BEFORE) : 0;
	const char *cut = from ? "..." : "";
	snprintf(e->quote, sizeof(e->quote) - 3, "%s%s", cut, text + from);
	size_t shown = strlen(e->quote), start = strlen(cut) + at - from;
	if (shown - strlen(cut) < n - from) {
		shown = whole_character(e->quote, shown - 1);
		memcpy(e->quote + shown, "...", 4);
	}
	start = start < shown ? start : shown;
	e->quote_at = (unsigned)start;
	e->quote_len = (unsigned)(len <= shown - start ? len : shown - start);
	return e->code;
}

/* Terminal columns of the first `n` bytes of `s` after text_safe. */
static size_t columns(const char *s, size_t n)
{
	char part[sizeof(((struct err *)0)->quote)], safe[4 * sizeof(part)];
	snprintf(part, sizeof(part), "%.*s", (int)n, s);
	text_safe(safe, sizeof(safe), part);
	return text_width(safe);
}

static void print_quote(const struct err *e)
{
	size_t before = columns(e->quote, e->quote_at);
	size_t all = columns(e->quote, e->quote_at + e->quote_len);
	fputs("    ", stderr);
	text_print_safe(stderr, e->quote);
	fprintf(stderr, "\n    %*s^", (int)before, "");
	for (size_t i = before + 1; i < all; i++)
		fputc('~', stderr);
	fputc('\n', stderr);
}

void err_print(const struct err *e)
{
	const size_t width = (size_t)terminal_of(stderr).width;
	fputs("ditrace: ", stderr);
	text_print_words(stderr, e->what, 9, 4, width);
	fputc('\n', stderr);
	if (e->quote[0])
		print_quote(e);
	if (!e->hint[0])
		return;
	fputs("  hint: ", stderr);
	text_print_words(stderr, e->hint, 8, 8, width);
	fputc('\n', stderr);
}
