/* One call on a line, as text and as JSON. */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "perf/collectives/internal.h"
#include "perf/events/print_event.h"
#include "symbolizer/event/names.h"

const char *collective_text(char *out, size_t size, const struct collective *w)
{
	const char *dtype = w->dtype < 0 ? NULL : names_dtype(w->dtype);
	bool sends =
	    !strcmp(w->name, "send") || !strcmp(w->name, "reduce") || !strcmp(w->name, "gather");
	size_t n = (size_t)snprintf(out, size, "%s%s%s", w->name, w->reduce_op ? " " : "",
				    w->reduce_op ? w->reduce_op : "");
	if (w->root >= 0 && n < size)
		n += (size_t)snprintf(out + n, size - n, " %s %" PRId64, sends ? "to" : "from",
				      w->root);
	if (dtype && n < size)
		n += (size_t)snprintf(out + n, size - n, " %s", dtype);
	if (w->async > 0 && n < size)
		snprintf(out + n, size - n, " async");
	return out;
}

static const char *duration(char *out, size_t size, const struct op_event *ev)
{
	return ev->thrown   ? "thrown"
	       : ev->end_ns ? text_ns(out, size, ev->end_ns - ev->start_ns)
			    : "open";
}

void collective_print(const struct collectives *c, FILE *f, const struct op_event *ev)
{
	struct collective what;
	char text[WHERE_TEXT_MAX], rank[16] = "-", number[48] = "-", bytes[32], ns[32];
	uint64_t after = ev->start_ns - c->first_ns, nth;
	unsigned group;
	if (!collective_of(ev, &what))
		return;
	if (ev->rank1)
		snprintf(rank, sizeof(rank), "%" PRIu32, ev->rank1 - 1);
	if (collectives_number(c, ev, &group, &nth))
		snprintf(number, sizeof(number), "%u.%" PRIu64, group, nth);
	fprintf(f, "%4" PRIu64 ".%06" PRIu64 " s  rank %-4s %-8s %-32s %10s %8s  ",
		after / 1000000000, after % 1000000000 / 1000, rank, number,
		collective_text(text, sizeof(text), &what),
		what.has_bytes ? text_bytes(bytes, sizeof(bytes), what.bytes) : "",
		duration(ns, sizeof(ns), ev));
	text_print_safe(f, where_text(text, sizeof(text), collective_where(ev->stack), NULL,
				      PHASE_FORWARD, NULL));
	putc('\n', f);
}

void collective_json(const struct collectives *c, FILE *f, const struct op_event *ev)
{
	struct json_out j = {.f = f};
	struct collective what;
	const struct py_frame *at = collective_where(ev->stack);
	uint64_t nth = 0;
	unsigned group = 0;
	if (!collective_of(ev, &what))
		return;
	bool known = collectives_number(c, ev, &group, &nth);
	json_open(&j, NULL, '{');
	json_text(&j, "collective", what.name);
	json_u64(&j, "id", ev->id);
	json_i64(&j, "pid", ev->pid);
	json_i64(&j, "tid", ev->tid);
	json_number(&j, "rank", ev->rank1, (int64_t)ev->rank1 - 1);
	json_number(&j, "group", known, group);
	json_number(&j, "number", known, (int64_t)nth);
	json_number(&j, "group_size", what.group && what.group->group.size >= 0,
		    what.group ? what.group->group.size : 0);
	json_text(&j, "reduce_op", what.reduce_op);
	json_number(&j, "root", what.root >= 0, what.root);
	json_async(&j, &what);
	json_number(&j, "bytes", what.has_bytes, (int64_t)what.bytes);
	json_text(&j, "dtype", what.dtype < 0 ? NULL : names_dtype(what.dtype));
	json_u64(&j, "start_ns", ev->start_ns);
	json_number(&j, "end_ns", ev->end_ns, (int64_t)ev->end_ns);
	json_bool(&j, "thrown", ev->thrown);
	json_text(&j, "file", at ? at->file : NULL);
	json_number(&j, "line", at, at ? at->line : 0);
	json_text(&j, "function", at ? at->function : NULL);
	json_close(&j, '}');
	putc('\n', f);
}
