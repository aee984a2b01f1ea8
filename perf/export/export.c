#include "perf/export/export.h"

#include <stdlib.h>
#include <string.h>

#include "perf/export/internal.h"

int export_look(struct export_in *in, const struct trace_query *q)
{
	enum { EACH = 1024 };
	struct export_watch *w = &in->watch;
	if (!w->look || ++w->items % EACH)
		return 0;
	return w->look(w->arg, trace_query_share(q));
}

int export_each(struct export_in *in, export_item_fn *fn, void *arg, struct err *e)
{
	struct trace_item item;
	int n, r = 0;
	while (!r && (n = trace_query_next(in->query, &item, e)) > 0) {
		r = fn(arg, &item);
		r = r ? r : export_look(in, in->query);
	}
	return r ? err_set(e, r, "cannot write the events of %s: %s", in->path, strerror(-r)) : n;
}

struct export_notes *export_notes(struct export_in *in)
{
	if (!in->notes)
		in->notes = calloc(1, sizeof(*in->notes));
	return in->notes;
}

void export_notes_free(struct export_notes *n)
{
	if (!n)
		return;
	if (n->spill)
		fclose(n->spill);
	intern_free(&n->ids);
	free(n->backwards);
	free(n->starts);
	breakdown_free(n->breakdown);
	free(n->steps);
	free(n);
}
