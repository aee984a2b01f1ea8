#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "symbolizer/python/internal.h"

static bool plausible(uint64_t addr)
{
	return addr >= 4096 && addr % 8 == 0;
}

/* Freed memory starts with a free-list pointer, which is not a plausible refcount. Immortal objects
 * (PEP 683) count near 2^32, and extensions built for an older stable ABI may push them above it.
 */
int py_live_type(const struct py_runtime *rt, uint64_t obj, uint64_t *type)
{
	uint64_t refs;
	int rc;

	if (!plausible(obj))
		return -EPROTO;
	rc = py_read_word(rt, obj, &refs);
	if (!rc)
		rc = py_read_word(rt, obj + rt->layout.obj.ob_type, type);
	if (rc)
		return rc;
	return refs == 0 || refs > 1ULL << 40 ? -EPROTO : 0;
}

/* Py_TPFLAGS_TYPE_SUBCLASS, Include/object.h: set in the flags of `type` and of every metaclass, so
 * the check is on the type's type. */
static int check_type(const struct py_runtime *rt, uint64_t type)
{
	const uint64_t type_subclass = 1ULL << 31;
	uint64_t meta, flags;
	int rc = py_live_type(rt, type, &meta);

	if (rc)
		return rc;
	if (!plausible(meta))
		return -EPROTO;
	rc = py_read_word(rt, meta + rt->layout.obj.type_flags, &flags);
	if (rc)
		return rc;
	return flags & type_subclass ? 0 : -EPROTO;
}

int py_object_type(const struct py_runtime *rt, uint64_t obj, uint64_t *type)
{
	int rc = py_live_type(rt, obj, type);

	return rc ? rc : check_type(rt, *type);
}

static bool is_utf8(const char *s, size_t left)
{
	uint32_t c;
	size_t n = 1;

	for (; left && n; s += n, left -= n)
		n = text_utf8(s, left, &c);
	return n;
}

ssize_t py_type_name(const struct py_runtime *rt, uint64_t type, char *out, size_t size)
{
	uint64_t name;
	ssize_t len;
	int rc = check_type(rt, type);

	if (!rc)
		rc = py_read_word(rt, type + rt->layout.obj.type_name, &name);
	if (rc)
		return rc;
	len = mem_read_str(rt->mem, name, out, size);
	if (len < 0)
		return len;
	text_drop_part(out);
	return is_utf8(out, strlen(out)) ? (ssize_t)strlen(out) : -EPROTO;
}

static size_t put_utf8(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

static uint32_t code_point(const uint8_t *text, size_t i, unsigned width)
{
	uint32_t c = 0;

	memcpy(&c, text + i * width, width); /* little-endian, like the targets */
	if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0xfffd;
	return c;
}

static size_t to_utf8(const uint8_t *text, size_t count, unsigned width, char *out, size_t size)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++) {
		char one[4];
		size_t n = put_utf8(one, code_point(text, i, width));

		if (len + n >= size)
			break;
		memcpy(out + len, one, n);
		len += n;
	}
	out[len] = '\0';
	return len;
}

struct str {
	uint64_t text, length;
	unsigned width; /* bytes per character: 1, 2, 4 */
};

/* state: interned 2 bits, kind 3 bits (the width), compact, ascii. */
static int str_header(const struct py_runtime *rt, uint64_t addr, struct str *s)
{
	const struct py_objects *o = &rt->layout.obj;
	uint64_t type;
	uint32_t state;
	int rc = py_live_type(rt, addr, &type);

	if (rc)
		return rc;
	if (type != rt->image.unicode_type)
		return -EPROTO;
	rc = py_read_word(rt, addr + o->str_length, &s->length);
	if (!rc)
		rc = mem_read(rt->mem, addr + o->str_state, &state, sizeof(state));
	if (rc)
		return rc;
	s->width = state >> 2 & 7;
	s->text = addr + (state & 0x40 ? o->str_ascii : o->str_compact);
	if (!(state & 0x20) || (s->width != 1 && s->width != 2 && s->width != 4))
		return -EPROTO;
	return 0;
}

ssize_t py_read_str(const struct py_runtime *rt, uint64_t addr, char *out, size_t size)
{
	struct str s;
	uint8_t *text;
	ssize_t len;
	int rc = size ? str_header(rt, addr, &s) : -EINVAL;

	if (rc)
		return rc;
	if (s.length > size) /* each character takes at least a byte of out */
		s.length = size;
	text = malloc(s.length * s.width + 1);
	if (!text)
		return -ENOMEM;
	rc = s.length ? mem_read(rt->mem, s.text, text, s.length * s.width) : 0;
	len = rc ? rc : (ssize_t)to_utf8(text, s.length, s.width, out, size);
	free(text);
	return len;
}

ssize_t py_read_text(const struct py_runtime *rt, uint64_t addr, size_t max, char **out)
{
	struct str s;
	ssize_t len;
	int rc = str_header(rt, addr, &s);

	if (rc)
		return rc;
	if (s.length > max)
		return -E2BIG;
	*out = malloc(4 * s.length + 1);
	if (!*out)
		return -ENOMEM;
	len = py_read_str(rt, addr, *out, 4 * s.length + 1);
	if (len < 0) {
		free(*out);
		*out = NULL;
	}
	return len;
}

/* Whether the object's class is, or is derived from, one that has such a flag: Include/object.h. */
static int check_flag(const struct py_runtime *rt, uint64_t obj, uint64_t flag)
{
	uint64_t type, flags;
	int rc = py_object_type(rt, obj, &type);

	if (!rc)
		rc = py_read_word(rt, type + rt->layout.obj.type_flags, &flags);
	return rc ? rc : flags & flag ? 0 : -EPROTO;
}

/* PyListObject, Include/cpython/listobject.h (3.8: Include/listobject.h), and PyTupleObject,
 * Include/cpython/tupleobject.h: ob_size, then a pointer to the items, or the items. */
ssize_t py_sequence(const struct py_runtime *rt, uint64_t addr, size_t max, uint64_t *items)
{
	enum { OB_SIZE = 16, ITEMS = 24 };
	const uint64_t list = 1ULL << 25, tuple = 1ULL << 26;
	uint64_t n;
	int rc = check_flag(rt, addr, list);

	if (!rc) {
		rc = py_read_word(rt, addr + ITEMS, items);
	} else {
		rc = check_flag(rt, addr, tuple);
		*items = addr + ITEMS;
	}
	if (!rc)
		rc = py_read_word(rt, addr + OB_SIZE, &n);
	return rc ? rc : n > max ? -E2BIG : (ssize_t)n;
}

/* PyLongObject, Include/longintrepr.h or Include/cpython/longintrepr.h: the number of digits, from
 * 3.12 on above three bits of sign (0: positive, 1: zero), then digits of 30 bits. */
int64_t py_read_int(const struct py_runtime *rt, uint64_t addr)
{
	enum { SIZE = 16, DIGIT = 24 };
	uint64_t size;
	uint32_t digit;
	int rc = check_flag(rt, addr, 1ULL << 24);

	if (!rc)
		rc = py_read_word(rt, addr + SIZE, &size);
	if (rc)
		return rc;
	if (size == (rt->layout.minor >= 12 ? 1 : 0))
		return 0;
	if (size != (rt->layout.minor >= 12 ? 1 << 3 : 1))
		return -ERANGE;
	rc = mem_read(rt->mem, addr + DIGIT, &digit, sizeof(digit));
	return rc ? rc : digit < 1U << 30 ? (int64_t)digit : -EPROTO;
}

ssize_t py_read_bytes(const struct py_runtime *rt, uint64_t addr, size_t max, uint8_t **out)
{
	uint64_t type, len;
	int rc = py_live_type(rt, addr, &type);

	if (!rc && type != rt->image.bytes_type)
		rc = -EPROTO;
	if (!rc)
		rc = py_read_word(rt, addr + rt->layout.obj.bytes_size, &len);
	if (rc)
		return rc;
	if (len > max)
		return -E2BIG;
	*out = malloc(len + 1);
	if (!*out)
		return -ENOMEM;
	rc = len ? mem_read(rt->mem, addr + rt->layout.obj.bytes_data, *out, len) : 0;
	if (rc) {
		free(*out);
		*out = NULL;
		return rc;
	}
	return (ssize_t)len;
}
