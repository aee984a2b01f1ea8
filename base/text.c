#define _GNU_SOURCE
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* text_utf8 stops at a NUL, too: for strings, UTF8_MAX is a safe bound. */
enum { UTF8_MAX = 4 };

size_t text_utf8(const char *text, size_t left, uint32_t *cp)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *s = (const unsigned char *)text;
	if (!left)
		return 0;
	size_t n = s[0] < 0x80	       ? 1
		   : (s[0] >> 5) == 6  ? 2
		   : (s[0] >> 4) == 14 ? 3
		   : (s[0] >> 3) == 30 ? 4
				       : 0;
	if (n == 0 || n > left)
		return 0;
	uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*cp = c;
	return n;
}

void text_drop_part(char *s)
{
	/* Smallest lead byte of a character longer than n bytes. */
	static const unsigned char leads[UTF8_MAX] = {0, 0xc0, 0xe0, 0xf0};
	size_t len = strlen(s);
	for (size_t n = 1; n < UTF8_MAX && n <= len; n++) {
		unsigned char c = (unsigned char)s[len - n];
		if ((c & 0xc0) == 0x80)
			continue;
		if (c >= leads[n])
			s[len - n] = '\0';
		return;
	}
}

bool text_is_safe(uint32_t cp)
{
	/* Bidirectional marks and overrides can make a line read as something else, and line and
	 * paragraph separators end it: Unicode Standard Annex #9. */
	if ((cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069) || cp == 0x200e ||
	    cp == 0x200f || cp == 0x061c)
		return false;
	return cp >= 0x20 && cp != 0x7f && !(cp >= 0x80 && cp < 0xa0);
}

size_t text_safe(char *out, size_t size, const char *s)
{
	size_t len = 0;
	if (size == 0)
		return 0;
	for (const char *p = s; *p;) {
		uint32_t cp = 0;
		size_t n = text_utf8(p, UTF8_MAX, &cp);
		bool plain = n && text_is_safe(cp);
		size_t take = n ? n : 1;
		size_t need = plain ? n : 4 * take;
		if (len + need >= size)
			break;
		if (plain)
			memcpy(out + len, p, n);
		else
			for (size_t i = 0; i < take; i++)
				snprintf(out + len + 4 * i, 5, "\\x%02x", (unsigned char)p[i]);
		len += need;
		p += take;
	}
	out[len] = '\0';
	return len;
}

static void print_safe(FILE *f, const char *s, size_t len)
{
	char part[64];
	char safe[4 * sizeof(part) + 1];
	while (len) {
		size_t n = len < sizeof(part) - 1 ? len : sizeof(part) - 1;
		/* Do not split a character: back up to its first byte. */
		if (n < len) {
			size_t back = n;
			while (back > 1 && ((unsigned char)s[back] & 0xc0) == 0x80)
				back--;
			if (n - back < 4)
				n = back;
		}
		memcpy(part, s, n);
		part[n] = '\0';
		text_safe(safe, sizeof(safe), part);
		fputs(safe, f);
		s += n;
		len -= n;
	}
}

void text_print_safe(FILE *f, const char *s)
{
	print_safe(f, s, strlen(s));
}

/* The columns of the character at `p`, and its bytes. */
static size_t char_width(const char *p, size_t *bytes)
{
	uint32_t cp = 0;
	*bytes = text_utf8(p, UTF8_MAX, &cp);
	if (*bytes == 0) {
		*bytes = 1;
		return 0;
	}
	int w = cp < 0x80 ? 1 : wcwidth((wchar_t)cp);
	return (size_t)(w >= 0 ? w : cp >= 0xa0);
}

static size_t width_of(const char *s, size_t len)
{
	size_t width = 0, n;
	for (const char *end = s + len; s < end; s += n)
		width += char_width(s, &n);
	return width;
}

size_t text_width(const char *s)
{
	return width_of(s, strlen(s));
}

/* The length of a word; one in '' may have blanks. */
static size_t word_length(const char *text)
{
	const char *end = text[0] == '\'' ? strchr(text + 1, '\'') : NULL;
	return end ? (size_t)(end - text) + strcspn(end, " ") : strcspn(text, " ");
}

void text_print_words(FILE *f, const char *text, size_t at, size_t indent, size_t width)
{
	bool begins = true;
	while (*text) {
		size_t blanks = strspn(text, " "), n = word_length(text + blanks),
		       columns = width_of(text + blanks, n);
		if (!begins && width && at + blanks + columns > width) {
			fprintf(f, "\n%*s", (int)indent, "");
			at = indent;
			text += blanks;
			blanks = 0;
		}
		print_safe(f, text, blanks + n);
		text += blanks + n;
		at += blanks + columns;
		begins = false;
	}
}

void text_print_cut(FILE *f, const char *s, size_t width)
{
	size_t used = 0, len = 0, n;
	if (text_width(s) <= width) {
		fputs(s, f);
		return;
	}
	for (; (used += char_width(s + len, &n)) < width; len += n)
		;
	fwrite(s, 1, len, f);
	if (width)
		fputs("…", f);
}

void text_print_end(FILE *f, const char *text, size_t width, size_t besides)
{
	enum { MIN = 16 };
	size_t room = width > besides + MIN ? width - besides : MIN, len = strlen(text);
	if (!width || len <= room) {
		text_print_safe(f, text);
		return;
	}
	const char *end = text + len - (room - 1);
	while (((unsigned char)*end & 0xc0) == 0x80)
		end++;
	fputs("…", f);
	text_print_safe(f, end);
}

bool text_number(const char *text, uint64_t *out)
{
	char *end;
	errno = 0;
	uint64_t n = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || errno || *end)
		return false;
	*out = n;
	return true;
}

const char *text_count(char *out, size_t size, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
	size_t o = 0;
	for (int i = 0; i < len; i++) {
		bool comma = i && (len - i) % 3 == 0;
		if (o + comma + 1 >= size)
			break;
		if (comma)
			out[o++] = ',';
		out[o++] = digits[i];
	}
	if (size)
		out[o] = '\0';
	return out;
}

const char *text_counted(char *out, size_t size, uint64_t n, const char *word)
{
	char number[27];
	snprintf(out, size, "%s %s%s", text_count(number, sizeof(number), n), word,
		 n == 1 ? "" : "s");
	return out;
}

const char *text_float(char *out, size_t size, double f)
{
	if (isnan(f) || isinf(f)) {
		snprintf(out, size, "%s", isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
		return out;
	}
	/* 15 digits suffice if they round-trip: %g drops trailing zeros, so no shorter form of a
	 * normal double is missed. Subnormals have fewer significant digits. */
	int digits = fpclassify(f) == FP_SUBNORMAL ? 1 : 15;
	for (; digits <= 17; digits++) {
		snprintf(out, size, "%.*g", digits, f);
		if (strtod(out, NULL) == f)
			break;
	}
	size_t len = strlen(out);
	if (!strpbrk(out, ".e") && len + 2 < size)
		memcpy(out + len, ".0", 3);
	return out;
}

/* Three significant digits at most, one decimal below ten. */
static const char *with_unit(char *out, size_t size, double v, const char *unit)
{
	snprintf(out, size, v < 9.95 ? "%.1f %s" : "%.0f %s", v, unit);
	return out;
}

const char *text_ns(char *out, size_t size, uint64_t ns)
{
	double v = (double)ns;
	if (ns < 1000)
		snprintf(out, size, "%llu ns", (unsigned long long)ns);
	else if (v < 999.5e3)
		with_unit(out, size, v / 1e3, "us");
	else if (v < 999.5e6)
		with_unit(out, size, v / 1e6, "ms");
	else
		snprintf(out, size, "%.1f s", v / 1e9);
	return out;
}

const char *text_bytes(char *out, size_t size, uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double v = (double)bytes;
	size_t u = 0;
	while (v >= 1023.95 && u + 1 < sizeof(units) / sizeof(units[0])) {
		v /= 1024;
		u++;
	}
	snprintf(out, size, u ? "%.1f %s" : "%.0f %s", v, units[u]);
	return out;
}

const char *text_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;
	return m < c ? m : c;
}

/* Optimal string alignment distance; both words are shorter than SUGGESTIONS_WORD. */
static unsigned distance(const char *a, size_t na, const char *b, size_t nb)
{
	unsigned rows[3][SUGGESTIONS_WORD];
	unsigned *before = rows[0], *last = rows[1], *row = rows[2];

	for (size_t j = 0; j <= nb; j++)
		last[j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			row[j] =
			    min3(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < row[j])
				row[j] = before[j - 2] + 1;
		}
		unsigned *spare = before;
		before = last;
		last = row;
		row = spare;
	}
	return last[nb];
}

static bool is_there(const struct suggestions *x, const char *name)
{
	for (size_t i = 0; i < x->n; i++)
		if (!strcmp(x->found[i].name, name))
			return true;
	return false;
}

void suggestions_add(struct suggestions *x, const char *name)
{
	size_t na = strlen(x->word), nb = strlen(name);
	size_t far = na <= 3 ? 1 : na / 3 > 2 ? na / 3 : 2;

	if (!na || !nb || na >= SUGGESTIONS_WORD || nb >= SUGGESTIONS_WORD || na > nb + far ||
	    nb > na + far)
		return;
	unsigned d = distance(x->word, na, name, nb);
	if (d > far || d >= na || is_there(x, name))
		return;
	size_t at = x->n;
	while (at > 0 && x->found[at - 1].distance > d)
		at--;
	if (at == SUGGESTIONS_MAX)
		return;
	size_t end = x->n < SUGGESTIONS_MAX ? x->n++ : SUGGESTIONS_MAX - 1;
	memmove(&x->found[at + 1], &x->found[at], (end - at) * sizeof(x->found[0]));
	x->found[at].distance = d;
	memcpy(x->found[at].name, name, nb + 1);
}

bool suggestions_list(const struct suggestions *x, char *out, size_t size)
{
	size_t used = 0;
	if (!size)
		return false;
	out[0] = '\0';
	for (size_t i = 0; i < x->n; i++) {
		int n = snprintf(out + used, size - used, "%s%s", i ? ", " : "", x->found[i].name);
		if (n < 0 || (size_t)n >= size - used) {
			out[used] = '\0';
			break;
		}
		used += (size_t)n;
	}
	return used > 0;
}

const char *text_without_templates(char *out, size_t size, const char *name)
{
	enum { LONGEST = 24 };
	size_t n = 0;
	for (const char *p = name; *p && n + 8 < size;) {
		int depth = 0;
		size_t len = 0;
		for (; *p == '<' && p[len]; len++) {
			depth += p[len] == '<' ? 1 : p[len] == '>' ? -1 : 0;
			if (!depth)
				break;
		}
		if (*p == '<' && p[len] && len > LONGEST) {
			n += (size_t)snprintf(out + n, size - n, "<...>");
			p += len + 1;
		} else {
			out[n++] = *p++;
		}
	}
	out[n] = '\0';
	return out;
}
