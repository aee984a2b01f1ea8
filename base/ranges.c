#include "base/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int bad(const char *option, const char *text, const char *why, uint64_t least, struct err *e)
{
	err_set(e, -EINVAL, "%s %s: %s", option, text, why);
	err_hint(e, "numbers and ranges from %d on, separated by commas: %s 3,10-20,50-",
		 (int)least, option);
	return -EINVAL;
}

static bool number(const char **s, uint64_t *out)
{
	char *end;
	if (**s < '0' || **s > '9')
		return false;
	errno = 0;
	*out = strtoull(*s, &end, 10);
	*s = end;
	return !errno;
}

/* Parse one item and advance *s past it. Returns NULL or the reason it is invalid. */
static const char *parse_one(const char **s, uint64_t least, struct range *r)
{
	if (!number(s, &r->first))
		return "not a number";
	r->last = r->first;
	if (**s == '-') {
		++*s;
		if (**s == '\0' || **s == ',')
			r->last = UINT64_MAX;
		else if (!number(s, &r->last))
			return "not a number";
	}
	if (r->first < least)
		return "numbers start at 1";
	if (r->last < r->first)
		return "the range ends before it begins";
	return **s && **s != ',' ? "not a number" : NULL;
}

int ranges_parse(const char *option, const char *text, struct ranges *out, struct err *e)
{
	return ranges_parse_from(option, text, 1, out, e);
}

int ranges_parse_from(const char *option, const char *text, uint64_t least, struct ranges *out,
		      struct err *e)
{
	const char *s = text;
	*out = (struct ranges){0};
	for (;;) {
		struct range r, *list = reallocarray(out->list, out->n + 1, sizeof(*list));
		if (!list) {
			ranges_free(out);
			return err_set(e, -ENOMEM, "%s: out of memory", option);
		}
		out->list = list;
		const char *why = parse_one(&s, least, &r);
		if (why) {
			ranges_free(out);
			return bad(option, text, why, least, e);
		}
		list[out->n++] = r;
		if (!*s)
			return 0;
		s++;
	}
}

bool ranges_have(const struct ranges *r, uint64_t n)
{
	for (size_t i = 0; i < r->n; i++)
		if (n >= r->list[i].first && n <= r->list[i].last)
			return true;
	return r->n == 0;
}

bool ranges_over(const struct ranges *r, uint64_t n)
{
	for (size_t i = 0; i < r->n; i++)
		if (n <= r->list[i].last)
			return false;
	return r->n != 0;
}

void ranges_free(struct ranges *r)
{
	free(r->list);
	*r = (struct ranges){0};
}
