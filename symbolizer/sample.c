#include "symbolizer/sample.h"

#include <stddef.h>

static const struct op_desc none = {.name = "(in no op)", .schema = ""},
			    unknown = {.name = "(op not known)", .schema = ""};

static const struct op_desc *op_of(const struct sample *s)
{
	if (s->op)
		return s->op;
	return s->native && !s->native->truncated ? &none : &unknown;
}

const char *sample_op_name(const struct sample *s)
{
	return op_of(s)->name;
}

void sample_as_event(const struct sample *s, struct op_event *out)
{
	static const struct py_frame moved = {.file = "", .function = "(not read: it moved on)"};
	static const struct py_stack unread = {.depth = 1, .truncated = true, .frames = {&moved}};
	const struct py_stack *stack = s->mismatched ? &unread : s->python;
	*out = (struct op_event){.start_ns = s->time_ns,
				 .end_ns = s->time_ns + s->weight,
				 .op = op_of(s),
				 .stack = stack,
				 .where_stack = stack,
				 .native = s->native,
				 .pid = s->pid,
				 .tid = s->tid,
				 .phase = s->phase};
}
