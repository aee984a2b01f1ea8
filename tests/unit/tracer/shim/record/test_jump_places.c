/* Where memory for jumps is looked for. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tracer/shim/record/jump_places.c"

#define LOW UINT64_C(0x7f0000000000)
#define HIGH UINT64_C(0x7f0010000000)
enum { WANTED = 2 << 20 };

static struct jump_pool places_of(const char *maps)
{
	int fd = memfd_create("maps", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, maps, strlen(maps)), strlen(maps));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	const struct jump_pool p = jump_places(fd, LOW, HIGH, WANTED);
	close(fd);
	return p;
}

static void assert_place(const struct jump_pool *p, unsigned i, uint64_t addr, uint64_t len)
{
	assert_true(i < p->n);
	assert_int_equal(p->part[i].addr, addr);
	assert_int_equal(p->part[i].len, len);
}

#define TORCH                                                                                      \
	"7f0000000000-7f0008000000 r-xp 00000000 08:01 5 /a/libtorch_cpu.so\n"                     \
	"7f0008000000-7f0010000000 rw-p 08000000 08:01 5 /a/libtorch_cpu.so\n"

/* The nearest one of all that was asked for, at the end that is nearer. */
static void test_whole(void **state)
{
	(void)state;
	struct jump_pool p = places_of("7eff00000000-7efff0000000 ---p 00000000 00:00 0\n" TORCH
				       "7f0010300000-7f0020000000 ---p 00000000 00:00 0\n");
	assert_int_equal(p.n, 2);
	assert_place(&p, 0, HIGH, WANTED);
	assert_place(&p, 1, LOW - WANTED, WANTED);
	p = places_of("7eff00000000-7eff00001000 ---p 00000000 00:00 0\n"
		      "7effa0000000-7f0000000000 ---p 00000000 00:00 0\n" TORCH
		      "7f0010000000-7f0060000000 ---p 00000000 00:00 0\n"
		      "7f0090000000-7f0090001000 ---p 00000000 00:00 0\n");
	assert_place(&p, 0, 0x7f0060000000, WANTED);
	assert_place(&p, 1, 0x7effa0000000 - WANTED, WANTED);
	/* the first and the last bytes that can be reached */
	p = places_of("7eff90000000-7eff90001000 ---p 00000000 00:00 0\n"
		      "7eff90011000-7f0000000000 ---p 00000000 00:00 0\n" TORCH
		      "7f0010000000-7f007fff0000 ---p 00000000 00:00 0\n"
		      "7f00a0000000-7f00a0001000 ---p 00000000 00:00 0\n");
	assert_int_equal(p.n, 2);
	assert_place(&p, 0, 0x7eff90001000, 0x10000);
	assert_place(&p, 1, 0x7f007fff0000, 0xf000);
}

/* Several small ones: larger ones first, not those that are too small. */
static void test_small(void **state)
{
	(void)state;
	struct jump_pool p = places_of("7eff00000000-7effff000000 ---p 00000000 00:00 0\n"
				       "7effff010000-7effffff8000 rw-p 00000000 00:00 0 /[b] c\n"
				       "7efffffff000-7f0000000000 rw-p 00000000 00:00 0\n" TORCH
				       "7f0010020000-7f0010100000 ---p 00000000 00:00 0\n"
				       "7f0010103000-7f0060000000 ---p 00000000 00:00 0\n"
				       "7f0060010000-7f00b0000000 ---p 00000000 00:00 0\n");
	assert_int_equal(p.n, 4);
	assert_place(&p, 0, HIGH, 0x20000);
	assert_place(&p, 1, 0x7effff000000, 0x10000);
	assert_place(&p, 2, 0x7f0060000000, 0x10000);
	assert_place(&p, 3, 0x7effffff8000, 0x7000);
}

/* What may grow has room to. */
static void test_growing(void **state)
{
	(void)state;
	struct jump_pool p =
	    places_of("7effffe00000-7effffe01000 rw-p 00000000 00:00 0 [heap]\n" TORCH
		      "7f0010100000-7f0011000000 rw-p 00000000 00:00 0 [stack]\n"
		      "7f0011005000-7f0011006000 r--p 00000000 00:00 0 [vvar]\n"
		      "7f0011006000-7f0011008000 r-xp 00000000 00:00 0 [vdso]\n");
	assert_int_equal(p.n, 1);
	assert_place(&p, 0, 0x7f0011000000, 0x5000);
	p = places_of(TORCH "7fff00000000-7fff00100000 rw-p 00000000 00:00 0 [stack]\n");
	assert_int_equal(p.n, 1);
	assert_place(&p, 0, HIGH, WANTED);
	const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	struct rlimit limit;
	getrlimit(RLIMIT_STACK, &limit);
	if (!setrlimit(RLIMIT_STACK, &unlimited)) {
		p = places_of(TORCH "7fff00000000-7fff00100000 rw-p 00000000 00:00 0 [stack]\n");
		setrlimit(RLIMIT_STACK, &limit);
		assert_int_equal(p.n, 0);
	}
	p = places_of("");
	assert_int_equal(p.n, 0);
}

/* The best of many, with lines longer than any buffer. */
static void test_many(void **state)
{
	enum { GAPS = 200, NAME = 5000 };
	static char maps[(size_t)GAPS * NAME + 65536], name[NAME];
	char *end = maps + sprintf(maps, "%s", TORCH);
	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	uint64_t at = HIGH;
	for (unsigned i = 0; i < GAPS; i++) {
		at += 16ULL * PAGE + (uint64_t)(i * 37 % GAPS) * PAGE;
		end += sprintf(end, "%lx-%lx r-xp 00000000 08:01 5 /%s\n", (unsigned long)at,
			       (unsigned long)at + PAGE, name);
		at += PAGE;
	}
	const struct jump_pool p = places_of(maps);
	assert_int_equal(p.n, JUMP_PARTS);
	for (unsigned i = 0; i < p.n; i++)
		assert_int_equal(p.part[i].len, (16 + GAPS - 1 - i) * PAGE);
}

/* Of this process nothing is hit. */
static void test_own(void **state)
{
	(void)state;
	const uint64_t here = (uint64_t)(uintptr_t)places_of & ~UINT64_C(4095);
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	const struct jump_pool p = jump_places(fd, here, here + PAGE, WANTED);
	close(fd);
	assert_true(p.n > 0);
	for (unsigned i = 0; i < p.n; i++) {
		void *want = (void *)(uintptr_t)p.part[i].addr;
		assert_ptr_equal(mmap(want, p.part[i].len, PROT_READ,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
				 want);
		munmap(want, p.part[i].len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_whole),   cmocka_unit_test(test_small),
	    cmocka_unit_test(test_growing), cmocka_unit_test(test_many),
	    cmocka_unit_test(test_own),
	};

	return unit_run(tests, NULL, NULL);
}
