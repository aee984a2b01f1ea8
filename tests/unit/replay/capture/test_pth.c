
#include "tests/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "replay/capture/internal.h"
#include "tests/unit/self_source.h"

static char dir[64];

static int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/test_pth.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	(void)state;
	return rmdir(dir); /* fails if anything is left */
}

static const char *in_dir(const char *name)
{
	static char path[2][128];
	static int turn;
	turn = !turn;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", dir, name);
	return path[turn];
}

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

/* `v` is pickled as the `size` bytes at `bytes`; its PTH_*. */
static unsigned check_pickle(const struct value *v, const char *bytes, size_t size)
{
	static const char before[] = "\x80\x02}(X\x04\0\0\0nameX\x01\0\0\0fX\x04\0\0\0args(",
			  after[] = "tX\x06\0\0\0kwargs}(uX\x0a\0\0\0identifierX\x01\0\0\0iu.";
	const size_t n = sizeof(before) - 1, m = sizeof(after) - 1;
	const struct pth_content c = {.name = "f", .identifier = "i", .args = v, .nargs = 1};
	const struct pth_description nothing = {0};
	struct pth_pickle p = {0};
	assert_int_equal(pth_pickle(&c, &nothing, &p, NULL), 0);
	assert_int_equal(p.len, n + size + m);
	assert_memory_equal(p.data, before, n);
	assert_memory_equal(p.data + n, bytes, size);
	assert_memory_equal(p.data + n + size, after, m);
	unsigned limits = p.limits;
	pth_pickle_free(&p);
	return limits;
}

#define CHECK_PICKLE(literal, ...)                                                                 \
	check_pickle(&(const struct value){__VA_ARGS__}, literal, sizeof(literal) - 1)

#define CHECK_INT(i_, literal)                                                                     \
	assert_int_equal(CHECK_PICKLE(literal, .kind = VALUE_INT, .i = (i_)), 0)

/* Output of CPython's pickle.dumps(x, 2), without PROTO, memo and STOP. */
static void pickled_integers(void **state)
{
	(void)state;
	CHECK_INT(0, "K\x00");
	CHECK_INT(255, "K\xff");
	CHECK_INT(256, "M\x00\x01");
	CHECK_INT(65535, "M\xff\xff");
	CHECK_INT(65536, "J\x00\x00\x01\x00");
	CHECK_INT(-1, "J\xff\xff\xff\xff");
	CHECK_INT(INT32_MIN, "J\x00\x00\x00\x80");
	CHECK_INT(INT64_MIN, "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80");
	CHECK_PICKLE("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", .kind = VALUE_SCALAR,
		     .scalar = VALUE_INT, .is_unsigned = true, .i = -1);
	CHECK_PICKLE("K\x07", .kind = VALUE_SCALAR, .scalar = VALUE_INT, .is_unsigned = true,
		     .i = 7);
}

static void pickled_others(void **state)
{
	(void)state;
	enum { FLOAT32 = 6, BFLOAT16 = 15 };
	struct value none = {.kind = VALUE_NONE}, empty = {.kind = VALUE_LIST, .items = &none};
	CHECK_PICKLE("N", .kind = VALUE_NONE);
	CHECK_PICKLE("\x88", .kind = VALUE_BOOL, .i = true);
	CHECK_PICKLE("\x89", .kind = VALUE_BOOL, .i = false);
	assert_int_equal(
	    CHECK_PICKLE("G\xbf\xf8\x00\x00\x00\x00\x00\x00", .kind = VALUE_FLOAT, .f = -1.5),
	    PTH_FULL_LOAD_1_13);
	CHECK_PICKLE("X\x03\x00\x00\x00"
		     "a\0b",
		     .kind = VALUE_STRING, .str = "a\0b", .count = 3);
	assert_int_equal(CHECK_PICKLE("ctorch\nfloat32\n", .kind = VALUE_DTYPE, .i = FLOAT32), 0);
	assert_int_equal(CHECK_PICKLE("ctorch\nbfloat16\n", .kind = VALUE_DTYPE, .i = BFLOAT16),
			 PTH_FULL_LOAD_1_13);
	CHECK_PICKLE("](e", .kind = VALUE_LIST);
	CHECK_PICKLE("](](ee", .kind = VALUE_LIST, .items = &empty, .count = 1);
}

/* Offset of `needle` in the file from `from` on, or -1. */
static long find(const unsigned char *data, size_t n, const char *needle, size_t from)
{
	size_t k = strlen(needle);
	for (size_t i = from; i + k <= n; i++)
		if (!memcmp(data + i, needle, k))
			return (long)i;
	return -1;
}

static size_t read_whole(const char *path, unsigned char *out, size_t size)
{
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	size_t n = fread(out, 1, size, f);
	fclose(f);
	return n;
}

static void members_are_aligned(void **state)
{
	(void)state;
	static unsigned char data[65536];
	const char *path = in_dir("some.pth");
	struct archive *a;
	uint64_t bytes;

	assert_int_equal(archive_open(path, 0, &a, NULL), 0);
	assert_int_equal(archive_add(a, "first", "hello one", 9, NULL), 0);
	assert_int_equal(archive_member(a, "data/0", 12, NULL), 0);
	assert_int_equal(archive_write(a, "hello ", 6, NULL), 0);
	assert_false(exists(path));
	assert_int_equal(archive_write(a, "two...", 6, NULL), 0);
	assert_int_equal(archive_add(a, "none", "", 0, NULL), 0);
	assert_int_equal(archive_close(a, &bytes, NULL), 0);
	size_t n = read_whole(path, data, sizeof(data));
	assert_int_equal(n, bytes);
	assert_int_equal(find(data, n, "hello one", 0) % ARCHIVE_ALIGN, 0);
	assert_int_equal(find(data, n, "hello two...", 0) % ARCHIVE_ALIGN, 0);
	assert_int_equal(find(data, n, "some/data/0", 0) > 0, 1);
	assert_false(exists(in_dir("some.pth.part")));
	unlink(path);
}

static void limits_and_failures_leave_nothing(void **state)
{
	(void)state;
	static const char zeros[4096];
	const char *path = in_dir("limited.pth");
	struct archive *a;
	struct err e = {0};

	assert_int_equal(archive_open(path, 10000, &a, &e), 0);
	assert_int_equal(archive_member(a, "data/0", 1 << 20, &e), 0);
	int rc = 0;
	for (int i = 0; i < 64 && !rc; i++)
		rc = archive_write(a, zeros, sizeof(zeros), &e);
	assert_int_equal(rc, -EOVERFLOW);
	assert_non_null(strstr(e.what, "10000"));
	archive_abort(a);
	/* The directory at the end exceeds the limit. */
	assert_int_equal(archive_open(path, 4200, &a, &e), 0);
	assert_int_equal(archive_add(a, "data/0", zeros, sizeof(zeros), &e), 0);
	assert_int_equal(archive_close(a, NULL, &e), -EOVERFLOW);
	assert_int_equal(archive_open(path, 0, &a, &e), 0);
	assert_int_equal(archive_member(a, "data/0", 2, &e), 0);
	assert_int_equal(archive_write(a, zeros, 3, &e), -EINVAL);
	archive_abort(a);
	archive_abort(NULL);
	assert_int_equal(archive_open(in_dir("no/such/file"), 0, &a, &e), -ENOENT);
	assert_false(exists(path));
	assert_false(exists(in_dir("limited.pth.part")));
}

/* The file cannot grow (RLIMIT_FSIZE): what is buffered fails late. */
static void a_file_that_may_not_grow(void **state)
{
	(void)state;
	static const char zeros[100000];
	struct rlimit old, small = {5000, 5000};
	struct archive *a;
	struct err e = {0};
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small.rlim_max = old.rlim_max;
	for (size_t n = 4900; n < sizeof(zeros); n += 25000) {
		assert_int_equal(archive_open(in_dir("big.pth"), 0, &a, &e), 0);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
		int rc = archive_add(a, "data/0", zeros, n, &e);
		if (rc)
			archive_abort(a);
		else
			rc = archive_close(a, NULL, &e);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
		assert_int_equal(rc, -EFBIG);
		assert_non_null(strstr(e.what, "big.pth"));
		assert_false(exists(in_dir("big.pth")));
		assert_false(exists(in_dir("big.pth.part")));
	}
}

static const int64_t four[] = {4}, one[] = {1};

static struct tensor tensor_at(void *data, uint64_t storage, uint16_t dtype, int64_t offset)
{
	return (struct tensor){.meta = {.dtype = dtype,
					.device_index = -1,
					.ndim = 1,
					.numel = 4,
					.shape = four,
					.stride = one},
			       .storage_offset = offset,
			       .data_ptr = (uint64_t)(uintptr_t)data,
			       .storage = storage};
}

static void extents(void **state)
{
	(void)state;
	enum { FLOAT32 = 6, QUINT4X2 = 16 };
	struct extent x;
	struct tensor t = tensor_at((void *)1000, 1, FLOAT32, 5);
	assert_int_equal(extent_of(&t, false, &x), REFUSED_NOT);
	assert_int_equal(x.base, 980);
	assert_int_equal(x.bytes, 36);
	t.meta.dtype = QUINT4X2;
	t.storage_offset = 0;
	assert_int_equal(extent_of(&t, false, &x), REFUSED_NOT);
	assert_int_equal(x.bytes, 2);
	t.storage_offset = INT64_MAX;
	assert_int_equal(extent_of(&t, false, &x), REFUSED_STRANGE);
	t.storage_offset = -1;
	assert_int_equal(extent_of(&t, false, &x), REFUSED_STRANGE);
	static const int64_t huge[] = {INT64_MAX, INT64_MAX}, back[] = {-1};
	t = tensor_at((void *)1000, 1, FLOAT32, 0);
	t.meta.shape = t.meta.stride = huge;
	t.meta.ndim = 2;
	assert_int_equal(extent_of(&t, false, &x), REFUSED_STRANGE);
	t = tensor_at((void *)1000, 1, FLOAT32, 0);
	t.meta.stride = back;
	assert_int_equal(extent_of(&t, false, &x), REFUSED_STRANGE);
	t = tensor_at((void *)1000, 1, 999, 0);
	assert_int_equal(extent_of(&t, false, &x), REFUSED_UNKNOWN);
	t = tensor_at((void *)1000, 1, FLOAT32, 0);
	t.meta.device_type = 1;
	assert_int_equal(extent_of(&t, false, &x), REFUSED_DEVICE);
	assert_int_equal(extent_of(&t, true, &x), REFUSED_NOT);
	t.meta.unknown = TENSOR_NO_SHAPE;
	assert_int_equal(extent_of(&t, true, &x), REFUSED_UNKNOWN);
	t.meta.unknown = TENSOR_NO_STRIDE | TENSOR_NO_LAYOUT | TENSOR_NO_OFFSET;
	assert_int_equal(extent_of(&t, true, &x), REFUSED_WRAPPED);
}

/* Describe `t`, and see that the i-th is in storage number storages[i]. */
static struct pth_description described(const struct tensor *const *t, const int *storages,
					unsigned n)
{
	const struct source src = {.read = source_read_self};
	struct value v[8];
	struct pth_description d = {0};
	enum refusal refusal = REFUSED_NOT;
	for (unsigned i = 0; i < n; i++)
		v[i] = (struct value){.kind = VALUE_TENSOR, .tensor = (struct tensor *)t[i]};
	const struct pth_content c = {.name = "f", .args = v, .nargs = n};
	assert_int_equal(pth_describe(&c, &src, &d, &refusal, NULL), 0);
	assert_int_equal(d.ntensors, n);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(d.tensors[i].storage, storages[i]);
	return d;
}

static void storages_are_shared(void **state)
{
	(void)state;
	enum { FLOAT32 = 6, INT32 = 3, UINT32 = 28, FLOAT8 = 24, META = 14 };
	float memory[16];
	struct tensor a = tensor_at(memory, 1, FLOAT32, 0),
		      b = tensor_at(memory + 8, 1, FLOAT32, 8),
		      other = tensor_at(memory, 2, FLOAT32, 0),
		      as_int = tensor_at(memory, 1, INT32, 0),
		      untyped = tensor_at(memory, 1, UINT32, 0),
		      bytes = tensor_at(memory, 1, FLOAT8, 0), meta = a;
	meta.meta.device_type = META;
	/* untyped and bytes are both UntypedStorage. */
	const struct tensor *all[] = {&a, &b, &a, &other, &as_int, &untyped, &bytes, &meta};
	const int storages[] = {0, 0, 0, 1, 2, 3, 3, NO_STORAGE};
	struct pth_description d = described(all, storages, 1);
	assert_int_equal(d.storages[0].bytes, 16);
	pth_description_free(&d);
	d = described(all, storages, 8);
	assert_int_equal(d.storages[0].bytes, 48);
	assert_int_equal(d.nstorages, 4);
	pth_description_free(&d);
}

static const int64_t zero[] = {0};

/* Of tensors without elements whose storage is not known each has one of its own. */
static void storages_of_nothing(void **state)
{
	(void)state;
	struct tensor t = tensor_at((void *)1000, 0, 6, 0);
	t.meta.shape = zero;
	t.meta.numel = 0;
	const struct tensor *both[] = {&t, &t};
	struct pth_description d = described(both, (const int[]){0, 1}, 2);
	assert_int_equal(d.storages[1].bytes, 0);
	pth_description_free(&d);
	t.storage = 7;
	d = described(both, (const int[]){0, 0}, 2);
	pth_description_free(&d);
}

static int fails(void *ctx, uint64_t address, void *to, size_t n)
{
	(void)address;
	(void)to;
	(void)n;
	return *(int *)ctx;
}

static void a_source_that_fails(void **state)
{
	(void)state;
	int rc = -ESRCH;
	float memory[4] = {0};
	struct tensor t = tensor_at(memory, 1, 6, 0);
	struct value v = {.kind = VALUE_TENSOR, .tensor = &t};
	struct pth_content c = {.name = "torch.relu", .identifier = "1", .args = &v, .nargs = 1};
	struct source src = {.ctx = &rc, .read = fails};
	struct pth_result r;
	struct err e = {0};
	assert_int_equal(pth_write(in_dir("x.pth"), &c, &src, 0, &r, &e), -ESRCH);
	assert_false(exists(in_dir("x.pth")));
	src = (struct source){.read = source_read_self};
	assert_int_equal(pth_write(in_dir("x.pth"), &c, &src, 100, &r, &e), -EOVERFLOW);
	v = (struct value){.kind = VALUE_STRING, .str = "\xff", .count = 1};
	assert_int_equal(pth_write(in_dir("x.pth"), &c, &src, 0, &r, &e), -ENOTSUP);
	assert_int_equal(r.refusal, REFUSED_TEXT);
	assert_non_null(strstr(e.what, "torch.relu cannot be saved: argument 0: a string"));
}

static void limits_in_words(void **state)
{
	(void)state;
	char text[256];
	assert_string_equal(pth_limits_text(text, sizeof(text), 0), "");
	assert_string_equal(pth_limits_text(text, sizeof(text), PTH_NOT_1_13 | PTH_FULL_LOAD),
			    "torch.load needs weights_only=False, torch 1.13 cannot load it");
	assert_int_equal(strlen(pth_limits_text(text, 10, ~0u)), 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pickled_integers),
	    cmocka_unit_test(pickled_others),
	    cmocka_unit_test(members_are_aligned),
	    cmocka_unit_test(limits_and_failures_leave_nothing),
	    cmocka_unit_test(a_file_that_may_not_grow),
	    cmocka_unit_test(extents),
	    cmocka_unit_test(storages_are_shared),
	    cmocka_unit_test(storages_of_nothing),
	    cmocka_unit_test(a_source_that_fails),
	    cmocka_unit_test(limits_in_words),
	};
	return unit_run(tests, make_dir, remove_dir);
}
