#define _GNU_SOURCE
#include "tracer/intervene/internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/numbers/numbers.h"
#include "symbolizer/event/names.h"

static const char *const example = "write torch.float16->torch.float32, several with commas";

/* The c10::ScalarType of a name, which may have "torch." and blanks around it; -1: none. */
static int dtype_of(const char *s, const char *end)
{
	char name[32];
	while (s < end && isspace((unsigned char)*s))
		s++;
	while (s < end && isspace((unsigned char)end[-1]))
		end--;
	if (end - s > 6 && !strncmp(s, "torch.", 6))
		s += 6;
	size_t n = (size_t)(end - s);
	if (n >= sizeof(name))
		return -1;
	memcpy(name, s, n);
	name[n] = '\0';
	return names_dtype_code(name);
}

/* NUMBER_SIGNED stands for all integers. */
static enum number_kind kind_of(int dtype)
{
	enum number_kind kind = dtype < 0 ? NUMBER_NONE : number_of(dtype)->kind;
	if (kind == NUMBER_BOOL || (kind != NUMBER_NONE && *names_dtype(dtype) == 'q'))
		return NUMBER_NONE;
	return kind == NUMBER_UNSIGNED ? NUMBER_SIGNED : kind;
}

/* Why integers cannot be cast this way; NULL: they can. */
static const char *why_not_integers(const char *from, const char *to)
{
	if (!strcmp(from, "uint8") || !strcmp(to, "uint8"))
		return "uint8 is a mask where other integers are indices";
	if (!strcmp(to, "int64"))
		return "sums and indices are int64 by themselves, which would be cast back, too";
	return strncmp(to, "int", 3) ? "few functions take unsigned integers" : NULL;
}

static int check(const char *option, int from, int to, struct err *e)
{
	enum number_kind kind = kind_of(from);
	if (kind == NUMBER_NONE || kind_of(to) == NUMBER_NONE) {
		err_set(e, -EINVAL, "%s: this is not FROM->TO of two dtypes of numbers", option);
		return err_hint(e, "%s", example);
	}
	const char *a = names_dtype(from), *b = names_dtype(to);
	const char *why = kind == NUMBER_SIGNED ? why_not_integers(a, b) : NULL;
	if (from == to)
		err_set(e, -EINVAL, "%s: %s is %s already", option, a, b);
	else if (kind != kind_of(to))
		err_set(e, -EINVAL,
			"%s: %s and %s are numbers of two kinds: results could not be cast back",
			option, a, b);
	else if (why)
		err_set(e, -EINVAL, "%s: %s", option, why);
	else
		return 0;
	return err_hint(e, "floating dtypes become floating ones, complex ones complex ones, and "
			   "integers int8, int16 or int32");
}

static int read_cast(const char *option, const char *s, size_t len, json_t *out, struct err *e)
{
	const char *arrow = memmem(s, len, "->", 2);
	int from = arrow ? dtype_of(s, arrow) : -1;
	int to = arrow ? dtype_of(arrow + 2, s + len) : -1;
	int rc = check(option, from, to, e);
	if (rc)
		return rc;
	return json_object_set_new(out, names_dtype(from), json_string(names_dtype(to)))
		   ? err_set(e, -ENOMEM, "no memory")
		   : 0;
}

int intervene_casts_read(const char *option, const char *text, json_t *out, struct err *e)
{
	for (const char *s = text;; s++) {
		size_t len = strcspn(s, ",");
		int rc = read_cast(option, s, len, out, e);
		if (rc)
			return err_quote(e, text, (size_t)(s - text), len);
		s += len;
		if (!*s)
			return 0;
	}
}
