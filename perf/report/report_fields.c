#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "perf/report/internal.h"
#include "perf/report/report.h"

enum kind {
	WORD,	/* a const char * at `offset`, may be NULL */
	NUMBER, /* a uint64_t at `offset` */
	NET,	/* of the struct memory_row at `offset` */
	SELF_NET,
	FLOPS,
	PHASE,
	LINE,
	PID,
	TID,
	RANK,
	THREAD,
	MEAN,
	MIN,
	P50,
	P99,
	SELF_PERCENT,
	TOTAL_PERCENT,
	DEVICE_PERCENT,
	LAUNCH,
	WORKER,
};

struct field {
	const char *name;
	unsigned keys; /* rows by any of these keys have it; 0: all rows except those of samples */
	enum kind kind;
	size_t offset; /* in struct aggregate_row */
};

#define AT(kind, member) kind, offsetof(struct aggregate_row, member)

#define CPU memory[MEMORY_CPU]
#define DEVICES memory[MEMORY_DEVICES]

static const struct field fields[] = {
    {"op", AGGREGATE_OP, AT(WORD, op)},
    {"phase", AGGREGATE_PHASE, PHASE, 0},
    {"file", AGGREGATE_LINE | AGGREGATE_FILE | AGGREGATE_FUNCTION, AT(WORD, file)},
    {"line", AGGREGATE_LINE, LINE, 0},
    {"function", AGGREGATE_LINE | AGGREGATE_FUNCTION, AT(WORD, function)},
    {"text", AGGREGATE_LINE, AT(WORD, text)},
    {"parameter", AGGREGATE_LINE, AT(WORD, parameter)},
    {"rank", AGGREGATE_RANK, RANK, 0},
    {"pid", AGGREGATE_THREAD, PID, 0},
    {"tid", AGGREGATE_THREAD, TID, 0},
    {"thread", AGGREGATE_THREAD, THREAD, 0},
    {"module", AGGREGATE_MODULE, AT(WORD, module)},
    {"shape", AGGREGATE_SHAPE, AT(WORD, shape)},
    {"dtype", AGGREGATE_DTYPE, AT(WORD, dtype)},
    {"device", AGGREGATE_DEVICE, AT(WORD, device)},
    {"symbol", AGGREGATE_SYMBOL, AT(WORD, symbol)},
    {"object", AGGREGATE_SYMBOL, AT(WORD, object)},
    {"samples", AGGREGATE_SAMPLES, AT(NUMBER, calls)},
    {"weight", AGGREGATE_SAMPLES, AT(NUMBER, self_ns)},
    {"percent", AGGREGATE_SAMPLES, SELF_PERCENT, 0},
    {"calls", 0, AT(NUMBER, calls)},
    {"thrown", 0, AT(NUMBER, thrown)},
    {"self_ns", 0, AT(NUMBER, self_ns)},
    {"total_ns", 0, AT(NUMBER, total_ns)},
    {"mean_ns", 0, MEAN, 0},
    {"min_ns", 0, MIN, 0},
    {"p50_ns", 0, P50, 0},
    {"p99_ns", 0, P99, 0},
    {"max_ns", 0, AT(NUMBER, max_ns)},
    {"backward_calls", AGGREGATE_SIDES, AT(NUMBER, backward_calls)},
    {"backward_ns", AGGREGATE_SIDES, AT(NUMBER, backward_ns)},
    {"flops", AGGREGATE_FLOPS, FLOPS, 0},
    {"self_percent", 0, SELF_PERCENT, 0},
    {"total_percent", 0, TOTAL_PERCENT, 0},
    {"activities", AGGREGATE_ACTIVITIES, AT(NUMBER, activities)},
    {"device_ns", AGGREGATE_ACTIVITIES, AT(NUMBER, device_ns)},
    {"device_percent", AGGREGATE_ACTIVITIES, DEVICE_PERCENT, 0},
    {"launch", AGGREGATE_ACTIVITIES | AGGREGATE_MEMORY | AGGREGATE_DEVICE_MEMORY, LAUNCH, 0},
    {"allocs", AGGREGATE_MEMORY, AT(NUMBER, CPU.allocs)},
    {"alloc_bytes", AGGREGATE_MEMORY, AT(NUMBER, CPU.allocated)},
    {"frees", AGGREGATE_MEMORY, AT(NUMBER, CPU.frees)},
    {"freed_bytes", AGGREGATE_MEMORY, AT(NUMBER, CPU.freed)},
    {"peak_bytes", AGGREGATE_MEMORY, AT(NUMBER, CPU.at_peak)},
    {"device_allocs", AGGREGATE_DEVICE_MEMORY, AT(NUMBER, DEVICES.allocs)},
    {"device_alloc_bytes", AGGREGATE_DEVICE_MEMORY, AT(NUMBER, DEVICES.allocated)},
    {"device_frees", AGGREGATE_DEVICE_MEMORY, AT(NUMBER, DEVICES.frees)},
    {"device_freed_bytes", AGGREGATE_DEVICE_MEMORY, AT(NUMBER, DEVICES.freed)},
    {"device_peak_bytes", AGGREGATE_DEVICE_MEMORY, AT(NUMBER, DEVICES.at_peak)},
    {"self_memory_bytes", AGGREGATE_MEMORY, AT(SELF_NET, CPU)},
    {"memory_bytes", AGGREGATE_NET_MEMORY, AT(NET, CPU)},
    {"self_device_memory_bytes", AGGREGATE_DEVICE_MEMORY, AT(SELF_NET, DEVICES)},
    {"device_memory_bytes", AGGREGATE_NET_MEMORY, AT(NET, DEVICES)},
    {"worker", AGGREGATE_WORKERS, WORKER, 0},
};

enum { NFIELDS = sizeof(fields) / sizeof(fields[0]) };

/* One field of a row: text, or the digits of a number. */
struct cell {
	const char *text; /* may be NULL */
	bool is_number;
	char digits[32];
};

static uint64_t number(const struct aggregate_row *r, const struct field *d)
{
	uint64_t n;
	switch (d->kind) {
	case MEAN:
		return report_mean(r);
	case MIN:
		return r->calls ? r->min_ns : 0;
	case P50:
		return aggregate_quantile(r, 0.5);
	case P99:
		return aggregate_quantile(r, 0.99);
	default:
		memcpy(&n, (const char *)r + d->offset, sizeof(n));
		return n;
	}
}

static int64_t net_of(const struct aggregate_row *r, const struct field *d)
{
	struct memory_row m;
	memcpy(&m, (const char *)r + d->offset, sizeof(m));
	return d->kind == NET ? m.net : (int64_t)(m.allocated - m.freed);
}

/* Whether the number is not known. */
static bool is_unknown(const struct aggregate_row *r, const struct field *d)
{
	if (d->kind == FLOPS)
		return r->flops_unknown;
	return (d->kind == P50 || d->kind == P99) && !aggregate_has_quantiles(r);
}

static void set_number(struct cell *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void set_number(struct cell *c, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(c->digits, sizeof(c->digits), fmt, ap);
	va_end(ap);
	c->text = c->digits;
	c->is_number = true;
}

/* By a row's launch. */
static const char *const launches[] = {NULL, "in no op", "op not known", "not known",
				       "call not known"};

static void cell_of(struct cell *c, const struct field *d, const struct aggregate_row *r,
		    uint64_t observed_ns, const struct report_opts *opts)
{
	*c = (struct cell){0};
	if (is_unknown(r, d))
		return;
	switch (d->kind) {
	case NET:
	case SELF_NET:
		set_number(c, "%" PRId64, net_of(r, d));
		break;
	case WORD:
		memcpy(&c->text, (const char *)r + d->offset, sizeof(c->text));
		break;
	case PHASE:
		c->text = report_launch_text(r->launch) ? NULL : op_phase_names[r->phase];
		break;
	case DEVICE_PERCENT:
		set_number(c, "%.4f", report_percent(r->device_ns, opts->busy_ns));
		break;
	case LAUNCH:
		c->text = launches[r->launch];
		break;
	case WORKER:
		set_number(c, "%s", r->worker ? "true" : "false");
		break;
	case THREAD:
		c->text = report_thread_name(opts, r);
		break;
	case LINE:
		if (r->file)
			set_number(c, "%" PRId32, r->line);
		break;
	case RANK:
		if (r->rank1)
			set_number(c, "%" PRIu32, r->rank1 - 1);
		break;
	case FLOPS:
		set_number(c, "%.0f", r->flops);
		break;
	case PID:
	case TID:
		set_number(c, "%" PRId32, d->kind == PID ? r->pid : r->tid);
		break;
	case SELF_PERCENT:
	case TOTAL_PERCENT:
		set_number(c, "%.4f",
			   report_percent(d->kind == SELF_PERCENT ? r->self_ns : r->total_ns,
					  observed_ns));
		break;
	default:
		set_number(c, "%" PRIu64, number(r, d));
	}
}

/* The next field from *at on that rows by `keys` have; NULL after the last. */
static const struct field *next_field(size_t *at, unsigned keys)
{
	while (*at < NFIELDS) {
		const struct field *d = &fields[(*at)++];
		if (d->keys ? d->keys & keys : !(keys & AGGREGATE_SAMPLES))
			return d;
	}
	return NULL;
}

static void json_ranks(struct json_out *j, const struct aggregate_row *r,
		       const struct report_opts *opts)
{
	char rank[16];
	json_open(j, "self_ns_by_rank", '{');
	for (size_t i = 0; i < opts->nranks; i++) {
		snprintf(rank, sizeof(rank), "%" PRIu32, opts->ranks[i]);
		json_u64(j, rank, aggregate_rank_ns(r, i));
	}
	json_close(j, '}');
}

void report_fields_json(struct json_out *j, unsigned keys, const struct aggregate_row *r,
			uint64_t observed_ns, const struct report_opts *opts)
{
	const struct field *d;
	json_open(j, NULL, '{');
	for (size_t at = 0; (d = next_field(&at, keys));) {
		struct cell c;
		cell_of(&c, d, r, observed_ns, opts);
		if (c.is_number)
			json_format(j, d->name, "%s", c.text);
		else
			json_text(j, d->name, c.text);
	}
	if (keys & AGGREGATE_RANKS && !(keys & (AGGREGATE_RANK | AGGREGATE_SIDES)))
		json_ranks(j, r, opts);
	json_close(j, '}');
}

void report_fields_csv(FILE *f, unsigned keys, const struct aggregate_row *r, uint64_t observed_ns,
		       const struct report_opts *opts)
{
	const struct field *d;
	const char *comma = "";
	for (size_t at = 0; (d = next_field(&at, keys)); comma = ",") {
		struct cell c;
		cell_of(&c, d, r, observed_ns, opts);
		fputs(comma, f);
		csv_text(f, c.text ? c.text : "");
	}
	putc('\n', f);
}

void report_fields_header(FILE *f, unsigned keys)
{
	const struct field *d;
	const char *comma = "";
	for (size_t at = 0; (d = next_field(&at, keys)); comma = ",")
		fprintf(f, "%s%s", comma, d->name);
	putc('\n', f);
}

static const struct {
	const char *name;
	unsigned key;
} groups[] = {
    {"op", AGGREGATE_OP},	  {"line", AGGREGATE_LINE},
    {"file", AGGREGATE_FILE},	  {"function", AGGREGATE_FUNCTION},
    {"thread", AGGREGATE_THREAD}, {"module", AGGREGATE_MODULE},
    {"shape", AGGREGATE_SHAPE},	  {"dtype", AGGREGATE_DTYPE},
    {"device", AGGREGATE_DEVICE}, {"phase", AGGREGATE_PHASE},
    {"symbol", AGGREGATE_SYMBOL}, {"rank", AGGREGATE_RANK},
};

enum { NGROUPS = sizeof(groups) / sizeof(groups[0]) };

static const char words[] =
    "op, line, file, function, thread, module, shape, dtype, device, phase, symbol, rank";

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
			err_set(e, -EINVAL, "--group: rows cannot be grouped by \"%.*s\"",
				(int)(len < 40 ? len : 40), s);
			return err_hint(e, "any of %s, separated by commas", words);
		}
		*keys |= groups[i].key;
		if (!s[len])
			return 0;
		s += len + 1;
	}
}

/* To be sorted by `sort`, rows must have one of these keys; 0: none needed. */
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
	case REPORT_BY_OBJECT:
		return AGGREGATE_SYMBOL;
	case REPORT_BY_RANK:
		return AGGREGATE_RANK;
	default:
		return 0;
	}
}

const char *const report_sort_names[] = {
    "self",	     "total",	    "calls",	      "mean",	    "p99",
    "max",	     "p50",	    "device_time",    "alloc",	    "peak",
    "device_alloc",  "device_peak", "freed",	      "allocs",	    "device_freed",
    "device_allocs", "cpu_mem",	    "self_cpu_mem",   "device_mem", "self_device_mem",
    "min",	     "thrown",	    "activities",     "flops",	    "flop_rate",
    "forward",	     "backward",    "backward_calls", "ratio",	    "least",
    "most",	     "op",	    "line",	      "file",	    "function",
    "thread",	     "module",	    "shape",	      "dtype",	    "device",
    "phase",	     "symbol",	    "rank",	      "object",	    NULL};

/* Columns that show what rows are sorted by under another name. */
static const char *sort_name(const char *text, unsigned keys)
{
	static const char *const others[][2] = {{"self_percent", "self"},
						{"total_percent", "total"},
						{"both_percent", "total"},
						{"where", "line"},
						{"device_percent", "device_time"}};
	if (keys & AGGREGATE_SAMPLES && !strcmp(text, "samples"))
		return "calls";
	if (keys & AGGREGATE_SAMPLES && !strcmp(text, "overhead"))
		return "self";
	if (!(keys & AGGREGATE_DEVICE) && !strcmp(text, "device"))
		return "device_time";
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (!strcmp(text, others[i][0]))
			return others[i][1];
	return text;
}

static int no_sort(const char *text, unsigned keys, struct err *e)
{
	struct suggestions near = {.word = text};
	char names[512] = "", list[256];
	size_t used = 0;
	for (size_t i = 0; report_sort_names[i]; i++) {
		const char *name = report_sort_names[i];
		bool can = i >= REPORT_BY_OP ? (keys_of((enum report_sort)i) & keys) != 0
					     : i <= REPORT_BY_P50 || report_columns_has(name, keys);
		if (!can)
			continue;
		suggestions_add(&near, name);
		if (used < sizeof(names))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 used ? ", " : "", name);
	}
	err_set(e, -EINVAL, "--sort: rows cannot be sorted by \"%.40s\"", text);
	return suggestions_list(&near, list, sizeof(list)) ? err_hint(e, "near it: %s", list)
							   : err_hint(e, "one of %s", names);
}

int group_parse_sort(const char *text, unsigned keys, enum report_sort *sort, struct err *e)
{
	const char *name = sort_name(text, keys);
	size_t i = 0;
	while (report_sort_names[i] && strcmp(name, report_sort_names[i]) != 0)
		i++;
	if (!report_sort_names[i])
		return no_sort(text, keys, e);
	*sort = (enum report_sort)i;
	if (*sort == REPORT_BY_DEVICE_TIME && keys & AGGREGATE_NO_ACTIVITIES) {
		err_set(e, -EINVAL, "--sort %s: such rows have no time of devices", text);
		return err_hint(e, "those of ops without --side-by-side have");
	}
	if (*sort > REPORT_BY_DEVICE_TIME && *sort < REPORT_BY_OP &&
	    !report_columns_has(name, keys)) {
		err_set(e, -EINVAL, "--sort %s: such rows have no such column", text);
		return err_hint(e, *sort >= REPORT_BY_FORWARD && *sort <= REPORT_BY_RATIO
				       ? "those of --side-by-side have"
				       : "those of ops without --side-by-side have");
	}
	if (!keys_of(*sort) || keys_of(*sort) & keys)
		return 0;
	err_set(e, -EINVAL, "--sort %s: the rows are not grouped by it", text);
	return err_hint(e, "group by it, too: --group op,%s", text);
}

int report_parse_percent(const char *text, double *out, struct err *e)
{
	char *end;
	double d = strtod(text, &end);
	if (end == text || (*end && strcmp(end, "%") != 0) || !(d >= 0 && d <= 100)) {
		err_set(e, -EINVAL, "--percent-limit %s: not a percentage", text);
		return err_hint(e, "a number from 0 to 100: --percent-limit 0.5");
	}
	*out = d;
	return 0;
}
