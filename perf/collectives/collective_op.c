#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "perf/collectives/internal.h"
#include "perf/events/print_event.h"
#include "symbolizer/event/names.h"

enum { FIRST, SECOND };			      /* which of the arguments with tensors counts */
enum { ALL_WAIT = 1, REDUCES = 2, PAIR = 4 }; /* flags */
enum { NO_ROOT = 0 };

/* The schemas are in torch/csrc/distributed/c10d/Ops.cpp. Behind the group come, in 1.13 as
 * in 2.13, the reduction if there is one, then the root. */
static const struct {
	const char *op, *name;
	uint8_t tensors, flags, root; /* root: arguments behind the group */
} known_ops[] = {
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
	c->on_host &= !(m->unknown & TENSOR_NO_DEVICE) && m->device_type == 0;
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

/* The results are the tensors, where there are any, and the Work. */
static void take_work(struct collective *c, const struct op_event *ev)
{
	const struct value *v = ev->nresults ? &ev->results[ev->nresults - 1] : NULL;
	if (!v || v->kind != VALUE_WORK)
		return;
	c->work = v->work.address;
	c->backend = v->work.backend;
}

static int is_async(const struct op_event *ev)
{
	for (uint16_t i = 0; i < ev->nargs && i < ev->op->nargs; i++)
		if (!strcmp(ev->op->args[i].name, "async_op") && ev->args[i].kind == VALUE_BOOL)
			return ev->args[i].i != 0;
	return -1;
}

static void set_root(struct collective *c, int64_t root)
{
	const struct group_desc *of = c->group->group.of;
	c->root = root;
	c->root_rank = of && root >= 0 && root < of->n ? of->ranks[root] : root;
}

static void describe(struct collective *c, const struct op_event *ev, size_t which)
{
	uint16_t group = 0, at;
	c->async = is_async(ev);
	take_work(c, ev);
	while (group < ev->nargs && ev->args[group].kind != VALUE_GROUP)
		group++;
	if (strstr(c->name, "barrier") == NULL && known_ops[which].tensors < ev->nargs)
		add_tensors(c, &ev->args[known_ops[which].tensors]);
	if (group == ev->nargs)
		return;
	c->group = &ev->args[group];
	if (known_ops[which].flags & REDUCES && (at = (uint16_t)(group + 1)) < ev->nargs)
		c->reduce_op = reduction(&ev->args[at]);
	at = (uint16_t)(group + known_ops[which].root);
	if (known_ops[which].root && at < ev->nargs && ev->args[at].kind == VALUE_INT)
		set_root(c, ev->args[at].i);
}

bool collective_of(const struct op_event *ev, struct collective *out)
{
	static const char domain[] = "c10d::";
	if (strncmp(ev->op->name, domain, sizeof(domain) - 1))
		return false;
	for (size_t i = 0; i < sizeof(known_ops) / sizeof(known_ops[0]); i++) {
		if (strcmp(ev->op->name + sizeof(domain) - 1, known_ops[i].op))
			continue;
		*out = (struct collective){.name = known_ops[i].name,
					   .in_sequence = !(known_ops[i].flags & PAIR),
					   .waits_for_all = known_ops[i].flags & ALL_WAIT,
					   .root = -1,
					   .root_rank = -1,
					   .on_host = true,
					   .dtype = -1};
		describe(out, ev, i);
		return true;
	}
	return false;
}

/* One call on a line, as text and as JSON. */

const char *collective_text(char *out, size_t size, const struct collective *w)
{
	const char *dtype = w->dtype < 0 ? NULL : names_dtype(w->dtype);
	bool sends =
	    !strcmp(w->name, "send") || !strcmp(w->name, "reduce") || !strcmp(w->name, "gather");
	size_t n = (size_t)snprintf(out, size, "%s%s%s", w->name, w->reduce_op ? " " : "",
				    w->reduce_op ? w->reduce_op : "");
	if (w->root_rank >= 0 && n < size)
		n += (size_t)snprintf(out + n, size - n, " %s %" PRId64, sends ? "to" : "from",
				      w->root_rank);
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

static const char *labelled(char *out, size_t size, const char *label, uint64_t ns)
{
	char text[24];
	snprintf(out, size, "%s %s", label, text_ns(text, sizeof(text), ns));
	return out;
}

void collective_print(const struct collectives *c, FILE *f, const struct op_event *ev)
{
	struct collective what;
	char text[WHERE_TEXT_MAX], rank[16] = "-", number[48] = "-", bytes[32], ns[32];
	char done[32], waits[32];
	uint64_t after = ev->start_ns - c->first_ns, nth, waited_ns;
	bool waited;
	unsigned group;
	if (!collective_of(ev, &what))
		return;
	if (ev->rank1)
		snprintf(rank, sizeof(rank), "%" PRIu32, ev->rank1 - 1);
	if (collectives_number(c, ev, &group, &nth))
		snprintf(number, sizeof(number), "%u.%" PRIu64, group, nth);
	uint64_t done_ns = collectives_done(c, ev, &waited, &waited_ns);
	fprintf(f, "%4" PRIu64 ".%06" PRIu64 " s  rank %-4s %-8s %-32s %10s %8s %13s %15s  ",
		after / 1000000000, after % 1000000000 / 1000, rank, number,
		collective_text(text, sizeof(text), &what),
		what.has_bytes ? text_bytes(bytes, sizeof(bytes), what.bytes) : "",
		duration(ns, sizeof(ns), ev),
		done_ns ? labelled(done, sizeof(done), "done", done_ns - ev->start_ns) : "",
		waited ? labelled(waits, sizeof(waits), "waited", waited_ns) : "");
	text_print_safe(f, where_text(text, sizeof(text), collective_where(ev->stack), NULL,
				      PHASE_FORWARD, NULL));
	int64_t bucket = collectives_bucket(c, ev);
	if (bucket >= 0)
		fprintf(f, ", bucket %" PRId64, bucket);
	const char *purpose = collectives_purpose(c, ev);
	if (purpose) {
		fputs(", ", f);
		text_print_safe(f, purpose);
	}
	putc('\n', f);
}

void collective_json(const struct collectives *c, FILE *f, const struct op_event *ev)
{
	struct json_out j = {.f = f};
	struct collective what;
	const struct py_frame *at = collective_where(ev->stack);
	uint64_t nth = 0, waited_ns;
	bool waited;
	unsigned group = 0;
	if (!collective_of(ev, &what))
		return;
	bool known = collectives_number(c, ev, &group, &nth);
	uint64_t done_ns = collectives_done(c, ev, &waited, &waited_ns);
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
	collective_json_group(&j, what.group ? what.group->group.of : NULL);
	json_text(&j, "reduce_op", what.reduce_op);
	json_number(&j, "root", what.root_rank >= 0, what.root_rank);
	json_async(&j, &what);
	json_number(&j, "bytes", what.has_bytes, (int64_t)what.bytes);
	json_text(&j, "dtype", what.dtype < 0 ? NULL : names_dtype(what.dtype));
	json_u64(&j, "start_ns", ev->start_ns);
	json_number(&j, "end_ns", ev->end_ns, (int64_t)ev->end_ns);
	json_text(&j, "backend", what.backend);
	json_number(&j, "done_ns", done_ns, (int64_t)done_ns);
	json_number(&j, "waited_ns", waited, (int64_t)waited_ns);
	json_number(&j, "bytes_per_s", what.has_bytes && done_ns,
		    (int64_t)collective_rate(what.bytes, done_ns - ev->start_ns));
	int64_t bucket = collectives_bucket(c, ev);
	json_number(&j, "bucket", bucket >= 0, bucket);
	json_text(&j, "purpose", collectives_purpose(c, ev));
	json_bool(&j, "thrown", ev->thrown);
	json_text(&j, "file", at ? at->file : NULL);
	json_number(&j, "line", at, at ? at->line : 0);
	json_text(&j, "function", at ? at->function : NULL);
	json_close(&j, '}');
	putc('\n', f);
}

/* Whether a DTensor calls it (torch/distributed/tensor, 2.5 to 2.13; before that _tensor). */
static bool is_of_dtensor(const struct py_stack *s)
{
	for (uint16_t i = 0; s && i < s->depth; i++)
		if (strstr(s->frames[i]->file, "/torch/distributed/tensor/") ||
		    strstr(s->frames[i]->file, "/torch/distributed/_tensor/"))
			return true;
	return false;
}

const char *collective_purpose_of(const struct collectives *c, const struct op_event *ev)
{
	const struct block_pairs *p = &c->blocks;
	const struct code_block *found = NULL;
	const char *module = py_stack_module(ev->stack);
	for (size_t i = 0; i < p->nnow; i++) {
		const struct code_block *b = &p->open[p->now[i]];
		if (b->pid == ev->pid && b->tid == ev->tid && b->rank1 == ev->rank1 &&
		    b->start_ns <= ev->start_ns)
			found = b;
	}
	if (found && !strncmp(found->name, "FSDP::", 6))
		return found->name;
	return is_of_dtensor(ev->stack) ? module ? module : py_stack_module(ev->backward_of) : NULL;
}

bool collective_is_numbered(const struct collective *what, const struct op_event *ev)
{
	return what->in_sequence && !ev->thrown;
}

/* The call of a collective that began then; NULL: none. */
static struct collective_call *find_call(const struct collectives *c, const struct op_event *ev,
					 const struct collective_group **group)
{
	struct collective what;
	int64_t process =
	    collective_of(ev, &what) ? collective_process_of(c, ev->pid, ev->rank1) : -1;
	uint32_t i = process < 0 ? 0 : c->processes[process].first1;
	for (; i; i = c->groups[i - 1].next1) {
		const struct collective_calls *calls =
		    &c->groups[i - 1].calls[collective_is_numbered(&what, ev)];
		*group = &c->groups[i - 1];
		size_t n = array_up_to(calls->all, calls->n, sizeof(*calls->all), ev->start_ns);
		if (n && calls->all[n - 1].start_ns == ev->start_ns)
			return &calls->all[n - 1];
	}
	return NULL;
}

static void choose_none(struct collective_calls *calls)
{
	for (size_t k = 0; k < calls->n; k++)
		calls->all[k].chosen = false;
}

void collectives_choose_none(struct collectives *c)
{
	for (size_t i = 0; i < c->ngroups; i++) {
		choose_none(&c->groups[i].calls[NOT_NUMBERED]);
		choose_none(&c->groups[i].calls[NUMBERED]);
	}
}

void collectives_choose(struct collectives *c, const struct op_event *ev)
{
	const struct collective_group *g;
	struct collective_call *call = find_call(c, ev, &g);
	if (call)
		call->chosen = true;
}

bool collectives_number(const struct collectives *c, const struct op_event *ev, unsigned *group,
			uint64_t *number)
{
	const struct collective_group *g;
	const struct collective_call *call = find_call(c, ev, &g);
	const struct collective_calls *calls = call ? &g->calls[NUMBERED] : NULL;
	if (!call || call < calls->all || call >= calls->all + calls->n || !g->address ||
	    !c->processes[g->process].whole || c->processes[g->process].unnamed || c->lost ||
	    c->summed)
		return false;
	*group = g->number;
	*number = (uint64_t)(call - calls->all) + 1;
	return true;
}

uint64_t collectives_done(const struct collectives *c, const struct op_event *ev, bool *waited,
			  uint64_t *waited_ns)
{
	const struct collective_group *g;
	const struct collective_call *call = find_call(c, ev, &g);
	*waited = call && call->wait_ns;
	*waited_ns = *waited ? call->waited_ns : 0;
	return call ? call->done_ns : 0;
}

const char *collectives_purpose(const struct collectives *c, const struct op_event *ev)
{
	const struct collective_group *g;
	const struct collective_call *call = find_call(c, ev, &g);
	return call ? c->rows[call->row].purpose : NULL;
}

int64_t collectives_bucket(const struct collectives *c, const struct op_event *ev)
{
	const struct collective_group *g;
	const struct collective_call *call = find_call(c, ev, &g);
	return call && call->bucket1 ? c->buckets.rows[c->buckets.all[call->bucket1 - 1].row].number
				     : -1;
}
