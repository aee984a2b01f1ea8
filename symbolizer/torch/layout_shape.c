#include "symbolizer/torch/internal.h"

enum {
	MAX_DIMS = 64,	 /* ATen/core/TensorBase.h */
	INLINE_DIMS = 5, /* c10/core/impl/SizesAndStrides.h */
	SHAPES_NEEDED = 2,
};

static const uint64_t POINTER_MIN = 0x1000, POINTER_MAX = 1ULL << 47;

/* A candidate: sizes at `at`. */
struct shape {
	unsigned at, inline_dims;
	unsigned ndim;
	bool outline;
	int64_t numel, extent;
	bool contiguous;
};

static unsigned block_len(unsigned inline_dims)
{
	return 8 + 16 * inline_dims;
}

static bool add_extent(int64_t *extent, int64_t size, int64_t stride)
{
	int64_t step;
	return !__builtin_mul_overflow(size - 1, stride, &step) &&
	       !__builtin_add_overflow(*extent, step, extent) && *extent < INT64_MAX / 64;
}

/* Read the candidate shape; false if it is not a valid one. */
static bool shape_at(const uint8_t *impl, struct shape *sh)
{
	uint64_t n = word_at(impl, sh->at);
	unsigned sizes = sh->at + 8, strides = sizes + 8 * sh->inline_dims;
	sh->ndim = (unsigned)n;
	sh->outline = n > sh->inline_dims;
	if (n > MAX_DIMS)
		return false;
	if (sh->outline) {
		uint64_t p = word_at(impl, sizes);
		return p >= POINTER_MIN && p < POINTER_MAX && !(p & 7);
	}
	int64_t expect = 1;
	sh->numel = 1;
	sh->extent = 1;
	sh->contiguous = true;
	for (unsigned d = (unsigned)n; d-- > 0;) {
		int64_t size = (int64_t)word_at(impl, sizes + 8 * d);
		int64_t stride = (int64_t)word_at(impl, strides + 8 * d);
		if (size < 0 || stride < 0 || __builtin_mul_overflow(sh->numel, size, &sh->numel))
			return false;
		if (size > 1 && stride != expect)
			sh->contiguous = false;
		if (size > 0 && !add_extent(&sh->extent, size, stride))
			return false;
		expect = sh->numel;
	}
	if (!sh->numel) {
		sh->extent = 0;
		sh->contiguous = false;
	}
	return true;
}

/* Number of different shapes, up to SHAPES_NEEDED, that support `numel` at that offset with the
 * sizes at sh->at: contiguous, of at least two dimensions and two elements. `any` counts all
 * nonempty samples that agree. -1 if a sample contradicts. */
static int support(const struct solve *s, struct shape *sh, unsigned numel, unsigned *any)
{
	int64_t first = 0;
	int count = 0;
	*any = 0;
	for (size_t i = 0; i < s->n; i++) {
		const uint8_t *impl = s->sample[i].impl;
		if (!shape_at(impl, sh))
			return -1;
		if (sh->outline)
			continue;
		if ((int64_t)word_at(impl, numel) != sh->numel)
			return -1;
		*any += sh->numel > 0;
		if (sh->ndim < 2 || sh->numel < 2 || !sh->contiguous || sh->numel == first)
			continue;
		if (count < SHAPES_NEEDED)
			count++;
		first = sh->numel;
	}
	return count;
}

static bool is_taken(const struct solve *s, unsigned off, unsigned len)
{
	const struct tensor_layout *l = s->out;
	return (l->storage != LAYOUT_NONE && overlaps(off, len, l->storage, 8)) ||
	       (l->autograd_meta != LAYOUT_NONE && overlaps(off, len, l->autograd_meta, 8));
}

/* Whether there is enough evidence for sizes at sh->at and numel at `numel`. */
static bool accepted(struct solve *s, struct shape *sh, unsigned numel)
{
	const struct layout_facts *f = s->facts;
	unsigned any;
	int n = support(s, sh, numel, &any);
	if (n < 0)
		return false;
	bool known = f->sizes >= 0 && f->numel >= 0;
	return known ? any > 0 : n >= SHAPES_NEEDED;
}

static bool fact_allows(int32_t fact, unsigned off)
{
	return fact < 0 || (unsigned)fact == off;
}

unsigned layout_inline_dims(const struct layout_facts *f)
{
	int64_t bytes = (int64_t)f->strides_data - f->sizes_data;
	if (f->sizes_data < 0 || f->strides_data < 0 || bytes <= 0 || bytes % 8 ||
	    bytes / 8 > INLINE_DIMS_MAX)
		return INLINE_DIMS;
	return (unsigned)(bytes / 8);
}

static unsigned numel_candidates(struct solve *s, struct shape *sh, unsigned *found)
{
	unsigned count = 0;
	for (unsigned off = 8; off + 8 <= WIN_MAX; off += 8) {
		if (!fact_allows(s->facts->numel, off) || is_taken(s, off, 8) ||
		    overlaps(off, 8, sh->at, block_len(sh->inline_dims)))
			continue;
		if (accepted(s, sh, off)) {
			*found = off;
			count++;
		}
	}
	return count;
}

static void fill_samples(struct solve *s, struct shape *sh)
{
	for (size_t i = 0; i < s->n; i++) {
		struct layout_sample *p = &s->sample[i];
		p->has_shape = shape_at(p->impl, sh) && !sh->outline;
		p->contiguous = p->has_shape && sh->contiguous;
		p->ndim = (uint8_t)sh->ndim;
		p->numel = p->has_shape ? sh->numel : 0;
		p->extent = p->has_shape ? sh->extent : 0;
	}
}

/* Whether the samples contradict the offsets that the accessors give. */
static bool facts_refuted(struct solve *s, struct shape *sh)
{
	const struct layout_facts *f = s->facts;
	unsigned any;
	if (f->sizes < 0 || f->numel < 0 || !s->n)
		return false;
	sh->at = (unsigned)f->sizes;
	return sh->at + block_len(sh->inline_dims) > WIN_MAX || f->numel + 8 > WIN_MAX ||
	       support(s, sh, (unsigned)f->numel, &any) < 0;
}

void solve_shape(struct solve *s)
{
	const struct layout_facts *f = s->facts;
	struct shape sh = {.inline_dims = layout_inline_dims(f)};
	unsigned count = 0, sizes = 0, numel = 0;
	if (f->sizes == FACT_CONFLICT || f->numel == FACT_CONFLICT ||
	    (f->sizes >= 0 && f->sizes_data >= 0 && f->sizes_data != f->sizes + 8)) {
		s->conflict |= LAYOUT_SIZES;
		return;
	}
	for (sh.at = 8; sh.at + block_len(sh.inline_dims) <= WIN_MAX; sh.at += 8) {
		unsigned off = 0;
		if (!fact_allows(f->sizes, sh.at) || is_taken(s, sh.at, block_len(sh.inline_dims)))
			continue;
		unsigned more = numel_candidates(s, &sh, &off);
		if (more) {
			sizes = sh.at;
			numel = off;
		}
		count += more;
	}
	if (count == 1) {
		s->out->sizes = (uint16_t)sizes;
		s->out->numel = (uint16_t)numel;
		s->out->inline_dims = (uint16_t)sh.inline_dims;
		sh.at = sizes;
		fill_samples(s, &sh);
	} else if (!count && facts_refuted(s, &sh)) {
		s->conflict |= LAYOUT_SIZES;
	}
}
