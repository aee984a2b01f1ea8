#include "symbolizer/torch/internal.h"

#include "symbolizer/event/names.h"

enum {
	VALUES_NEEDED =
	    2, /* different values needed to support a candidate that no accessor gives */
	STORAGE_HEAD = 0x10,   /* c10/util/intrusive_ptr.h: vtable and refcounts at least */
	DATA_TO_NBYTES = 0x20, /* c10/core/Allocator.h: DataPtr is data, deleter, context, device */
	DEVICE_TO_NBYTES = 8,  /* device, padded; StorageImpl's size follows it */
	DEVICE_TYPES = 40,
	NBYTES_MAX_SHIFT = 47,
};

/* Dtypes packed below a byte, whose elements do not take itemsize bytes of storage
 * (torch/headeronly/core/ScalarType.h: quint4x2, quint2x4, bits1x8 .. bits4x2, uint1 .. 7, int1 ..
 * 7, float4_e2m1fn_x2). */
static bool is_packed(unsigned dtype)
{
	return (dtype >= 16 && dtype <= 20) || (dtype >= 30 && dtype <= 43) || dtype == 45;
}

static bool is_shape_word(const struct solve *s, unsigned off, unsigned len)
{
	const struct tensor_layout *l = s->out;
	return overlaps(off, len, l->sizes, 8 + 16u * l->inline_dims) ||
	       overlaps(off, len, l->numel, 8) || overlaps(off, len, l->storage, 8) ||
	       (l->autograd_meta != LAYOUT_NONE && overlaps(off, len, l->autograd_meta, 8)) ||
	       overlaps(off, len, 0, 8);
}

/* The storage's size in bytes if it is at `at`; 0 if that is no evidence (freed, symbolic, not
 * read). */
static uint64_t storage_bytes(const struct layout_sample *p, unsigned at)
{
	uint64_t n = p->storage ? word_at(p->storage, at) : 0;
	return n >> NBYTES_MAX_SHIFT ? 0 : n;
}

static bool may_point(uint64_t w)
{
	return !w || (w >= 0x1000 && !(w >> 47));
}

static bool may_be_device(const uint8_t *p)
{
	return p[0] < DEVICE_TYPES && (int8_t)p[1] >= -1;
}

/* Whether every storage may have a DataPtr that ends at `nbytes`; false without storages. */
static bool ends_data_ptr(const struct solve *s, unsigned nbytes)
{
	unsigned storages = 0;
	for (size_t i = 0; i < s->n; i++) {
		const uint8_t *p = s->sample[i].storage;
		if (!p)
			continue;
		for (unsigned at = nbytes - DATA_TO_NBYTES; at < nbytes - DEVICE_TO_NBYTES; at += 8)
			if (!may_point(word_at(p, at)))
				return false;
		if (!may_be_device(p + nbytes - DEVICE_TO_NBYTES))
			return false;
		storages++;
	}
	return storages > 0;
}

/* Find the offset of the storage's size: the first place after a plausible DataPtr. Later places
 * are not considered, however many tensors support them: the snapshot extends past the StorageImpl,
 * often into another one whose size may also fit. LAYOUT_NONE if undetermined. */
static unsigned find_nbytes(struct solve *s)
{
	const int32_t fact = s->facts->data_ptr;
	unsigned at = STORAGE_HEAD + DATA_TO_NBYTES;
	while (at + 8 <= PART_MAX && !ends_data_ptr(s, at))
		at += 8;
	if (at + 8 > PART_MAX)
		return LAYOUT_NONE;
	if (fact >= 0 && (unsigned)fact + DATA_TO_NBYTES != at) {
		s->conflict |= LAYOUT_DATA_PTR;
		return LAYOUT_NONE;
	}
	return at;
}

/* A candidate: dtype at `dtype`, storage size at `nbytes`. */
struct pair {
	unsigned dtype, nbytes;
};

/* A tensor that fills its storage exactly: the strongest evidence. */
static bool is_anchor(const struct layout_sample *p, const struct pair *c)
{
	int size = names_itemsize(half_at(p->impl, c->dtype));
	uint64_t bytes = storage_bytes(p, c->nbytes);
	return p->has_shape && p->contiguous && size > 0 && bytes &&
	       (uint64_t)p->numel * (uint64_t)size == bytes;
}

/* Support for a pair. */
struct pair_support {
	size_t anchors;
	unsigned distinct; /* different storage sizes among the anchors, up to VALUES_NEEDED */
};

/* False if a sample contradicts. */
static bool pair_support(const struct solve *s, const struct pair *c, struct pair_support *out)
{
	uint64_t first = 0;
	*out = (struct pair_support){0};
	for (size_t i = 0; i < s->n; i++) {
		const struct layout_sample *p = &s->sample[i];
		unsigned dtype = half_at(p->impl, c->dtype);
		int size = names_itemsize((int)dtype);
		uint64_t bytes = storage_bytes(p, c->nbytes);
		if (size <= 0)
			return false;
		if (!p->has_shape || !bytes || is_packed(dtype))
			continue;
		if ((uint64_t)p->extent * (uint64_t)size > bytes)
			return false;
		if (!is_anchor(p, c))
			continue;
		out->anchors++;
		out->distinct += bytes != first && out->distinct < VALUES_NEEDED;
		first = bytes;
	}
	return true;
}

static bool all_codes_known(const struct solve *s, unsigned dtype)
{
	for (size_t i = 0; i < s->n; i++)
		if (names_itemsize(half_at(s->sample[i].impl, dtype)) <= 0)
			return false;
	return true;
}

/* Combine the evidence: the accessors' offset unless a sample does not fit it or the data alone
 * point elsewhere; without accessors the data's offset. LAYOUT_NONE if undetermined. */
static unsigned combine(struct solve *s, uint32_t bit, int32_t fact, bool fits, unsigned data)
{
	if (fact == FACT_CONFLICT ||
	    (fact >= 0 && s->n && (!fits || (data != LAYOUT_NONE && data != (unsigned)fact)))) {
		s->conflict |= bit;
		return LAYOUT_NONE;
	}
	return fact >= 0 && fits ? (unsigned)fact : data;
}

/* The pairs with the most and the second most anchors. */
struct ranking {
	struct pair best;
	struct pair_support sup; /* of the best */
	size_t second;
};

static void rank(struct ranking *r, const struct pair *c, const struct pair_support *sup)
{
	if (sup->anchors > r->sup.anchors) {
		r->second = r->sup.anchors;
		r->sup = *sup;
		r->best = *c;
	} else if (sup->anchors > r->second) {
		r->second = sup->anchors;
	}
}

/* The best has more than twice the anchors of any other: a place that holds a dtype code by chance
 * is an anchor only for tensors of that itemsize. */
static bool is_clear(const struct ranking *r, unsigned distinct)
{
	return r->sup.distinct >= distinct && r->sup.anchors > 2 * r->second;
}

static void solve_dtype(struct solve *s)
{
	const int32_t fact = s->facts->dtype;
	struct ranking all = {.best = {LAYOUT_NONE, LAYOUT_NONE}}, named = all;
	struct pair c = {.nbytes = find_nbytes(s)};
	for (c.dtype = 8; c.nbytes != LAYOUT_NONE && c.dtype + 2 <= WIN_MAX; c.dtype += 2) {
		struct pair_support sup;
		if (is_shape_word(s, c.dtype, 2) || !pair_support(s, &c, &sup))
			continue;
		rank(&all, &c, &sup);
		if ((int32_t)c.dtype == fact)
			rank(&named, &c, &sup);
	}
	unsigned data = is_clear(&all, VALUES_NEEDED) ? all.best.dtype : LAYOUT_NONE;
	const struct ranking *r = fact >= 0 ? &named : &all;
	bool fits = fact >= 8 && fact + 2 <= WIN_MAX && all_codes_known(s, (unsigned)fact);
	if (fits && data == LAYOUT_NONE && !is_clear(&named, 1))
		return; /* neither contradicted nor confirmed yet */
	unsigned found = combine(s, LAYOUT_DTYPE, fact, fits && is_clear(&named, 1), data);
	if (found == LAYOUT_NONE || found != r->best.dtype)
		return;
	s->out->dtype = (uint16_t)found;
	s->out->storage_nbytes = (uint16_t)r->best.nbytes;
}

static bool engaged_at(const struct solve *s, unsigned off)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->sample[i].impl[off] != 1)
			return false;
	return s->n > 0;
}

/* Whether every sample may have a device at `dev`, with the optional's engaged byte before or after
 * it. */
static bool is_device(const struct solve *s, unsigned dev)
{
	if (!engaged_at(s, dev - 1) && !engaged_at(s, dev + 2))
		return false;
	for (size_t i = 0; i < s->n; i++)
		if (!may_be_device(s->sample[i].impl + dev))
			return false;
	return true;
}

/* Number of anchors whose storage is on the device at `dev`; 0 if any is not. */
static unsigned same_device(const struct solve *s, unsigned dev)
{
	const struct tensor_layout *l = s->out;
	struct pair c = {l->dtype, l->storage_nbytes};
	unsigned count = 0;
	if (l->storage_nbytes == LAYOUT_NONE)
		return 0;
	for (size_t i = 0; i < s->n; i++) {
		const struct layout_sample *p = &s->sample[i];
		if (!p->storage || !is_anchor(p, &c))
			continue;
		if (half_at(p->impl, dev) !=
		    half_at(p->storage, l->storage_nbytes - DEVICE_TO_NBYTES))
			return 0;
		count++;
	}
	return count;
}

/* Find the engaged byte, before or after the device. */
static void solve_engaged(struct solve *s)
{
	struct tensor_layout *l = s->out;
	const int32_t fact = s->facts->device_engaged;
	bool before = engaged_at(s, l->device - 1u), behind = engaged_at(s, l->device + 2u);
	if ((fact == l->device - 1 && before) || (fact == l->device + 2 && behind))
		l->device_engaged = (uint16_t)fact;
	else if (before != behind)
		l->device_engaged = (uint16_t)(before ? l->device - 1 : l->device + 2);
}

static void solve_device(struct solve *s)
{
	const int32_t fact = s->facts->device;
	struct tensor_layout *l = s->out;
	unsigned count = 0, data = LAYOUT_NONE;
	for (unsigned dev = 9; dev + 3 <= WIN_MAX; dev++) {
		if (is_shape_word(s, dev, 2) ||
		    (l->dtype != LAYOUT_NONE && overlaps(dev, 2, l->dtype, 2)) ||
		    !is_device(s, dev) || same_device(s, dev) < VALUES_NEEDED)
			continue;
		data = dev;
		count++;
	}
	bool fits = fact >= 9 && fact + 3 <= WIN_MAX && is_device(s, (unsigned)fact);
	l->device =
	    (uint16_t)combine(s, LAYOUT_DEVICE, fact, fits, count == 1 ? data : LAYOUT_NONE);
	if (l->device != LAYOUT_NONE)
		solve_engaged(s);
}

/* Support for storage_offset being at a place. */
struct offset_support {
	unsigned full;	  /* tensors that fill their storage, whose offset must be 0 */
	unsigned nonzero; /* others with a nonzero offset that fits their storage */
};

static bool offset_support(const struct solve *s, unsigned at, struct offset_support *out)
{
	struct pair c = {s->out->dtype, s->out->storage_nbytes};
	*out = (struct offset_support){0};
	for (size_t i = 0; i < s->n; i++) {
		const struct layout_sample *p = &s->sample[i];
		uint64_t offset = word_at(p->impl, at), bytes = storage_bytes(p, c.nbytes);
		unsigned dtype = half_at(p->impl, c.dtype);
		if (offset >> NBYTES_MAX_SHIFT)
			return false;
		if (!p->has_shape || !p->numel || !bytes || is_packed(dtype))
			continue;
		uint64_t last = offset + (uint64_t)p->extent;
		if (last > bytes / (uint64_t)names_itemsize((int)dtype))
			return false;
		out->full += is_anchor(p, &c);
		out->nonzero += offset != 0;
	}
	return true;
}

/* Whether the samples alone determine this place. It must be adjacent to sizes or numel, where
 * storage_offset has always been: words elsewhere, often past the tensor, may fit by chance. */
static bool offset_shown(const struct solve *s, unsigned at)
{
	const struct tensor_layout *l = s->out;
	struct offset_support sup;
	bool adjacent =
	    at == l->sizes + 8u + 16u * l->inline_dims || at + 8 == l->numel || at == l->numel + 8u;
	return adjacent && offset_support(s, at, &sup) && sup.full && sup.nonzero;
}

static void solve_offset(struct solve *s)
{
	const int32_t fact = s->facts->storage_offset;
	struct tensor_layout *l = s->out;
	struct offset_support sup;
	unsigned count = 0, data = LAYOUT_NONE;
	if (l->dtype == LAYOUT_NONE || l->storage_nbytes == LAYOUT_NONE) {
		s->conflict |= fact == FACT_CONFLICT ? LAYOUT_OFFSET : 0;
		return;
	}
	for (unsigned at = 8; at + 8 <= WIN_MAX; at += 8) {
		if (is_shape_word(s, at, 8) || overlaps(at, 8, l->dtype, 2) ||
		    (l->device != LAYOUT_NONE && overlaps(at, 8, l->device, 2)) ||
		    !offset_shown(s, at))
			continue;
		data = at;
		count++;
	}
	bool fits = fact >= 8 && fact + 8 <= WIN_MAX && !is_shape_word(s, (unsigned)fact, 8) &&
		    offset_support(s, (unsigned)fact, &sup);
	l->storage_offset =
	    (uint16_t)combine(s, LAYOUT_OFFSET, fact, fits, count == 1 ? data : LAYOUT_NONE);
}

/* Whether a tensor that fills its storage has a data address there. */
static bool has_data(const struct solve *s, unsigned at)
{
	struct pair c = {s->out->dtype, s->out->storage_nbytes};
	for (size_t i = 0; i < s->n; i++)
		if (is_anchor(&s->sample[i], &c) && word_at(s->sample[i].storage, at))
			return true;
	return false;
}

/* The data pointer precedes the storage size with the device between them; where that device
 * matches the tensor's, the pointer is confirmed. */
static void solve_data(struct solve *s)
{
	const int32_t fact = s->facts->data_ptr;
	struct tensor_layout *l = s->out;
	unsigned data = LAYOUT_NONE;
	if (l->storage_nbytes == LAYOUT_NONE || l->device == LAYOUT_NONE) {
		s->conflict |= fact == FACT_CONFLICT ? LAYOUT_DATA_PTR : 0;
		return;
	}
	if (same_device(s, l->device) && has_data(s, l->storage_nbytes - DATA_TO_NBYTES))
		data = l->storage_nbytes - DATA_TO_NBYTES;
	bool fits = fact >= 8 && fact + 8 <= PART_MAX;
	if (fits && data == LAYOUT_NONE && !has_data(s, (unsigned)fact))
		return;
	l->storage_data_ptr = (uint16_t)combine(s, LAYOUT_DATA_PTR, fact, fits, data);
}

static void set_bits(uint8_t *bytes, unsigned at, unsigned off, unsigned len)
{
	for (unsigned i = 0; i < len; i++)
		if (off != LAYOUT_NONE && off + i >= at && off + i < at + ORDINARY_BYTES)
			bytes[off + i - at] = 0xff;
}

/* Collect the bits set in tensors that fill a storage of real memory: their size and device are
 * known to be the plain fields, whatever flags they have. Bytes of known fields count as always
 * set. */
static void solve_ordinary(struct solve *s)
{
	struct tensor_layout *l = s->out;
	struct pair c = {l->dtype, l->storage_nbytes};
	unsigned at = l->device & ~7u;
	if (s->facts->custom_shape.n && s->facts->custom_device.n)
		return;
	if (l->device == LAYOUT_NONE || l->storage_data_ptr == LAYOUT_NONE ||
	    at + ORDINARY_BYTES > WIN_MAX)
		return;
	l->ordinary_at = (uint16_t)at;
	set_bits(l->ordinary, at, l->dtype, 2);
	set_bits(l->ordinary, at, l->device, 2);
	set_bits(l->ordinary, at, l->storage_offset, 8);
	set_bits(l->ordinary, at, l->numel, 8);
	set_bits(l->ordinary, at, l->sizes, 8 + 16u * l->inline_dims);
	for (size_t i = 0; i < s->n; i++) {
		const struct layout_sample *p = &s->sample[i];
		if (!p->storage || !is_anchor(p, &c) || !word_at(p->storage, l->storage_data_ptr))
			continue;
		for (unsigned k = 0; k < ORDINARY_BYTES; k++)
			l->ordinary[k] |= p->impl[at + k];
	}
}

void solve_elements(struct solve *s)
{
	if (s->out->sizes == LAYOUT_NONE)
		return;
	solve_dtype(s);
	solve_device(s);
	solve_offset(s);
	solve_data(s);
	solve_ordinary(s);
}
