/* Internals of layout_solve: evidence from the snapshots alone. */
#ifndef SYMBOLIZER_TORCH_INTERNAL_H
#define SYMBOLIZER_TORCH_INTERNAL_H

#include "symbolizer/torch/layout.h"

#define CLASS_TENSOR "N3c1010TensorImplE"
#define CLASS_STORAGE "N3c1011StorageImplE"
#define CLASS_META "N5torch8autograd12AutogradMetaE"
#define CLASS_VIEW_META "N5torch8autograd22DifferentiableViewMetaE"
#define CLASS_NODE "N5torch8autograd4NodeE"
#define CLASS_ACCUMULATE "N5torch8autograd14AccumulateGradE"

/* One plain tensor among the snapshots. */
struct layout_sample {
	const uint8_t *impl;
	const uint8_t *storage; /* PART_MAX bytes, NULL: none */
	/* derived from the solved shape */
	bool has_shape;	 /* false: sizes are not inline */
	bool contiguous; /* row-major, and not empty */
	uint8_t ndim;
	int64_t numel, extent; /* elements; extent: first to last, 0 if empty */
};

struct solve {
	const struct layout_facts *facts; /* never NULL */
	struct layout_sample *sample;
	size_t n;
	struct tensor_layout *out;
	uint32_t conflict; /* LAYOUT_* with contradicting evidence */
};

static inline uint64_t word_at(const uint8_t *p, unsigned off)
{
	uint64_t w;
	__builtin_memcpy(&w, p + off, sizeof(w));
	return w;
}

static inline uint16_t half_at(const uint8_t *p, unsigned off)
{
	uint16_t w;
	__builtin_memcpy(&w, p + off, sizeof(w));
	return w;
}

/* Whether [a, a + alen) and [b, b + blen) intersect. */
static inline bool overlaps(unsigned a, unsigned alen, unsigned b, unsigned blen)
{
	return a < b + blen && b < a + alen;
}

/* Find sizes and numel; fill the shapes of the samples. */
void solve_shape(struct solve *s);

/* Find dtype and nbytes, device, storage_offset, data_ptr. Needs the shapes. */
void solve_elements(struct solve *s);

#endif
