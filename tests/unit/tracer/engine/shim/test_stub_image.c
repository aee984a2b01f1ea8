/* The unwinding table of stubs, as libdw reads it: from each instruction of a stub to the one of
 * the function with the jump in whose place it stands; and what gdb is told of it. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbolizer/native/native_stack.h"
#include "tracer/engine/shim/jumps.h"
#include "tracer/shim/record/debugger.c"

enum { MAPPED = 16 << 12, STUBS = STUB_IMAGE + JUMP_POOL_HEAD, DEPTH = 4 };

/* push rbp; mov rbp, rsp; push r15; push r14 */
static const uint8_t window[] = {0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x41, 0x56};

/* Offset in the stub, bytes that it has pushed by then, offset from the window. */
struct step {
	unsigned at, pushed, to;
};

static const struct step plain[] = {{0, 0, 0},	{5, 8, 0},  {11, 0, 0}, {12, 0, 1},
				    {15, 0, 4}, {17, 0, 6}, {19, 0, 8}};
static const struct step skipping[] = {{0, 0, 0},  {4, 128, 0}, {9, 136, 0}, {15, 128, 0},
				       {19, 0, 0}, {20, 0, 1},	{23, 0, 4},  {27, 0, 8}};

/* The file, with two stubs, as a process has it mapped. */
static uint8_t *map_file(const struct jump_site *s, struct stub_image *image)
{
	uint8_t stub[JUMP_STUB];
	char name[] = "/tmp/ditrace-stubs-XXXXXX";
	int fd = mkstemp(name);
	assert_true(fd >= 0);
	unlink(name);
	stub_image_make(image, 0, STUB_IMAGE_MOST);
	assert_int_equal(pwrite(fd, image, sizeof(*image), 0), sizeof(*image));
	assert_int_equal(ftruncate(fd, STUB_IMAGE_MOST), 0);
	uint8_t *at = mmap(NULL, MAPPED, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	for (unsigned i = 0; i < 2; i++) {
		const off_t to = STUBS + (off_t)i * JUMP_STUB;
		jump_stub_contents(stub, &s[i], (uintptr_t)at + (uint64_t)to,
				   (uintptr_t)at + STUB_IMAGE + 8);
		assert_int_equal(pwrite(fd, stub, sizeof(stub), to), sizeof(stub));
	}
	close(fd);
	return at;
}

static void walk(struct native_stacks *s, uint64_t stub, const struct step *step,
		 const struct jump_site *site)
{
	static uint64_t stack[64];
	const struct mem mem = mem_process(getpid());
	uint64_t regs[ARCH_REGS] = {0};
	struct native_place at[DEPTH];
	bool whole;
	const uint64_t sp = (uintptr_t)&stack[32];
	regs[ARCH_IP] = stub + step->at;
	regs[ARCH_SP] = sp - step->pushed;
	const struct native_thread t = {.tid = getpid(), .regs = regs, .mem = &mem};
	assert_true(native_stacks_places(s, &t, at, DEPTH, &whole, NULL) > 1);
	assert_int_equal(at[0].pc, stub + step->at);
	assert_int_equal(at[1].pc, site->addr + step->to);
	assert_int_equal(at[1].sp, sp);
}

static void test_steps(void **state)
{
	struct stub_image image;
	struct jump_site s[2] = {
	    {.addr = (uintptr_t)test_steps, .len = sizeof(window), .number = 7},
	    {.addr = (uintptr_t)walk + 9, .len = sizeof(window), .skips_red_zone = true},
	};
	struct native_stacks *stacks;
	(void)state;
	memcpy(s[0].bytes, window, sizeof(window));
	memcpy(s[1].bytes, window, sizeof(window));
	uint8_t *at = map_file(s, &image);
	const uint64_t stub = (uintptr_t)at + STUBS;
	assert_int_equal(native_stacks_open(getpid(), &stacks, NULL), 0);
	for (unsigned i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		walk(stacks, stub, &plain[i], &s[0]);
	for (unsigned i = 0; i < sizeof(skipping) / sizeof(skipping[0]); i++)
		walk(stacks, stub + JUMP_STUB, &skipping[i], &s[1]);
	struct native_frame f;
	native_stacks_describe(stacks, stub + JUMP_STUB, &f);
	assert_string_equal(f.symbol, "ditrace_stub");
	native_stacks_close(stacks);
	munmap(at, MAPPED);
}

static void test_told(void **state)
{
	const struct jump_pool pool = {2, {{0x100000 + STUB_IMAGE, 0x4000}, {0x200000, 0x8000}}};
	(void)state;
	assert_null(__jit_debug_descriptor.first);
	for (unsigned i = 0; i < 2; i++) {
		debugger_hide();
		debugger_show(&pool);
		const struct code_entry *e = __jit_debug_descriptor.first;
		const struct stub_image *image = e->next->file;
		assert_null(e->next->next);
		assert_null(e->prev);
		assert_ptr_equal(e->next->prev, e);
		assert_int_equal(image->symbol[1].st_value, 0x100000 + STUBS);
		assert_int_equal(image->symbol[1].st_size, 0x4000 - JUMP_POOL_HEAD);
		assert_int_equal(image->section[3].sh_addr,
				 0x100000 + offsetof(struct stub_image, frame));
	}
	debugger_hide();
	assert_null(__jit_debug_descriptor.first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps),
					   cmocka_unit_test(test_told)};
	return unit_run(tests, NULL, NULL);
}
