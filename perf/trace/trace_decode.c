/* Records of what ran are decoded: calls, sums of them, activities, memory, samples. */
#include <errno.h>

#include "perf/trace/internal.h"

static const struct py_stack *stack_at(const struct trace_defs *d, struct in *in)
{
	uint32_t id = in_below(in, d->nstacks);
	return in->bad ? NULL : d->stacks[id];
}

static const struct py_stack *stack_or_none(const struct trace_defs *d, struct in *in)
{
	uint32_t n = in_below(in, (uint64_t)d->nstacks + 1);
	return in->bad || !n ? NULL : d->stacks[n - 1];
}

static enum op_phase phase_of(bool backward, bool recompute, bool compile)
{
	return compile	   ? PHASE_COMPILE
	       : recompute ? PHASE_RECOMPUTE
	       : backward  ? PHASE_BACKWARD
			   : PHASE_FORWARD;
}

/* Everything in *ev except its values. */
static void decode_event_head(const struct trace_defs *d, struct in *in,
			      const struct trace_raw_event *raw, struct op_event *ev)
{
	uint8_t flags = in_b(in);
	uint32_t op = in_below(in, d->nops), thread = in_below(in, d->nthreads);
	uint64_t id = raw->last_id + (uint64_t)in_s(in);
	uint64_t parent = flags & EVENT_HAS_PARENT ? id - (uint64_t)in_s(in) : 0;
	uint64_t forward_id = flags & EVENT_HAS_FORWARD_ID ? id - (uint64_t)in_s(in) : 0;
	uint64_t start_ns = raw->last_ns + (uint64_t)in_s(in);
	uint64_t end_ns = flags & EVENT_ENDED ? start_ns + (uint64_t)in_s(in) : 0;
	uint64_t child_ns = in_u(in);
	uint16_t depth = (uint16_t)in_below(in, UINT16_MAX + 1u);
	const struct py_stack *stack = flags & EVENT_HAS_STACK ? stack_at(d, in) : NULL;
	const struct py_stack *where = flags & EVENT_HAS_WHERE	? stack_at(d, in)
				       : flags & EVENT_NO_WHERE ? NULL
								: stack;
	uint16_t nargs = (uint16_t)in_below(in, UINT16_MAX + 1u);
	uint16_t nresults = (uint16_t)in_below(in, UINT16_MAX + 1u);
	if (in->bad)
		return;
	ev->id = id;
	ev->parent = parent;
	ev->forward_id = forward_id;
	ev->start_ns = start_ns;
	ev->end_ns = end_ns;
	ev->child_ns = child_ns;
	ev->op = d->ops[op];
	ev->args = ev->results = NULL;
	ev->stack = stack;
	ev->where_stack = where;
	ev->backward_of = NULL;
	ev->pid = d->threads[thread]->pid;
	ev->tid = d->threads[thread]->tid;
	ev->nargs = nargs;
	ev->nresults = nresults;
	ev->depth = depth;
	ev->phase = flags & EVENT_BACKWARD ? PHASE_BACKWARD : PHASE_FORWARD;
	ev->held = false;
	ev->thrown = flags & EVENT_THROWN;
	ev->node = ev->node_seq = 0;
	ev->native = NULL;
	ev->stats = NULL;
}

/* What follows the statistics; missing, it is 0 as the padding. */
static void decode_tail(const struct trace_defs *d, struct in *in, struct op_event *ev)
{
	if (in->bad || in->p == in->end)
		return;
	uint8_t phase = in_b(in);
	if (phase)
		ev->phase = phase == 1 ? PHASE_RECOMPUTE : PHASE_COMPILE;
	ev->backward_of = in->p < in->end ? stack_or_none(d, in) : NULL;
	ev->native = in->p < in->end ? stack_or_none(d, in) : NULL;
	uint32_t group = in->p < in->end ? in_below(in, (uint64_t)d->ngroups + 1) : 0;
	for (uint16_t i = 0; !in->bad && group && ev->args && i < ev->nargs; i++)
		if (ev->args[i].kind == VALUE_GROUP)
			((struct value *)ev->args)[i].group.of = d->groups[group - 1];
}

static int pass_values(const struct trace_defs *d, struct in *in, struct op_event *out)
{
	trace_pass_values(d, in, (size_t)out->nargs + out->nresults);
	bool measured = !in->bad && in->p < in->end && in_u(in);
	if (!measured)
		decode_tail(d, in, out);
	out->nargs = out->nresults = 0;
	return in->bad ? -EBADMSG : measured ? -EAGAIN : 0;
}

int trace_decode_event_payload(const struct trace_defs *d, const struct trace_raw_event *raw,
			       struct arena *values, struct op_event *out)
{
	struct in in = {.p = raw->payload, .end = raw->payload + raw->size};
	struct value *all;
	decode_event_head(d, &in, raw, out);
	if (in.bad)
		return -EBADMSG;
	size_t n = (size_t)out->nargs + out->nresults;
	if (n > (size_t)(in.end - in.p))
		return -EBADMSG;
	if (!values)
		return pass_values(d, &in, out);
	int r = trace_decode_values(d, &in, values, n, &all);
	if (r)
		return r;
	out->args = all;
	out->results = all + out->nargs;
	out->stats = trace_decode_stats(&in, values);
	decode_tail(d, &in, out);
	return in.bad ? -EBADMSG : 0;
}

int trace_decode_sum(const struct trace_defs *d, struct in *in, struct op_sum *out)
{
	uint8_t flags = in_b(in);
	uint32_t op = in_below(in, d->nops), thread = in_below(in, d->nthreads);
	uint64_t start_ns = in_u(in), span_ns = in_u(in);
	*out = (struct op_sum){
	    .calls = in_u(in), .nested = flags & SUM_NESTED, .again = flags & SUM_AGAIN};
	out->thrown = in_u(in);
	out->total_ns = in_u(in);
	out->child_ns = in_u(in);
	out->min_ns = in_u(in);
	out->max_ns = in_u(in);
	out->of.stack = flags & SUM_HAS_STACK ? stack_at(d, in) : NULL;
	out->of.where_stack = flags & SUM_HAS_WHERE ? stack_at(d, in) : NULL;
	if (in->bad || !out->calls || out->child_ns > out->total_ns ||
	    span_ns > UINT64_MAX - start_ns)
		return -EBADMSG;
	out->of.op = d->ops[op];
	out->of.pid = d->threads[thread]->pid;
	out->of.tid = d->threads[thread]->tid;
	out->of.phase = phase_of(flags & SUM_BACKWARD, flags & SUM_RECOMPUTE, flags & SUM_COMPILE);
	out->of.start_ns = start_ns;
	out->of.end_ns = start_ns + span_ns;
	return 1;
}

int trace_decode_activity(const struct trace_defs *d, struct in *in, uint64_t last_ns,
			  struct activity *out)
{
	uint8_t flags = in_b(in), launch = in_b(in), kind = in_b(in);
	*out = (struct activity){
	    .launch = launch,
	    .kind = kind,
	    .device_type = (int8_t)in_b(in),
	    .in_graph = flags & ACTIVITY_IN_GRAPH,
	};
	out->device_index = (int8_t)in_b(in);
	out->stream = in_below(in, (uint64_t)UINT32_MAX + 1);
	uint32_t name = in_below(in, d->nstrings), thread = in_below(in, d->nthreads);
	out->of.start_ns = last_ns + (uint64_t)in_s(in);
	out->of.end_ns = out->of.start_ns + in_u(in);
	out->launched_ns = flags & ACTIVITY_LAUNCHED ? out->of.start_ns - (uint64_t)in_s(in) : 0;
	out->bytes = in_u(in);
	uint32_t op = flags & ACTIVITY_HAS_OP ? in_below(in, d->nops) : 0;
	out->of.id = flags & ACTIVITY_HAS_OP ? in_u(in) : 0;
	out->of.stack = stack_or_none(d, in);
	out->of.where_stack = stack_or_none(d, in);
	out->of.backward_of = stack_or_none(d, in);
	if (in->bad || launch > LAUNCH_NO_THREAD || kind >= ACTIVITY_KINDS ||
	    out->of.end_ns < out->of.start_ns ||
	    (launch == LAUNCH_IN_OP) != (bool)(flags & ACTIVITY_HAS_OP))
		return -EBADMSG;
	out->name = d->strings[name];
	out->of.op = flags & ACTIVITY_HAS_OP ? d->ops[op] : NULL;
	out->of.pid = d->threads[thread]->pid;
	out->of.tid = d->threads[thread]->tid;
	out->of.phase = phase_of(flags & ACTIVITY_BACKWARD, flags & ACTIVITY_RECOMPUTE,
				 flags & ACTIVITY_COMPILE);
	return 1;
}

int trace_decode_memory(const struct trace_defs *d, struct in *in, const struct memory_event *last,
			struct memory_event *out)
{
	uint8_t flags = in_b(in), launch = in_b(in);
	*out = (struct memory_event){
	    .launch = launch, .freed = flags & MEMORY_FREED, .device_type = (int8_t)in_b(in)};
	out->device_index = (int8_t)in_b(in);
	uint32_t thread = in_below(in, d->nthreads);
	out->of.start_ns = out->of.end_ns = last->of.start_ns + (uint64_t)in_s(in);
	out->address = last->address + (uint64_t)in_s(in);
	out->bytes = in_u(in);
	out->total = in_u(in);
	out->reserved = flags & MEMORY_RESERVED ? in_u(in) : 0;
	uint32_t op = flags & MEMORY_HAS_OP ? in_below(in, d->nops) : 0;
	out->of.id = flags & MEMORY_HAS_OP ? in_u(in) : 0;
	out->of.stack = stack_or_none(d, in);
	out->of.where_stack = stack_or_none(d, in);
	out->of.backward_of = stack_or_none(d, in);
	if (in->bad || launch > LAUNCH_NO_THREAD ||
	    (launch == LAUNCH_IN_OP) != (bool)(flags & MEMORY_HAS_OP))
		return -EBADMSG;
	out->of.op = flags & MEMORY_HAS_OP ? d->ops[op] : NULL;
	out->of.pid = d->threads[thread]->pid;
	out->of.tid = d->threads[thread]->tid;
	out->of.phase =
	    phase_of(flags & MEMORY_BACKWARD, flags & MEMORY_RECOMPUTE, flags & MEMORY_COMPILE);
	return 1;
}

int trace_decode_sample(const struct trace_defs *d, struct in *in, uint64_t last_ns,
			struct sample *out)
{
	uint8_t flags = in_b(in);
	uint32_t thread = in_below(in, d->nthreads);
	*out = (struct sample){.time_ns = last_ns + (uint64_t)in_s(in)};
	out->weight = in_u(in);
	uint32_t op = flags & SAMPLE_HAS_OP ? in_below(in, d->nops) : 0;
	out->python = flags & SAMPLE_HAS_PYTHON ? stack_at(d, in) : NULL;
	out->native = flags & SAMPLE_HAS_NATIVE ? stack_at(d, in) : NULL;
	out->phase =
	    phase_of(flags & SAMPLE_BACKWARD, flags & SAMPLE_RECOMPUTE, flags & SAMPLE_COMPILE);
	out->mismatched = flags & SAMPLE_MISMATCHED;
	out->in_kernel = flags & SAMPLE_IN_KERNEL;
	if (in->bad || out->weight > INT64_MAX)
		return -EBADMSG;
	out->op = flags & SAMPLE_HAS_OP ? d->ops[op] : NULL;
	out->pid = d->threads[thread]->pid;
	out->tid = d->threads[thread]->tid;
	return 1;
}
