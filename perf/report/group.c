#include "perf/report/group.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *name;
	unsigned key;
} groups[] = {
    {"op", AGGREGATE_OP},	  {"line", AGGREGATE_LINE},
    {"file", AGGREGATE_FILE},	  {"function", AGGREGATE_FUNCTION},
    {"thread", AGGREGATE_THREAD}, {"module", AGGREGATE_MODULE},
    {"shape", AGGREGATE_SHAPE},	  {"dtype", AGGREGATE_DTYPE},
    {"device", AGGREGATE_DEVICE}, {"phase", AGGREGATE_PHASE},
    {"symbol", AGGREGATE_SYMBOL},
};

enum { NGROUPS = sizeof(groups) / sizeof(groups[0]) };

static const char words[] =
    "op, line, file, function, thread, module, shape, dtype, device, phase, symbol";

static bool is(const char *word, size_t len, const char *name)
{
	return strlen(name) == len && !strncmp(word, name, len);
}

int group_parse(const char *text, unsigned *keys, struct err *e)
{
	*keys = 0;
	for (const char *s = text;;) {
		size_t len = strcspn(s, ","), i = 0;
		while (i < NGROUPS && !is(s, len, groups[i].name))
			i++;
		if (i == NGROUPS) {
			err_set(e, -EINVAL, "--group: rows cannot be told apart by \"%.*s\"",
				(int)(len < 40 ? len : 40), s);
			return err_hint(e, "any of %s, separated by commas", words);
		}
		*keys |= groups[i].key;
		if (!s[len])
			return 0;
		s += len + 1;
	}
}

/* The keys of which rows need one to be sorted so; 0: all rows can. */
static unsigned keys_of(enum report_sort sort)
{
	switch (sort) {
	case REPORT_BY_OP:
		return AGGREGATE_OP;
	case REPORT_BY_LINE:
		return AGGREGATE_LINE;
	case REPORT_BY_FILE:
		return AGGREGATE_FILE | AGGREGATE_FUNCTION | AGGREGATE_LINE;
	case REPORT_BY_FUNCTION:
		return AGGREGATE_FUNCTION | AGGREGATE_LINE;
	case REPORT_BY_THREAD:
		return AGGREGATE_THREAD;
	case REPORT_BY_MODULE:
		return AGGREGATE_MODULE;
	case REPORT_BY_SHAPE:
		return AGGREGATE_SHAPE;
	case REPORT_BY_DTYPE:
		return AGGREGATE_DTYPE;
	case REPORT_BY_DEVICE:
		return AGGREGATE_DEVICE;
	case REPORT_BY_PHASE:
		return AGGREGATE_PHASE;
	case REPORT_BY_SYMBOL:
		return AGGREGATE_SYMBOL;
	default:
		return 0;
	}
}

int group_parse_sort(const char *text, unsigned keys, enum report_sort *sort, struct err *e)
{
	size_t i = 0;
	if (keys & AGGREGATE_SAMPLES && !strcmp(text, "samples"))
		text = "calls";
	if (keys & AGGREGATE_SAMPLES && !strcmp(text, "overhead"))
		text = "self";
	while (report_sort_names[i] && strcmp(text, report_sort_names[i]) != 0)
		i++;
	if (!report_sort_names[i]) {
		err_set(e, -EINVAL, "--sort: rows cannot be sorted by \"%.40s\"", text);
		return err_hint(e, "one of self, total, calls, mean, p50, p99, max, %s", words);
	}
	*sort = (enum report_sort)i;
	if (!keys_of(*sort) || keys_of(*sort) & keys)
		return 0;
	err_set(e, -EINVAL, "--sort %s: the rows are not told apart by it", text);
	return err_hint(e, "group by it, too: --group op,%s", text);
}
