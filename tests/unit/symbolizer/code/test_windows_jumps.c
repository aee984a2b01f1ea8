/* Jumps written into the windows of functions, which then do what they did; and random code. */
#define _GNU_SOURCE
#include "tests/unit/windows_of.h"

#include <sys/mman.h>

enum { STUB = 64, PAGE = 4096, TRAP = 0xcc };

static uint8_t *put(uint8_t *to, const void *bytes, size_t n)
{
	memcpy(to, bytes, n);
	return to + n;
}

static uint8_t *put_jump(uint8_t *at, const uint8_t *to)
{
	int32_t distance = (int32_t)(to - (at + ARCH_JUMP_LEN));
	*at = 0xe9;
	memcpy(at + 1, &distance, sizeof(distance));
	return at + ARCH_JUMP_LEN;
}

/* Count in *hits, leave these status flags, do what the window does, and jump behind it. */
static void write_stub(uint8_t *stub, uint64_t *hits, uint32_t flags, const uint8_t *window,
		       unsigned len)
{
	/* lea rsp, [rsp - 128]; push rax; movabs rax, hits; inc qword ptr [rax]; pop rax;
	 * push flags; popfq; lea rsp, [rsp + 128] */
	stub = put(stub, (uint8_t[]){0x48, 0x8d, 0x64, 0x24, 0x80, 0x50, 0x48, 0xb8}, 8);
	stub = put(stub, &hits, sizeof(hits));
	stub = put(stub, (uint8_t[]){0x48, 0xff, 0x00, 0x58, 0x68}, 5);
	stub = put(stub, &flags, sizeof(flags));
	stub = put(stub, (uint8_t[]){0x9d, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0}, 9);
	stub = put(stub, window, len);
	put_jump(stub, window + len);
}

/* Memory for code within reach of `near`. */
static uint8_t *stubs_near(const uint8_t *near)
{
	uintptr_t at = (uintptr_t)near & ~(uintptr_t)(PAGE - 1);
	void *p = MAP_FAILED;
	for (int i = 1; i < 4096 && p == MAP_FAILED; i++)
		p = mmap((void *)(at + (uintptr_t)i * 16 * PAGE), PAGE,
			 PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void protect(const uint8_t *code, const uint8_t *end, int how)
{
	uintptr_t at = (uintptr_t)code & ~(uintptr_t)(PAGE - 1);
	assert_int_equal(mprotect((void *)at, (uintptr_t)end - at, how), 0);
}

typedef uint64_t two_fn(uint64_t a, uint64_t b);

/* Call the function with jumps in all its windows: it must return the same, and have passed its
 * entry and one of its exits. */
static void jump(const uint8_t *code, const uint8_t *end, uint32_t flags, uint64_t arg)
{
	const struct func_windows w = windows_of(code, end);
	uint8_t *stub = stubs_near(code), *at, saved[256];
	uint64_t entries = 0, exits = 0;
	two_fn *fn = (two_fn *)(uintptr_t)code;
	uint64_t expected = fn(arg, 5);

	if (!w.entry.len || !w.nexits)
		fail_msg("%s, %s", w.entry_reason, w.exit_reason);
	assert_true((size_t)(end - code) <= sizeof(saved));
	memcpy(saved, code, (size_t)(end - code));
	protect(code, end, PROT_READ | PROT_WRITE | PROT_EXEC);
	write_stub(stub, &entries, flags, code + w.entry.off, w.entry.len);
	at = put_jump((uint8_t *)(uintptr_t)code + w.entry.off, stub);
	memset(at, TRAP, w.entry.len - ARCH_JUMP_LEN);
	for (unsigned i = 0; i < w.nexits; i++) {
		uint8_t *own = stub + (1 + i) * (size_t)STUB;
		at = (uint8_t *)(uintptr_t)code + w.exit[i].off;
		write_stub(own, &exits, flags, at, w.exit[i].len);
		put_jump(at, own);
		memset(at + ARCH_JUMP_LEN, TRAP, w.exit[i].len - ARCH_JUMP_LEN);
	}
	uint64_t got = fn(arg, 5);
	memcpy((void *)(uintptr_t)code, saved, (size_t)(end - code));
	protect(code, end, PROT_READ | PROT_EXEC);
	munmap(stub, PAGE);
	assert_int_equal(got, expected);
	assert_int_equal(entries, 1);
	assert_int_equal(exits, 1);
}

static void test_jumps(void **state)
{
	const struct {
		const uint8_t *code, *end;
	} all[] = {
	    {framed, framed_end}, {guarded, guarded_end},   {popped, popped_end},
	    {tail, tail_end},	  {two_ways, two_ways_end}, {leaf, leaf_end},
	    {table, table_end},	  {canary, canary_end},
	};
	/* none, and all of CF PF AF ZF SF OF */
	static const uint32_t flags[] = {0x202, 0x8d5 | 0x202};
	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (int k = 0; k < 2; k++)
			for (uint64_t arg = 0; arg < 4; arg++)
				jump(all[i].code, all[i].end, flags[k], arg);
}

/* Whatever the code is, every path passes one of the windows of its returns. */
static void test_mutations(void **state)
{
	enum { TIMES = 1000 };
	uint8_t code[256];
	size_t len = (size_t)(two_ways_end - two_ways);
	uint32_t rng = 1;
	unsigned entries = 0, exits = 0;

	(void)state;
	for (int n = 0; n < TIMES; n++) {
		memcpy(code, two_ways, len);
		for (int k = 0; k < 3; k++) {
			rng = rng * 1664525 + 1013904223;
			code[(rng >> 8) % len] = (uint8_t)(rng >> 24);
		}
		around.pad[0] = code + (rng >> 16) % len;
		struct func_windows w = windows_of(code, code + len);
		entries += w.entry.len > 0;
		exits += w.nexits > 0;
	}
	print_message("# %u entries, %u exits\n", entries, exits);
	assert_true(entries && exits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_jumps),
	    cmocka_unit_test(test_mutations),
	};

	return unit_run(tests, NULL, NULL);
}
