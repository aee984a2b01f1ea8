/* Values of known size: numbers, enumerations, devices, scalars, and optionals of these. */
#include "symbolizer/decode/decoder.h"

#include <string.h>

#include "symbolizer/decode/internal.h"
#include "symbolizer/decode/target.h"
#include "symbolizer/event/names.h"

/* c10::SymInt: an int64_t, or a tagged pointer if the top three bits are 100 or 101, depending on
 * the version (c10/core/SymInt.h); plain values that are negative are kept behind a pointer, too.
 */
static struct value symint(int64_t v)
{
	uint64_t top = (uint64_t)v >> 61;
	if (top == 4 || top == 5)
		return value_not_decoded("a symbolic or very large negative integer");
	return value_int(VALUE_INT, v);
}

struct value plain_value(uint8_t base, const uint8_t *p)
{
	struct value v = {0};
	switch (base) {
	case CXX_INT64:
		return value_int(VALUE_INT, (int64_t)plain_word(p));
	case CXX_SYMINT:
		return symint((int64_t)plain_word(p));
	case CXX_INT8:
		return value_int(VALUE_INT, (int8_t)p[0]);
	case CXX_BOOL:
		return p[0] > 1 ? value_not_decoded("not a bool") : value_int(VALUE_BOOL, p[0]);
	case CXX_SCALAR_TYPE:
		return names_dtype((int8_t)p[0]) ? value_int(VALUE_DTYPE, (int8_t)p[0])
						 : value_not_decoded("an unknown dtype");
	case CXX_LAYOUT:
		return names_layout((int8_t)p[0]) ? value_int(VALUE_LAYOUT, (int8_t)p[0])
						  : value_not_decoded("an unknown layout");
	case CXX_MEMORY_FORMAT:
		return names_memory_format((int8_t)p[0])
			   ? value_int(VALUE_MEMORY_FORMAT, (int8_t)p[0])
			   : value_not_decoded("an unknown memory format");
	case CXX_DEVICE:
		v.kind = VALUE_DEVICE;
		v.device.type = (int8_t)p[0];
		v.device.index = (int8_t)p[1];
		return v;
	case CXX_DOUBLE:
		v.kind = VALUE_FLOAT;
		memcpy(&v.f, p, sizeof(v.f));
		return v;
	case CXX_WORK:
		return (struct value){.kind = VALUE_WORK, .work = {plain_word(p), NULL}};
	case CXX_GENERATOR:
		return value_int(VALUE_GENERATOR, (int64_t)plain_word(p));
	default:
		return value_not_decoded("a type ditrace does not know");
	}
}

/* at::Dimname: {Symbol, NameType: 0 BASIC, 1 WILDCARD} (ATen/core/Dimname.h). The wildcard's symbol
 * is dimname::*; in Python it is None. */
static struct value dimname(const struct decode *d, const uint8_t *p)
{
	uint32_t id;
	memcpy(&id, p, sizeof(id));
	const char *name = interned_name(d->target->interned, id, "dimname");
	if (!name && interned_is_gone(d->target->interned))
		return value_not_decoded("the process ended before this name was read");
	if (!name || p[4] > 1 || (p[4] == 1) != !strcmp(name, "*"))
		return value_not_decoded("a dimension name that the process does not know");
	if (p[4])
		return value_none();
	struct value s = {.kind = VALUE_STRING, .count = (uint32_t)strlen(name)};
	s.str = arena_strndup(d->arena, name, s.count);
	return s.str ? s : value_not_decoded("no memory");
}

struct value plain_scalar(uint8_t kind, const uint8_t *v)
{
	struct value out = {.kind = VALUE_SCALAR, .scalar = kind};
	if (kind == VALUE_FLOAT)
		memcpy(&out.f, v, sizeof(out.f));
	else
		out.i = kind == VALUE_BOOL ? v[0] != 0 : (int64_t)plain_word(v);
	return out;
}

/* c10::Scalar: {Tag, padding to 16, union} (c10/core/Scalar.h). The tags are HAS_d, HAS_i, [HAS_u,]
 * HAS_z, HAS_b, then the symbolic ones; in versions with HAS_u, HAS_z is 3 instead of 2. */
static struct value scalar(const struct decode *d, const uint8_t *p)
{
	uint32_t tag;
	memcpy(&tag, p, sizeof(tag));
	const uint8_t *v = p + 16;
	unsigned z = d->target->ops->scalar_complex_tag;
	if (z != 2 && z != 3)
		return value_not_decoded("the layout of c10::Scalar is not known");
	if (tag == 0)
		return plain_scalar(VALUE_FLOAT, v);
	if (tag == 1)
		return plain_scalar(VALUE_INT, v);
	if (tag == z + 1)
		return plain_scalar(VALUE_BOOL, v);
	if (tag > z)
		return value_not_decoded("a symbolic scalar");
	if (tag < z) {
		struct value u = plain_scalar(VALUE_INT, v);
		u.is_unsigned = true;
		return u;
	}
	struct value c = {.kind = VALUE_COMPLEX};
	memcpy(&c.c, v, sizeof(c.c));
	return c;
}

struct value plain_of_type(const struct decode *d, uint8_t base, const uint8_t *p)
{
	if (base == CXX_SCALAR)
		return scalar(d, p);
	return base == CXX_DIMNAME ? dimname(d, p) : plain_value(base, p);
}

static unsigned plain_size(uint8_t base)
{
	switch (base) {
	case CXX_INT64:
	case CXX_SYMINT:
	case CXX_DOUBLE:
	case CXX_GENERATOR:
	case CXX_DIMNAME:
	case CXX_WORK:
		return 8;
	case CXX_DEVICE:
		return 2;
	case CXX_SCALAR:
		return 32;
	default:
		return 1;
	}
}

struct value plain_laid_out(const struct decode *d, const struct abi_value *v, const uint8_t *p,
			    uint32_t len)
{
	unsigned size = plain_size(v->base);
	unsigned align = v->base == CXX_SCALAR ? 16 : size == 2 ? 1 : size;
	unsigned flag_at = v->std_optional ? size : 0;
	unsigned value_at = v->has_flag && !v->std_optional ? align : 0;
	uint8_t room[64] = {0};
	unsigned end = value_at + size;
	if (v->has_flag && flag_at + 1 > end)
		end = flag_at + 1;
	if (len > sizeof(room) || end > sizeof(room) || len < end)
		return value_not_decoded("too few bytes");
	memcpy(room, p, len);
	if (v->has_flag && room[flag_at] > 1)
		return value_not_decoded("not an optional");
	if (v->has_flag && !room[flag_at])
		return value_none();
	return plain_of_type(d, v->base, room + value_at);
}
