#include "perf/report/internal.h"

#include <string.h>

static void take_where(struct aggregate_row *r, unsigned keys, const struct py_stack *stack)
{
	const struct py_frame *where = py_stack_where(stack);
	if (keys & AGGREGATE_LINE)
		r->parameter = py_stack_parameter(stack);
	if (!where)
		return;
	if (keys & (AGGREGATE_LINE | AGGREGATE_FILE | AGGREGATE_FUNCTION))
		r->file = where->file;
	if (keys & (AGGREGATE_LINE | AGGREGATE_FUNCTION))
		r->function = where->function;
	if (keys & AGGREGATE_LINE) {
		r->line = where->line;
		r->text = where->text;
	}
}

static void take_tensors(struct aggregate_key *k, unsigned keys, const struct op_event *ev)
{
	if (keys & AGGREGATE_SHAPE)
		k->row.shape = event_shapes(k->shape, sizeof(k->shape), ev);
	if (keys & AGGREGATE_DTYPE)
		k->row.dtype = event_dtypes(k->dtype, sizeof(k->dtype), ev);
	if (keys & AGGREGATE_DEVICE)
		k->row.device = event_devices(k->device, sizeof(k->device), ev);
}

static void take_symbol(struct aggregate_row *r, const struct py_stack *native)
{
	r->symbol = native && native->depth ? native->frames[0]->function : NULL;
	r->object = native && native->depth ? native->frames[0]->file : NULL;
}

static uint32_t add_bytes(char *key, uint32_t len, const void *bytes, size_t n)
{
	memcpy(key + len, bytes, n);
	return len + (uint32_t)n;
}

static uint32_t add_string(char *key, uint32_t len, const char *s)
{
	size_t n = s ? strnlen(s, AGGREGATE_KEY_STRING_MAX) : 0;
	len = add_bytes(key, len, s ? s : "", n);
	key[len] = s ? '\0' : '\1';
	return len + 1;
}

uint32_t aggregate_key(struct aggregate_key *k, unsigned keys, const struct op_event *ev,
		       bool worker, unsigned launch)
{
	const unsigned of_ops = AGGREGATE_OP | AGGREGATE_LINE | AGGREGATE_FILE |
				AGGREGATE_FUNCTION | AGGREGATE_MODULE | AGGREGATE_TENSORS;
	struct aggregate_row *r = &k->row;
	uint32_t len = 0;
	*r = (struct aggregate_row){
	    .op = keys & AGGREGATE_OP ? ev->op->name : NULL,
	    .worker = worker,
	    .rank1 = keys & AGGREGATE_RANK ? ev->rank1 : 0,
	    .phase = keys & AGGREGATE_PHASE || ev->phase == PHASE_COMPILE ? ev->phase : 0,
	    .pid = keys & AGGREGATE_THREAD ? ev->pid : 0,
	    .tid = keys & AGGREGATE_THREAD ? ev->tid : 0};
	if (keys & of_ops)
		r->launch = (uint8_t)launch;
	else if (keys & AGGREGATE_PHASE && launch != LAUNCH_IN_OP)
		r->launch = LAUNCH_NO_THREAD; /* nothing tells such rows apart */
	if (keys & AGGREGATE_PHASE && keys & (AGGREGATE_LINE | AGGREGATE_FILE | AGGREGATE_FUNCTION))
		r->is_own = event_is_called_in_backward(ev);
	take_where(r, keys, ev->where_stack);
	if (keys & AGGREGATE_MODULE)
		r->module = py_stack_module(ev->where_stack);
	take_tensors(k, keys, ev);
	if (keys & AGGREGATE_SYMBOL)
		take_symbol(r, ev->native);
	len = add_bytes(k->bytes, len, &r->phase, sizeof(r->phase));
	len = add_bytes(k->bytes, len, &r->launch, sizeof(r->launch));
	len = add_bytes(k->bytes, len, &r->worker, sizeof(r->worker));
	len = add_bytes(k->bytes, len, &r->is_own, sizeof(r->is_own));
	len = add_bytes(k->bytes, len, &r->rank1, sizeof(r->rank1));
	len = add_bytes(k->bytes, len, &r->line, sizeof(r->line));
	len = add_bytes(k->bytes, len, &r->pid, sizeof(r->pid));
	len = add_bytes(k->bytes, len, &r->tid, sizeof(r->tid));
	len = add_string(k->bytes, len, r->op);
	len = add_string(k->bytes, len, r->file);
	/* In rows by line the function is not a key: a row shows that of its first event. */
	len = add_string(k->bytes, len, keys & AGGREGATE_FUNCTION ? r->function : NULL);
	len = add_string(k->bytes, len, r->parameter);
	len = add_string(k->bytes, len, r->module);
	len = add_string(k->bytes, len, r->shape);
	len = add_string(k->bytes, len, r->dtype);
	if (keys & AGGREGATE_SYMBOL) {
		len = add_string(k->bytes, len, r->symbol);
		len = add_string(k->bytes, len, r->object);
	}
	return add_string(k->bytes, len, r->device);
}
