#include "symbolizer/torch/layout.h"

#include <errno.h>
#include <string.h>

#include "symbolizer/event/names.h"

/* Classification of a TensorImpl class, cached in rtti_class.kind; 0: not classified yet. */
enum impl_kind {
	IMPL_UNSEEN,
	IMPL_NOT, /* not derived from TensorImpl */
	IMPL_UNDEFINED,
	IMPL_PLAIN,   /* TensorImpl itself */
	IMPL_STRIDED, /* derived, with ordinary storage and strides */
	IMPL_SPARSE,
	IMPL_COMPRESSED, /* sparse, with its own layout code */
	IMPL_MKLDNN,
	IMPL_LAZY,  /* strided, but without its elements */
	IMPL_OTHER, /* derived, unknown */
};

enum {
	LAYOUT_CODE_STRIDED = 0,
	LAYOUT_CODE_SPARSE = 1,
	LAYOUT_CODE_MKLDNN = 3
}; /* c10/core/Layout.h */

enum meta_kind { META_UNSEEN, META_PLAIN, META_VIEW, META_OTHER };

enum { TENSOR_NO_ALL = 0xff };

static int classify_impl(const struct rtti_class *c)
{
	static const struct {
		const char *part;
		int kind;
	} known[] = {
	    {"N2at16SparseTensorImplE", IMPL_SPARSE},
	    {"N2at19SparseCsrTensorImplE", IMPL_COMPRESSED},
	    {"N2at16OpaqueTensorImplI", IMPL_MKLDNN},
	    {"N2at11QTensorImplE", IMPL_STRIDED},
	    {"N5torch4lazy13LTCTensorImplE", IMPL_LAZY},
	};
	if (!rtti_is_a(c, "N3c1010TensorImplE"))
		return IMPL_NOT;
	if (!strcmp(c->name, "N3c1010TensorImplE"))
		return IMPL_PLAIN;
	if (!strcmp(c->name, "N3c1019UndefinedTensorImplE"))
		return IMPL_UNDEFINED;
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strncmp(c->name, known[i].part, strlen(known[i].part)))
			return known[i].kind;
	return IMPL_OTHER;
}

static int impl_kind(struct rtti *r, uint64_t vtable, const char **name)
{
	struct rtti_class *c = rtti_of_vtable(r, vtable);
	if (!c)
		return IMPL_NOT;
	if (c->kind == IMPL_UNSEEN)
		c->kind = classify_impl(c);
	*name = c->name;
	return c->kind;
}

static int meta_kind(struct rtti *r, uint64_t vtable)
{
	struct rtti_class *c = rtti_of_vtable(r, vtable);
	if (!c)
		return META_OTHER;
	if (c->kind == META_UNSEEN)
		c->kind = !strcmp(c->name, "N5torch8autograd12AutogradMetaE") ? META_PLAIN
			  : !strcmp(c->name, "N5torch8autograd22DifferentiableViewMetaE")
			      ? META_VIEW
			      : META_OTHER;
	return c->kind;
}

static uint64_t word(const uint8_t *p, unsigned off)
{
	uint64_t w;
	memcpy(&w, p + off, sizeof(w));
	return w;
}

/* `n` bytes at offset `off` of a part that was read from offset `from`; NULL if they were not read.
 */
static const uint8_t *part(const uint8_t *bytes, uint32_t from, uint32_t len, unsigned off,
			   unsigned n)
{
	if (!bytes || off == LAYOUT_NONE || off < from || off - from > len ||
	    len - (off - from) < n)
		return NULL;
	return bytes + (off - from);
}

static const uint8_t *field(const struct tensor_raw *raw, unsigned off, unsigned n)
{
	return part(raw->impl, 0, raw->impl_len, off, n);
}

/* Flags that were not read count as set. */
static bool customised(const struct flag_tests *f, const struct tensor_raw *raw)
{
	for (unsigned i = 0; i < f->n; i++)
		if (f->test[i].off >= raw->impl_len)
			return true;
	return layout_custom(f, raw->impl);
}

/* Sizes and strides, inline or not; NULL if not read. */
static const uint8_t *dims_of(const struct tensor_layout *l, const struct tensor_raw *raw,
			      unsigned *ndim, unsigned *stride_at)
{
	const uint8_t *p = field(raw, l->sizes, 8 + 16u * l->inline_dims);
	if (!p)
		return NULL;
	uint64_t n = word(p, 0);
	if (n > TENSOR_MAX_DIM)
		return NULL;
	*ndim = (unsigned)n;
	*stride_at = 8 * (n > l->inline_dims ? (unsigned)n : l->inline_dims);
	if (n <= l->inline_dims)
		return p + 8;
	return raw->outline && raw->outline_len >= 16 * n ? raw->outline : NULL;
}

static bool product_is(const int64_t *shape, unsigned n, int64_t numel)
{
	int64_t product = 1;
	for (unsigned i = 0; i < n; i++)
		if (shape[i] < 0 || __builtin_mul_overflow(product, shape[i], &product))
			return false;
	return product == numel;
}

static int decode_shape(const struct tensor_layout *l, const struct tensor_raw *raw,
			struct arena *a, struct tensor_meta *m)
{
	unsigned n, stride_at;
	const uint8_t *numel = field(raw, l->numel, 8), *dims = dims_of(l, raw, &n, &stride_at);
	if (!numel || !dims || (l->unknown & LAYOUT_SIZES) || customised(&l->custom_shape, raw))
		return 0;
	int64_t *shape = arena_alloc(a, 16 * (size_t)n + 16);
	if (!shape)
		return -ENOMEM;
	int64_t *stride = shape + n;
	memcpy(shape, dims, 8 * (size_t)n);
	if (!product_is(shape, n, (int64_t)word(numel, 0)))
		return 0;
	m->numel = (int64_t)word(numel, 0);
	m->ndim = (uint8_t)n;
	m->shape = shape;
	m->unknown &= (uint8_t)~TENSOR_NO_SHAPE;
	if (customised(&l->custom_stride, raw))
		return 0;
	memcpy(stride, dims + stride_at, 8 * (size_t)n);
	for (unsigned i = 0; i < n; i++)
		if (stride[i] < 0)
			return 0;
	m->stride = stride;
	m->unknown &= (uint8_t)~TENSOR_NO_STRIDE;
	return 0;
}

static void decode_type(const struct tensor_layout *l, const struct tensor_raw *raw,
			struct tensor_meta *m)
{
	const uint8_t *dtype = field(raw, l->dtype, 2), *dev = field(raw, l->device, 2);
	const uint8_t *engaged = field(raw, l->device_engaged, 1);
	uint16_t code;
	if (dtype && !(l->unknown & LAYOUT_DTYPE)) {
		memcpy(&code, dtype, 2);
		if (names_itemsize(code) > 0) {
			m->dtype = code;
			m->unknown &= (uint8_t)~TENSOR_NO_DTYPE;
		}
	}
	if (dev && !(l->unknown & LAYOUT_DEVICE) && (!engaged || *engaged == 1) &&
	    !customised(&l->custom_device, raw) && (int8_t)dev[1] >= -1) {
		m->device_type = (int8_t)dev[0];
		m->device_index = (int8_t)dev[1];
		m->unknown &= (uint8_t)~TENSOR_NO_DEVICE;
	}
}

static void decode_layout_code(const struct tensor_layout *l, const struct tensor_raw *raw,
			       int kind, struct tensor_meta *m)
{
	if (kind == IMPL_COMPRESSED || kind == IMPL_OTHER || customised(&l->custom_layout, raw))
		return;
	m->layout = kind == IMPL_SPARSE	  ? LAYOUT_CODE_SPARSE
		    : kind == IMPL_MKLDNN ? LAYOUT_CODE_MKLDNN
					  : LAYOUT_CODE_STRIDED;
	m->unknown &= (uint8_t)~TENSOR_NO_LAYOUT;
}

/* The data address requires storage, offset, itemsize and numel. */
static void decode_data(const struct tensor_layout *l, const struct tensor_raw *raw,
			struct tensor *t)
{
	const uint8_t *storage = field(raw, l->storage, 8), *off = field(raw, l->storage_offset, 8);
	const uint8_t *data =
	    part(raw->storage, raw->storage_from, raw->storage_len, l->storage_data_ptr, 8);
	t->storage = storage && !(l->unknown & LAYOUT_STORAGE) ? word(storage, 0) : 0;
	if (!off || (l->unknown & LAYOUT_OFFSET) || (int64_t)word(off, 0) < 0 ||
	    (t->meta.unknown & TENSOR_NO_SHAPE))
		return;
	t->storage_offset = (int64_t)word(off, 0);
	t->meta.unknown &= (uint8_t)~TENSOR_NO_OFFSET;
	if (!t->storage || !data || (l->unknown & LAYOUT_DATA_PTR) ||
	    (t->meta.unknown & TENSOR_NO_DTYPE))
		return;
	uint64_t item = (uint64_t)names_itemsize(t->meta.dtype);
	t->data_ptr = t->meta.numel ? word(data, 0) + item * (uint64_t)t->storage_offset : 0;
	t->meta.unknown &= (uint8_t)~TENSOR_NO_DATA_PTR;
}

static uint64_t meta_vtable(const struct tensor_raw *raw)
{
	const uint8_t *p = part(raw->meta, raw->meta_from, raw->meta_len, 0, 8);
	return p ? word(p, 0) : raw->meta_vtable;
}

static void set_requires_grad(struct tensor_meta *m, bool on)
{
	m->requires_grad = on;
	m->unknown &= (uint8_t)~TENSOR_NO_REQUIRES_GRAD;
}

/* A view without a gradient of its own requires grad if its base does. */
static void decode_view(const struct tensor_layout *l, const struct tensor_raw *raw,
			struct tensor_meta *m, struct tensor_extra *x)
{
	const uint8_t *has = part(raw->meta, raw->meta_from, raw->meta_len, l->view_has_base, 1);
	if (l->view_base == LAYOUT_NONE)
		x->learn_meta = meta_vtable(raw);
	else if (has && !*has)
		set_requires_grad(m, false);
	else if (raw->base != BASE_NOT_READ)
		set_requires_grad(m, raw->base == BASE_REQUIRES_GRAD);
}

static void decode_grad(const struct tensor_layout *l, const struct tensor_raw *raw, struct rtti *r,
			struct tensor_meta *m, struct tensor_extra *x)
{
	const uint8_t *p = field(raw, l->autograd_meta, 8);
	if (!p || (l->unknown & LAYOUT_AUTOGRAD))
		return;
	if (!word(p, 0)) {
		set_requires_grad(m, false);
		return;
	}
	uint64_t vtable = meta_vtable(raw);
	if (!vtable)
		return;
	int kind = meta_kind(r, vtable);
	if (l->unknown & LAYOUT_META)
		x->learn_meta = kind == META_PLAIN || kind == META_VIEW ? vtable : 0;
	const uint8_t *fn = part(raw->meta, raw->meta_from, raw->meta_len, l->meta_grad_fn, 8);
	const uint8_t *flag =
	    part(raw->meta, raw->meta_from, raw->meta_len, l->meta_requires_grad, 1);
	if ((l->unknown & LAYOUT_META) || kind == META_OTHER || !fn || !flag || *flag > 1)
		return;
	x->grad_fn = word(fn, 0);
	if (x->grad_fn || *flag)
		set_requires_grad(m, true);
	else if (kind == META_PLAIN)
		set_requires_grad(m, false);
	else
		decode_view(l, raw, m, x);
}

static void no_strides(struct tensor_meta *m)
{
	m->stride = NULL;
	m->unknown |= TENSOR_NO_STRIDE;
}

static void no_shape(struct tensor_meta *m)
{
	no_strides(m);
	m->shape = NULL;
	m->numel = 0;
	m->ndim = 0;
	m->unknown |= TENSOR_NO_SHAPE;
}

static void no_device(struct tensor_meta *m)
{
	m->device_type = m->device_index = 0;
	m->unknown |= TENSOR_NO_DEVICE;
}

/* Whether a bit is set that no ordinary tensor had set; unread bytes count as set. */
static bool is_extraordinary(const struct tensor_layout *l, const struct tensor_raw *raw)
{
	const uint8_t *p = field(raw, l->ordinary_at, ORDINARY_BYTES);
	if (l->ordinary_at == LAYOUT_NONE)
		return false;
	for (unsigned i = 0; i < ORDINARY_BYTES; i++)
		if (!p || (p[i] & ~l->ordinary[i]))
			return true;
	return false;
}

/* Mark uncertain facts as unknown. A derived class may override any property, and only complete
 * flags show whether it does. Without known flags, even a plain tensor is trusted only if it has no
 * bits that ordinary ones lack. */
static void doubt(const struct tensor_layout *l, const struct tensor_raw *raw, int kind,
		  struct tensor_meta *m)
{
	bool plain = kind == IMPL_PLAIN || kind == IMPL_STRIDED;
	bool strange = is_extraordinary(l, raw);
	if (!plain && kind != IMPL_SPARSE && !l->custom_shape.complete)
		no_shape(m);
	if (!l->custom_shape.n && (!m->numel || strange))
		no_shape(m);
	if (!plain && (kind != IMPL_OTHER || !l->custom_stride.complete))
		no_strides(m);
	if ((kind == IMPL_OTHER && !l->custom_device.complete) || (!l->custom_device.n && strange))
		no_device(m);
	if (!l->custom_layout.n && strange) {
		m->layout = 0;
		m->unknown |= TENSOR_NO_LAYOUT;
	}
}

int tensor_decode(const struct tensor_layout *l, const struct tensor_raw *raw, struct rtti *r,
		  struct arena *a, struct tensor *out, struct tensor_extra *x)
{
	struct tensor_extra ignored;
	x = x ? x : &ignored;
	*x = (struct tensor_extra){0};
	*out = (struct tensor){.impl = raw->impl_addr, .meta.unknown = TENSOR_NO_ALL};
	if (!raw->impl || raw->impl_len < 8)
		return -EINVAL;
	int kind = impl_kind(r, word(raw->impl, 0), &x->class_name);
	if (kind == IMPL_UNDEFINED)
		return TENSOR_UNDEFINED;
	if (kind == IMPL_NOT)
		return -EINVAL;
	if (!l->solved)
		return TENSOR_OK;
	int rc = decode_shape(l, raw, a, &out->meta);
	if (rc)
		return rc;
	decode_type(l, raw, &out->meta);
	decode_layout_code(l, raw, kind, &out->meta);
	doubt(l, raw, kind, &out->meta);
	if (kind == IMPL_PLAIN || kind == IMPL_STRIDED)
		decode_data(l, raw, out);
	decode_grad(l, raw, r, &out->meta, x);
	return TENSOR_OK;
}

static uint32_t at_most(uint64_t n, uint32_t most)
{
	return n < most ? (uint32_t)n : most;
}

static const uint8_t *snapshot_part(const struct tensor_snapshot *s, unsigned off, uint32_t *len)
{
	unsigned i = (off - SNAPSHOT_FIRST) / 8u;
	if (off == LAYOUT_NONE || off < SNAPSHOT_FIRST || i >= SNAPSHOT_PARTS || !s->at[i].valid)
		return NULL;
	*len = at_most(s->at[i].len, PART_MAX);
	return s->at[i].bytes;
}

struct tensor_raw tensor_raw_of_snapshot(const struct tensor_layout *l,
					 const struct tensor_snapshot *s)
{
	struct tensor_raw raw = {
	    .impl_addr = s->impl_addr,
	    .impl = s->impl,
	    .impl_len = at_most(s->impl_len, WIN_MAX),
	};
	raw.storage = snapshot_part(s, l->storage, &raw.storage_len);
	raw.meta = snapshot_part(s, l->autograd_meta, &raw.meta_len);
	return raw;
}
