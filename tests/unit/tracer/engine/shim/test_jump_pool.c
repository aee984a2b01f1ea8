/* What is in a pool of several parts: here, of this process. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tracer/engine/shim/jumps.h"

enum { PAGE = 4096, IN_PAGE = PAGE / JUMP_STUB, STUBS = 4 * IN_PAGE };

static int mem;
static uint8_t *at;

/* Parts of one, two and one pages of stubs, each behind its head and a page of something else. */
static int map_parts(void **state)
{
	static struct jump_pool pool = {.n = 3};
	enum { PAGES = 3 + 4 + 3 };
	mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	at = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		  -1, 0);
	assert_true(mem >= 0 && at != MAP_FAILED);
	const uint64_t a = (uintptr_t)at;
	pool.part[0] = (struct jump_part){a + PAGE, 2 * PAGE};
	pool.part[1] = (struct jump_part){a + 4 * PAGE, 3 * PAGE};
	pool.part[2] = (struct jump_part){a + 8 * PAGE, 2 * PAGE};
	*state = &pool;
	return 0;
}

static struct jump_site site(uint32_t i)
{
	return (struct jump_site){
	    .addr = (uintptr_t)at + i * 8, .handler = 5 + i % 3, .number = i, .len = ARCH_JUMP_LEN};
}

static bool is_in(const struct jump_part *p, uint64_t addr)
{
	return addr >= p->addr + JUMP_POOL_HEAD && addr + JUMP_STUB <= p->addr + p->len;
}

/* The stub of each window is in a part, one of its own, and calls the handler's word of that part.
 */
static void check(const struct pool *p, const struct jump_pool *parts, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct jump_site s = site(i);
		assert_int_equal(pool_of_window(p, s.addr), i);
		const uint64_t stub = pool_stub_at(p, i);
		assert_int_equal(pool_of_address(p, stub), i);
		assert_int_equal(pool_of_address(p, stub + 1), -ENOENT);
		assert_int_equal(jump_stub_window(pool_stub(p, i)), s.addr);
		const struct jump_part *in = &parts->part[i < IN_PAGE	    ? 0
							  : i < 3 * IN_PAGE ? 1
									    : 2];
		assert_true(is_in(in, stub));
		/* push of 5 bytes, then call [rip + disp32], of 6 */
		int32_t d;
		memcpy(&d, (uint8_t *)(uintptr_t)stub + 7, sizeof(d));
		const uint64_t word = stub + 11 + (uint64_t)(int64_t)d;
		assert_in_range(word, in->addr + 8, in->addr + 3 * 8);
		assert_int_equal(*(uint64_t *)(uintptr_t)word, s.handler);
	}
	assert_int_equal(pool_of_address(p, parts->part[0].addr), -ENOENT);
	assert_int_equal(pool_of_address(p, parts->part[2].addr + 2 * PAGE), -ENOENT);
}

/* Written some at a time, and read again by the next ditrace. */
static void test_parts(void **state)
{
	const struct jump_pool *parts = *state;
	struct pool p;
	uint32_t n = 0;
	for (uint32_t until = 50; n < STUBS; until += 50) {
		assert_int_equal(pool_read(&p, mem, parts, NULL), 0);
		check(&p, parts, n);
		for (; n < until && n < STUBS; n++) {
			const struct jump_site s = site(n);
			assert_int_equal(pool_add(&p, &s), n);
		}
		assert_int_equal(pool_write(&p, mem), 0);
		check(&p, parts, n);
		pool_free(&p);
	}
	const struct jump_site more = site(n);
	assert_int_equal(pool_read(&p, mem, parts, NULL), 0);
	check(&p, parts, n);
	assert_int_equal(pool_add(&p, &more), -ENOSPC);
	pool_free(&p);
	for (unsigned page = 0; page < 8; page += page ? 4 : 3)
		for (unsigned i = 0; i < PAGE; i++)
			assert_int_equal(at[page * PAGE + i], 0);
}

/* A site, or what a relative one refers to, gets a stub only from where a jump leads there. */
static void test_reach(void **state)
{
	enum { DISPLACEMENT_AT = 3, RELATIVE = 7 }; /* mov rax, [rip + disp32] */
	const struct jump_pool *parts = *state;
	const uint64_t far = UINT64_C(3) << 30;
	struct pool p;
	struct jump_site s = site(STUBS);
	assert_int_equal(pool_read(&p, mem, parts, NULL), 0);
	p.part[0].at.addr -= far;
	p.part[1].at.addr += far;
	p.part[0].stubs = p.part[1].stubs = p.part[2].stubs = 0;
	assert_int_equal(pool_add(&p, &s), p.part[2].first);
	assert_true(pool_reaches(&p, p.part[2].first, &s));
	assert_false(pool_reaches(&p, 0, &s));
	assert_false(pool_reaches(&p, p.part[1].first, &s));
	s.addr -= far;
	assert_int_equal(pool_add(&p, &s), 0);
	s.addr -= UINT64_C(1) << 32;
	assert_int_equal(pool_add(&p, &s), -ENOSPC);
	pool_free(&p);

	s = site(STUBS);
	s.relative = true;
	s.len = RELATIVE;
	assert_true(jump_pool_reaches(parts, &s));
	for (int up = 0; up < 2; up++) {
		const int32_t most = up ? INT32_MAX : INT32_MIN;
		memcpy(s.bytes + DISPLACEMENT_AT, &most, sizeof(most));
		struct jump_pool one = {1, {parts->part[2]}};
		assert_true(up == jump_pool_reaches(&one, &s));
		one.part[0].addr -= UINT64_C(1) << 20;
		assert_true(!up == jump_pool_reaches(&one, &s));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_parts, map_parts),
	    cmocka_unit_test_setup(test_reach, map_parts),
	};

	return unit_run(tests, NULL, NULL);
}
