#include <string.h>

#include "base/text.h"
#include "perf/collectives/internal.h"
#include "symbolizer/event/names.h"

enum { FIRST, SECOND };			      /* which of the arguments with tensors counts */
enum { ALL_WAIT = 1, REDUCES = 2, PAIR = 4 }; /* flags */
enum { NO_ROOT = 0 };

/* The schemas are in torch/csrc/distributed/c10d/Ops.cpp. Behind the group come, in 1.13 as
 * in 2.13, the reduction if there is one, then the root. */
static const struct {
	const char *op, *name;
	uint8_t tensors, flags, root; /* root: arguments behind the group */
} known[] = {
    {"allreduce_", "allreduce", FIRST, ALL_WAIT | REDUCES, NO_ROOT},
    {"allreduce_coalesced_", "allreduce_coalesced", FIRST, ALL_WAIT | REDUCES, NO_ROOT},
    {"broadcast_", "broadcast", FIRST, 0, 1},
    {"reduce_", "reduce", FIRST, REDUCES, 2},
    {"allgather_", "allgather", SECOND, ALL_WAIT, NO_ROOT},
    {"_allgather_base_", "allgather", SECOND, ALL_WAIT, NO_ROOT},
    {"allgather_coalesced_", "allgather_coalesced", SECOND, ALL_WAIT, NO_ROOT},
    {"allgather_into_tensor_coalesced_", "allgather_coalesced", SECOND, ALL_WAIT, NO_ROOT},
    {"gather_", "gather", SECOND, 0, 1},
    {"scatter_", "scatter", FIRST, 0, 1},
    {"reduce_scatter_", "reduce_scatter", FIRST, ALL_WAIT | REDUCES, NO_ROOT},
    {"_reduce_scatter_base_", "reduce_scatter", FIRST, ALL_WAIT | REDUCES, NO_ROOT},
    {"reduce_scatter_tensor_coalesced_", "reduce_scatter_coalesced", FIRST, ALL_WAIT | REDUCES,
     NO_ROOT},
    {"alltoall_", "alltoall", SECOND, ALL_WAIT, NO_ROOT},
    {"alltoall_base_", "alltoall", SECOND, ALL_WAIT, NO_ROOT},
    {"barrier", "barrier", FIRST, ALL_WAIT, NO_ROOT},
    {"monitored_barrier_", "monitored_barrier", FIRST, ALL_WAIT, NO_ROOT},
    {"send", "send", FIRST, PAIR, 1},
    {"recv_", "recv", FIRST, PAIR, 1},
    {"recv_any_source_", "recv", FIRST, PAIR, NO_ROOT},
};

/* Functions of torch.distributed are wrapped by these. */
static bool is_wrapper(const struct py_frame *f)
{
	const char *name = text_base_name(f->file);
	return !strcmp(name, "typing_extensions.py") || !strcmp(name, "contextlib.py");
}

const struct py_frame *collective_where(const struct py_stack *s)
{
	for (uint16_t i = 0; s && i < s->depth; i++)
		if (!s->frames[i]->is_torch && !is_wrapper(s->frames[i]))
			return s->frames[i];
	return py_stack_where(s);
}

static void add_tensor(struct collective *c, const struct tensor_meta *m, bool first)
{
	int each = m->unknown & (TENSOR_NO_DTYPE | TENSOR_NO_SHAPE) ? 0 : names_itemsize(m->dtype);
	c->has_bytes &= each > 0;
	c->bytes += (uint64_t)m->numel * (uint64_t)each;
	c->dtype = each && (first || c->dtype == m->dtype) ? m->dtype : -1;
}

/* A tensor, or a list of tensors. */
static void add_tensors(struct collective *c, const struct value *v)
{
	c->has_bytes = v->kind == VALUE_TENSOR || v->kind == VALUE_LIST;
	if (v->kind == VALUE_TENSOR)
		add_tensor(c, &v->tensor->meta, true);
	for (uint32_t i = 0; v->kind == VALUE_LIST && i < v->count; i++) {
		if (v->items[i].kind == VALUE_TENSOR)
			add_tensor(c, &v->items[i].tensor->meta, i == 0);
		else
			c->has_bytes = false;
	}
}

/* The reduction as a static string: it has to outlive the event. */
static const char *reduction(const struct value *v)
{
	static const char *const names[] = {"SUM",  "AVG", "PRODUCT", "MIN",	   "MAX",
					    "BAND", "BOR", "BXOR",    "PREMUL_SUM"};
	for (size_t i = 0; v->kind == VALUE_STRING && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(v->str, names[i]))
			return names[i];
	return NULL;
}

static int is_async(const struct op_event *ev)
{
	for (uint16_t i = 0; i < ev->nargs && i < ev->op->nargs; i++)
		if (!strcmp(ev->op->args[i].name, "async_op") && ev->args[i].kind == VALUE_BOOL)
			return ev->args[i].i != 0;
	return -1;
}

static void describe(struct collective *c, const struct op_event *ev, size_t which)
{
	uint16_t group = 0, at;
	c->async = is_async(ev);
	while (group < ev->nargs && ev->args[group].kind != VALUE_GROUP)
		group++;
	if (strstr(c->name, "barrier") == NULL && known[which].tensors < ev->nargs)
		add_tensors(c, &ev->args[known[which].tensors]);
	if (group == ev->nargs)
		return;
	c->group = &ev->args[group];
	if (known[which].flags & REDUCES && (at = (uint16_t)(group + 1)) < ev->nargs)
		c->reduce_op = reduction(&ev->args[at]);
	at = (uint16_t)(group + known[which].root);
	if (known[which].root && at < ev->nargs && ev->args[at].kind == VALUE_INT)
		c->root = ev->args[at].i;
}

bool collective_of(const struct op_event *ev, struct collective *out)
{
	static const char domain[] = "c10d::";
	if (strncmp(ev->op->name, domain, sizeof(domain) - 1))
		return false;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(ev->op->name + sizeof(domain) - 1, known[i].op))
			continue;
		*out = (struct collective){.name = known[i].name,
					   .in_sequence = !(known[i].flags & PAIR),
					   .waits_for_all = known[i].flags & ALL_WAIT,
					   .root = -1,
					   .dtype = -1};
		describe(out, ev, i);
		return true;
	}
	return false;
}
