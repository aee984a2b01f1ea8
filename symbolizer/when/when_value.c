#include "symbolizer/when/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/event/names.h"

bool when_is_list(struct when_value v)
{
	return v.kind == WHEN_V_VALUES || v.kind == WHEN_V_DIMS || v.kind == WHEN_V_TENSORS ||
	       v.kind == WHEN_V_LITERAL;
}

struct when_value when_weaker(struct when_value a, struct when_value b)
{
	static const enum when_kind order[] = {WHEN_V_ABSENT, WHEN_V_LATER, WHEN_V_UNKNOWN};
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (a.kind == order[i] || b.kind == order[i])
			return when_none(order[i]);
	return a;
}

static struct when_value scalar_value(const struct value *v, uint8_t kind)
{
	if (kind == VALUE_FLOAT)
		return (struct when_value){.kind = WHEN_V_FLOAT, .f = v->f};
	if (kind == VALUE_BOOL)
		return when_int(v->i != 0);
	return when_int(v->is_unsigned ? (__int128)(uint64_t)v->i : v->i);
}

static struct when_value code_value(enum when_kind kind, int64_t code)
{
	return (struct when_value){.kind = (uint8_t)kind, .i = code};
}

struct when_value when_of(const struct value *v, bool at_entry)
{
	switch (v->kind) {
	case VALUE_NONE:
		return when_none(WHEN_V_NONE);
	case VALUE_TENSOR:
		return (struct when_value){.kind = WHEN_V_TENSOR, .tensor = v->tensor};
	case VALUE_LIST:
		return (struct when_value){
		    .kind = WHEN_V_VALUES, .count = v->count, .values = v->items};
	case VALUE_INT:
	case VALUE_FLOAT:
	case VALUE_BOOL:
		return scalar_value(v, v->kind);
	case VALUE_SCALAR:
		return scalar_value(v, v->scalar);
	case VALUE_COMPLEX:
		return (struct when_value){.kind = WHEN_V_COMPLEX, .c = {v->c.re, v->c.im}};
	case VALUE_STRING:
		return when_string(v->str, v->count);
	case VALUE_DTYPE:
		return code_value(WHEN_V_DTYPE, v->i);
	case VALUE_DEVICE:
		return (struct when_value){.kind = WHEN_V_DEVICE,
					   .device = {v->device.type, v->device.index}};
	case VALUE_LAYOUT:
		return code_value(WHEN_V_LAYOUT, v->i);
	case VALUE_MEMORY_FORMAT:
		return code_value(WHEN_V_MEMORY_FORMAT, v->i);
	case VALUE_GENERATOR:
	case VALUE_GROUP:
	case VALUE_WORK:
		return when_none(WHEN_V_OTHER);
	default:
		return when_none(at_entry ? WHEN_V_LATER : WHEN_V_UNKNOWN);
	}
}

/* Precedence in an `and`: the higher rank decides. */
static int rank_in_and(struct when_value v)
{
	if (v.kind == WHEN_V_INT)
		return v.i ? 0 : 4;
	return v.kind == WHEN_V_ABSENT ? 1 : v.kind == WHEN_V_UNKNOWN ? 2 : 3;
}

struct when_value when_and(struct when_value a, struct when_value b)
{
	return rank_in_and(b) > rank_in_and(a) ? b : a;
}

struct when_value when_not(struct when_value a)
{
	return when_is_special(a) ? a : when_int(!a.i);
}

struct when_value when_or(struct when_value a, struct when_value b)
{
	return when_not(when_and(when_not(a), when_not(b)));
}

static bool is_real(struct when_value v)
{
	return v.kind == WHEN_V_INT || v.kind == WHEN_V_FLOAT;
}

static double to_double(struct when_value v)
{
	return v.kind == WHEN_V_INT ? (double)v.i : v.f;
}

static struct when_value int_arith(char op, __int128 a, __int128 b)
{
	__int128 r = 0;
	bool bad = false;
	switch (op) {
	case '+':
		bad = __builtin_add_overflow(a, b, &r);
		break;
	case '-':
		bad = __builtin_sub_overflow(a, b, &r);
		break;
	case '*':
		bad = __builtin_mul_overflow(a, b, &r);
		break;
	default: /* % and //, which round down */
		if (!b || b == -1)
			return !b	   ? when_none(WHEN_V_ABSENT)
			       : op == '%' ? when_int(0)
					   : when_minus(when_int(a));
		r = op == '%' ? a % b : a / b;
		if (a % b && (a % b < 0) != (b < 0))
			r += op == '%' ? b : -1;
	}
	return bad ? when_none(WHEN_V_ABSENT) : when_int(r);
}

static struct when_value float_arith(char op, double a, double b)
{
	struct when_value r = {.kind = WHEN_V_FLOAT};
	if ((op == '/' || op == '%' || op == '|') && b == 0)
		return when_none(WHEN_V_ABSENT);
	switch (op) {
	case '+':
		r.f = a + b;
		break;
	case '-':
		r.f = a - b;
		break;
	case '*':
		r.f = a * b;
		break;
	case '/':
		r.f = a / b;
		break;
	case '|':
		r.f = floor(a / b);
		break;
	default:
		r.f = fmod(a, b);
		if (r.f && (r.f < 0) != (b < 0))
			r.f += b;
	}
	return r;
}

struct when_value when_arith(char op, struct when_value a, struct when_value b)
{
	if (when_is_special(a) || when_is_special(b))
		return when_weaker(a, b);
	if (!is_real(a) || !is_real(b))
		return when_none(WHEN_V_ABSENT);
	if (a.kind == WHEN_V_INT && b.kind == WHEN_V_INT && op != '/')
		return int_arith(op, a.i, b.i);
	return float_arith(op, to_double(a), to_double(b));
}

struct when_value when_minus(struct when_value a)
{
	if (a.kind == WHEN_V_FLOAT) {
		a.f = -a.f;
		return a;
	}
	return when_is_special(a) ? a : when_arith('-', when_int(0), a);
}

static const double TWO_TO_127 = 1.7014118346046923e38;

/* -1, 0 or 1; 2 if `f` is NaN. Exact, as in Python. */
static int compare_int_float(__int128 i, double f)
{
	if (isnan(f))
		return 2;
	if (fabs(f) >= TWO_TO_127)
		return f > 0 ? -1 : 1;
	__int128 whole = (__int128)f;
	if (i != whole)
		return i < whole ? -1 : 1;
	double rest = f - (double)whole;
	return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

static int compare_real(struct when_value a, struct when_value b)
{
	if (a.kind == WHEN_V_INT && b.kind == WHEN_V_INT)
		return (a.i > b.i) - (a.i < b.i);
	if (a.kind == WHEN_V_INT)
		return compare_int_float(a.i, b.f);
	if (b.kind == WHEN_V_INT) {
		int c = compare_int_float(b.i, a.f);
		return c == 2 ? 2 : -c;
	}
	return isnan(a.f) || isnan(b.f) ? 2 : (a.f > b.f) - (a.f < b.f);
}

static int compare_strings(struct when_value a, struct when_value b)
{
	size_t n = a.s.len < b.s.len ? a.s.len : b.s.len;
	int c = n ? memcmp(a.s.bytes, b.s.bytes, n) : 0;
	return c ? (c > 0) - (c < 0) : (a.s.len > b.s.len) - (a.s.len < b.s.len);
}

struct when_value when_less(struct when_value a, struct when_value b, bool or_equal)
{
	int c;
	if (when_is_special(a) || when_is_special(b))
		return when_weaker(a, b);
	if (is_real(a) && is_real(b))
		c = compare_real(a, b);
	else if (a.kind == WHEN_V_STRING && b.kind == WHEN_V_STRING)
		c = compare_strings(a, b);
	else
		return when_none(WHEN_V_ABSENT);
	return when_int(c < 0 || (c == 0 && or_equal));
}

static bool equal_complex(struct when_value a, struct when_value b)
{
	if (a.kind != WHEN_V_COMPLEX) {
		struct when_value other = a;
		a = b;
		b = other;
	}
	if (b.kind == WHEN_V_COMPLEX)
		return a.c.re == b.c.re && a.c.im == b.c.im;
	struct when_value re = {.kind = WHEN_V_FLOAT, .f = a.c.re};
	return is_real(b) && a.c.im == 0 && compare_real(re, b) == 0;
}

/* "cuda:1" matches that device, "cuda" any of its type. */
static bool is_device(struct when_value d, struct when_value s)
{
	char full[32], type[32];
	names_device(full, sizeof(full), d.device.type, d.device.index);
	names_device(type, sizeof(type), d.device.type, -1);
	return (s.s.len == strlen(full) && !memcmp(s.s.bytes, full, s.s.len)) ||
	       (s.s.len == strlen(type) && !memcmp(s.s.bytes, type, s.s.len));
}

static bool equal_same_kind(struct when_value a, struct when_value b)
{
	switch (a.kind) {
	case WHEN_V_NONE:
		return true;
	case WHEN_V_STRING:
		return compare_strings(a, b) == 0;
	case WHEN_V_DEVICE:
		return a.device.type == b.device.type && a.device.index == b.device.index;
	default: /* the codes */
		return a.i == b.i;
	}
}

struct when_value when_equal(struct when_value a, struct when_value b)
{
	if (when_is_special(a) || when_is_special(b))
		return when_weaker(a, b);
	bool none = a.kind == WHEN_V_NONE || b.kind == WHEN_V_NONE;
	if (!none && (a.kind == WHEN_V_TENSOR || b.kind == WHEN_V_TENSOR ||
		      a.kind == WHEN_V_OTHER || b.kind == WHEN_V_OTHER))
		return when_none(WHEN_V_ABSENT);
	if (a.kind == WHEN_V_COMPLEX || b.kind == WHEN_V_COMPLEX)
		return when_int(equal_complex(a, b));
	if (is_real(a) && is_real(b))
		return when_int(compare_real(a, b) == 0);
	if (a.kind == WHEN_V_DEVICE && b.kind == WHEN_V_STRING)
		return when_int(is_device(a, b));
	if (a.kind == WHEN_V_STRING && b.kind == WHEN_V_DEVICE)
		return when_int(is_device(b, a));
	return when_int(a.kind == b.kind && equal_same_kind(a, b));
}

struct when_value when_truth(struct when_value v)
{
	switch (v.kind) {
	case WHEN_V_ABSENT:
	case WHEN_V_UNKNOWN:
	case WHEN_V_LATER:
		return v;
	case WHEN_V_NONE:
		return when_int(0);
	case WHEN_V_INT:
		return when_int(v.i != 0);
	case WHEN_V_FLOAT:
		return when_int(v.f != 0);
	case WHEN_V_COMPLEX:
		return when_int(v.c.re != 0 || v.c.im != 0);
	case WHEN_V_STRING:
		return when_int(v.s.len != 0);
	default:
		return when_none(WHEN_V_ABSENT);
	}
}
