
#include "tests/unit/unit.h"

#include "symbolizer/decode/decoder.h"
#include "symbolizer/decode/internal.h"
#include "symbolizer/decode/target.h"
#include "tests/unit/fake_interned.h"
#include "tests/unit/sample_hits.h"

enum { READ = 4, FLAG_READ = 5, IVALUE_OTHER = 7 };

static struct sample_target s;
static struct record rec;
static struct arena arena;

static int setup(void **state)
{
	(void)state;
	sample_target_init(&s, NULL, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sample_target_free(&s);
	arena_free(&arena);
	return 0;
}

static void begin(void)
{
	record_begin(&rec, (struct hit){.kind = HIT_ENTRY});
	arena_reset(&arena);
}

/* The items in a buffer of their exact size. */
static struct items exact(const struct record *r)
{
	struct items it = record_items(r);
	uint8_t *copy = malloc(it.len ? it.len : 1);
	assert_non_null(copy);
	memcpy(copy, it.data, it.len);
	it.data = copy;
	return it;
}

static struct value decode(const struct abi_value *v)
{
	struct decode d = {.target = &s.target, .arena = &arena};
	struct items it = exact(&rec);
	struct value out = decode_value(&d, v, &it);
	free((void *)it.data);
	return out;
}

static struct abi_value how(unsigned h, unsigned base)
{
	return (struct abi_value){
	    .how = (uint8_t)h, .base = (uint8_t)base, .read = READ, .flag_read = FLAG_READ};
}

static void expect_not(struct value v, const char *why)
{
	assert_int_equal(v.kind, VALUE_NOT_DECODED);
	assert_string_equal(v.str, why);
}

static void expect_int(struct value v, unsigned kind, int64_t i)
{
	assert_int_equal(v.kind, kind);
	assert_int_equal(v.i, i);
}

/* Decode an item of raw bytes. */
static struct value bytes(struct abi_value v, const void *data, size_t len, uint32_t aux)
{
	begin();
	record_item(&rec, ITEM_DATA, READ, aux, data, len);
	return decode(&v);
}

static struct value word(unsigned base, uint64_t w)
{
	return bytes(how(ABI_WORD, base), &w, sizeof(w), 0);
}

static void test_words(void **state)
{
	(void)state;
	expect_int(word(CXX_INT64, (uint64_t)-3), VALUE_INT, -3);
	/* the upper bits of the register are ignored */
	expect_int(word(CXX_INT8, 0xdeadbe00000000fe), VALUE_INT, -2);
	expect_int(word(CXX_BOOL, 0xdeadbeefdead0001), VALUE_BOOL, 1);
	expect_int(word(CXX_BOOL, 0xff00), VALUE_BOOL, 0);
	expect_not(word(CXX_BOOL, 2), "not a bool");
	expect_int(word(CXX_SCALAR_TYPE, 6), VALUE_DTYPE, 6);
	expect_not(word(CXX_SCALAR_TYPE, 0x7f), "an unknown dtype");
	expect_not(word(CXX_SCALAR_TYPE, 0xff), "an unknown dtype");
	expect_int(word(CXX_LAYOUT, 1), VALUE_LAYOUT, 1);
	expect_not(word(CXX_LAYOUT, 100), "an unknown layout");
	expect_int(word(CXX_MEMORY_FORMAT, 2), VALUE_MEMORY_FORMAT, 2);
	expect_not(word(CXX_MEMORY_FORMAT, 100), "an unknown memory format");
	expect_int(word(CXX_GENERATOR, 0x5000), VALUE_GENERATOR, 0x5000);
	expect_not(word(CXX_OTHER, 1), "a type ditrace does not know");
	struct value v = word(CXX_DEVICE, 0x0301);
	assert_int_equal(v.kind, VALUE_DEVICE);
	assert_int_equal(v.device.type, 1);
	assert_int_equal(v.device.index, 3);
	v = word(CXX_DOUBLE, 0x3fe0000000000000);
	assert_int_equal(v.kind, VALUE_FLOAT);
	assert_true(v.f == 0.5);
}

static void test_symints(void **state)
{
	(void)state;
	expect_int(word(CXX_SYMINT, 5), VALUE_INT, 5);
	expect_int(word(CXX_SYMINT, (uint64_t)-1), VALUE_INT, -1);
	expect_not(word(CXX_SYMINT, 0x8000000012345678),
		   "a symbolic or very large negative integer");
	expect_not(word(CXX_SYMINT, 0xa000000012345678),
		   "a symbolic or very large negative integer");
}

/* {tag, padding to 16, value}, in `out` from `at` on. */
static void put_scalar(uint8_t *out, uint32_t tag, uint64_t w0, uint64_t w1)
{
	memcpy(out, &tag, sizeof(tag));
	memcpy(out + 16, &w0, sizeof(w0));
	memcpy(out + 24, &w1, sizeof(w1));
}

static struct value scalar(uint32_t tag, uint64_t w0, uint64_t w1)
{
	uint8_t p[32] = {0};
	put_scalar(p, tag, w0, w1);
	return bytes(how(ABI_BYTES, CXX_SCALAR), p, sizeof(p), 0);
}

static const uint64_t half = 0x3fe0000000000000, two = 0x4000000000000000;

static void expect_scalar(struct value v, unsigned kind, int64_t i, bool is_unsigned)
{
	assert_int_equal(v.kind, VALUE_SCALAR);
	assert_int_equal(v.scalar, kind);
	if (kind == VALUE_FLOAT)
		assert_true(v.f == 0.5);
	else
		assert_int_equal(v.i, i);
	assert_int_equal(v.is_unsigned, is_unsigned);
}

static void expect_complex(struct value v)
{
	assert_int_equal(v.kind, VALUE_COMPLEX);
	assert_true(v.c.re == 0.5 && v.c.im == 2.0);
}

/* Tags HAS_d, HAS_i, HAS_z, HAS_b, then the symbolic ones. */
static void test_scalar_tags_2(void **state)
{
	(void)state;
	s.ops.scalar_complex_tag = 2;
	expect_scalar(scalar(0, half, 0), VALUE_FLOAT, 0, false);
	expect_scalar(scalar(1, (uint64_t)-7, 0), VALUE_INT, -7, false);
	expect_complex(scalar(2, half, two));
	expect_scalar(scalar(3, 0xff01, 0), VALUE_BOOL, 1, false);
	expect_scalar(scalar(3, 0xff00, 0), VALUE_BOOL, 0, false);
	expect_not(scalar(4, 0x5000, 0), "a symbolic scalar");
	expect_not(scalar(UINT32_MAX, 0, 0), "a symbolic scalar");
}

/* HAS_u was inserted between HAS_i and HAS_z. */
static void test_scalar_tags_3(void **state)
{
	(void)state;
	s.ops.scalar_complex_tag = 3;
	expect_scalar(scalar(0, half, 0), VALUE_FLOAT, 0, false);
	expect_scalar(scalar(1, (uint64_t)-7, 0), VALUE_INT, -7, false);
	expect_scalar(scalar(2, UINT64_MAX, 0), VALUE_INT, -1, true);
	expect_complex(scalar(3, half, two));
	expect_scalar(scalar(4, 1, 0), VALUE_BOOL, 1, false);
	expect_not(scalar(5, 0x5000, 0), "a symbolic scalar");
	s.ops.scalar_complex_tag = 0;
	expect_not(scalar(1, 1, 0), "the layout of c10::Scalar is not known");
	s.ops.scalar_complex_tag = 2;
}

static struct abi_value optional(unsigned h, unsigned base, bool std)
{
	struct abi_value v = how(h, base);
	v.has_flag = true;
	v.std_optional = std;
	return v;
}

static void test_optional_word(void **state)
{
	(void)state;
	struct abi_value std = optional(ABI_WORD, CXX_SCALAR_TYPE, true), c10 = std;
	uint64_t w = 0x0106;
	c10.std_optional = false;
	expect_int(bytes(std, &w, 8, 0), VALUE_DTYPE, 6);
	w = 0x0601;
	expect_int(bytes(c10, &w, 8, 0), VALUE_DTYPE, 6);
	w = 0xdead0006;
	assert_int_equal(bytes(std, &w, 8, 0).kind, VALUE_NONE);
	w = 0xdead0600;
	assert_int_equal(bytes(c10, &w, 8, 0).kind, VALUE_NONE);
	w = 0x0206;
	expect_not(bytes(std, &w, 8, 0), "not an optional");
	w = 0x0602;
	expect_not(bytes(c10, &w, 8, 0), "not an optional");

	std.base = c10.base = CXX_DEVICE;
	w = 0x010001;
	assert_int_equal(bytes(std, &w, 8, 0).device.type, 1);
	w = 0x000101;
	assert_int_equal(bytes(c10, &w, 8, 0).device.type, 1);
}

static void test_optional_bytes(void **state)
{
	uint8_t p[48] = {0};
	(void)state;
	put_scalar(p, 1, 9, 0);
	p[32] = 1;
	expect_scalar(bytes(optional(ABI_BYTES, CXX_SCALAR, true), p, 40, 0), VALUE_INT, 9, false);
	p[32] = 0;
	assert_int_equal(bytes(optional(ABI_BYTES, CXX_SCALAR, true), p, 40, 0).kind, VALUE_NONE);
	memset(p, 0, sizeof(p));
	put_scalar(p + 16, 1, 9, 0);
	p[0] = 1;
	expect_scalar(bytes(optional(ABI_BYTES, CXX_SCALAR, false), p, 48, 0), VALUE_INT, 9, false);
	p[0] = 0;
	assert_int_equal(bytes(optional(ABI_BYTES, CXX_SCALAR, false), p, 48, 0).kind, VALUE_NONE);

	uint64_t std[2] = {12, 1}, c10[2] = {1, 12};
	expect_int(bytes(optional(ABI_BYTES, CXX_SYMINT, true), std, 16, 0), VALUE_INT, 12);
	expect_int(bytes(optional(ABI_BYTES, CXX_SYMINT, false), c10, 16, 0), VALUE_INT, 12);
	std[1] = 0;
	assert_int_equal(bytes(optional(ABI_BYTES, CXX_SYMINT, true), std, 16, 0).kind, VALUE_NONE);
}

/* A flag that was not read is not the same as an unset flag. */
static void test_optional_cut(void **state)
{
	uint8_t p[48] = {0};
	(void)state;
	expect_not(bytes(optional(ABI_BYTES, CXX_SCALAR, true), p, 32, 0), "too few bytes");
	expect_not(bytes(optional(ABI_BYTES, CXX_SYMINT, true), p, 8, 0), "too few bytes");
	expect_not(bytes(optional(ABI_BYTES, CXX_SCALAR, false), p, 40, 0), "too few bytes");
}

static void test_optional_words(void **state)
{
	struct abi_value v = optional(ABI_WORDS, CXX_INT64, true);
	(void)state;
	begin();
	record_word(&rec, READ, 42);
	record_word(&rec, FLAG_READ, 0xff01);
	expect_int(decode(&v), VALUE_INT, 42);
	begin();
	record_word(&rec, FLAG_READ, 0xff00);
	record_word(&rec, READ, 42);
	assert_int_equal(decode(&v).kind, VALUE_NONE);
	begin();
	record_word(&rec, READ, 42);
	record_word(&rec, FLAG_READ, 2);
	expect_not(decode(&v), "not an optional");
	begin();
	record_word(&rec, READ, 42);
	expect_not(decode(&v), "memory could not be read");
	begin();
	record_item(&rec, ITEM_DATA, READ, 0, "1234", 4);
	record_word(&rec, FLAG_READ, 1);
	expect_not(decode(&v), "memory could not be read");
	begin();
	record_item(&rec, ITEM_FAULT, READ, 0, NULL, 0);
	record_word(&rec, FLAG_READ, 1);
	expect_not(decode(&v), "memory could not be read");
}

/* {symbol, 1 for a wildcard} */
static void test_dimnames(void **state)
{
	const uint64_t wildcard = 1ULL << 32, names[] = {SYM_LONG, SYM_WILD | wildcard, SYM_ATEN_N};
	const char *unknown = "a dimension name that the process does not know";
	(void)state;
	expect_not(word(CXX_DIMNAME, SYM_N), unknown);
	s.target.interned = fake_interned();
	struct value v = word(CXX_DIMNAME, SYM_N);
	assert_int_equal(v.kind, VALUE_STRING);
	assert_int_equal(v.count, 1);
	assert_string_equal(v.str, "N");
	assert_int_equal(word(CXX_DIMNAME, SYM_WILD | wildcard).kind, VALUE_NONE);
	expect_not(word(CXX_DIMNAME, SYM_N | wildcard), unknown);
	expect_not(word(CXX_DIMNAME, SYM_WILD), unknown);
	expect_not(word(CXX_DIMNAME, SYM_N | wildcard << 1), unknown);
	expect_not(word(CXX_DIMNAME, SYMBOLS), unknown);
	begin();
	record_item(&rec, ITEM_DATA, READ, 3, names, sizeof(names));
	struct abi_value list = how(ABI_ARRAY, CXX_DIMNAME);
	v = decode(&list);
	assert_int_equal(v.kind, VALUE_LIST);
	assert_int_equal(v.count, 3);
	assert_string_equal(v.items[0].str, "a_name_that_is_not_short");
	assert_int_equal(v.items[1].kind, VALUE_NONE);
	expect_not(v.items[2], unknown);
	interned_free(s.target.interned);
	s.target.interned = NULL;
}

static void test_optional_double(void **state)
{
	struct abi_value v = optional(ABI_WORDS, CXX_DOUBLE, true);
	(void)state;
	begin();
	record_word(&rec, READ, half);
	record_word(&rec, FLAG_READ, 1);
	struct value out = decode(&v);
	assert_int_equal(out.kind, VALUE_FLOAT);
	assert_true(out.f == 0.5);
	begin();
	record_word(&rec, READ, half);
	expect_not(decode(&v), "memory could not be read");
	v.how = ABI_UNKNOWN;
	v.why = "for a reason";
	expect_not(decode(&v), "for a reason");
}

static void test_too_few(void **state)
{
	uint8_t p[80] = {0};
	(void)state;
	expect_not(bytes(how(ABI_WORD, CXX_INT64), p, 7, 0), "too few bytes");
	expect_not(bytes(how(ABI_WORD, CXX_INT64), p, 0, 0), "too few bytes");
	expect_not(bytes(how(ABI_BYTES, CXX_SCALAR), p, 31, 0), "too few bytes");
	expect_not(bytes(how(ABI_BYTES, CXX_SCALAR), p, 80, 0), "too few bytes");
	expect_not(bytes(how(ABI_BOOLS, CXX_BOOL), p, 7, 0), "too few bytes");
	begin();
	struct abi_value v = how(ABI_WORD, CXX_INT64);
	expect_not(decode(&v), "memory could not be read");
	record_item(&rec, ITEM_FAULT, READ, 0, NULL, 0);
	expect_not(decode(&v), "memory could not be read");
	begin();
	record_word(&rec, READ + 1, 5);
	expect_not(decode(&v), "memory could not be read");
	v.how = ABI_STRING;
	begin();
	record_word(&rec, READ, 5);
	expect_not(decode(&v), "memory could not be read");
}

static void test_unset(void **state)
{
	static const uint8_t hows[] = {ABI_TENSOR, ABI_ARRAY, ABI_STRING, ABI_TENSORS};
	(void)state;
	for (unsigned i = 0; i < sizeof(hows); i++) {
		struct abi_value v = how(hows[i], CXX_INT64);
		begin();
		record_item(&rec, ITEM_UNSET, READ, 0, NULL, 0);
		assert_int_equal(decode(&v).kind, VALUE_NONE);
	}
}

static void test_arrays(void **state)
{
	uint64_t w[3] = {1, (uint64_t)-2, 3};
	uint8_t sc[64] = {0};
	(void)state;
	struct value v = bytes(how(ABI_ARRAY, CXX_INT64), w, sizeof(w), 3);
	assert_int_equal(v.kind, VALUE_LIST);
	assert_int_equal(v.count, 3);
	for (unsigned i = 0; i < 3; i++)
		expect_int(v.items[i], VALUE_INT, (int64_t)w[i]);
	v = bytes(how(ABI_ARRAY, CXX_INT64), w, 0, 0);
	assert_int_equal(v.kind, VALUE_LIST);
	assert_int_equal(v.count, 0);
	put_scalar(sc, 1, 4, 0);
	put_scalar(sc + 32, 3, 1, 0);
	v = bytes(how(ABI_ARRAY, CXX_SCALAR), sc, sizeof(sc), 2);
	assert_int_equal(v.count, 2);
	expect_scalar(v.items[0], VALUE_INT, 4, false);
	expect_scalar(v.items[1], VALUE_BOOL, 1, false);
	/* there were more elements than were read */
	expect_not(bytes(how(ABI_ARRAY, CXX_INT64), w, sizeof(w), 4), "a list too long to be read");
	expect_not(bytes(how(ABI_ARRAY, CXX_SCALAR), sc, 63, 2), "a list too long to be read");
	expect_not(bytes(how(ABI_ARRAY, CXX_INT64), w, sizeof(w), UINT32_MAX),
		   "a list too long to be read");
}

static void test_bools(void **state)
{
	static const uint8_t p[8] = {1, 0, 1, 0xff};
	struct abi_value v = how(ABI_BOOLS, CXX_BOOL);
	(void)state;
	v.count = 3;
	struct value out = bytes(v, p, sizeof(p), 0);
	assert_int_equal(out.kind, VALUE_LIST);
	assert_int_equal(out.count, 3);
	for (unsigned i = 0; i < 3; i++)
		expect_int(out.items[i], VALUE_BOOL, p[i]);
}

static struct value string(const char *text, size_t len, uint32_t true_len)
{
	struct abi_value v = how(ABI_STRING, CXX_STRING_VIEW);
	begin();
	record_item(&rec, ITEM_STRING, READ, true_len, text, len);
	return decode(&v);
}

static void test_strings(void **state)
{
	(void)state;
	struct value v = string("mean", 4, 4);
	assert_int_equal(v.kind, VALUE_STRING);
	assert_int_equal(v.count, 4);
	assert_string_equal(v.str, "mean");
	v = string("a\0b", 3, 3);
	assert_int_equal(v.count, 3);
	assert_memory_equal(v.str, "a\0b", 4);
	v = string("", 0, 0);
	assert_int_equal(v.kind, VALUE_STRING);
	assert_string_equal(v.str, "");
	expect_not(string("mean", 4, 5), "a string too long to be read");
}

/* Items longer than the data are dropped. */
static void test_truncated(void **state)
{
	struct abi_value v = how(ABI_WORD, CXX_INT64);
	struct decode d = {.target = &s.target, .arena = &arena};
	(void)state;
	begin();
	record_word(&rec, READ + 1, 1);
	record_word(&rec, READ, 2);
	struct items whole = record_items(&rec);
	for (uint32_t len = 0; len <= whole.len; len++) {
		uint8_t *copy = malloc(len + 1);
		memcpy(copy, whole.data, len);
		struct items it = {.data = copy, .len = len};
		struct value out = decode_value(&d, &v, &it);
		if (len == whole.len)
			expect_int(out, VALUE_INT, 2);
		else
			expect_not(out, "memory could not be read");
		unsigned n = 0;
		for (const struct item *i = NULL; (i = items_next(&it, i));)
			n++;
		assert_int_equal(n, len / 16);
		free(copy);
	}
	((struct item *)rec.items)->len = 0xffff;
	expect_not(decode(&v), "memory could not be read");
}

/* A stack item has no read of its own, and is never decoded as a value. */
static void test_stack_item(void **state)
{
	struct abi_value v = how(ABI_WORD, CXX_INT64);
	uint64_t frames[3][STACK_FRAME_SIZE / 8] = {{0x10, 1, 2}, {0x20, 3, 4}, {0x30, 5, 6}};
	(void)state;
	begin();
	struct items none = record_items(&rec);
	assert_null(items_stack(&none));
	uint32_t n = 1;
	assert_null(items_frames(&none, &n));
	assert_int_equal(n, 0);
	record_item(&rec, ITEM_STACK, READ, 0, frames, sizeof(frames));
	record_word(&rec, READ, 5);
	expect_int(decode(&v), VALUE_INT, 5);
	struct items it = record_items(&rec);
	assert_ptr_equal(items_stack(&it), rec.items);
	const uint64_t(*found)[STACK_FRAME_SIZE / 8] = items_frames(&it, &n);
	assert_int_equal(n, 3);
	for (unsigned i = 0; i < n; i++)
		assert_memory_equal(found[i], frames[i], sizeof(frames[i]));
}

static void add_tensor(unsigned kind, const struct tensor_snapshot *snap, uint32_t aux)
{
	record_item(&rec, kind, READ, aux, snap, sizeof(*snap));
}

static struct tensor_snapshot sample(unsigned ndim)
{
	struct tensor_snapshot snap;
	struct fake_tensor t = {.dtype = 6, .itemsize = 4, .ndim = ndim, .data = 0x7f1200000040};
	for (unsigned i = 0; i < ndim; i++)
		t.size[i] = 2 + i;
	fake_contiguous(&t);
	fake_snapshot(&s.fake, &t, &snap);
	return snap;
}

static void test_tensors(void **state)
{
	struct abi_value one = how(ABI_TENSOR, CXX_TENSOR), list = how(ABI_TENSORS, CXX_TENSOR);
	struct tensor_snapshot a = sample(2), b = sample(3);
	(void)state;
	begin();
	add_tensor(ITEM_SNAPSHOT, &a, 0);
	expect_not(decode(&one), "the layout of tensors is not known yet");
	assert_int_equal(sample_target_learn(&s), 0);
	struct value v = decode(&one);
	assert_int_equal(v.kind, VALUE_TENSOR);
	assert_int_equal(v.tensor->impl, a.impl_addr);
	assert_int_equal(v.tensor->meta.ndim, 2);
	assert_int_equal(v.tensor->meta.shape[1], 3);
	begin();
	add_tensor(ITEM_SNAPSHOT, &a, TPART_UNDEFINED);
	assert_int_equal(decode(&one).kind, VALUE_NONE);
	begin();
	record_item(&rec, ITEM_SNAPSHOT, READ, 0, &a, sizeof(a) - 8);
	expect_not(decode(&one), "memory could not be read");
	begin();
	record_item(&rec, ITEM_TENSOR, READ, TPART_FAULT, &a.impl_addr, 8);
	expect_not(decode(&one), "memory could not be read");
	struct tensor_snapshot cut = a;
	cut.impl_len = s.target.layout.win_len;
	cut.at[(s.fake.in.storage - SNAPSHOT_FIRST) / 8].len = s.fake.in.data;
	begin();
	add_tensor(ITEM_SNAPSHOT, &cut, 0);
	v = decode(&one);
	assert_int_equal(v.tensor->meta.shape[1], 3);
	assert_true(v.tensor->meta.unknown & TENSOR_NO_DATA_PTR);
	cut.impl_len--;
	begin();
	add_tensor(ITEM_SNAPSHOT, &cut, 0);
	expect_not(decode(&one), "memory could not be read");

	begin();
	record_item(&rec, ITEM_LIST, READ, 2, NULL, 0);
	add_tensor(ITEM_SNAPSHOT, &a, 0);
	record_word(&rec, READ + 1, 1);
	add_tensor(ITEM_SNAPSHOT, &b, 0);
	v = decode(&list);
	assert_int_equal(v.kind, VALUE_LIST);
	assert_int_equal(v.count, 2);
	assert_int_equal(v.items[0].tensor->meta.ndim, 2);
	assert_int_equal(v.items[1].tensor->meta.ndim, 3);
	begin();
	record_item(&rec, ITEM_LIST, READ, 2, NULL, 0);
	add_tensor(ITEM_SNAPSHOT, &a, 0);
	expect_not(decode(&list), "part of a list was lost");
	begin();
	record_item(&rec, ITEM_LIST, READ, LIST_MAX + 1, NULL, 0);
	expect_not(decode(&list), "a list too long to be read");
}

/* A snapshot of a tensor with six dimensions, whose sizes are out of line. */
static void test_snapshot_outline(void **state)
{
	struct abi_value one = how(ABI_TENSOR, CXX_TENSOR);
	struct {
		struct tensor_snapshot snap;
		int64_t dims[12];
	} x = {sample(1), {2, 1, 3, 1, 1, 5, 15, 15, 5, 5, 5, 1}};
	(void)state;
	assert_int_equal(sample_target_learn(&s), 0);
	fake_word(x.snap.impl, s.fake.in.sizes, 6);
	fake_word(x.snap.impl, s.fake.in.sizes + 8, 0x7f1300000040);
	fake_word(x.snap.impl, s.fake.in.numel, 30);
	s.target.reads[0] = (struct tensor_read){
	    .discover = 1, .sizes = (uint16_t)s.fake.in.sizes, .inline_dims = 5};
	begin();
	record_item(&rec, ITEM_SNAPSHOT, READ, TPART_OUTLINE, &x, sizeof(x));
	struct value v = decode(&one);
	assert_int_equal(v.kind, VALUE_TENSOR);
	assert_int_equal(v.tensor->meta.ndim, 6);
	assert_memory_equal(v.tensor->meta.shape, x.dims, 48);
	assert_memory_equal(v.tensor->meta.stride, x.dims + 6, 48);
	/* read from a wrong place */
	s.target.reads[0].sizes += 8;
	v = decode(&one);
	assert_int_equal(v.kind, VALUE_TENSOR);
	assert_true(v.tensor->meta.unknown & TENSOR_NO_SHAPE);
}

/* The engine got a new plan between the start of a hit and the reading of its tensor. */
static void test_newer_generation(void **state)
{
	struct abi_value one = how(ABI_TENSOR, CXX_TENSOR);
	struct tensor_snapshot snap = sample(2);
	unsigned part = (s.fake.in.storage - SNAPSHOT_FIRST) / 8;
	uint8_t bytes[8 + WIN_MAX + 8];
	(void)state;
	assert_int_equal(sample_target_learn(&s), 0);
	uint16_t win = s.target.layout.win_len;
	memcpy(bytes, &snap.impl_addr, 8);
	memcpy(bytes + 8, snap.impl, win);
	memcpy(bytes + 8 + win, snap.at[part].bytes + s.fake.in.data, 8);
	s.target.reads[0] = (struct tensor_read){.win_len = (uint16_t)(win - 8)};
	s.target.reads[1] = (struct tensor_read){.win_len = win,
						 .storage_from = (uint16_t)s.fake.in.data,
						 .storage_len = 8,
						 .sizes = (uint16_t)s.fake.in.sizes};
	begin();
	record_item(&rec, ITEM_TENSOR, READ, TPART_STORAGE, bytes, 8u + win + 8);
	expect_not(decode(&one), "memory could not be read");
	s.target.conf.generation = 1;
	struct value v = decode(&one);
	assert_int_equal(v.kind, VALUE_TENSOR);
	assert_int_equal(v.tensor->meta.unknown & (TENSOR_NO_SHAPE | TENSOR_NO_DATA_PTR), 0);
	assert_int_equal(v.tensor->data_ptr, 0x7f1200000040);
	s.target.reading = 1;
	assert_int_equal(decode(&one).kind, VALUE_TENSOR);
}

/* Have packed items read. */
static struct tensor_read *read_packed(void)
{
	assert_int_equal(sample_target_learn(&s), 0);
	const struct tensor_layout *l = &s.target.layout;
	struct tensor_read *c = &s.target.reads[0];
	s.target.conf.generation = s.target.reading = 0;
	*c = sample_packed_read(l);
	return c;
}

static void test_packed(void **state)
{
	struct abi_value one = how(ABI_TENSOR, CXX_TENSOR);
	struct tensor_snapshot snap = sample(2);
	uint8_t bytes[2 * WIN_MAX];
	(void)state;
	const struct tensor_read *c = read_packed();
	begin();
	record_item(&rec, ITEM_SNAPSHOT, READ, 0, &snap, sizeof(snap));
	struct value want = decode(&one);
	begin();
	uint32_t len = sample_pack(c, &snap, bytes);
	record_item(&rec, ITEM_TENSOR, READ, TPART_PACKED | TPART_STORAGE, bytes, len);
	struct value v = decode(&one);
	assert_int_equal(v.kind, VALUE_TENSOR);
	assert_int_equal(v.tensor->meta.ndim, 2);
	assert_int_equal(v.tensor->meta.unknown & ~TENSOR_NO_REQUIRES_GRAD, 0);
	assert_memory_equal(v.tensor->meta.shape, want.tensor->meta.shape, 16);
	assert_memory_equal(v.tensor->meta.stride, want.tensor->meta.stride, 16);
	assert_int_equal(v.tensor->meta.dtype, want.tensor->meta.dtype);
	assert_int_equal(v.tensor->storage, want.tensor->storage);
	assert_int_equal(v.tensor->data_ptr, want.tensor->data_ptr);
	begin();
	record_item(&rec, ITEM_TENSOR, READ, TPART_PACKED | TPART_STORAGE, bytes, len - 16);
	expect_not(decode(&one), "memory could not be read");
	s.target.layout.sizes -= 8;
	begin();
	record_item(&rec, ITEM_TENSOR, READ, TPART_PACKED | TPART_STORAGE, bytes, len);
	expect_not(decode(&one), "memory could not be read");
}

/* A packed item with these parts (TPART_*). */
struct packed {
	uint8_t bytes[2 * WIN_MAX];
	uint32_t len, parts;
};

static struct value decode_packed(const struct packed *p)
{
	const struct abi_value one = how(ABI_TENSOR, CXX_TENSOR);
	begin();
	record_item(&rec, ITEM_TENSOR, READ, TPART_PACKED | p->parts, p->bytes, p->len);
	return decode(&one);
}

static void expect_same(const struct value *a, const struct value *b)
{
	assert_int_equal(a->kind, b->kind);
	if (a->kind != VALUE_TENSOR)
		return;
	const struct tensor *x = a->tensor, *y = b->tensor;
	const size_t head = offsetof(struct tensor_meta, shape), n = 8u * x->meta.ndim;
	assert_memory_equal(&x->meta, &y->meta, head);
	assert_int_equal(!x->meta.shape, !y->meta.shape);
	assert_int_equal(!x->meta.stride, !y->meta.stride);
	if (n && x->meta.shape)
		assert_memory_equal(x->meta.shape, y->meta.shape, n);
	if (n && x->meta.stride)
		assert_memory_equal(x->meta.stride, y->meta.stride, n);
	assert_int_equal(x->storage_offset, y->storage_offset);
	assert_int_equal(x->data_ptr, y->data_ptr);
	assert_int_equal(x->impl, y->impl);
	assert_int_equal(x->storage, y->storage);
}

static void flip(struct packed *p, uint32_t bit)
{
	p->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

/* Whatever else is read of a tensor once `usual` has been seen, it is decoded to the same as if
 * none had, also where one like it has come next the last time. Returns how many of those that
 * differ from `p` in one bit were found to be as `usual` is. */
static unsigned count_same(const struct packed *usual, struct packed *p)
{
	unsigned n = 0;
	for (uint32_t bit = 0; bit < 8 * p->len; bit++) {
		flip(p, bit);
		seen_tensors_forget(&s.target);
		struct value alone = decode_packed(p);
		seen_tensors_forget(&s.target);
		flip(p, bit);
		for (unsigned i = 0; i < 3; i++)
			decode_packed(usual);
		const uint64_t same = decode_packed(usual).tensor->same;
		assert_int_not_equal(same, 0);
		flip(p, bit);
		struct value after = decode_packed(p);
		flip(p, bit);
		expect_same(&after, &alone);
		n += after.kind == VALUE_TENSOR && after.tensor->same == same;
	}
	return n;
}

static struct packed packed_without_meta(void)
{
	struct tensor_snapshot snap = sample(2);
	struct packed p = {.parts = TPART_STORAGE};
	p.len = sample_pack(read_packed(), &snap, p.bytes);
	s.target.layout.unknown &= ~(uint32_t)LAYOUT_NODE;
	memset(p.bytes + 24, 0, 8);
	return p;
}

/* With the words of an AutogradMeta, and the sequence number of its grad_fn. */
static struct packed packed_with_node(void)
{
	const struct tensor_layout *l = &s.target.layout;
	struct packed p = packed_without_meta();
	struct tensor_read *c = &s.target.reads[0];
	const uint64_t address = 0x555700000040, grad_fn = 0x555800000040, seq = 3;
	uint64_t meta[] = {s.fake.meta, grad_fn, 0};
	assert_int_equal(l->unknown & LAYOUT_META, 0);
	((uint8_t *)&meta[2])[l->meta_requires_grad % 8] = 1;
	c->grad_fn = l->meta_grad_fn;
	c->requires_grad = l->meta_requires_grad;
	c->meta_len = (uint16_t)((l->meta_grad_fn > l->meta_requires_grad ? l->meta_grad_fn
									  : l->meta_requires_grad) /
				     8 * 8 +
				 8);
	c->pack_meta = 1;
	p.parts |= TPART_META | TPART_NODE;
	memcpy(p.bytes + 24, &address, 8);
	p.len = sample_append(p.bytes, p.len, (const uint8_t *)meta, sizeof(meta));
	p.len = sample_append(p.bytes, p.len, (const uint8_t *)&seq, sizeof(seq));
	return p;
}

static void test_seen(void **state)
{
	(void)state;
	struct packed p = packed_without_meta();
	const uint64_t same = decode_packed(&p).tensor->same;
	/* Only the addresses of the tensor, its storage and its data. */
	assert_int_equal(count_same(&p, &p), 3 * 64);
	s.target.conf.generation++;
	assert_int_not_equal(decode_packed(&p).tensor->same, same);
}

static void test_seen_meta(void **state)
{
	(void)state;
	struct packed p = packed_with_node();
	assert_int_equal(decode_packed(&p).tensor->meta.unknown, 0);
	/* Also those of its AutogradMeta and its node, and the node's number. */
	assert_int_equal(count_same(&p, &p), 6 * 64);
	seen_tensors_forget(&s.target);
}

/* One without a storage, though as long, is none that was seen with one. */
static void test_seen_no_storage(void **state)
{
	(void)state;
	struct packed p = packed_with_node(), other = p;
	p.parts = TPART_STORAGE | TPART_META;
	p.len -= 8;
	other.parts = TPART_META | TPART_NODE;
	other.len = p.len;
	const size_t storage = other.len - 32;
	memmove(other.bytes + storage, other.bytes + storage + 8, 32);
	assert_int_equal(count_same(&p, &other), 0);
	seen_tensors_forget(&s.target);
}

/* IValues. */

struct ivalue {
	uint64_t payload;
	uint32_t tag, pad;
};

static struct value boxed_one(const struct schema_arg *type)
{
	struct decode d = {.target = &s.target, .arena = &arena};
	struct items it = exact(&rec);
	struct value out;
	decode_boxed(&d, &it, READ, type, 1, &out);
	free((void *)it.data);
	return out;
}

static struct value boxed(uint32_t tag, uint64_t payload, unsigned base)
{
	struct ivalue v = {.payload = payload, .tag = tag};
	struct schema_arg type = {.base = (uint8_t)base};
	begin();
	record_item(&rec, ITEM_DATA, READ, 1, &v, sizeof(v));
	return boxed_one(&type);
}

static void test_boxed_plain(void **state)
{
	(void)state;
	assert_int_equal(boxed(IVALUE_NONE, 99, SCHEMA_INT).kind, VALUE_NONE);
	expect_int(boxed(IVALUE_INT, (uint64_t)-4, SCHEMA_INT), VALUE_INT, -4);
	expect_int(boxed(IVALUE_INT, 6, SCHEMA_DTYPE), VALUE_DTYPE, 6);
	expect_int(boxed(IVALUE_INT, 0, SCHEMA_LAYOUT), VALUE_LAYOUT, 0);
	expect_int(boxed(IVALUE_INT, 1, SCHEMA_MEMORY_FORMAT), VALUE_MEMORY_FORMAT, 1);
	expect_scalar(boxed(IVALUE_INT, 3, SCHEMA_SCALAR), VALUE_INT, 3, false);
	expect_scalar(boxed(IVALUE_DOUBLE, half, SCHEMA_SCALAR), VALUE_FLOAT, 0, false);
	struct value v = boxed(IVALUE_DOUBLE, half, SCHEMA_FLOAT);
	assert_int_equal(v.kind, VALUE_FLOAT);
	assert_true(v.f == 0.5);
	expect_int(boxed(IVALUE_OTHER, 1, SCHEMA_BOOL), VALUE_BOOL, 1);
	expect_not(boxed(IVALUE_OTHER, 9, SCHEMA_BOOL), "not a bool");
	expect_scalar(boxed(IVALUE_OTHER, 1, SCHEMA_SCALAR), VALUE_BOOL, 1, false);
	assert_int_equal(boxed(IVALUE_OTHER, 0x0301, SCHEMA_DEVICE).device.index, 3);
	expect_not(boxed(IVALUE_OTHER, 1, SCHEMA_OTHER),
		   "an IValue of a kind ditrace does not know");
	expect_not(boxed(200, 1, SCHEMA_INT), "an IValue of a kind ditrace does not know");
}

static void test_boxed_tensor(void **state)
{
	struct ivalue v = {.payload = 0x5000, .tag = IVALUE_TENSOR};
	struct schema_arg type = {.base = SCHEMA_TENSOR};
	struct tensor_snapshot a = sample(2);
	(void)state;
	begin();
	record_item(&rec, ITEM_DATA, READ, 1, &v, sizeof(v));
	expect_not(boxed_one(&type), "part of the values was lost");
	add_tensor(ITEM_SNAPSHOT, &a, TPART_UNDEFINED);
	assert_int_equal(boxed_one(&type).kind, VALUE_NONE);
	begin();
	record_item(&rec, ITEM_DATA, READ, 1, &v, sizeof(v));
	record_item(&rec, ITEM_FAULT, READ, 0, NULL, 0);
	expect_not(boxed_one(&type), "memory could not be read");
	begin();
	record_item(&rec, ITEM_DATA, READ, 1, &v, sizeof(v));
	add_tensor(ITEM_SNAPSHOT, &a, 0);
	assert_int_equal(boxed_one(&type).kind, VALUE_TENSOR);
}

/* Add the first OBJECT_SIZE bytes of an object of the class `name`. */
static void add_object(const char *name, uint32_t aux)
{
	uint64_t object[OBJECT_SIZE / 8] = {0};
	object[0] = fake_vtable(&s.fake, fake_type(&s.fake, name, 0), 0, 0);
	record_item(&rec, ITEM_OBJECT, READ, aux, object, sizeof(object));
}

static const struct ivalue pointer = {.payload = 0x7f0000001000, .tag = IVALUE_OTHER};

static void test_boxed_string(void **state)
{
	struct schema_arg type = {.base = SCHEMA_STR};
	(void)state;
	begin();
	record_item(&rec, ITEM_DATA, READ, 1, &pointer, sizeof(pointer));
	add_object("N3c106ivalue14ConstantStringE", OBJECT_STRING);
	record_item(&rec, ITEM_STRING, READ, 4, "mean", 4);
	struct value v = boxed_one(&type);
	assert_int_equal(v.kind, VALUE_STRING);
	assert_string_equal(v.str, "mean");
	/* what looks like a string in an object of another class is not one */
	begin();
	record_item(&rec, ITEM_DATA, READ, 1, &pointer, sizeof(pointer));
	add_object("N3c106ivalue6FutureE", OBJECT_STRING);
	record_item(&rec, ITEM_STRING, READ, 4, "mean", 4);
	expect_not(boxed_one(&type), "an IValue of a kind ditrace does not know");
	begin();
	record_item(&rec, ITEM_DATA, READ, 1, &pointer, sizeof(pointer));
	add_object("N3c106ivalue14ConstantStringE", OBJECT_STRING);
	expect_not(boxed_one(&type), "memory could not be read");
}

enum { CUSTOM_HEAD = 16, GROUP_AT = 24 };

/* What the only slot of an ivalue::Object holds: of the class `name`, derived from `base`. */
static void add_held(const char *name, const char *base, const uint64_t *rest, uint32_t len)
{
	uint64_t held[1 + OBJECT_SIZE / 8] = {0xabc0};
	uint64_t parent = base ? fake_type(&s.fake, base, 0) : 0;
	held[1] = fake_vtable(&s.fake, fake_type(&s.fake, name, parent), 0, 0);
	if (len)
		memcpy(&held[2], rest, len);
	record_item(&rec, ITEM_OBJECT, READ, 0, held, sizeof(held));
}

static void test_boxed_group(void **state)
{
	const uint64_t rest[] = {1, 0x7f0000002000, 1 | 4ULL << 32};
	struct schema_arg type = {.base = SCHEMA_OTHER};
	(void)state;
	for (int i = 0; i < 4; i++) {
		begin();
		s.target.conf.tensor.target_size = CUSTOM_HEAD;
		s.target.group_at = i == 1 ? GROUP_NOT_KNOWN : GROUP_AT;
		record_item(&rec, ITEM_DATA, READ, 1, &pointer, sizeof(pointer));
		add_object(i == 2 ? "N3c106ivalue6FutureE" : "N3c106ivalue6ObjectE",
			   OBJECT_SLOT | OBJECT_LIST);
		record_item(&rec, ITEM_DATA, READ, 0, NULL, 0);
		add_held("N4c10d16ProcessGroupGlooE", i == 3 ? NULL : "N4c10d12ProcessGroupE", rest,
			 sizeof(rest));
		struct value v = boxed_one(&type);
		if (i > 1) {
			assert_int_equal(v.kind, VALUE_NOT_DECODED);
			continue;
		}
		assert_int_equal(v.kind, VALUE_GROUP);
		assert_int_equal(v.group.address, 0xabc0);
		assert_int_equal(v.group.rank, i ? -1 : 1);
		assert_int_equal(v.group.size, i ? -1 : 4);
	}
}

/* Backends are named by the classes of their groups. */
static void test_boxed_work(void **state)
{
	static const struct {
		const char *name, *base, *backend;
	} is[] = {
	    {"N4c10d16ProcessGroupGloo9AsyncWorkE", "N4c10d4WorkE", "gloo"},
	    {"N2my16ProcessGroupHCCL8WorkHCCLE", "N4c10d4WorkE", "hccl"},
	    {"N4c10d14PyProcessGroup6PyWorkE", "N4c10d4WorkE", NULL},
	    {"N4c10d99ProcessGroupGloo9AsyncWorkE", "N4c10d4WorkE", NULL},
	    {"N4c10d12ProcessGroup4WorkE", "N4c10d4WorkE", NULL},
	};
	struct schema_arg type = {.base = SCHEMA_OTHER};
	(void)state;
	for (size_t i = 0; i < sizeof(is) / sizeof(is[0]); i++) {
		begin();
		s.target.conf.tensor.target_size = CUSTOM_HEAD;
		record_item(&rec, ITEM_DATA, READ, 1, &pointer, sizeof(pointer));
		add_object("N3c106ivalue6ObjectE", OBJECT_SLOT | OBJECT_LIST);
		record_item(&rec, ITEM_DATA, READ, 0, NULL, 0);
		add_held(is[i].name, is[i].base, NULL, 0);
		struct value v = boxed_one(&type);
		assert_int_equal(v.kind, VALUE_WORK);
		assert_int_equal(v.work.address, 0xabc0);
		if (is[i].backend)
			assert_string_equal(v.work.backend, is[i].backend);
		else
			assert_null(v.work.backend);
	}
}

static void test_boxed_reduce_op(void **state)
{
	struct schema_arg types[2] = {{.base = SCHEMA_OTHER}, {.base = SCHEMA_INT}};
	struct ivalue values[2] = {pointer, {.payload = 7, .tag = IVALUE_INT}};
	struct decode d = {.target = &s.target, .arena = &arena};
	(void)state;
	for (uint64_t op = 4; op <= 200; op += 196) {
		const uint64_t rest[] = {1, op};
		struct value out[2];
		begin();
		s.target.conf.tensor.target_size = CUSTOM_HEAD;
		record_item(&rec, ITEM_DATA, READ, 2, values, sizeof(values));
		add_object("N3c106ivalue6ObjectE", OBJECT_SLOT);
		add_held("N4c10d8ReduceOpE", NULL, rest, sizeof(rest));
		struct items it = exact(&rec);
		decode_boxed(&d, &it, READ, types, 2, out);
		if (op == 4)
			assert_string_equal(out[0].str, "MAX");
		else
			expect_not(out[0], "an unknown reduction");
		expect_int(out[1], VALUE_INT, 7);
		free((void *)it.data);
	}
}

static void test_place_of_rank_and_size(void **state)
{
	const struct process_rank own = {.rank = 0, .world_size = 2}, none = {.rank = -1};
	uint32_t group[8] = {9, 9, 0, 2, 7, 0, 2, 1};
	const uint8_t *bytes = (const uint8_t *)group;
	(void)state;
	assert_int_equal(decode_group_place(&own, bytes, 16, sizeof(group)), 20);
	assert_int_equal(decode_group_place(&own, bytes, 8, sizeof(group)), GROUP_NOT_KNOWN);
	assert_int_equal(decode_group_place(&own, bytes, 24, sizeof(group)), 0);
	assert_int_equal(decode_group_place(&none, bytes, 8, sizeof(group)), 0);
}

static struct value boxed_string(unsigned base, const char *text)
{
	const struct schema_arg type = {.base = base};
	uint32_t n = (uint32_t)strlen(text);
	begin();
	record_item(&rec, ITEM_DATA, READ, 1, &pointer, sizeof(pointer));
	add_object("N3c106ivalue14ConstantStringE", OBJECT_STRING);
	record_item(&rec, ITEM_STRING, READ, n, text, n);
	return boxed_one(&type);
}

static void test_boxed_dimname(void **state)
{
	(void)state;
	struct value v = boxed_string(SCHEMA_DIMNAME, "dimname::N");
	assert_int_equal(v.kind, VALUE_STRING);
	assert_string_equal(v.str, "N");
	assert_int_equal(v.count, 1);
	assert_int_equal(boxed_string(SCHEMA_DIMNAME, "dimname::*").kind, VALUE_NONE);
	assert_string_equal(boxed_string(SCHEMA_STR, "dimname::N").str, "dimname::N");
}

static void test_boxed_list(void **state)
{
	struct ivalue ints[2] = {{.payload = 3, .tag = IVALUE_INT},
				 {.payload = 4, .tag = IVALUE_INT}};
	struct schema_arg type = {.base = SCHEMA_INT, .is_list = true, .list_depth = 1};
	(void)state;
	for (uint32_t there = 2; there <= 3; there++) {
		begin();
		record_item(&rec, ITEM_DATA, READ, 1, &pointer, sizeof(pointer));
		add_object("N3c106detail8ListImplE", OBJECT_LIST);
		record_item(&rec, ITEM_DATA, READ, there, ints, sizeof(ints));
		struct value v = boxed_one(&type);
		if (there == 3) {
			expect_not(v, "a list too long to be read");
			continue;
		}
		assert_int_equal(v.kind, VALUE_LIST);
		assert_int_equal(v.count, 2);
		expect_int(v.items[0], VALUE_INT, 3);
		expect_int(v.items[1], VALUE_INT, 4);
	}
}

/* Lists nested to the limit are decoded; one level more is not, and later values are not assigned
 * data that belongs to others. */
static void test_boxed_depth(void **state)
{
	struct schema_arg types[2] = {{.base = SCHEMA_OTHER}, {.base = SCHEMA_STR}};
	struct ivalue top[2] = {pointer, pointer};
	struct decode d = {.target = &s.target, .arena = &arena};
	(void)state;
	for (unsigned depth = VALUE_DEPTH_MAX; depth <= VALUE_DEPTH_MAX + 1; depth++) {
		struct value out[2];
		begin();
		record_item(&rec, ITEM_DATA, READ, 2, top, sizeof(top));
		for (unsigned i = 1; i <= depth; i++) {
			add_object("N3c106detail8ListImplE", OBJECT_LIST);
			record_item(&rec, ITEM_DATA, READ, i < depth, &pointer,
				    i < depth ? sizeof(pointer) : 0);
		}
		add_object("N3c106ivalue14ConstantStringE", OBJECT_STRING);
		record_item(&rec, ITEM_STRING, READ, 6, "behind", 6);
		struct items it = exact(&rec);
		decode_boxed(&d, &it, READ, types, 2, out);
		const struct value *v = &out[0];
		for (unsigned i = 1; i < VALUE_DEPTH_MAX; i++, v = v->items)
			assert_true(v->kind == VALUE_LIST && v->count == 1);
		assert_int_equal(v->kind, VALUE_LIST);
		assert_int_equal(v->count, depth > VALUE_DEPTH_MAX);
		if (depth == VALUE_DEPTH_MAX) {
			assert_string_equal(out[1].str, "behind");
		} else {
			expect_not(v->items[0], "lists nested too deeply");
			expect_not(out[1], "part of the values was lost");
		}
		free((void *)it.data);
	}
}

/* An object at the end of all items, truncated before its class is known. */
static void test_boxed_short_object(void **state)
{
	struct schema_arg type = {.base = SCHEMA_STR};
	(void)state;
	for (unsigned len = 0; len <= 16; len += 4) {
		static const uint8_t zeros[16];
		begin();
		record_item(&rec, ITEM_DATA, READ, 1, &pointer, sizeof(pointer));
		record_item(&rec, ITEM_OBJECT, READ, 0, zeros, len);
		assert_int_equal(boxed_one(&type).kind, VALUE_NOT_DECODED);
	}
}

/* Several values with the objects they point to; the caller's values lie below them. */
static void test_boxed_stack(void **state)
{
	struct ivalue v[4] = {
	    pointer, {.payload = 1, .tag = IVALUE_INT}, pointer, {.payload = 2, .tag = IVALUE_INT}};
	struct schema_arg types[5] = {{.base = SCHEMA_INT},
				      {.base = SCHEMA_STR},
				      {.base = SCHEMA_INT},
				      {.base = SCHEMA_INT},
				      {.base = SCHEMA_INT}};
	struct value out[5];
	struct decode d = {.target = &s.target, .arena = &arena};
	(void)state;
	begin();
	record_item(&rec, ITEM_DATA, READ, 4, v, sizeof(v));
	add_object("N3c106ivalue14ConstantStringE", OBJECT_STRING);
	record_item(&rec, ITEM_STRING, READ, 6, "caller", 6);
	add_object("N3c106ivalue14ConstantStringE", OBJECT_STRING);
	record_item(&rec, ITEM_STRING, READ, 3, "own", 3);
	struct items it = exact(&rec);
	decode_boxed(&d, &it, READ, types, 3, out);
	expect_int(out[0], VALUE_INT, 1);
	assert_string_equal(out[1].str, "own");
	expect_int(out[2], VALUE_INT, 2);
	/* more values expected than there are */
	decode_boxed(&d, &it, READ, types, 5, out);
	expect_not(out[4], "not on the stack");
	decode_boxed(&d, &it, READ + 1, types, 5, out);
	for (unsigned i = 0; i < 5; i++)
		expect_not(out[i], "not on the stack");
	free((void *)it.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_words),
	    cmocka_unit_test(test_symints),
	    cmocka_unit_test(test_scalar_tags_2),
	    cmocka_unit_test(test_scalar_tags_3),
	    cmocka_unit_test(test_optional_word),
	    cmocka_unit_test(test_optional_bytes),
	    cmocka_unit_test(test_optional_cut),
	    cmocka_unit_test(test_optional_words),
	    cmocka_unit_test(test_optional_double),
	    cmocka_unit_test(test_dimnames),
	    cmocka_unit_test(test_boxed_dimname),
	    cmocka_unit_test(test_too_few),
	    cmocka_unit_test(test_unset),
	    cmocka_unit_test(test_arrays),
	    cmocka_unit_test(test_bools),
	    cmocka_unit_test(test_strings),
	    cmocka_unit_test(test_truncated),
	    cmocka_unit_test(test_stack_item),
	    cmocka_unit_test(test_tensors),
	    cmocka_unit_test(test_snapshot_outline),
	    cmocka_unit_test(test_newer_generation),
	    cmocka_unit_test(test_packed),
	    cmocka_unit_test(test_seen),
	    cmocka_unit_test(test_seen_meta),
	    cmocka_unit_test(test_seen_no_storage),
	    cmocka_unit_test(test_boxed_plain),
	    cmocka_unit_test(test_boxed_tensor),
	    cmocka_unit_test(test_boxed_string),
	    cmocka_unit_test(test_boxed_group),
	    cmocka_unit_test(test_boxed_work),
	    cmocka_unit_test(test_boxed_reduce_op),
	    cmocka_unit_test(test_place_of_rank_and_size),
	    cmocka_unit_test(test_boxed_list),
	    cmocka_unit_test(test_boxed_depth),
	    cmocka_unit_test(test_boxed_short_object),
	    cmocka_unit_test(test_boxed_stack),
	};
	return unit_run(tests, setup, teardown);
}
