#include "replay/capture/internal.h"

#include <stdlib.h>
#include <string.h>

static void pickle_append(struct pickle *p, const void *data, size_t n)
{
	if (p->failed || !n)
		return;
	if (p->len + n > p->size) {
		size_t size = (p->len + n) * 2;
		uint8_t *more = realloc(p->data, size);
		if (!more) {
			p->failed = true;
			return;
		}
		p->data = more;
		p->size = size;
	}
	memcpy(p->data + p->len, data, n);
	p->len += n;
}

static void op(struct pickle *p, char opcode)
{
	pickle_append(p, &opcode, 1);
}

/* The n lowest bytes of v, least first. */
static void add_le(struct pickle *p, uint64_t v, size_t n)
{
	uint8_t b[8];
	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)(v >> (8 * i));
	pickle_append(p, b, n);
}

void pickle_begin(struct pickle *p)
{
	pickle_append(p, "\x80\x02", 2);
}

void pickle_end(struct pickle *p)
{
	op(p, '.');
}

void pickle_none(struct pickle *p)
{
	op(p, 'N');
}

void pickle_bool(struct pickle *p, bool b)
{
	op(p, b ? '\x88' : '\x89');
}

void pickle_int(struct pickle *p, int64_t i)
{
	if (i >= 0 && i <= UINT8_MAX) {
		op(p, 'K');
		add_le(p, (uint64_t)i, 1);
	} else if (i >= 0 && i <= UINT16_MAX) {
		op(p, 'M');
		add_le(p, (uint64_t)i, 2);
	} else if (i >= INT32_MIN && i <= INT32_MAX) {
		op(p, 'J');
		add_le(p, (uint64_t)i, 4);
	} else {
		op(p, '\x8a');
		pickle_append(p, "\x08", 1);
		add_le(p, (uint64_t)i, 8);
	}
}

void pickle_uint(struct pickle *p, uint64_t i)
{
	if (i <= INT64_MAX) {
		pickle_int(p, (int64_t)i);
		return;
	}
	/* LONG1 is signed: a ninth byte keeps it positive. */
	op(p, '\x8a');
	pickle_append(p, "\x09", 1);
	add_le(p, i, 8);
	pickle_append(p, "\0", 1);
}

void pickle_float(struct pickle *p, double f)
{
	uint64_t bits;
	memcpy(&bits, &f, sizeof(bits));
	op(p, 'G');
	add_le(p, __builtin_bswap64(bits), 8);
}

void pickle_text(struct pickle *p, const char *s, size_t len)
{
	if (len > UINT32_MAX) {
		p->failed = true;
		return;
	}
	op(p, 'X');
	add_le(p, len, 4);
	pickle_append(p, s, len);
}

void pickle_string(struct pickle *p, const char *s)
{
	pickle_text(p, s, strlen(s));
}

void pickle_global(struct pickle *p, const char *module, const char *name)
{
	op(p, 'c');
	pickle_append(p, module, strlen(module));
	op(p, '\n');
	pickle_append(p, name, strlen(name));
	op(p, '\n');
}

void pickle_mark(struct pickle *p)
{
	op(p, '(');
}

void pickle_tuple(struct pickle *p)
{
	op(p, 't');
}

void pickle_list(struct pickle *p)
{
	op(p, ']');
	op(p, '(');
}

void pickle_appends(struct pickle *p)
{
	op(p, 'e');
}

void pickle_dict(struct pickle *p)
{
	op(p, '}');
	op(p, '(');
}

void pickle_setitems(struct pickle *p)
{
	op(p, 'u');
}

void pickle_reduce(struct pickle *p)
{
	op(p, 'R');
}

void pickle_persistent(struct pickle *p)
{
	op(p, 'Q');
}

void pickle_free(struct pickle *p)
{
	free(p->data);
	*p = (struct pickle){0};
}
