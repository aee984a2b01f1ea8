#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>

#include "symbolizer/torch/layout.h"
#include "tests/unit/faketorch.h"

enum { MANY = 64 };

static struct fake fake;
static struct rtti *rtti;
static struct tensor_snapshot snap[MANY];

static void begin(uint32_t seed)
{
	struct invented in = fake_layout(seed);
	fake_init(&fake, &in, seed + 1);
	rtti_free(rtti);
	rtti = rtti_new(&fake.mem);
	assert_non_null(rtti);
}

static int end(void **state)
{
	(void)state;
	rtti_free(rtti);
	rtti = NULL;
	return 0;
}

static void fill_ordinary(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct fake_tensor t = fake_ordinary(&fake);
		fake_snapshot(&fake, &t, &snap[i]);
	}
}

static struct layout_facts true_facts(void)
{
	const struct invented *in = &fake.in;
	return (struct layout_facts){
	    .storage = (int32_t)in->storage,
	    .autograd_meta = (int32_t)in->autograd,
	    .sizes = (int32_t)in->sizes,
	    .sizes_data = (int32_t)in->sizes + 8,
	    .strides_data = (int32_t)in->sizes + 48,
	    .storage_offset = (int32_t)in->offset,
	    .numel = (int32_t)in->numel,
	    .dtype = (int32_t)in->dtype,
	    .device = (int32_t)in->device,
	    .device_engaged = (int32_t)in->engaged,
	    .key_set = FACT_NONE,
	    .data_ptr = (int32_t)in->data,
	    .requires_grad_slot = 8,
	    .pynode_obj = FACT_NONE,
	};
}

static void right_or_none(unsigned got, unsigned want, const char *what)
{
	if (got != LAYOUT_NONE && got != want)
		fail_msg("%s found at %#x, is at %#x", what, got, want);
}

/* Every offset found is the invented one. */
static void assert_true_layout(const struct tensor_layout *l)
{
	const struct invented *in = &fake.in;
	right_or_none(l->storage, in->storage, "storage");
	right_or_none(l->autograd_meta, in->autograd, "autograd_meta");
	right_or_none(l->sizes, in->sizes, "sizes");
	right_or_none(l->numel, in->numel, "numel");
	right_or_none(l->storage_offset, in->offset, "storage_offset");
	right_or_none(l->dtype, in->dtype, "dtype");
	right_or_none(l->device, in->device, "device");
	right_or_none(l->device_engaged, in->engaged, "device_engaged");
	right_or_none(l->storage_data_ptr, in->data, "storage_data_ptr");
	right_or_none(l->storage_nbytes, in->data + 32, "storage_nbytes");
	right_or_none(l->meta_grad_fn, in->grad_fn, "grad_fn");
	right_or_none(l->meta_requires_grad, in->requires_grad, "requires_grad");
	right_or_none(l->view_base, in->view_base, "view_base");
	right_or_none(l->view_has_base, in->view_has_base, "view_has_base");
}

static int solve(unsigned n, const struct layout_facts *facts, struct tensor_layout *l)
{
	struct err e = {0};
	int rc = layout_solve(snap, n, facts, rtti, &fake.mem, l, &e);
	assert_true_layout(l);
	assert_int_equal(e.code, rc);
	return rc;
}

/* Random layouts are found from the tensors alone and with accessors. */
static void test_invented(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 60; seed++) {
		struct tensor_layout l;
		begin(seed);
		fill_ordinary(MANY);
		int rc = solve(MANY, NULL, &l);
		if (rc)
			fail_msg("seed %u: %d, unknown %#x", seed, rc, l.unknown);
		assert_true(l.solved);
		assert_true(l.win_len > l.sizes && l.win_len <= WIN_MAX);
		struct layout_facts f = true_facts();
		assert_int_equal(solve(MANY, &f, &l), 0);
	}
}

/* Decoding a snapshot gives the tensor it was made from. */
static void test_decode(void **state)
{
	struct arena a = {0};
	(void)state;
	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct tensor_layout l;
		struct tensor t;
		begin(seed);
		fill_ordinary(MANY);
		assert_int_equal(solve(MANY, NULL, &l), 0);
		for (unsigned i = 0; i < MANY; i++) {
			struct fake_tensor want = fake_ordinary(&fake);
			fake_snapshot(&fake, &want, &snap[0]);
			struct tensor_raw raw = tensor_raw_of_snapshot(&l, &snap[0]);
			if (want.meta_vtable == fake.view)
				raw.base = BASE_NO_GRAD;
			assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, NULL), TENSOR_OK);
			assert_int_equal(t.meta.unknown & TENSOR_NO_SHAPE, 0);
			assert_int_equal(t.meta.ndim, want.ndim);
			assert_memory_equal(t.meta.shape, want.size, 8 * want.ndim);
			assert_memory_equal(t.meta.stride, want.stride, 8 * want.ndim);
			assert_int_equal(t.meta.numel, fake_numel(&want));
			assert_int_equal(t.meta.dtype, want.dtype);
			assert_int_equal(t.meta.requires_grad, want.requires_grad);
			assert_int_equal(t.storage_offset, want.offset);
			assert_int_equal(t.data_ptr,
					 want.data + (uint64_t)want.offset * want.itemsize);
			arena_reset(&a);
		}
	}
	arena_free(&a);
}

/* Tensors of a single kind leave several layouts possible: more are needed. With accessors one is
 * enough. */
static void test_too_little(void **state)
{
	static const struct fake_tensor kinds[] = {
	    {.ndim = 0, .dtype = 6, .itemsize = 4, .data = 0x7f1200000040},
	    {.ndim = 1,
	     .size = {1},
	     .stride = {1},
	     .dtype = 6,
	     .itemsize = 4,
	     .data = 0x7f1200000040},
	    {.ndim = 1,
	     .size = {8},
	     .stride = {1},
	     .dtype = 6,
	     .itemsize = 4,
	     .data = 0x7f1200000040},
	};
	(void)state;
	for (uint32_t seed = 1; seed <= 20; seed++)
		for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			struct tensor_layout l;
			begin(seed);
			for (unsigned i = 0; i < MANY; i++)
				fake_snapshot(&fake, &kinds[k], &snap[i]);
			assert_int_equal(solve(MANY, NULL, &l), -EAGAIN);
			assert_false(l.solved);
			struct layout_facts f = true_facts();
			assert_int_equal(solve(1, &f, &l), -EAGAIN); /* no AutogradMeta yet */
			assert_true(l.solved);
			assert_int_equal(l.unknown &
					     ~(uint32_t)(LAYOUT_META | LAYOUT_VIEW | LAYOUT_NODE |
							 LAYOUT_KEY_SET | LAYOUT_FLAGS),
					 0);
		}
	assert_int_equal(solve(0, NULL, &(struct tensor_layout){0}), -EAGAIN);
}

/* After the objects lie others of the same kind, whose values fit these tensors better than their
 * own: they must not be used. */
static void test_neighbours(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 40; seed++) {
		struct tensor_layout l;
		begin(seed);
		const struct invented *in = &fake.in;
		unsigned part = (in->storage - SNAPSHOT_FIRST) / 8, size = in->data + 0x28;
		for (unsigned i = 0; i < MANY; i++) {
			struct fake_tensor t = fake_ordinary(&fake);
			uint64_t bytes = (uint64_t)(fake_numel(&t) * t.itemsize);
			t.offset = 0;
			t.spare = 1000;
			fake_snapshot(&fake, &t, &snap[i]);
			uint8_t *own = snap[i].at[part].bytes;
			memcpy(own + size, own, size);
			fake_word(own, 2 * size - 8, bytes);
			fake_word(snap[i].impl, WIN_MAX - 8, 1 + i);
		}
		struct layout_facts f = true_facts(), less = f;
		less.data_ptr = less.dtype = less.storage_offset = FACT_NONE;
		for (unsigned n = 1; n <= MANY; n *= 2) {
			solve(n, NULL, &l);
			assert_int_equal(l.storage_nbytes, LAYOUT_NONE);
			solve(n, &less, &l);
			assert_int_equal(l.storage_nbytes, LAYOUT_NONE);
			solve(n, &f, &l);
			assert_int_equal(l.storage_nbytes, LAYOUT_NONE);
		}
		/* Now one that fills its storage. */
		struct fake_tensor t = {.ndim = 2, .size = {3, 5}, .dtype = 6, .itemsize = 4};
		fake_contiguous(&t);
		t.data = 0x7f1200000040;
		fake_snapshot(&fake, &t, &snap[0]);
		fake_word(snap[0].impl, WIN_MAX - 8, 0);
		solve(MANY, &less, &l);
		assert_int_equal(l.storage_offset, LAYOUT_NONE);
		solve(MANY, &f, &l);
		assert_int_equal(l.storage_nbytes, in->data + 32);
		assert_int_equal(l.storage_offset, in->offset);
	}
}

/* Without a tensor that has an AutogradMeta its offset is unknown; requires_grad is then unknown,
 * never false. */
static void test_no_autograd(void **state)
{
	struct tensor_layout l;
	struct tensor t;
	struct arena a = {0};
	(void)state;
	begin(7);
	for (unsigned i = 0; i < MANY; i++) {
		struct fake_tensor one = fake_ordinary(&fake);
		one.meta_vtable = 0;
		fake_snapshot(&fake, &one, &snap[i]);
	}
	assert_int_equal(solve(MANY, NULL, &l), -EAGAIN);
	assert_true(l.solved && (l.unknown & LAYOUT_AUTOGRAD));
	struct tensor_raw raw = tensor_raw_of_snapshot(&l, &snap[0]);
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, NULL), TENSOR_OK);
	assert_true(t.meta.unknown & TENSOR_NO_REQUIRES_GRAD);
	assert_false(t.meta.unknown & TENSOR_NO_SHAPE);
	/* an accessor tells: null means no grad */
	struct layout_facts f = true_facts();
	assert_int_equal(solve(MANY, &f, &l), -EAGAIN);
	raw = tensor_raw_of_snapshot(&l, &snap[0]);
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, NULL), TENSOR_OK);
	assert_false(t.meta.unknown & TENSOR_NO_REQUIRES_GRAD);
	assert_false(t.meta.requires_grad);
	arena_free(&a);
}

/* Corrupted snapshots make the result uncertain, never wrong. */
static void test_corrupted(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 400; seed++) {
		struct tensor_layout l;
		begin(seed % 40 + 1);
		fake.random = seed * 7919;
		fill_ordinary(MANY);
		unsigned hits = 1 + fake_random(&fake, 40);
		for (unsigned i = 0; i < hits; i++) {
			struct tensor_snapshot *s = &snap[fake_random(&fake, MANY)];
			unsigned at = fake_random(&fake, WIN_MAX);
			if (fake_random(&fake, 3))
				s->impl[at] ^= (uint8_t)(1 + fake_random(&fake, 255));
			else
				s->at[fake_random(&fake, 3)].bytes[at % PART_MAX] =
				    (uint8_t)fake_random(&fake, 256);
		}
		solve(MANY, NULL, &l);
	}
}

/* If an accessor contradicts the tensors, neither is used. */
static void test_conflict(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct tensor_layout l;
		begin(seed);
		fill_ordinary(MANY);
		struct layout_facts f = true_facts();
		int32_t *const fact[] = {&f.storage, &f.autograd_meta,	&f.sizes,
					 &f.numel,   &f.storage_offset, &f.dtype,
					 &f.device,  &f.data_ptr};
		for (unsigned i = 0; i < sizeof(fact) / sizeof(fact[0]); i++) {
			int32_t right = *fact[i];
			*fact[i] = right + 8;
			int rc = solve(MANY, &f, &l);
			if (rc != -EPROTO && rc != -EAGAIN)
				fail_msg("seed %u fact %u: %d", seed, i, rc);
			*fact[i] = FACT_CONFLICT;
			assert_int_equal(solve(MANY, &f, &l), -EPROTO);
			*fact[i] = right;
		}
	}
}

static void test_learn_meta(void **state)
{
	struct tensor_layout l;
	struct layout_facts f;
	(void)state;
	begin(3);
	struct fake_tensor t = fake_ordinary(&fake);
	t.meta_vtable = 0;
	fake_snapshot(&fake, &t, &snap[0]);
	f = true_facts();
	solve(1, &f, &l);
	assert_true(l.unknown & LAYOUT_META);
	assert_int_equal(layout_learn_meta(&l, fake.other, rtti, &fake.mem), -ENOENT);
	assert_int_equal(layout_learn_meta(&l, 0x1234, rtti, &fake.mem), -ENOENT);
	assert_true(l.unknown & LAYOUT_META);
	assert_int_equal(layout_learn_meta(&l, fake.view, rtti, &fake.mem), 0);
	assert_int_equal(l.meta_grad_fn, fake.in.grad_fn);
	assert_int_equal(l.meta_requires_grad, fake.in.requires_grad);
	assert_int_equal(l.view_base, fake.in.view_base);
	assert_int_equal(l.view_has_base, fake.in.view_has_base);
	assert_int_equal(l.view_vtable, fake.view);
	assert_int_equal(layout_learn_meta(&l, fake.meta, rtti, &fake.mem), 0);
	assert_int_equal(l.meta_vtable, fake.meta);
	assert_int_equal(l.unknown & (LAYOUT_META | LAYOUT_VIEW), 0);
	/* contradictory fields are unknown from then on */
	l.meta_grad_fn += 8;
	assert_int_equal(layout_learn_meta(&l, fake.meta, rtti, &fake.mem), -EPROTO);
	assert_int_equal(l.meta_grad_fn, LAYOUT_NONE);
	assert_true(l.unknown & LAYOUT_META);
}

static struct tensor_raw one_raw(struct tensor_layout *l)
{
	struct fake_tensor t = {.ndim = 2,
				.size = {3, 4},
				.stride = {4, 1},
				.dtype = 6,
				.itemsize = 4,
				.data = 0x7f1200000040};
	begin(5);
	fill_ordinary(MANY);
	assert_int_equal(solve(MANY, NULL, l), 0);
	fake_snapshot(&fake, &t, &snap[0]);
	return tensor_raw_of_snapshot(l, &snap[0]);
}

/* Overwrite one word; returns what becomes unknown. */
static unsigned unknown_with(unsigned off, uint64_t w)
{
	struct tensor_layout l;
	struct tensor_raw raw = one_raw(&l);
	struct arena a = {0};
	struct tensor t;
	memcpy(snap[0].impl + off, &w, 8);
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, NULL), TENSOR_OK);
	arena_free(&a);
	return t.meta.unknown;
}

static void test_implausible(void **state)
{
	const unsigned no_shape =
	    TENSOR_NO_SHAPE | TENSOR_NO_STRIDE | TENSOR_NO_OFFSET | TENSOR_NO_DATA_PTR;
	struct tensor_layout l;
	(void)state;
	one_raw(&l);
	unsigned s = l.sizes;
	assert_int_equal(unknown_with(s, 2), 0);
	assert_int_equal(unknown_with(s, 65), no_shape);
	assert_int_equal(unknown_with(s, UINT64_MAX), no_shape);
	assert_int_equal(unknown_with(s, 6), no_shape);	    /* out of line, not read */
	assert_int_equal(unknown_with(s + 8, 5), no_shape); /* product is not numel */
	assert_int_equal(unknown_with(s + 8, UINT64_MAX), no_shape);
	assert_int_equal(unknown_with(s + 8, 1ULL << 62), no_shape); /* overflows */
	assert_int_equal(unknown_with(l.numel, 13), no_shape);
	assert_int_equal(unknown_with(s + 48, 1ULL << 63), TENSOR_NO_STRIDE);
	assert_int_equal(unknown_with(l.storage_offset, 1ULL << 63),
			 TENSOR_NO_OFFSET | TENSOR_NO_DATA_PTR);
	assert_int_equal(unknown_with(l.storage, 0), TENSOR_NO_DATA_PTR);
}

static void test_short_reads(void **state)
{
	struct tensor_layout l;
	struct tensor_raw raw = one_raw(&l);
	struct arena a = {0};
	struct tensor t;
	(void)state;
	for (uint32_t len = 0; len <= WIN_MAX; len++) {
		raw.impl_len = len;
		raw.storage_len = len;
		raw.meta_len = len;
		int rc = tensor_decode(&l, &raw, rtti, &a, &t, NULL);
		assert_int_equal(rc, len < 8 ? -EINVAL : TENSOR_OK);
		assert_true((t.meta.unknown != 0) ==
				(len < l.win_len && len < l.storage_data_ptr + 8u) ||
			    t.meta.unknown || len >= l.sizes + 88u);
		arena_reset(&a);
	}
	raw.impl = NULL;
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, NULL), -EINVAL);
	arena_free(&a);
}

static void test_classes(void **state)
{
	struct tensor_layout l;
	struct tensor_raw raw = one_raw(&l);
	struct arena a = {0};
	struct tensor t;
	struct tensor_extra x;
	(void)state;
	memcpy(snap[0].impl, &fake.undefined, 8);
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, &x), TENSOR_UNDEFINED);
	memcpy(snap[0].impl, &fake.storage, 8);
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, &x), -EINVAL);
	/* a subclass may store its shape elsewhere */
	memcpy(snap[0].impl, &fake.derived, 8);
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, &x), TENSOR_OK);
	assert_string_equal(x.class_name, "N5vendr10TensorImplE");
	assert_true(t.meta.unknown & TENSOR_NO_SHAPE);
	assert_true(t.meta.unknown & TENSOR_NO_DEVICE);
	assert_true(t.meta.unknown & TENSOR_NO_LAYOUT);
	assert_false(t.meta.unknown & TENSOR_NO_DTYPE);
	/* unless a flag says that it does not */
	l.custom_shape =
	    (struct flag_tests){.n = 1, .complete = true, .test = {{.off = 8, .mask = 1}}};
	snap[0].impl[8] = 0;
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, &x), TENSOR_OK);
	assert_false(t.meta.unknown & TENSOR_NO_SHAPE);
	snap[0].impl[8] = 1;
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, &x), TENSOR_OK);
	assert_true(t.meta.unknown & TENSOR_NO_SHAPE);
	arena_free(&a);
}

/* Six dimensions: sizes and strides are out of line, behind the pointer after the count. */
static void test_outline(void **state)
{
	const int64_t dims[12] = {1, 2, 1, 3, 1, 2, 12, 6, 6, 2, 2, 1};
	struct tensor_layout l;
	struct tensor_raw raw = one_raw(&l);
	struct arena a = {0};
	struct tensor t;
	(void)state;
	fake_word(snap[0].impl, l.sizes, 6);
	fake_word(snap[0].impl, l.sizes + 8u, 0x555700000000);
	raw.outline = (const uint8_t *)dims;
	raw.outline_len = sizeof(dims);
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, NULL), TENSOR_OK);
	assert_int_equal(t.meta.unknown, 0);
	assert_int_equal(t.meta.ndim, 6);
	assert_memory_equal(t.meta.shape, dims, 48);
	assert_memory_equal(t.meta.stride, dims + 6, 48);
	raw.outline_len--;
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, NULL), TENSOR_OK);
	assert_true(t.meta.unknown & TENSOR_NO_SHAPE);
	arena_free(&a);
}

/* A view without a grad of its own: only its base decides. */
static void test_view(void **state)
{
	uint8_t meta[0x180] = {0};
	struct tensor_layout l;
	struct tensor_raw raw = one_raw(&l);
	struct arena a = {0};
	struct tensor t;
	struct tensor_extra x;
	(void)state;
	fake_word(snap[0].impl, l.autograd_meta, 0x555600000000);
	fake_word(meta, 0, fake.view);
	raw.meta = meta;
	raw.meta_len = sizeof(meta);
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, &x), TENSOR_OK);
	assert_int_equal(t.meta.unknown, 0);
	assert_false(t.meta.requires_grad);
	meta[l.view_has_base] = 1;
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, &x), TENSOR_OK);
	assert_int_equal(t.meta.unknown, TENSOR_NO_REQUIRES_GRAD);
	raw.base = BASE_REQUIRES_GRAD;
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, &x), TENSOR_OK);
	assert_true(!t.meta.unknown && t.meta.requires_grad);
	raw.base = BASE_NO_GRAD;
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, &x), TENSOR_OK);
	assert_true(!t.meta.unknown && !t.meta.requires_grad);
	fake_word(meta, l.meta_grad_fn, 0x555800000000);
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, &x), TENSOR_OK);
	assert_true(!t.meta.unknown && t.meta.requires_grad);
	assert_int_equal(x.grad_fn, 0x555800000000);
	/* a metadata class that the layout has not seen */
	fake_word(meta, l.meta_grad_fn, 0);
	raw.base = BASE_NOT_READ;
	l.view_base = l.view_has_base = LAYOUT_NONE;
	assert_int_equal(tensor_decode(&l, &raw, rtti, &a, &t, &x), TENSOR_OK);
	assert_int_equal(x.learn_meta, fake.view);
	assert_true(t.meta.unknown & TENSOR_NO_REQUIRES_GRAD);
	arena_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(test_invented, end),
	    cmocka_unit_test_teardown(test_decode, end),
	    cmocka_unit_test_teardown(test_too_little, end),
	    cmocka_unit_test_teardown(test_neighbours, end),
	    cmocka_unit_test_teardown(test_no_autograd, end),
	    cmocka_unit_test_teardown(test_corrupted, end),
	    cmocka_unit_test_teardown(test_conflict, end),
	    cmocka_unit_test_teardown(test_learn_meta, end),
	    cmocka_unit_test_teardown(test_implausible, end),
	    cmocka_unit_test_teardown(test_short_reads, end),
	    cmocka_unit_test_teardown(test_classes, end),
	    cmocka_unit_test_teardown(test_outline, end),
	    cmocka_unit_test_teardown(test_view, end),
	};
	return unit_run(tests, NULL, NULL);
}
