#include "base/json.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/text.h"

/* Millions of events are written with this: without locks, and numbers without printf. */

static void put_bytes(struct json_out *j, const char *s, size_t len)
{
	fwrite_unlocked(s, 1, len, j->f);
}

/* What stands before a value. */
static void begin(struct json_out *j, const char *key)
{
	if (j->comma)
		putc_unlocked(',', j->f);
	if (j->line)
		putc_unlocked('\n', j->f);
	j->comma = true;
	j->line = false;
	if (!key)
		return;
	putc_unlocked('"', j->f);
	put_bytes(j, key, strlen(key));
	put_bytes(j, "\":", 2);
}

static void word(struct json_out *j, const char *key, const char *s)
{
	begin(j, key);
	put_bytes(j, s, strlen(s));
}

void json_open(struct json_out *j, const char *key, char bracket)
{
	begin(j, key);
	putc_unlocked(bracket, j->f);
	j->comma = false;
}

void json_close(struct json_out *j, char bracket)
{
	j->comma = false;
	begin(j, NULL);
	putc_unlocked(bracket, j->f);
}

void json_line(struct json_out *j)
{
	j->line = true;
}

/* Length of the prefix that needs no escaping. */
static size_t plain_len(const char *s, size_t len)
{
	size_t n = 0;
	while (n < len && s[n] >= 0x20 && s[n] < 0x7f && s[n] != '"' && s[n] != '\\')
		n++;
	return n;
}

/* Write the character at s, one that plain_len stops at. Returns its length. */
static size_t put_escaped(struct json_out *j, const char *s, size_t left)
{
	uint32_t cp = 0;
	size_t n = text_utf8(s, left, &cp);
	if (n == 0)
		put_bytes(j, "\\ufffd", 6);
	else if (*s == '"' || *s == '\\')
		fprintf(j->f, "\\%c", *s);
	else if (!text_is_safe(cp))
		fprintf(j->f, "\\u%04x", cp);
	else
		put_bytes(j, s, n);
	return n ? n : 1;
}

void json_bytes(struct json_out *j, const char *key, const char *s, size_t len)
{
	begin(j, key);
	putc_unlocked('"', j->f);
	for (size_t i = 0; i < len;) {
		size_t plain = plain_len(s + i, len - i);
		put_bytes(j, s + i, plain);
		i += plain;
		if (i < len)
			i += put_escaped(j, s + i, len - i);
	}
	putc_unlocked('"', j->f);
}

void json_text(struct json_out *j, const char *key, const char *s)
{
	if (s)
		json_bytes(j, key, s, strlen(s));
	else
		json_nothing(j, key);
}

static void put_digits(struct json_out *j, uint64_t n)
{
	char digits[20];
	size_t at = sizeof(digits);
	do
		digits[--at] = (char)('0' + n % 10);
	while (n /= 10);
	put_bytes(j, digits + at, sizeof(digits) - at);
}

void json_u64(struct json_out *j, const char *key, uint64_t n)
{
	begin(j, key);
	put_digits(j, n);
}

void json_i64(struct json_out *j, const char *key, int64_t n)
{
	begin(j, key);
	if (n < 0)
		putc_unlocked('-', j->f);
	put_digits(j, n < 0 ? -(uint64_t)n : (uint64_t)n);
}

void json_float(struct json_out *j, const char *key, double d)
{
	char text[32];
	text_float(text, sizeof(text), d);
	if (isfinite(d))
		word(j, key, text);
	else
		json_text(j, key, text);
}

void json_bool(struct json_out *j, const char *key, bool b)
{
	word(j, key, b ? "true" : "false");
}

void json_nothing(struct json_out *j, const char *key)
{
	word(j, key, "null");
}

void json_format(struct json_out *j, const char *key, const char *fmt, ...)
{
	va_list ap;
	begin(j, key);
	va_start(ap, fmt);
	vfprintf(j->f, fmt, ap);
	va_end(ap);
}
