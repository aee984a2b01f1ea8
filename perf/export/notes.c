/* What a first pass over a trace notes for chrome and perfetto: flows and steps. */
#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "perf/export/export.h"
#include "perf/export/internal.h"

static int flows_note(struct export_flows *f, uint64_t id)
{
	if (array_grow(&f->ids, &f->room, f->n + 1, sizeof(*f->ids)))
		return -ENOMEM;
	f->ids[f->n++] = id;
	return 0;
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static int flows_sort(struct export_flows *f)
{
	if (!f->n)
		return 0;
	qsort(f->ids, f->n, sizeof(*f->ids), compare_ids);
	f->given1 = calloc(f->n, sizeof(*f->given1));
	return f->given1 ? 0 : -ENOMEM;
}

/* How many begin at the event, and the first of them. */
static size_t flows_of(const struct export_flows *f, uint64_t id, size_t *first)
{
	*first = f->given1 && id ? array_up_to(f->ids, f->n, sizeof(*f->ids), id - 1) : 0;
	return f->given1 ? array_up_to(f->ids, f->n, sizeof(*f->ids), id) - *first : 0;
}

size_t export_flows_begin(struct export_flows *f, uint64_t id, size_t *first)
{
	size_t n = flows_of(f, id, first);
	if (n)
		f->given1[*first] = 1;
	return n;
}

int64_t export_flows_end(struct export_flows *f, uint64_t id)
{
	size_t first, n = flows_of(f, id, &first);
	if (!n || !f->given1[first] || f->given1[first] > n)
		return -ENOENT;
	return (int64_t)(first + f->given1[first]++ - 1);
}

void export_flows_free(struct export_flows *f)
{
	free(f->ids);
	free(f->given1);
}

uint64_t export_maker(const struct op_event *ev)
{
	return ev->op->kind == OP_BACKWARD ? ev->forward_id : 0;
}

static int note_step(void *arg, const struct breakdown_step *step)
{
	struct export_notes *n = arg;
	if (array_grow(&n->steps, &n->steps_room, n->nsteps + 1, sizeof(*n->steps)))
		return -ENOMEM;
	n->steps[n->nsteps++] = *step;
	return 0;
}

static int note_event(struct export_notes *n, const struct op_event *ev)
{
	if (!n->breakdown) {
		n->breakdown = breakdown_new();
		if (!n->breakdown)
			return -ENOMEM;
		breakdown_each_step(n->breakdown, note_step, n);
	}
	int r = breakdown_add(n->breakdown, ev);
	return r || !export_maker(ev) ? r : flows_note(&n->nodes, export_maker(ev));
}

int export_chrome_note(void *arg, const struct trace_item *item, struct err *e)
{
	struct export_in *in = arg;
	struct export_notes *n = export_notes(in);
	int r = n ? 0 : -ENOMEM;
	if (!r && item->type == TRACE_EVENT)
		r = note_event(n, &item->event);
	else if (!r && item->type == TRACE_ACTIVITY && export_is_launch_known(&item->activity))
		r = flows_note(&n->launches, item->activity.of.id);
	return r ? err_set(e, r, "no memory to read %s", in->path) : 0;
}

struct export_notes *export_noted(struct export_in *in)
{
	struct export_notes *n = export_notes(in);
	return n && !flows_sort(&n->nodes) && !flows_sort(&n->launches) ? n : NULL;
}
