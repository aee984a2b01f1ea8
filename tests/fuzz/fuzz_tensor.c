/* Fuzzes the bytes of tensors: decoding stays within them, and in a decoded shape the product is
 * numel. The input also corrupts the snapshots that a layout is learned from and the type
 * information, and serves as the code of an accessor. */
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/cfg.h"
#include "symbolizer/event/names.h"
#include "symbolizer/torch/layout.h"
#include "tests/unit/faketorch.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { SNAPSHOTS = 24 };

static void check(const struct tensor *t)
{
	const struct tensor_meta *m = &t->meta;
	int64_t n = 1;

	if (!(m->unknown & TENSOR_NO_SHAPE)) {
		for (unsigned d = 0; d < m->ndim; d++)
			if (m->shape[d] < 0 || __builtin_mul_overflow(n, m->shape[d], &n))
				abort();
		if (n != m->numel)
			abort();
	} else if (m->ndim || m->numel || m->shape || m->stride ||
		   !(m->unknown & TENSOR_NO_STRIDE)) {
		abort();
	}
	if (!(m->unknown & TENSOR_NO_DTYPE) && names_itemsize(m->dtype) <= 0)
		abort();
	if ((m->unknown & TENSOR_NO_DATA_PTR) && t->data_ptr)
		abort();
}

/* Corrupt one byte of `p` for every three bytes of input. */
static size_t spoil(uint8_t *p, size_t len, const unsigned char *data, size_t size, size_t count)
{
	size_t i = 0;

	for (; i + 3 <= size && count--; i += 3)
		p[(data[i] | (size_t)data[i + 1] << 8) % len] ^= data[i + 2];
	return i;
}

static void decode(const struct tensor_layout *l, struct tensor_raw raw, struct rtti *r,
		   const unsigned char *data, size_t size)
{
	struct arena a = {0};
	struct tensor t;
	struct tensor_extra x;

	tensor_decode(l, &raw, r, &a, &t, &x);
	check(&t);
	raw.outline = data;
	raw.outline_len = (uint32_t)size;
	if (size > 4) {
		raw.impl_len = data[0];
		raw.storage_len = data[1];
		raw.meta_len = data[2];
		raw.meta_from = data[3] & 0x38;
		if (raw.impl_len > WIN_MAX)
			raw.impl_len = WIN_MAX;
		if (raw.storage_len > PART_MAX)
			raw.storage_len = PART_MAX;
		if (raw.meta_len > PART_MAX - raw.meta_from)
			raw.meta_len = PART_MAX - raw.meta_from;
	}
	tensor_decode(l, &raw, r, &a, &t, &x);
	check(&t);
	arena_free(&a);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static struct fake f;
	static struct tensor_snapshot s[SNAPSHOTS];
	static struct paths p;
	struct invented in = fake_layout(size ? data[0] : 0);
	struct tensor_layout l;

	paths_walk(data, size, 0, &p);
	fake_init(&f, &in, size ? data[0] : 0);
	for (unsigned i = 0; i < SNAPSHOTS; i++) {
		struct fake_tensor t = fake_ordinary(&f);
		fake_snapshot(&f, &t, &s[i]);
	}
	struct rtti *r = rtti_new(&f.mem);
	if (!r)
		return 0;
	layout_solve(s, SNAPSHOTS, NULL, r, &f.mem, &l, NULL);
	size_t used = spoil((uint8_t *)&s[0], sizeof(s[0]), data, size, 20);
	decode(&l, tensor_raw_of_snapshot(&l, &s[0]), r, data, size);
	rtti_free(r);

	used += spoil(f.bytes, f.used, data + used, size - used, 4);
	spoil((uint8_t *)s, sizeof(s), data + used, size - used, 40);
	r = rtti_new(&f.mem);
	if (!r)
		return 0;
	layout_solve(s, SNAPSHOTS, NULL, r, &f.mem, &l, NULL);
	for (unsigned i = 0; i < 4; i++)
		decode(&l, tensor_raw_of_snapshot(&l, &s[i]), r, data, size);
	rtti_free(r);
	return 0;
}
