#include "symbolizer/decode_tensor.h"

#include <string.h>

#include "symbolizer/names.h"
#include "symbolizer/target.h"
#include "symbolizer/tensor.h"

/* Takes the parts of a payload one after the other, each padded to 8 bytes. */
struct cursor {
	const uint8_t *at;
	uint32_t left;
};

static const uint8_t *take(struct cursor *c, uint32_t len)
{
	uint32_t padded = (len + 7) & ~7u;
	if (padded > c->left)
		return NULL;
	const uint8_t *p = c->at;
	c->at += padded;
	c->left -= padded;
	return p;
}

static uint64_t load64(const uint8_t *p)
{
	uint64_t v = 0;
	if (p)
		memcpy(&v, p, sizeof(v));
	return v;
}

static uint8_t base_of(const struct item *i)
{
	if (i->aux & TPART_BASE_GRAD)
		return BASE_REQUIRES_GRAD;
	return i->aux & TPART_BASE_NO_GRAD ? BASE_NO_GRAD : BASE_NOT_READ;
}

/* What is left for sizes and strides behind the other parts. */
static uint64_t outline_len(const struct tensor_read *c, const struct item *i, const uint8_t *impl)
{
	if (!(i->aux & TPART_OUTLINE) || c->sizes + 8u > c->win_len)
		return 0;
	return 16 * load64(impl + c->sizes);
}

/* The parts of an ITEM_TENSOR, in the order of plan.h; *node_seq is NULL when it was not read.
 * False if these are not the parts that `c` would give. */
static bool raw_of_item(const struct tensor_read *c, const struct item *i, struct tensor_raw *raw,
			const uint8_t **node_seq)
{
	struct cursor at = {(const uint8_t *)(i + 1), i->len};
	const uint8_t *addr = take(&at, 8);
	*raw = (struct tensor_raw){.impl_addr = load64(addr)};
	*node_seq = NULL;
	if (!addr || (i->aux & TPART_FAULT))
		return false;
	raw->impl = take(&at, c->win_len);
	raw->impl_len = c->win_len;
	if (i->aux & TPART_STORAGE)
		raw->storage = take(&at, c->storage_len);
	if (i->aux & TPART_META)
		raw->meta = take(&at, c->meta_len);
	*node_seq = i->aux & TPART_NODE ? take(&at, 8) : NULL;
	if (i->aux & TPART_OUTLINE) {
		raw->outline = at.at;
		raw->outline_len = at.left;
	}
	raw->base = base_of(i);
	raw->storage_from = c->storage_from;
	raw->storage_len = raw->storage ? c->storage_len : 0;
	raw->meta_from = c->meta_from;
	raw->meta_len = raw->meta ? c->meta_len : 0;
	return raw->impl && at.left == outline_len(c, i, raw->impl);
}

/* The hit tells the generation it began with: the engine may have been told of the next meanwhile.
 * The parts' lengths show which one an item was made with. */
static bool read_item(const struct target *t, const struct item *i, struct tensor_raw *raw,
		      const uint8_t **node_seq)
{
	uint16_t newer = (uint16_t)(t->conf.generation - t->reading);
	if (raw_of_item(&t->reads[t->reading % READS_KEPT], i, raw, node_seq))
		return true;
	return newer && newer < READS_KEPT &&
	       raw_of_item(&t->reads[(t->reading + 1u) % READS_KEPT], i, raw, node_seq);
}

static void add_node(struct decode *d, uint64_t addr, const uint64_t *seq)
{
	struct node_refs *n = d->nodes;
	if (!n || !addr || n->n >= MAX_NODES)
		return;
	n->node[n->n].addr = addr;
	n->node[n->n].has_seq = seq != NULL;
	n->node[n->n++].seq = seq ? *seq : 0;
}

static struct value decode_raw(struct decode *d, const struct tensor_raw *raw,
			       const uint8_t *node_seq, bool read_node)
{
	struct target *t = d->target;
	struct tensor_extra x = {0};
	struct value v = {.kind = VALUE_TENSOR};
	v.tensor = arena_alloc(d->arena, sizeof(*v.tensor));
	if (!v.tensor)
		return value_not_decoded("no memory");
	int r = tensor_decode(&t->layout, raw, t->rtti, d->arena, v.tensor, &x);
	if (r == TENSOR_UNDEFINED)
		return (struct value){.kind = VALUE_NONE};
	if (r)
		return value_not_decoded("not a tensor");
	if (x.learn_meta && !layout_learn_meta(&t->layout, x.learn_meta, t->rtti, &t->mem))
		tensor_decode(&t->layout, raw, t->rtti, d->arena, v.tensor, &x);
	struct tensor_meta *m = &v.tensor->meta;
	m->device_type = (int8_t)names_device_code(m->device_type, t->ops->ndevice_types);
	uint64_t seq = load64(node_seq);
	bool known = node_seq != NULL;
	if (x.grad_fn && !known && (read_node || t->layout.unknown & LAYOUT_NODE))
		known = target_node_seq(t, x.grad_fn, &seq);
	add_node(d, x.grad_fn, known ? &seq : NULL);
	return v;
}

/* Sizes out of line and the bases of views were read by what the code says: good only if that came
 * true. */
static struct tensor_raw raw_of_snapshot(struct decode *d, const struct item *i,
					 const struct tensor_snapshot *s)
{
	const struct tensor_layout *l = &d->target->layout;
	const struct tensor_read *c = &d->target->reads[d->target->reading % READS_KEPT];
	struct tensor_raw raw = tensor_raw_of_snapshot(l, s);
	if (i->aux & TPART_OUTLINE && c->sizes == l->sizes && c->inline_dims == l->inline_dims) {
		raw.outline = (const uint8_t *)(i + 1) + sizeof(*s);
		raw.outline_len = i->len - (uint32_t)sizeof(*s);
	}
	if (c->view_vtable && c->view_vtable == l->view_vtable && c->meta == l->autograd_meta &&
	    c->view_base == l->view_base && c->view_has_base == l->view_has_base &&
	    c->grad_fn == l->meta_grad_fn && c->requires_grad == l->meta_requires_grad)
		raw.base = base_of(i);
	return raw;
}

struct value decode_tensor(struct decode *d, const struct item *i)
{
	struct tensor_raw raw;
	const uint8_t *node_seq = NULL;
	if (i->aux & TPART_UNDEFINED)
		return (struct value){.kind = VALUE_NONE};
	if (!d->target->layout.solved)
		return value_not_decoded("the layout of tensors is not known yet");
	if (i->kind == ITEM_TENSOR) {
		if (!read_item(d->target, i, &raw, &node_seq))
			return value_not_decoded("memory could not be read");
		return decode_raw(d, &raw, node_seq, false);
	}
	struct tensor_snapshot s;
	if (i->len < sizeof(s))
		return value_not_decoded("memory could not be read");
	memcpy(&s, i + 1, sizeof(s));
	raw = raw_of_snapshot(d, i, &s);
	for (unsigned k = 0; k < SNAPSHOT_PARTS; k++) {
		if (s.at[k].valid < SNAPSHOT_NODE)
			continue;
		uint64_t seq = s.at[k].valid - SNAPSHOT_NODE;
		return decode_raw(d, &raw, (const uint8_t *)&seq, false);
	}
	return decode_raw(d, &raw, NULL, true);
}
