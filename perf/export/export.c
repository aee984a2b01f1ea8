#include "perf/export/export.h"

#include <errno.h>
#include <string.h>

#include "perf/trace/trace_read.h"

bool export_chooses(const struct export_in *in, const struct op_event *ev)
{
	return (!in->span || trace_span_has(in->span, ev)) && trace_when_chooses(in->when, ev);
}

static bool chosen(const struct export_in *in, const struct trace_item *item)
{
	struct op_event ev;
	if (item->type == TRACE_EVENT)
		return !in->samples && export_chooses(in, &item->event);
	if (item->type != TRACE_SAMPLE)
		return true;
	sample_as_event(&item->sample, &ev);
	return (in->samples || in->both) && export_chooses(in, &ev);
}

static int each_item(struct export_in *in, struct trace_order *order, export_item_fn *fn, void *arg,
		     struct err *e)
{
	struct trace_item item;
	int n;
	while ((n = trace_order_next(order, &item, e)) > 0) {
		if (item.type == TRACE_LOST)
			in->lost += item.lost.count;
		if (!chosen(in, &item))
			continue;
		int r = fn(arg, &item);
		if (r)
			return err_set(e, r, "cannot write the events of %s: %s", in->path,
				       strerror(-r));
	}
	return n;
}

int export_each(struct export_in *in, export_item_fn *fn, void *arg, struct err *e)
{
	struct trace_reader *reader;
	int r = trace_reader_open(in->path, &reader, e);
	if (r)
		return r;
	in->lost = 0;
	in->origin_ns = trace_reader_origin(reader);
	struct trace_order *order = trace_order_new(reader, false);
	r = order ? each_item(in, order, fn, arg, e)
		  : err_set(e, -ENOMEM, "no memory to read %s", in->path);
	trace_order_free(order);
	trace_reader_close(reader);
	return r;
}
