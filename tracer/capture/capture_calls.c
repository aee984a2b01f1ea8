#include "tracer/capture/internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct captured_call **call_slot(struct capture_calls *c, uint64_t id)
{
	return &c->slot[id % CAPTURE_CALLS_MAX];
}

struct captured_call *capture_calls_add(struct capture_calls *c, uint64_t id)
{
	if (c->n >= CAPTURE_CALLS_MAX)
		capture_calls_drop(c, c->oldest);
	struct captured_call *x = calloc(1, sizeof(*x)), **slot = call_slot(c, id);
	if (!x)
		return NULL;
	x->call.id = id;
	x->next = *slot;
	*slot = x;
	x->older = c->youngest;
	*(c->youngest ? &c->youngest->younger : &c->oldest) = x;
	c->youngest = x;
	c->n++;
	return x;
}

struct captured_call *capture_calls_find(const struct capture_calls *c, uint64_t id)
{
	struct captured_call *x = id ? c->slot[id % CAPTURE_CALLS_MAX] : NULL;
	while (x && x->call.id != id)
		x = x->next;
	return x;
}

static size_t node_slot(const struct grad_edge *at)
{
	return (at->node >> 4) % CAPTURE_CALLS_MAX;
}

int capture_calls_await(struct capture_calls *c, struct captured_call *call,
			const struct grad_edge *at, bool gave_result)
{
	for (const struct call_node *n = call->nodes; n; n = n->of_call)
		if (grad_edge_same(&n->at, at))
			return 0;
	if (call->nnodes >= CAPTURE_NODES_MAX)
		return -E2BIG;
	struct call_node *n = calloc(1, sizeof(*n)), **slot = &c->nodes[node_slot(at)];
	if (!n)
		return -ENOMEM;
	*n = (struct call_node){.at = *at,
				.call = call,
				.gave_result = gave_result,
				.in_slot = *slot,
				.of_call = call->nodes};
	*slot = call->nodes = n;
	call->nnodes++;
	return 0;
}

struct call_node *capture_calls_awaiting(const struct capture_calls *c, int32_t pid,
					 const struct grad_edge *at, const struct call_node *after)
{
	struct call_node *n = after ? after->in_slot : at->node ? c->nodes[node_slot(at)] : NULL;
	while (n && !(grad_edge_same(&n->at, at) && n->call->call.pid == pid))
		n = n->in_slot;
	return n;
}

void capture_calls_ran(struct capture_calls *c, struct call_node *node)
{
	struct call_node **slot = &c->nodes[node_slot(&node->at)], **of = &node->call->nodes;
	while (*slot != node)
		slot = &(*slot)->in_slot;
	while (*of != node)
		of = &(*of)->of_call;
	*slot = node->in_slot;
	*of = node->of_call;
	node->call->began = true;
	node->call->nnodes--;
	free(node);
}

void capture_calls_drop(struct capture_calls *c, struct captured_call *call)
{
	if (!call)
		return;
	c->unfinished += call->began && call->nodes && !call->inputs.trouble;
	while (call->nodes)
		capture_calls_ran(c, call->nodes);
	call_inputs_free(&call->inputs);
	struct captured_call **at = call_slot(c, call->call.id);
	while (*at != call)
		at = &(*at)->next;
	*at = call->next;
	*(call->older ? &call->older->younger : &c->oldest) = call->younger;
	*(call->younger ? &call->younger->older : &c->youngest) = call->older;
	c->n--;
	free(call);
}

/* The letters and digits of `s` up to `end`, in lower case, so that "NativeLayerNorm" equals
 * "native_layer_norm". */
static size_t plain(const char *s, const char *end, char *out, size_t size)
{
	size_t n = 0;
	for (; s < end && n + 1 < size; s++)
		if (isalnum((unsigned char)*s))
			out[n++] = (char)tolower((unsigned char)*s);
	out[n] = '\0';
	return n;
}

bool capture_node_is_of(const char *node, const char *op)
{
	char a[CAPTURE_NAME_SIZE], b[CAPTURE_NAME_SIZE];
	const char *end = strstr(node, "Backward"), *base = strrchr(op, '.');
	/* "torch.ops.aten._to_copy.default": the overload is not part of the name. */
	const char *last = op + strlen(op);
	if (!strncmp(op, "torch.ops.", 10) && base) {
		last = base;
		while (base > op && *--base != '.')
			;
	}
	if (!end)
		return false;
	plain(node, end, a, sizeof(a));
	plain(base ? base + 1 : op, last, b, sizeof(b));
	return !strcmp(a, b);
}

void capture_calls_free(struct capture_calls *c)
{
	while (c->oldest)
		capture_calls_drop(c, c->oldest);
}
