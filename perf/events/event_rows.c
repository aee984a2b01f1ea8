#include "perf/events/event_rows.h"

#include <inttypes.h>
#include <stdio.h>

#include "symbolizer/event/value_text.h"

enum { NAME_MAX_LEN = 200, LIST_ROWS_MAX = 1000 };

struct rows {
	event_row_fn *fn;
	void *arg;
	struct tensor_place place;
};

static uint32_t tensors_in(const struct value *v)
{
	uint32_t n = v->kind == VALUE_TENSOR;
	for (uint32_t i = 0; v->kind == VALUE_LIST && i < v->count; i++)
		n += tensors_in(&v->items[i]);
	return n;
}

static void give(struct rows *r, const char *name, const struct value *v)
{
	char item[NAME_MAX_LEN];
	if (v->kind == VALUE_LIST && value_has_tensor(v)) {
		for (uint32_t i = 0; i < v->count; i++) {
			if (i >= LIST_ROWS_MAX) {
				r->place.tensor += tensors_in(&v->items[i]);
				continue;
			}
			snprintf(item, sizeof(item), "%.180s[%" PRIu32 "]", name, i);
			give(r, item, &v->items[i]);
		}
		return;
	}
	r->fn(&(struct event_row){.name = name, .value = v, .place = r->place}, r->arg);
	r->place.tensor += v->kind == VALUE_TENSOR;
}

static bool is_node(const struct op_event *ev)
{
	return ev->op->kind == OP_BACKWARD;
}

/* What the schema says, or else what it is, with its number when there are more. */
static void row_name(char *out, size_t size, const char *what, const char *name, uint16_t i,
		     uint16_t n)
{
	if (name && name[0])
		snprintf(out, size, "%s", name);
	else if (n == 1)
		snprintf(out, size, "%s", what);
	else
		snprintf(out, size, "%s[%u]", what, i);
}

static void give_args(struct rows *r, const struct op_event *ev)
{
	char row[NAME_MAX_LEN];
	for (uint16_t i = 0; i < ev->nargs; i++) {
		const char *name = i < ev->op->nargs ? ev->op->args[i].name : NULL;
		row_name(row, sizeof(row), is_node(ev) ? "grad_outputs" : "inputs", name, i,
			 ev->nargs);
		r->place = (struct tensor_place){.value = i};
		give(r, row, &ev->args[i]);
	}
}

static void give_results(struct rows *r, const struct op_event *ev)
{
	char row[NAME_MAX_LEN], named[NAME_MAX_LEN];
	for (uint16_t i = 0; i < ev->nresults; i++) {
		const char *name = i < ev->op->nresults ? ev->op->results[i].name : NULL;
		row_name(row, sizeof(row), is_node(ev) ? "grad_inputs" : "outputs", name, i,
			 ev->nresults);
		/* A result may be named as an argument is. */
		snprintf(named, sizeof(named), "outputs %.180s", row);
		r->place = (struct tensor_place){.is_result = true, .value = i};
		give(r, !is_node(ev) && name && name[0] ? named : row, &ev->results[i]);
	}
}

void event_rows(const struct op_event *ev, event_row_fn *fn, void *arg)
{
	struct rows r = {.fn = fn, .arg = arg};
	give_args(&r, ev);
	give_results(&r, ev);
}
