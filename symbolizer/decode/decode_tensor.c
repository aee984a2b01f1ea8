#include "symbolizer/decode/internal.h"

#include <string.h>

#include "symbolizer/decode/target.h"
#include "symbolizer/event/names.h"
#include "symbolizer/torch/layout.h"

/* Takes the parts of a payload in order, each padded to 8 bytes. */
struct cursor {
	const uint8_t *at;
	uint32_t left;
};

static const uint8_t *cursor_take(struct cursor *c, uint32_t len)
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

/* Bytes of the sizes and strides that are not inline; they follow the other parts. */
static uint64_t outline_len(const struct tensor_read *c, const struct item *i, const uint8_t *impl)
{
	if (!(i->aux & TPART_OUTLINE) || c->sizes + 8u > c->win_len)
		return 0;
	return 16 * load64(impl + c->sizes);
}

/* The words of a packed item, at their offsets in the window and in the meta. The bytes in between
 * are not set and never read. */
struct unpacked {
	_Alignas(8) uint8_t impl[WIN_MAX];
	uint8_t meta[PART_MAX];
};

/* A packed item holds single words, at offsets of the layout known when it was read: it is usable
 * only if `l` still agrees with these. */
static bool is_packed_so(const struct tensor_read *c, const struct tensor_layout *l)
{
	return c->tail && c->tail < c->win_len && c->win_len <= WIN_MAX && c->sizes == l->sizes &&
	       c->inline_dims == l->inline_dims && c->storage == l->storage &&
	       c->meta == l->autograd_meta && c->storage + 8u <= WIN_MAX &&
	       c->meta + 8u <= WIN_MAX && c->sizes + 8u + 16u * c->inline_dims <= WIN_MAX;
}

static const uint8_t *unpack_window(const struct tensor_read *c, struct cursor *at,
				    struct unpacked *u)
{
	const uint8_t *head = cursor_take(at, 32);
	uint64_t ndim = head ? load64(head + 24) : 0;
	uint32_t n = 8 * (uint32_t)(ndim <= c->inline_dims ? ndim : 0);
	const uint8_t *dims = head ? cursor_take(at, 2 * n) : NULL;
	const uint8_t *tail = dims ? cursor_take(at, (uint32_t)c->win_len - c->tail) : NULL;
	if (!tail)
		return NULL;
	memcpy(u->impl, head, 8);
	memcpy(u->impl + c->storage, head + 8, 8);
	memcpy(u->impl + c->meta, head + 16, 8);
	memcpy(u->impl + c->sizes, head + 24, 8);
	memcpy(u->impl + c->sizes + 8, dims, n);
	memcpy(u->impl + c->sizes + 8 + 8 * c->inline_dims, dims + n, n);
	memcpy(u->impl + c->tail, tail, (size_t)c->win_len - c->tail);
	return u->impl;
}

/* Also NULL if the layout learned since then needs other words. */
static const uint8_t *unpack_meta(const struct tensor_read *c, const struct tensor_layout *l,
				  struct cursor *at, struct unpacked *u)
{
	const uint8_t *w = cursor_take(at, 24);
	if (!w || c->meta_from || c->grad_fn != l->meta_grad_fn ||
	    c->requires_grad != l->meta_requires_grad || l->view_has_base < c->meta_len ||
	    c->grad_fn + 8u > PART_MAX || c->requires_grad >= PART_MAX)
		return NULL;
	memcpy(u->meta, w, 8);
	memcpy(u->meta + c->grad_fn, w + 8, 8);
	memcpy(u->meta + (c->requires_grad & ~7u), w + 16, 8);
	return u->meta;
}

/* Split an ITEM_TENSOR into its parts, in the order given in plan.h; *node_seq is NULL if it was
 * not read. False if the parts do not match `c`. */
static bool raw_of_item(const struct tensor_read *c, const struct tensor_layout *l,
			const struct item *i, struct tensor_raw *raw, struct unpacked *u,
			const uint8_t **node_seq)
{
	bool packed = i->aux & TPART_PACKED;
	struct cursor at = {(const uint8_t *)(i + 1), i->len};
	const uint8_t *addr = cursor_take(&at, 8);
	*raw = (struct tensor_raw){.impl_addr = load64(addr)};
	*node_seq = NULL;
	if (!addr || (i->aux & TPART_FAULT) || (packed && !is_packed_so(c, l)))
		return false;
	raw->impl = packed ? unpack_window(c, &at, u) : cursor_take(&at, c->win_len);
	raw->impl_len = c->win_len;
	if (i->aux & TPART_STORAGE)
		raw->storage = cursor_take(&at, c->storage_len);
	if (i->aux & TPART_META)
		raw->meta = packed && c->pack_meta ? unpack_meta(c, l, &at, u)
						   : cursor_take(&at, c->meta_len);
	*node_seq = i->aux & TPART_NODE ? cursor_take(&at, 8) : NULL;
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

/* A hit carries the generation it began with, but the engine may have received the next one before
 * it ended. The lengths of the parts show which of the two an item was made with. */
static bool read_item(const struct target *t, const struct item *i, struct tensor_raw *raw,
		      struct unpacked *u, const uint8_t **node_seq, bool *is_newer)
{
	uint16_t newer = (uint16_t)(t->conf.generation - t->reading);
	*is_newer = false;
	if (raw_of_item(&t->reads[t->reading % READS_KEPT], &t->layout, i, raw, u, node_seq))
		return true;
	*is_newer = true;
	return newer && newer < READS_KEPT &&
	       raw_of_item(&t->reads[(t->reading + 1u) % READS_KEPT], &t->layout, i, raw, u,
			   node_seq);
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
	if (x.learn_meta) {
		if (!layout_learn_meta(&t->layout, x.learn_meta, t->rtti, &t->mem))
			tensor_decode(&t->layout, raw, t->rtti, d->arena, v.tensor, &x);
		seen_tensors_forget(t);
	}
	struct tensor_meta *m = &v.tensor->meta;
	m->device_type = (int8_t)names_device_code(m->device_type, t->ops->ndevice_types);
	uint64_t seq = load64(node_seq);
	bool known = node_seq != NULL;
	if (x.grad_fn && !known && (read_node || t->layout.unknown & LAYOUT_NODE))
		known = target_node_seq(t, x.grad_fn, &seq);
	add_node(d, x.grad_fn, known ? &seq : NULL);
	return v;
}

/* The engine read sizes that are not inline and the bases of views by the static evidence: they are
 * usable only if the solved layout agrees with it. */
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

static struct value decode_seen(struct decode *d, struct tensor *seen, const struct seen_node *node)
{
	add_node(d, node->addr, node->has_seq ? &node->seq : NULL);
	return (struct value){.kind = VALUE_TENSOR, .tensor = seen};
}

static struct value decode_item(struct decode *d, const struct item *i)
{
	struct seen_key key;
	struct seen_node node;
	struct tensor_raw raw;
	struct unpacked u;
	const uint8_t *node_seq = NULL;
	bool is_newer;
	struct tensor *seen = seen_tensors_foreseen(d, i, &node);
	if (seen)
		return decode_seen(d, seen, &node);
	const bool has_key = seen_key_make(d->target, i, &key);
	seen = has_key ? seen_tensors_find(d, i, &key, &node) : NULL;
	if (seen)
		return decode_seen(d, seen, &node);
	if (!read_item(d->target, i, &raw, &u, &node_seq, &is_newer))
		return value_not_decoded("memory could not be read");
	struct value v = decode_raw(d, &raw, node_seq, false);
	if (has_key && !is_newer && v.kind == VALUE_TENSOR)
		seen_tensors_add(d->target, i, &key, v.tensor);
	return v;
}

struct value decode_tensor(struct decode *d, const struct item *i)
{
	struct tensor_raw raw;
	if (i->aux & TPART_UNDEFINED)
		return (struct value){.kind = VALUE_NONE};
	if (!d->target->layout.solved)
		return value_not_decoded("the layout of tensors is not known yet");
	if (i->kind == ITEM_TENSOR)
		return decode_item(d, i);
	struct tensor_snapshot s;
	if (i->len < sizeof(s))
		return value_not_decoded("memory could not be read");
	memcpy(&s, i + 1, sizeof(s));
	raw = raw_of_snapshot(d, i, &s);
	if (raw.impl_len < d->target->layout.win_len)
		return value_not_decoded("memory could not be read");
	for (unsigned k = 0; k < SNAPSHOT_PARTS; k++) {
		if (s.at[k].valid < SNAPSHOT_NODE)
			continue;
		uint64_t seq = s.at[k].valid - SNAPSHOT_NODE;
		return decode_raw(d, &raw, (const uint8_t *)&seq, false);
	}
	return decode_raw(d, &raw, NULL, true);
}
