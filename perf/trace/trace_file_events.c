/* What ops, devices and threads did as records of a trace file: calls, sums of them, activities,
 * what was done with memory, samples. */
#include <errno.h>

#include "perf/trace/internal.h"

enum {
	HEAD_MAX = 256, /* an EVENT without its values */
	TAIL_MAX = 34,	/* what follows its statistics */
};

static int put_values(struct trace_file *w, struct out *o, const struct op_event *ev,
		      bool *has_stats)
{
	struct meta_numbers metas = {
	    .number = trace_ids_meta, .arg = &w->ids, .known = w->ids.known};
	int r = 0;
	for (uint16_t i = 0; i < ev->nargs && !r; i++)
		r = trace_encode_value(o, &ev->args[i], &metas);
	for (uint16_t i = 0; i < ev->nresults && !r; i++)
		r = trace_encode_value(o, &ev->results[i], &metas);
	struct out without = *o;
	if (!r)
		trace_encode_stats(o, ev->stats);
	*has_stats = ev->stats && !o->full;
	if (!without.full && o->full)
		*o = without;
	if (r || !o->full)
		return r;
	*o = (struct out){.p = w->scratch, .end = w->scratch + TRACE_RECORD_MAX - TAIL_MAX};
	for (int i = 0; i < ev->nargs + ev->nresults; i++)
		trace_encode_not_decoded(o, "too large for a record of the trace file");
	return 0;
}

struct event_refs {
	int64_t op, thread, stack, where, backward_of, native,
	    group; /* numbers in the file; -1: none */
};

static void put_tail(struct out *o, const struct op_event *ev, const struct event_refs *r,
		     bool has_stats)
{
	o->end += TAIL_MAX;
	const uint8_t phase = ev->phase >= PHASE_RECOMPUTE ? ev->phase - PHASE_BACKWARD : 0;
	if (!phase && r->backward_of < 0 && r->native < 0 && r->group < 0)
		return;
	if (!has_stats)
		out_u(o, 0);
	out_b(o, phase);
	out_u(o, (uint64_t)(r->backward_of + 1));
	if (r->native >= 0 || r->group >= 0)
		out_u(o, (uint64_t)(r->native + 1));
	if (r->group >= 0)
		out_u(o, (uint64_t)(r->group + 1));
}

/* Write the text of the event's source line if it became known only now. */
static int write_text(struct trace_file *w, const struct op_event *ev)
{
	const struct py_frame *where = py_stack_where(ev->where_stack);
	return where ? trace_ids_frame_text(&w->ids, where) : 0;
}

/* Of the event's process group, if it is known; else NULL. */
static const struct group_desc *group_of(const struct op_event *ev)
{
	for (uint16_t i = 0; ev->args && i < ev->nargs; i++)
		if (ev->args[i].kind == VALUE_GROUP)
			return ev->args[i].group.of;
	return NULL;
}

static int find_refs(struct trace_file *w, const struct op_event *ev, struct event_refs *r)
{
	r->op = ev->op ? trace_ids_op(&w->ids, ev->op) : 0;
	r->thread = trace_ids_thread(&w->ids, ev->pid, ev->tid, NULL);
	r->stack = ev->stack ? trace_ids_stack(&w->ids, ev->stack) : -1;
	r->where = ev->where_stack == ev->stack ? r->stack
		   : ev->where_stack		? trace_ids_stack(&w->ids, ev->where_stack)
						: -1;
	r->backward_of = ev->backward_of ? trace_ids_stack(&w->ids, ev->backward_of) : -1;
	const struct group_desc *group = group_of(ev);
	r->native = ev->native ? trace_ids_stack(&w->ids, ev->native) : -1;
	r->group = group ? trace_ids_group(&w->ids, group) : -1;
	if (r->op < 0 || r->thread < 0)
		return (int)(r->op < 0 ? r->op : r->thread);
	if (ev->native && r->native < 0)
		return (int)r->native;
	if (group && r->group < 0)
		return (int)r->group;
	if (ev->backward_of && r->backward_of < 0)
		return (int)r->backward_of;
	if ((ev->stack && r->stack < 0) || (ev->where_stack && r->where < 0))
		return (int)(r->stack < 0 && ev->stack ? r->stack : r->where);
	return 0;
}

static uint8_t event_flags(const struct op_event *ev, const struct event_refs *r)
{
	return (uint8_t)((phase_is_backward(ev->phase) ? EVENT_BACKWARD : 0) |
			 (ev->thrown ? EVENT_THROWN : 0) | (ev->end_ns ? EVENT_ENDED : 0) |
			 (ev->parent ? EVENT_HAS_PARENT : 0) |
			 (ev->forward_id ? EVENT_HAS_FORWARD_ID : 0) |
			 (r->stack >= 0 ? EVENT_HAS_STACK : 0) |
			 (r->where >= 0 && r->where != r->stack ? EVENT_HAS_WHERE : 0) |
			 (r->where < 0 && r->stack >= 0 ? EVENT_NO_WHERE : 0));
}

static void put_event_head(struct trace_file *w, struct out *o, const struct op_event *ev,
			   const struct event_refs *r)
{
	uint8_t flags = event_flags(ev, r);
	out_b(o, flags);
	out_u(o, (uint64_t)r->op);
	out_u(o, (uint64_t)r->thread);
	out_s(o, (int64_t)(ev->id - w->blocks.last.id));
	if (flags & EVENT_HAS_PARENT)
		out_s(o, (int64_t)(ev->id - ev->parent));
	if (flags & EVENT_HAS_FORWARD_ID)
		out_s(o, (int64_t)(ev->id - ev->forward_id));
	out_s(o, (int64_t)(ev->start_ns - w->blocks.last.ns));
	if (flags & EVENT_ENDED)
		out_s(o, (int64_t)(ev->end_ns - ev->start_ns));
	out_u(o, ev->child_ns);
	out_u(o, ev->depth);
	if (flags & EVENT_HAS_STACK)
		out_u(o, (uint64_t)r->stack);
	if (flags & EVENT_HAS_WHERE)
		out_u(o, (uint64_t)r->where);
	out_u(o, ev->nargs);
	out_u(o, ev->nresults);
}

static int write_event(struct trace_file *w, const struct op_event *ev)
{
	struct event_refs refs;
	int r = find_refs(w, ev, &refs);
	if (!r)
		r = write_text(w, ev);
	if (r)
		return r;
	struct out values = {.p = w->scratch,
			     .end = w->scratch + TRACE_RECORD_MAX - HEAD_MAX - TAIL_MAX};
	bool has_stats = false;
	r = put_values(w, &values, ev, &has_stats);
	if (!r)
		r = trace_blocks_room(&w->blocks);
	if (r)
		return r;
	put_tail(&values, ev, &refs, has_stats);
	struct out o = trace_blocks_record(&w->blocks);
	put_event_head(w, &o, ev, &refs);
	out_bytes(&o, w->scratch, (size_t)(values.p - w->scratch));
	if (o.full)
		return -EMSGSIZE;
	trace_blocks_seal(&w->blocks, TRACE_EVENT, o.p);
	w->blocks.last.id = ev->id;
	w->blocks.last.ns = ev->end_ns ? ev->end_ns : ev->start_ns;
	w->nevents++;
	return trace_blocks_room(&w->blocks);
}

int trace_file_event(struct trace_file *w, const struct op_event *ev)
{
	return w->blocks.failed ? 0 : trace_file_checked(w, write_event(w, ev));
}

static uint8_t sum_flags(const struct op_sum *s, const struct event_refs *r)
{
	return (uint8_t)((phase_is_backward(s->of.phase) ? SUM_BACKWARD : 0) |
			 (s->of.phase == PHASE_RECOMPUTE ? SUM_RECOMPUTE : 0) |
			 (s->of.phase == PHASE_COMPILE ? SUM_COMPILE : 0) |
			 (r->stack >= 0 ? SUM_HAS_STACK : 0) | (r->where >= 0 ? SUM_HAS_WHERE : 0) |
			 (s->nested ? SUM_NESTED : 0) | (s->again ? SUM_AGAIN : 0));
}

static int write_sum(struct trace_file *w, const struct op_sum *s)
{
	struct event_refs refs;
	uint8_t buf[HEAD_MAX];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	int r = find_refs(w, &s->of, &refs);
	if (!r)
		r = write_text(w, &s->of);
	if (!r)
		r = trace_file_write_lost(w, TRACE_LOST, s->of.end_ns, s->calls, s->calls);
	if (r)
		return r;
	w->nlost += s->calls;
	out_b(&o, sum_flags(s, &refs));
	out_u(&o, (uint64_t)refs.op);
	out_u(&o, (uint64_t)refs.thread);
	out_u(&o, s->of.start_ns);
	out_u(&o, s->of.end_ns - s->of.start_ns);
	out_u(&o, s->calls);
	out_u(&o, s->thrown);
	out_u(&o, s->total_ns);
	out_u(&o, s->child_ns);
	out_u(&o, s->min_ns);
	out_u(&o, s->max_ns);
	if (refs.stack >= 0)
		out_u(&o, (uint64_t)refs.stack);
	if (refs.where >= 0)
		out_u(&o, (uint64_t)refs.where);
	return trace_file_record(w, TRACE_SUM, buf, (size_t)(o.p - buf));
}

int trace_file_sum(struct trace_file *w, const struct op_sum *s)
{
	return w->blocks.failed ? 0 : trace_file_checked(w, write_sum(w, s));
}

static uint8_t activity_flags(const struct activity *a)
{
	return (uint8_t)((phase_is_backward(a->of.phase) ? ACTIVITY_BACKWARD : 0) |
			 (a->of.phase == PHASE_RECOMPUTE ? ACTIVITY_RECOMPUTE : 0) |
			 (a->of.phase == PHASE_COMPILE ? ACTIVITY_COMPILE : 0) |
			 (a->of.op ? ACTIVITY_HAS_OP : 0) |
			 (a->launched_ns ? ACTIVITY_LAUNCHED : 0) |
			 (a->in_graph ? ACTIVITY_IN_GRAPH : 0));
}

static int write_activity(struct trace_file *w, const struct activity *a)
{
	uint8_t buf[HEAD_MAX];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	struct event_refs refs;
	int64_t name = trace_ids_string(&w->ids, a->name);
	int r = name < 0 ? (int)name : find_refs(w, &a->of, &refs);
	if (!r)
		r = write_text(w, &a->of);
	/* A new block would begin after the difference was taken. */
	if (!r)
		r = trace_blocks_room(&w->blocks);
	if (r)
		return r;
	out_b(&o, activity_flags(a));
	out_b(&o, (uint8_t)a->launch);
	out_b(&o, (uint8_t)a->kind);
	out_b(&o, (uint8_t)a->device_type);
	out_b(&o, (uint8_t)a->device_index);
	out_u(&o, a->stream);
	out_u(&o, (uint64_t)name);
	out_u(&o, (uint64_t)refs.thread);
	out_s(&o, (int64_t)(a->of.start_ns - w->blocks.last.activity_ns));
	out_u(&o, a->of.end_ns - a->of.start_ns);
	if (a->launched_ns)
		out_s(&o, (int64_t)(a->of.start_ns - a->launched_ns));
	out_u(&o, a->bytes);
	if (a->of.op) {
		out_u(&o, (uint64_t)refs.op);
		out_u(&o, a->of.id);
	}
	out_u(&o, (uint64_t)(refs.stack + 1));
	out_u(&o, (uint64_t)(refs.where + 1));
	out_u(&o, (uint64_t)(refs.backward_of + 1));
	r = trace_file_record(w, TRACE_ACTIVITY, buf, (size_t)(o.p - buf));
	w->blocks.last.activity_ns = a->of.start_ns;
	return r;
}

int trace_file_activity(struct trace_file *w, const struct activity *a)
{
	return w->blocks.failed ? 0 : trace_file_checked(w, write_activity(w, a));
}

static int write_done(struct trace_file *w, const struct work_done *d)
{
	uint8_t buf[3 * 10];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	out_s(&o, d->pid);
	out_u(&o, d->address);
	out_u(&o, d->ns);
	return trace_file_record(w, TRACE_DONE, buf, (size_t)(o.p - buf));
}

int trace_file_done(struct trace_file *w, const struct work_done *d)
{
	return w->blocks.failed ? 0 : trace_file_checked(w, write_done(w, d));
}

static int write_usage(struct trace_file *w, const struct trace_usage *u)
{
	uint8_t buf[8 * 10];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	out_s(&o, u->pid);
	out_u(&o, u->ns);
	out_u(&o, u->run_ns);
	out_u(&o, u->wait_ns);
	out_u(&o, u->minor_faults);
	out_u(&o, u->major_faults);
	out_u(&o, u->is_throttled_known ? u->throttled_ns + 1 : 0);
	out_u(&o, u->throttled_is_least);
	return trace_file_record(w, TRACE_USAGE, buf, (size_t)(o.p - buf));
}

int trace_file_usage(struct trace_file *w, const struct trace_usage *u)
{
	return w->blocks.failed ? 0 : trace_file_checked(w, write_usage(w, u));
}

static uint8_t memory_flags(const struct memory_event *m)
{
	return (uint8_t)((phase_is_backward(m->of.phase) ? MEMORY_BACKWARD : 0) |
			 (m->of.phase == PHASE_RECOMPUTE ? MEMORY_RECOMPUTE : 0) |
			 (m->of.phase == PHASE_COMPILE ? MEMORY_COMPILE : 0) |
			 (m->of.op ? MEMORY_HAS_OP : 0) | (m->freed ? MEMORY_FREED : 0) |
			 (m->reserved ? MEMORY_RESERVED : 0));
}

static int write_memory(struct trace_file *w, const struct memory_event *m)
{
	uint8_t buf[HEAD_MAX];
	struct out o = {.p = buf, .end = buf + sizeof(buf)};
	struct event_refs refs;
	int r = find_refs(w, &m->of, &refs);
	r = r ? r : write_text(w, &m->of);
	r = r ? r : trace_blocks_room(&w->blocks); /* as in write_activity */
	if (r)
		return r;
	out_b(&o, memory_flags(m));
	out_b(&o, (uint8_t)m->launch);
	out_b(&o, (uint8_t)m->device_type);
	out_b(&o, (uint8_t)m->device_index);
	out_u(&o, (uint64_t)refs.thread);
	out_s(&o, (int64_t)(m->of.start_ns - w->blocks.last.memory_ns));
	out_s(&o, (int64_t)(m->address - w->blocks.last.memory_at));
	out_u(&o, m->bytes);
	out_u(&o, m->total);
	if (m->reserved)
		out_u(&o, m->reserved);
	if (m->of.op) {
		out_u(&o, (uint64_t)refs.op);
		out_u(&o, m->of.id);
	}
	out_u(&o, (uint64_t)(refs.stack + 1));
	out_u(&o, (uint64_t)(refs.where + 1));
	out_u(&o, (uint64_t)(refs.backward_of + 1));
	r = trace_file_record(w, TRACE_MEMORY, buf, (size_t)(o.p - buf));
	w->blocks.last.memory_ns = m->of.start_ns;
	w->blocks.last.memory_at = m->address;
	return r;
}

int trace_file_memory(struct trace_file *w, const struct memory_event *m)
{
	return w->blocks.failed ? 0 : trace_file_checked(w, write_memory(w, m));
}

struct sample_refs {
	int64_t thread, op, python, native; /* numbers in the file; -1: none */
};

static int find_sample_refs(struct trace_file *w, const struct sample *s, struct sample_refs *r)
{
	r->thread = trace_ids_thread(&w->ids, s->pid, s->tid, NULL);
	r->op = s->op ? trace_ids_op(&w->ids, s->op) : -1;
	r->python = s->python ? trace_ids_stack(&w->ids, s->python) : -1;
	r->native = s->native ? trace_ids_stack(&w->ids, s->native) : -1;
	if (r->thread < 0 || (s->op && r->op < 0))
		return (int)(r->thread < 0 ? r->thread : r->op);
	if ((s->python && r->python < 0) || (s->native && r->native < 0))
		return (int)(s->python && r->python < 0 ? r->python : r->native);
	return 0;
}

static uint8_t sample_flags(const struct sample *s, const struct sample_refs *r)
{
	return (uint8_t)((phase_is_backward(s->phase) ? SAMPLE_BACKWARD : 0) |
			 (s->phase == PHASE_RECOMPUTE ? SAMPLE_RECOMPUTE : 0) |
			 (s->phase == PHASE_COMPILE ? SAMPLE_COMPILE : 0) |
			 (s->in_kernel ? SAMPLE_IN_KERNEL : 0) |
			 (s->mismatched ? SAMPLE_MISMATCHED : 0) |
			 (r->op >= 0 ? SAMPLE_HAS_OP : 0) |
			 (r->python >= 0 ? SAMPLE_HAS_PYTHON : 0) |
			 (r->native >= 0 ? SAMPLE_HAS_NATIVE : 0));
}

static int write_sample(struct trace_file *w, const struct sample *s)
{
	struct sample_refs refs;
	const struct py_frame *where = py_stack_where(s->python);
	int r = find_sample_refs(w, s, &refs);
	if (!r && where)
		r = trace_ids_frame_text(&w->ids, where);
	if (!r)
		r = trace_blocks_room(&w->blocks); /* may reset last.sample_ns */
	if (r)
		return r;
	struct out o = trace_blocks_record(&w->blocks);
	out_b(&o, sample_flags(s, &refs));
	out_u(&o, (uint64_t)refs.thread);
	out_s(&o, (int64_t)(s->time_ns - w->blocks.last.sample_ns));
	out_u(&o, s->weight);
	for (size_t i = 0; i < 3; i++) {
		int64_t ref = i == 0 ? refs.op : i == 1 ? refs.python : refs.native;
		if (ref >= 0)
			out_u(&o, (uint64_t)ref);
	}
	trace_blocks_seal(&w->blocks, TRACE_SAMPLE, o.p);
	w->blocks.last.sample_ns = s->time_ns;
	return trace_blocks_room(&w->blocks);
}

int trace_file_sample(struct trace_file *w, const struct sample *s)
{
	return w->blocks.failed ? 0 : trace_file_checked(w, write_sample(w, s));
}
