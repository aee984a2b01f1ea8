#include "symbolizer/decode/internal.h"

#include <string.h>

static const char too_little_time[] = "ditrace had no time for it";
static const char no_schema[] = "the operator was gone before its schema was read";

struct decode open_op_decode(struct target *t, struct open_op *o, struct node_refs *nodes)
{
	return (struct decode){
	    .target = t,
	    .arena = &o->arena,
	    .nodes = nodes,
	};
}

static void remember_nodes(struct target *t, const struct open_op *o, const struct node_refs *made)
{
	for (uint32_t i = 0; i < made->n; i++) {
		bool was_there = false;
		for (uint32_t k = 0; k < o->in.n && !was_there; k++)
			was_there = o->in.node[k].addr == made->node[i].addr;
		/* A result with the node of an argument was passed through, not created here. */
		if (was_there || !made->node[i].has_seq)
			continue;
		struct node_owner owner = {
		    .addr = made->node[i].addr,
		    .seq = made->node[i].seq,
		    .event = o->ev.id,
		    .tid = (uint32_t)o->ev.tid,
		    .stack = o->ev.where_stack,
		};
		node_map_add(&t->nodes, &owner);
	}
}

/* The address of the node is not known: use one that no node can have. */
static void remember_named(struct target *t, const struct open_op *o, const struct items *exit)
{
	uint64_t w[2];
	if (!items_data(exit, NAMED_MADE_READ, w, sizeof(w)))
		return;
	struct node_owner owner = {
	    .addr = 1ULL << 63 | w[1],
	    .seq = w[1],
	    .event = o->ev.id,
	    .tid = (uint32_t)o->ev.tid,
	    .stack = o->ev.where_stack,
	};
	if (w[0])
		node_map_add(&t->nodes, &owner);
}

void open_op_makes_slices(struct target *t, const struct open_op *o, const struct items *it)
{
	uint64_t w[2];
	if (!items_data(it, SLICES_NODE_READ, w, sizeof(w)))
		return;
	struct node_owner owner = {
	    .addr = w[0],
	    .seq = w[1],
	    .event = o->ev.id,
	    .tid = (uint32_t)o->ev.tid,
	    .stack = o->ev.where_stack,
	};
	node_map_add(&t->nodes, &owner);
}

static void leave_out(struct value *v, uint16_t n)
{
	for (uint16_t i = 0; v && i < n; i++)
		v[i] = value_not_decoded(too_little_time);
}

/* The names of parameters: a list of strings, None where one is not known. */
static struct value names_of(const struct decode *d, const struct value *parameters, uint64_t ns)
{
	struct value names = {.kind = VALUE_LIST};
	if (parameters->kind != VALUE_LIST || !d->target->py)
		return value_not_decoded("which parameters these are is not known");
	names.items = arena_alloc(d->arena, parameters->count * sizeof(*names.items) + 1);
	for (; names.items && names.count < parameters->count; names.count++) {
		const struct value *v = &parameters->items[names.count];
		const struct py_stack *s =
		    v->kind == VALUE_TENSOR ? py_parameter_stack(d->target->py, v->tensor->impl, ns)
					    : NULL;
		names.items[names.count] = value_none();
		if (s && s->parameter)
			names.items[names.count] =
			    (struct value){.kind = VALUE_STRING,
					   .str = s->parameter,
					   .count = (uint32_t)strlen(s->parameter)};
	}
	return names.items ? names : value_not_decoded("no memory");
}

void open_op_results(struct target *t, struct open_op *o, const struct items *exit, bool lean)
{
	const struct op_probe *p = o->probe;
	struct node_refs made = {0};
	struct decode d = open_op_decode(t, o, &made);
	uint16_t n = o->ev.op->nresults;
	struct value *v = n ? arena_alloc(&o->arena, n * sizeof(*v)) : NULL;
	o->ev.lean |= lean;
	if (v && o->reg && o->reg->name_only) {
		*v = value_not_decoded(no_schema);
	} else if (lean) {
		leave_out(v, n);
	} else if (p->role == ROLE_BOXED) {
		if (v)
			decode_boxed(&d, exit, p->abi.results[0].read,
				     o->reg ? o->reg->returns : NULL, n, v);
	} else if (p->values_known) {
		for (uint16_t i = 0; v && i < n; i++)
			v[i] = decode_value(&d, &p->abi.results[i], exit);
		if (v && p->role == ROLE_REDUCER)
			v[1] = names_of(&d, &v[0], o->ev.start_ns);
	}
	o->ev.results = v;
	o->ev.nresults = v && (p->values_known || p->role == ROLE_BOXED) ? n : 0;
	if (p->role == ROLE_FUNCTION)
		decode_nodes(&d, exit, FUNCTION_READ);
	if (p->role == ROLE_NAMED)
		remember_named(t, o, exit);
	/* The kind is tested, not the phase: with create_graph, ops in the backward create nodes,
	 * too. Without its arguments it is not known which nodes it had. */
	if (o->ev.op->kind != OP_BACKWARD && !o->ev.lean)
		remember_nodes(t, o, &made);
}

bool open_op_tie(struct target *t, struct open_op *o, const struct items *it)
{
	const struct item *i = items_find(it, NODE_READ, NULL);
	if (!i || i->kind != ITEM_DATA || i->len < 16)
		return false;
	uint64_t w[2];
	memcpy(w, i + 1, sizeof(w));
	o->ev.node = w[0];
	o->ev.node_seq = w[1];
	const struct node_owner *owner =
	    w[0] ? node_map_find(&t->nodes, w[0], w[1]) : node_map_find_seq(&t->nodes, w[1]);
	if (!owner)
		return false;
	o->ev.forward_id = owner->event;
	o->ev.where_stack = owner->stack;
	return true;
}

bool open_op_accumulates(struct target *t, struct open_op *o, const struct items *it, uint64_t ns)
{
	const struct item *i;
	uint64_t impl;
	if (!t->py || o->probe->role != ROLE_NODE || !op_accumulates(o->ev.op->name))
		return false;
	i = items_find(it, NODE_VARIABLE_READ, NULL);
	if (!i || i->kind != ITEM_DATA || i->len < sizeof(impl))
		return false;
	memcpy(&impl, i + 1, sizeof(impl));
	o->ev.where_stack = py_parameter_stack(t->py, impl, ns);
	return o->ev.where_stack;
}

void open_op_args(struct target *t, struct open_op *o, const struct items *it, bool lean)
{
	const struct op_probe *p = o->probe;
	struct decode d = open_op_decode(t, o, &o->in);
	uint16_t n = o->ev.op->nargs;
	struct value *v = arena_alloc(&o->arena, n * sizeof(*v) + 1);
	if (!v)
		return;
	o->ev.lean = lean;
	if (o->reg && o->reg->name_only)
		*v = value_not_decoded(no_schema);
	else if (lean)
		leave_out(v, n);
	else if (p->role == ROLE_BOXED)
		decode_boxed(&d, it, p->abi.args[0].read, o->reg ? o->reg->args : NULL, n, v);
	else
		for (uint16_t i = 0; i < n; i++)
			v[i] = p->values_known ? decode_value(&d, &p->abi.args[i], it)
					       : value_not_decoded(p->why);
	o->ev.args = v;
	o->ev.nargs = n;
}
