#include "symbolizer/torch/layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/torch/internal.h"

/* Facts needed to decode a tensor completely. */
static const uint32_t needed = LAYOUT_STORAGE | LAYOUT_AUTOGRAD | LAYOUT_SIZES | LAYOUT_OFFSET |
			       LAYOUT_DTYPE | LAYOUT_DEVICE | LAYOUT_DATA_PTR | LAYOUT_META;

bool layout_custom(const struct flag_tests *f, const uint8_t *impl)
{
	for (unsigned i = 0; i < f->n; i++)
		if ((impl[f->test[i].off] >> f->test[i].shift & f->test[i].mask) > f->test[i].max)
			return true;
	return false;
}

static void clear(struct tensor_layout *l)
{
	*l = (struct tensor_layout){
	    .storage = LAYOUT_NONE,
	    .autograd_meta = LAYOUT_NONE,
	    .sizes = LAYOUT_NONE,
	    .storage_offset = LAYOUT_NONE,
	    .numel = LAYOUT_NONE,
	    .dtype = LAYOUT_NONE,
	    .device = LAYOUT_NONE,
	    .device_engaged = LAYOUT_NONE,
	    .key_set = LAYOUT_NONE,
	    .ordinary_at = LAYOUT_NONE,
	    .storage_data_ptr = LAYOUT_NONE,
	    .storage_nbytes = LAYOUT_NONE,
	    .meta_grad_fn = LAYOUT_NONE,
	    .meta_requires_grad = LAYOUT_NONE,
	    .view_base = LAYOUT_NONE,
	    .view_has_base = LAYOUT_NONE,
	    .node_sequence_nr = LAYOUT_NONE,
	    .requires_grad_slot = FACT_NONE,
	};
}

static struct layout_facts no_facts(void)
{
	struct layout_facts f;
	memset(&f, 0xff, sizeof(f)); /* every offset FACT_NONE */
	memset(&f.custom_shape, 0, sizeof(f.custom_shape));
	memset(&f.custom_stride, 0, sizeof(f.custom_stride));
	memset(&f.custom_device, 0, sizeof(f.custom_device));
	memset(&f.custom_layout, 0, sizeof(f.custom_layout));
	return f;
}

/* Drops flags beyond the window, which cannot be read. */
static void copy_flags(struct flag_tests *to, const struct flag_tests *from)
{
	*to = (struct flag_tests){0};
	for (unsigned i = 0; i < from->n && i < FLAGS_MAX; i++)
		if (from->test[i].off < WIN_MAX)
			to->test[to->n++] = from->test[i];
	to->complete = from->complete && to->n == from->n;
}

static bool is_plain_tensor(struct rtti *r, const struct tensor_layout *l,
			    const struct tensor_snapshot *s)
{
	struct rtti_class *c = rtti_of_vtable(r, word_at(s->impl, 0));
	return c && !strcmp(c->name, CLASS_TENSOR) && !layout_custom(&l->custom_shape, s->impl) &&
	       !layout_custom(&l->custom_stride, s->impl) &&
	       !layout_custom(&l->custom_device, s->impl);
}

static struct rtti_class *part_class(struct rtti *r, const struct tensor_snapshot *s, unsigned part)
{
	return s->at[part].valid ? rtti_of_vtable(r, word_at(s->at[part].bytes, 0)) : NULL;
}

/* The number of the only part that, where readable, always points to an object of the class `name`;
 * -1 if there is none, -2 if ambiguous. */
static int part_of_class(struct rtti *r, const struct tensor_snapshot *const *s, size_t n,
			 const char *name)
{
	int found = -1;
	for (unsigned part = 0; part < SNAPSHOT_PARTS; part++) {
		size_t yes = 0, no = 0;
		for (size_t i = 0; i < n; i++) {
			if (!s[i]->at[part].valid)
				continue;
			if (rtti_is_a(part_class(r, s[i], part), name))
				yes++;
			else
				no++;
		}
		if (!yes)
			continue;
		if (no || found >= 0)
			return -2;
		found = (int)part;
	}
	return found;
}

static bool part_is_null(const struct tensor_snapshot *const *s, size_t n, unsigned off)
{
	for (size_t i = 0; i < n; i++)
		if (word_at(s[i]->impl, off))
			return false;
	return true;
}

static void solve_pointers(struct solve *s, struct rtti *r,
			   const struct tensor_snapshot *const *snap)
{
	const struct layout_facts *f = s->facts;
	int part = part_of_class(r, snap, s->n, CLASS_STORAGE);
	int32_t off = part < 0 ? FACT_NONE : SNAPSHOT_FIRST + 8 * part;
	if (part == -2 || f->storage == FACT_CONFLICT ||
	    (off >= 0 && f->storage >= 0 && f->storage != off))
		s->conflict |= LAYOUT_STORAGE;
	else if (off >= 0)
		s->out->storage = (uint16_t)off;

	part = part_of_class(r, snap, s->n, CLASS_META);
	off = part < 0 ? FACT_NONE : SNAPSHOT_FIRST + 8 * part;
	if (part == -1 && f->autograd_meta >= 0 && f->autograd_meta + 8 <= WIN_MAX && s->n &&
	    part_is_null(snap, s->n, (unsigned)f->autograd_meta))
		off = f->autograd_meta;
	if (part == -2 || f->autograd_meta == FACT_CONFLICT ||
	    (off >= 0 && f->autograd_meta >= 0 && f->autograd_meta != off))
		s->conflict |= LAYOUT_AUTOGRAD;
	else if (off >= 0)
		s->out->autograd_meta = (uint16_t)off;
}

static void meta_unknown(struct tensor_layout *l)
{
	l->meta_grad_fn = l->meta_requires_grad = LAYOUT_NONE;
	l->view_base = l->view_has_base = LAYOUT_NONE;
	l->unknown |= LAYOUT_META | LAYOUT_VIEW;
}

static int learn_view(struct tensor_layout *l, const struct meta_facts *f, uint64_t vtable)
{
	if (f->view_base > UINT16_MAX - 8 || f->view_has_base >= UINT16_MAX)
		return -ENOENT;
	l->view_vtable = vtable;
	l->view_base = (uint16_t)f->view_base;
	l->view_has_base = (uint16_t)f->view_has_base;
	l->unknown &= ~(uint32_t)LAYOUT_VIEW;
	return 0;
}

const struct meta_facts *layout_meta_facts(struct rtti *r, const struct mem *m, uint64_t vtable,
					   int32_t slot)
{
	struct rtti_class *c = rtti_of_vtable(r, vtable);
	struct meta_facts f;
	if (!c || !rtti_is_a(c, CLASS_META))
		return NULL;
	if (!c->facts && !accessors_read_meta(m, vtable, slot, &f))
		c->facts = rtti_keep(r, &f, sizeof(f));
	return c->facts;
}

int layout_learn_meta(struct tensor_layout *l, uint64_t vtable, struct rtti *r, const struct mem *m)
{
	struct rtti_class *c = rtti_of_vtable(r, vtable);
	bool plain = c && !strcmp(c->name, CLASS_META),
	     view = c && !strcmp(c->name, CLASS_VIEW_META);
	if (!plain && !view)
		return -ENOENT;
	const struct meta_facts *f = layout_meta_facts(r, m, vtable, l->requires_grad_slot);
	if (!f || f->is_view != view || f->grad_fn > UINT16_MAX - 8 ||
	    f->requires_grad >= UINT16_MAX)
		return -ENOENT;
	if (l->meta_grad_fn != LAYOUT_NONE &&
	    (l->meta_grad_fn != f->grad_fn || l->meta_requires_grad != f->requires_grad)) {
		meta_unknown(l);
		return -EPROTO;
	}
	if (view && learn_view(l, f, vtable))
		return -ENOENT;
	if (plain)
		l->meta_vtable = vtable;
	l->meta_grad_fn = (uint16_t)f->grad_fn;
	l->meta_requires_grad = (uint16_t)f->requires_grad;
	l->unknown &= ~(uint32_t)LAYOUT_META;
	return 0;
}

/* Plausibility of an AutogradMeta at the learned offsets: a bool, and a Node or NULL. */
static bool meta_is_consistent(const struct tensor_layout *l, const uint8_t *meta, struct rtti *r)
{
	if (l->meta_grad_fn + 8u > PART_MAX || l->meta_requires_grad >= PART_MAX)
		return false;
	uint64_t grad_fn = word_at(meta, l->meta_grad_fn);
	uint8_t flag = meta[l->meta_requires_grad];
	struct rtti_class *node = grad_fn ? rtti_of_object(r, grad_fn) : NULL;
	return flag <= 1 && !(node && !rtti_is_a(node, CLASS_NODE));
}

static void solve_meta(struct solve *s, struct rtti *r, const struct mem *m,
		       const struct tensor_snapshot *const *snap)
{
	struct tensor_layout *l = s->out;
	if (l->autograd_meta == LAYOUT_NONE || l->autograd_meta < SNAPSHOT_FIRST ||
	    (l->autograd_meta - SNAPSHOT_FIRST) / 8 >= SNAPSHOT_PARTS)
		return;
	unsigned part = (l->autograd_meta - SNAPSHOT_FIRST) / 8u;
	for (size_t i = 0; i < s->n; i++)
		if (snap[i]->at[part].valid)
			if (layout_learn_meta(l, word_at(snap[i]->at[part].bytes, 0), r, m) ==
			    -EPROTO)
				s->conflict |= LAYOUT_META;
	for (size_t i = 0; i < s->n && l->meta_grad_fn != LAYOUT_NONE; i++)
		if (snap[i]->at[part].valid && !meta_is_consistent(l, snap[i]->at[part].bytes, r)) {
			s->conflict |= LAYOUT_META;
			meta_unknown(l);
		}
	for (size_t i = 0; i < s->n && l->meta_grad_fn != LAYOUT_NONE; i++)
		if (snap[i]->at[part].valid &&
		    !layout_learn_node(l, word_at(snap[i]->at[part].bytes, l->meta_grad_fn), r, m))
			break;
}

static void solve_key_set(struct solve *s)
{
	int32_t off = s->facts->key_set;
	if (off < 0 || off + 8 > WIN_MAX || !s->n)
		return;
	for (size_t i = 0; i < s->n; i++)
		if (!word_at(s->sample[i].impl, (unsigned)off))
			return;
	s->out->key_set = (uint16_t)off;
}

static void widen(struct tensor_layout *l, uint16_t off, unsigned len)
{
	if (off != LAYOUT_NONE && off + len > l->win_len)
		l->win_len = (uint16_t)(off + len);
}

static void set_window(struct tensor_layout *l)
{
	const struct flag_tests *flags[] = {&l->custom_shape, &l->custom_stride, &l->custom_device,
					    &l->custom_layout};
	l->win_len = 8;
	widen(l, l->storage, 8);
	widen(l, l->autograd_meta, 8);
	widen(l, l->sizes, 8 + 16u * l->inline_dims);
	widen(l, l->storage_offset, 8);
	widen(l, l->numel, 8);
	widen(l, l->dtype, 2);
	widen(l, l->device, 2);
	widen(l, l->device_engaged, 1);
	widen(l, l->key_set, 8);
	widen(l, l->ordinary_at, ORDINARY_BYTES);
	for (unsigned k = 0; k < sizeof(flags) / sizeof(flags[0]); k++)
		for (unsigned i = 0; i < flags[k]->n; i++)
			widen(l, flags[k]->test[i].off, 1);
	l->win_len = (uint16_t)((l->win_len + 7) & ~7);
}

static uint32_t unknown_of(const struct tensor_layout *l)
{
	uint32_t u = 0;
	u |= l->storage == LAYOUT_NONE ? LAYOUT_STORAGE : 0;
	u |= l->autograd_meta == LAYOUT_NONE ? LAYOUT_AUTOGRAD : 0;
	u |= l->sizes == LAYOUT_NONE ? LAYOUT_SIZES : 0;
	u |= l->storage_offset == LAYOUT_NONE ? LAYOUT_OFFSET : 0;
	u |= l->dtype == LAYOUT_NONE ? LAYOUT_DTYPE : 0;
	u |= l->device == LAYOUT_NONE ? LAYOUT_DEVICE : 0;
	u |= l->storage_data_ptr == LAYOUT_NONE ? LAYOUT_DATA_PTR : 0;
	u |= l->meta_grad_fn == LAYOUT_NONE ? LAYOUT_META : 0;
	u |= l->view_base == LAYOUT_NONE ? LAYOUT_VIEW : 0;
	u |= l->node_sequence_nr == LAYOUT_NONE ? LAYOUT_NODE : 0;
	u |= l->key_set == LAYOUT_NONE ? LAYOUT_KEY_SET : 0;
	u |= l->storage_nbytes == LAYOUT_NONE ? LAYOUT_NBYTES : 0;
	u |= !l->custom_shape.n ? LAYOUT_FLAGS : 0;
	return u;
}

static void list_facts(char *out, size_t size, uint32_t bits)
{
	static const char *const names[] = {
	    "storage", "autograd metadata", "sizes",	    "storage offset", "dtype",
	    "device",  "data pointer",	    "requires_grad"};
	size_t len = 0;
	out[0] = '\0';
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (bits & 1u << i && len < size)
			len += (size_t)snprintf(out + len, size - len, "%s%s", len ? ", " : "",
						names[i]);
}

static int verdict(const struct solve *s, size_t seen, struct err *e)
{
	struct tensor_layout *l = s->out;
	char list[160];
	l->unknown = unknown_of(l);
	l->solved = !(l->unknown & (LAYOUT_STORAGE | LAYOUT_SIZES));
	snprintf(l->source, sizeof(l->source), "%zu tensors%s", s->n,
		 s->facts->sizes >= 0 ? " and the accessors of libtorch" : "");
	if (s->conflict & needed) {
		list_facts(list, sizeof(list), s->conflict & needed);
		err_set(e, -EPROTO, "the tensors of this process contradict each other: %s", list);
		err_hint(e, "these will be shown as unknown; please report the version of PyTorch");
		return -EPROTO;
	}
	if (!(l->unknown & needed))
		return 0;
	list_facts(list, sizeof(list), l->unknown & needed);
	err_set(e, -EAGAIN, "not certain yet after %zu tensors (%zu of them plain): %s", seen, s->n,
		list);
	err_hint(e, "let the process run more ops, on tensors of different shapes");
	return -EAGAIN;
}

static int solve_all(struct solve *s, const struct tensor_snapshot *snaps, size_t n, struct rtti *r,
		     const struct mem *m, struct err *e)
{
	struct tensor_layout *l = s->out;
	const struct tensor_snapshot **plain = calloc(n + 1, sizeof(*plain));
	s->sample = calloc(n + 1, sizeof(*s->sample));
	if (!plain || !s->sample) {
		free(plain);
		return err_set(e, -ENOMEM, "out of memory for %zu tensors", n);
	}
	for (size_t i = 0; i < n; i++)
		if (is_plain_tensor(r, l, &snaps[i]))
			plain[s->n++] = &snaps[i];
	for (size_t i = 0; i < s->n; i++)
		s->sample[i].impl = plain[i]->impl;
	solve_pointers(s, r, plain);
	if (l->storage != LAYOUT_NONE) {
		unsigned part = (l->storage - SNAPSHOT_FIRST) / 8u;
		for (size_t i = 0; i < s->n; i++)
			s->sample[i].storage =
			    plain[i]->at[part].valid ? plain[i]->at[part].bytes : NULL;
		solve_shape(s);
		solve_elements(s);
	}
	solve_meta(s, r, m, plain);
	solve_key_set(s);
	set_window(l);
	free(plain);
	return verdict(s, n, e);
}

int layout_solve(const struct tensor_snapshot *snaps, size_t n, const struct layout_facts *facts,
		 struct rtti *r, const struct mem *m, struct tensor_layout *out, struct err *e)
{
	const struct layout_facts none = no_facts();
	struct solve s = {.facts = facts ? facts : &none, .out = out};
	clear(out);
	out->requires_grad_slot = s.facts->requires_grad_slot;
	copy_flags(&out->custom_shape, &s.facts->custom_shape);
	copy_flags(&out->custom_stride, &s.facts->custom_stride);
	copy_flags(&out->custom_device, &s.facts->custom_device);
	copy_flags(&out->custom_layout, &s.facts->custom_layout);
	int rc = solve_all(&s, snaps, n, r, m, e);
	free(s.sample);
	return rc;
}
