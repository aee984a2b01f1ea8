#include "symbolizer/python/internal.h"

#include <errno.h>
#include <stdbool.h>

static const struct linetable_pos NOWHERE = {.column = -1, .end_column = -1};

static int only_line(int64_t line, struct linetable_pos *out)
{
	*out = NOWHERE;
	if (line < 0 || line > INT32_MAX)
		return -EPROTO;
	out->line = (int32_t)line;
	return 0;
}

/* PyCode_Addr2Line, Objects/codeobject.c of 3.8 and 3.9. */
static int lookup_lnotab(const uint8_t *bytes, size_t len, int64_t line, int64_t lasti,
			 struct linetable_pos *out)
{
	int64_t addr = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		addr += bytes[i];
		if (addr > lasti)
			break;
		line += (int8_t)bytes[i + 1];
	}
	return only_line(line, out);
}

/* advance() and _PyCode_CheckLineNumber, Objects/codeobject.c of 3.10. */
static int lookup_pep626(const uint8_t *bytes, size_t len, int64_t line, int64_t lasti,
			 struct linetable_pos *out)
{
	enum { NO_LINE = -128 };
	int64_t end = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		int8_t delta = (int8_t)bytes[i + 1];

		end += bytes[i];
		if (delta != NO_LINE)
			line += delta;
		if (lasti < end)
			return delta == NO_LINE ? 0 : only_line(line, out);
	}
	return len % 2 ? -EPROTO : -ENODATA;
}

struct cursor {
	const uint8_t *at, *end;
	bool bad;
};

static uint8_t next_byte(struct cursor *c)
{
	if (c->at == c->end) {
		c->bad = true;
		return 0;
	}
	return *c->at++;
}

/* Six bits per byte, least significant first; 0x40: more follow. */
static uint32_t next_varint(struct cursor *c)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t b;

	do {
		b = next_byte(c);
		value |= (uint64_t)(b & 0x3f) << shift;
		shift += 6;
		if (value > INT32_MAX || shift > 36) {
			c->bad = true;
			return 0;
		}
	} while (b & 0x40);
	return (uint32_t)value;
}

/* The lowest bit is the sign. */
static int64_t next_svarint(struct cursor *c)
{
	uint32_t v = next_varint(c);

	return v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
}

/* Entry codes, enum _PyCodeLocationInfoKind in Include/cpython/code.h of 3.11 to 3.13. */
enum {
	LOC_SHORT0 = 0, /* to 9: two bytes, same line, columns below 80 */
	LOC_ONE_LINE0 = 10,
	LOC_ONE_LINE2 = 12,
	LOC_NO_COLUMNS = 13,
	LOC_LONG = 14,
	NO_LOCATION = 15,
};

struct line_entry {
	int64_t line_delta, end_line_delta;
	int64_t column, end_column;
	int64_t bytes; /* bytes of code that the entry covers */
	bool none;
};

static void next_columns(struct cursor *c, unsigned code, struct line_entry *e)
{
	uint8_t b;

	if (code < LOC_ONE_LINE0) {
		b = next_byte(c);
		e->column = (code << 3) | ((b >> 4) & 7);
		e->end_column = e->column + (b & 15);
	} else if (code <= LOC_ONE_LINE2) {
		e->line_delta = code - LOC_ONE_LINE0;
		e->column = next_byte(c);
		e->end_column = next_byte(c);
	} else if (code == LOC_NO_COLUMNS) {
		e->line_delta = next_svarint(c);
	} else {
		e->line_delta = next_svarint(c);
		e->end_line_delta = next_varint(c);
		e->column = (int64_t)next_varint(c) - 1;
		e->end_column = (int64_t)next_varint(c) - 1;
	}
}

static struct line_entry next_entry(struct cursor *c)
{
	uint8_t first = next_byte(c);
	unsigned code = (first >> 3) & 15;
	struct line_entry e = {.column = -1, .end_column = -1, .bytes = 2 * ((first & 7) + 1)};

	if (!(first & 0x80))
		c->bad = true;
	if (code == NO_LOCATION)
		e.none = true;
	else
		next_columns(c, code, &e);
	return e;
}

static int position(int64_t line, const struct line_entry *e, struct linetable_pos *out)
{
	int64_t end_line = line + e->end_line_delta;
	int rc = only_line(line, out);

	if (rc || line == 0) /* the start of a module has line 0 */
		return rc;
	if (end_line > INT32_MAX) {
		*out = NOWHERE;
		return -EPROTO;
	}
	out->end_line = (int32_t)end_line;
	out->column = (int32_t)e->column;
	out->end_column = (int32_t)e->end_column;
	return 0;
}

static int lookup_positions(const uint8_t *bytes, size_t len, int64_t line, int64_t lasti,
			    struct linetable_pos *out)
{
	struct cursor c = {.at = bytes, .end = bytes + len};
	int64_t end = 0;

	while (c.at < c.end) {
		struct line_entry e = next_entry(&c);

		if (c.bad)
			return -EPROTO;
		line += e.line_delta;
		end += e.bytes;
		if (lasti < end)
			return e.none ? 0 : position(line, &e, out);
	}
	return -ENODATA;
}

int linetable_lookup(enum linetable_kind kind, const uint8_t *bytes, size_t len,
		     int32_t firstlineno, int64_t lasti, struct linetable_pos *out)
{
	*out = NOWHERE;
	if (lasti < 0)
		return only_line(firstlineno, out);
	switch (kind) {
	case LINETABLE_LNOTAB:
		return lookup_lnotab(bytes, len, firstlineno, lasti, out);
	case LINETABLE_PEP626:
		return lookup_pep626(bytes, len, firstlineno, lasti, out);
	case LINETABLE_POSITIONS:
		return lookup_positions(bytes, len, firstlineno, lasti, out);
	}
	return -EPROTO;
}
