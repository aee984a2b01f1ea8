/* Accessors like libtorch's, compiled here, and the facts derived from their code. */
#define _GNU_SOURCE

#include "tests/unit/unit.h"

#include "symbolizer/code/cfg.h"
#include "symbolizer/torch/layout.h"

/* Compiled as in a library, whatever the test's own flags. */
#define LIBRARY                                                                                    \
	__attribute__((noinline, noclone,                                                          \
		       optimize("O2", "no-stack-protector", "no-tree-vectorize"),                  \
		       no_sanitize("address", "undefined"), no_instrument_function))

struct storage {
	uint64_t vtable, count, weak;
	float *data;
};

struct tensor_impl {
	uint64_t (**vtable)(void *);
	uint64_t count;
	struct storage *storage;
	void *extra;
	uint64_t (***meta)(void *);
	int64_t ndim;
	int64_t size[5], stride[5];
	int64_t numel, offset;
	uint8_t dev_engaged, dev_type, dev_index;
	uint8_t pad;
	uint16_t dtype;
	uint8_t contiguous : 3, policy : 2, rest : 3;
	uint8_t lowest : 2, python : 2, symbolic : 1, device_policy : 1;
	uint64_t keys;
};

struct array {
	const int64_t *data;
	uint64_t n;
};

static uint64_t (*volatile slow)(const void *);

LIBRARY static int64_t dim(const struct tensor_impl *t)
{
	if (__builtin_expect(t->python > 1, 0))
		return (int64_t)slow(t);
	if (__builtin_expect(t->symbolic, 0))
		return (int64_t)slow(t->extra);
	return t->ndim;
}

LIBRARY static struct array sizes(const struct tensor_impl *t)
{
	if (__builtin_expect(t->python > 1, 0))
		slow(t);
	if (t->ndim > 5)
		return (struct array){(const int64_t *)t->size[0], (uint64_t)t->ndim};
	return (struct array){t->size, (uint64_t)t->ndim};
}

LIBRARY static struct array strides(const struct tensor_impl *t)
{
	if (__builtin_expect(t->python, 0))
		slow(t);
	if (t->ndim > 5)
		return (struct array){(const int64_t *)t->size[0] + t->ndim, (uint64_t)t->ndim};
	return (struct array){t->stride, (uint64_t)t->ndim};
}

LIBRARY static int64_t numel(const struct tensor_impl *t)
{
	return t->symbolic ? (int64_t)slow(t) : t->numel;
}

LIBRARY static int64_t offset(const struct tensor_impl *t)
{
	return t->symbolic ? (int64_t)slow(t) : t->offset;
}

LIBRARY static uint16_t device(const struct tensor_impl *t)
{
	uint16_t dev;
	if (__builtin_expect(t->device_policy, 0))
		return (uint16_t)slow(t);
	if (__builtin_expect(!t->dev_engaged, 0))
		return (uint16_t)slow("none");
	memcpy(&dev, &t->dev_type, 2);
	return dev;
}

LIBRARY static bool has_storage(const struct tensor_impl *t)
{
	return t->storage != NULL;
}

LIBRARY static void *autograd_meta(const struct tensor_impl *t)
{
	return t->meta;
}

LIBRARY static bool requires_grad(const struct tensor_impl *t)
{
	return t->meta && (*t->meta)[1](t->meta);
}

LIBRARY static bool is_floating_point(struct tensor_impl *const *handle)
{
	return (*handle)->dtype > 12 ? slow(handle) : (0xe0u >> (*handle)->dtype & 1) != 0;
}

LIBRARY static bool is_inference(struct tensor_impl *const *handle)
{
	return !((*handle)->keys & 0x3c00000000);
}

LIBRARY static bool is_conj(struct tensor_impl *const *handle)
{
	return (*handle)->keys >> 36 & 1;
}

LIBRARY static bool is_neg(struct tensor_impl *const *handle)
{
	return (*handle)->keys >> 33 & 1;
}

LIBRARY static int64_t size(struct tensor_impl *const *handle, int64_t d)
{
	const struct tensor_impl *t = *handle;
	if (__builtin_expect(t->policy > 1, 0))
		return (int64_t)(*t->vtable)((void *)t);
	return t->size[d];
}

LIBRARY static float *data_ptr(struct tensor_impl *const *handle)
{
	const struct tensor_impl *t = *handle;
	if (!t->vtable[3]((void *)t))
		slow(t);
	float *p = t->storage->data;
	return p || !t->numel ? p + t->offset : (float *)slow(t);
}

struct function {
	const char *name;
	const void *code;
};

static const struct function library[] = {
    {"_ZNK3c1010TensorImpl10dim_customEv", dim},
    {"_ZNK3c1010TensorImpl12sizes_customEv", sizes},
    {"_ZNK3c1010TensorImpl14strides_customEv", strides},
    {"_ZNK3c1010TensorImpl12numel_customEv", numel},
    {"_ZNK3c1010TensorImpl21storage_offset_customEv", offset},
    {"_ZNK3c1010TensorImpl13device_customEv", device},
    {"_ZNK3c1010TensorImpl11has_storageEv", has_storage},
    {"_ZNK3c1010TensorImpl13autograd_metaEv", autograd_meta},
    {"_ZNK3c1010TensorImpl13requires_gradEv", requires_grad},
    {"_ZN2at6native17is_floating_pointERKNS_6TensorE", is_floating_point},
    {"_ZN2at6native12is_inferenceERKNS_6TensorE", is_inference},
    {"_ZN2at6native7is_conjERKNS_6TensorE", is_conj},
    {"_ZN2at6native6is_negERKNS_6TensorE", is_neg},
    {"_ZN2at6native4sizeERKNS_6TensorEl", size},
    {"_ZNK2at10TensorBase8data_ptrIfEEPT_v", data_ptr},
};

static const uint8_t *code_of(void *ctx, const char *mangled, size_t *len)
{
	const char *hidden = ctx;
	*len = 160;
	for (size_t i = 0; i < sizeof(library) / sizeof(library[0]); i++)
		if (!strcmp(library[i].name, mangled) && (!hidden || strcmp(hidden, mangled)))
			return library[i].code;
	return NULL;
}

static bool has_flag(const struct flag_tests *f, unsigned off, unsigned bits)
{
	for (unsigned i = 0; i < f->n; i++)
		if (f->test[i].off == off && (unsigned)f->test[i].mask << f->test[i].shift == bits)
			return true;
	return false;
}

#define OFF(f) (int32_t) offsetof(struct tensor_impl, f)

static void test_facts(void **state)
{
	struct code_source src = {code_of, NULL};
	struct layout_facts f;
	const unsigned flags = (unsigned)offsetof(struct tensor_impl, dtype) + 2;
	(void)state;
	accessors_read(&src, &f);
	assert_int_equal(f.sizes, OFF(ndim));
	assert_int_equal(f.sizes_data, OFF(size));
	assert_int_equal(f.strides_data, OFF(stride));
	assert_int_equal(f.numel, OFF(numel));
	assert_int_equal(f.storage_offset, OFF(offset));
	assert_int_equal(f.device, OFF(dev_type));
	assert_int_equal(f.device_engaged, OFF(dev_engaged));
	assert_int_equal(f.storage, OFF(storage));
	assert_int_equal(f.autograd_meta, OFF(meta));
	assert_int_equal(f.requires_grad_slot, 8);
	assert_int_equal(f.dtype, OFF(dtype));
	assert_int_equal(f.key_set, OFF(keys));
	assert_int_equal(f.conj_bit, 8 * OFF(keys) + 36);
	assert_int_equal(f.neg_bit, 8 * OFF(keys) + 33);
	assert_int_equal(f.data_ptr, offsetof(struct storage, data));
	assert_int_equal(f.pynode_obj, FACT_NONE);
	assert_true(f.custom_shape.complete);
	/* > 1 of a two-bit field may be compiled as a test of its upper bit */
	assert_true(has_flag(&f.custom_shape, flags, 0x18) ||
		    has_flag(&f.custom_shape, flags, 0x10));
	assert_true(has_flag(&f.custom_shape, flags + 1, 0x0c) ||
		    has_flag(&f.custom_shape, flags + 1, 0x08));
	assert_true(has_flag(&f.custom_shape, flags + 1, 0x10));
	assert_true(has_flag(&f.custom_stride, flags + 1, 0x0c));
	assert_true(has_flag(&f.custom_device, flags + 1, 0x20));
}

/* Without an accessor, the facts that only it provides are missing. */
static void test_missing(void **state)
{
	struct layout_facts all, f;
	struct code_source src = {code_of, NULL};
	(void)state;
	accessors_read(&src, &all);
	for (size_t i = 0; i < sizeof(library) / sizeof(library[0]); i++) {
		src.ctx = (void *)(uintptr_t)library[i].name;
		accessors_read(&src, &f);
		const int32_t *a = &all.storage, *b = &f.storage;
		for (; a <= &all.pynode_obj; a++, b++)
			assert_true(*b == *a || *b == FACT_NONE);
	}
}

static const uint8_t *numel_twice(void *ctx, const char *mangled, size_t *len)
{
	if (!strcmp(mangled, "_ZNK3c1010TensorImpl10dim_customEv"))
		mangled = "_ZNK3c1010TensorImpl12numel_customEv";
	return code_of(ctx, mangled, len);
}

/* Two accessors that contradict each other. */
static void test_conflict(void **state)
{
	struct code_source src = {numel_twice, NULL};
	struct layout_facts f;
	(void)state;
	accessors_read(&src, &f);
	assert_int_equal(f.sizes, FACT_CONFLICT);
}

/* Random bytes, truncated code, and no code. */
static void test_garbage(void **state)
{
	uint8_t code[64] = {0};
	static struct paths p;
	uint32_t x = 1;
	(void)state;
	paths_walk(code, 0, 0, &p);
	assert_int_equal(p.nends, 0);
	for (unsigned round = 0; round < 2000; round++) {
		for (unsigned i = 0; i < sizeof(code); i++)
			code[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
		paths_walk(code, sizeof(code), round & 1, &p);
		assert_true(p.nends <= PATHS_ENDS && p.nloads <= PATHS_LOADS &&
			    p.ncalls <= PATHS_CALLS);
	}
	for (size_t len = 0; len < 40; len++)
		paths_walk((const uint8_t *)dim, len, 0, &p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_facts),
	    cmocka_unit_test(test_missing),
	    cmocka_unit_test(test_conflict),
	    cmocka_unit_test(test_garbage),
	};
	return unit_run(tests, NULL, NULL);
}
