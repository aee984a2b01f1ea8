/* Each instruction form is run by the emulator and by the processor (a single-stepped child) from
 * the same registers and memory; both must agree. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbolizer/code/arch_x86_64.h"
#include "tracer/engine/ptrace/internal.h"

enum { ROUNDS = 24, FLAGS = 0x8d5, CODE_AT = 0x800 };

static uint8_t *page;	/* shared with the child: code */
static uint64_t *stack; /* shared with the child */
static pid_t child;
static uint64_t seed = 1;

static uint64_t random_word(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static int setup(void **state)
{
	(void)state;
	int status;
	page =
	    mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	stack = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		_exit(0);
	}
	return child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status);
}

static int teardown(void **state)
{
	(void)state;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}

static int read_stack(void *arg, uint64_t addr, uint64_t *out)
{
	(void)arg;
	*out = *(uint64_t *)(uintptr_t)addr;
	return 0;
}

static int write_stack(void *arg, uint64_t addr, uint64_t value)
{
	(void)arg;
	*(uint64_t *)(uintptr_t)addr = value;
	return 0;
}

static const struct emulate_memory memory = {read_stack, write_stack, NULL};

static int no_read(void *arg, uint64_t addr, uint64_t *out)
{
	(void)arg, (void)addr, (void)out;
	return -EFAULT;
}

static int no_write(void *arg, uint64_t addr, uint64_t value)
{
	(void)arg, (void)addr, (void)value;
	return -EFAULT;
}

static void random_regs(uint64_t *regs, const struct user_regs_struct *base)
{
	memcpy(regs, base, ARCH_REGS * sizeof(*regs));
	for (unsigned i = 0; i < ARCH_ORIG_AX; i++)
		regs[i] = random_word();
	regs[ARCH_FLAGS] = (regs[ARCH_FLAGS] & ~(uint64_t)FLAGS) | (random_word() & FLAGS);
	regs[ARCH_SP] = (uintptr_t)&stack[256];
	regs[ARCH_ORIG_AX] = (uint64_t)-1;
}

/* The processor's result for the instruction at `at`. */
static void step(uint64_t *regs, uint64_t at, struct user_regs_struct *base)
{
	int status;
	memcpy(base, regs, ARCH_REGS * sizeof(*regs));
	base->rip = at;
	assert_int_equal(ptrace(PTRACE_SETREGS, child, NULL, base), 0);
	assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, base), 0);
	memcpy(regs, base, ARCH_REGS * sizeof(*regs));
}

static void compare(const uint8_t *code, const uint64_t *seen, const uint64_t *wanted)
{
	for (unsigned i = 0; i < ARCH_REGS; i++) {
		uint64_t mask = i == ARCH_FLAGS ? FLAGS : ~0ULL;
		if (i == ARCH_ORIG_AX || (seen[i] & mask) == (wanted[i] & mask))
			continue;
		fail_msg("%02x %02x %02x %02x: register %u is %#llx, the processor has %#llx",
			 code[0], code[1], code[2], code[3], i, (unsigned long long)seen[i],
			 (unsigned long long)wanted[i]);
	}
}

static void agree_once(const struct emulated *i, uint64_t at, const uint8_t *code)
{
	struct user_regs_struct base;
	uint64_t regs[ARCH_REGS], wanted[ARCH_REGS], before[512], after[512];
	assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &base), 0);
	for (unsigned k = 0; k < 512; k++)
		before[k] = stack[k] = random_word();
	random_regs(regs, &base);
	memcpy(wanted, regs, sizeof(regs));
	step(wanted, at, &base);
	memcpy(after, stack, sizeof(after));
	memcpy(stack, before, sizeof(before));
	assert_int_equal(emulate_run(i, at, regs, &memory), 0);
	compare(code, regs, wanted);
	assert_memory_equal(stack, after, sizeof(after));
}

/* Emulated and single-stepped, the instruction has the same effect on registers, flags and stack.
 */
static void agree(const uint8_t *code, size_t len, uint8_t kind)
{
	struct emulated i;
	memset(page, 0x90, 4096);
	memcpy(page + CODE_AT, code, len);
	assert_int_equal(emulate_decode(page + CODE_AT, 16, &i), 0);
	assert_int_equal(i.kind, kind);
	assert_int_equal(i.len, len);
	/* Decoding needs no byte after the instruction, and every byte of it. */
	assert_int_equal(emulate_decode(code, len, &i), 0);
	for (unsigned k = 0; k < ROUNDS; k++)
		agree_once(&i, (uintptr_t)page + CODE_AT, code);
}

static void push_and_pop(void **state)
{
	(void)state;
	for (unsigned reg = 0; reg < 8; reg++) {
		uint8_t low[] = {(uint8_t)(0x50 + reg)}, high[] = {0x41, (uint8_t)(0x50 + reg)};
		agree(low, 1, EMULATE_PUSH);
		agree(high, 2, EMULATE_PUSH);
		low[0] += 8;
		high[1] += 8;
		agree(low, 1, EMULATE_POP);
		agree(high, 2, EMULATE_POP);
	}
}

static void nops(void **state)
{
	static const uint8_t all[][10] = {
	    {0x90},
	    {0x66, 0x90},
	    {0xf3, 0x90},
	    {0xf3, 0x0f, 0x1e, 0xfa},
	    {0x0f, 0x1f, 0x00},
	    {0x0f, 0x1f, 0x40, 0x00},
	    {0x0f, 0x1f, 0x44, 0x00, 0x00},
	    {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},
	    {0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00},
	    {0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
	    {0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
	    {0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
	    {0x0f, 0x1f, 0x05, 0x00, 0x00, 0x00, 0x00},
	    {0x0f, 0x1f, 0x04, 0x25, 0x00, 0x00, 0x00, 0x00},
	};
	static const uint8_t len[] = {1, 2, 2, 4, 3, 4, 5, 6, 7, 8, 9, 10, 7, 8};
	(void)state;
	for (unsigned i = 0; i < sizeof(len); i++)
		agree(all[i], len[i], EMULATE_NOP);
}

static void jumps(void **state)
{
	(void)state;
	for (unsigned cond = 0; cond < 16; cond++) {
		uint8_t near[] = {(uint8_t)(0x70 + cond), 0x13},
			back[] = {(uint8_t)(0x70 + cond), 0xf0},
			far[] = {0x0f, (uint8_t)(0x80 + cond), 0x34, 0xff, 0xff, 0xff};
		agree(near, sizeof(near), EMULATE_COND);
		agree(back, sizeof(back), EMULATE_COND);
		agree(far, sizeof(far), EMULATE_COND);
	}
	agree((const uint8_t[]){0xeb, 0x7f}, 2, EMULATE_JUMP);
	agree((const uint8_t[]){0xeb, 0x80}, 2, EMULATE_JUMP);
	agree((const uint8_t[]){0xe9, 0x00, 0x04, 0, 0}, 5, EMULATE_JUMP);
	agree((const uint8_t[]){0xe9, 0x00, 0xff, 0xff, 0xff}, 5, EMULATE_JUMP);
	agree((const uint8_t[]){0xf2, 0xe9, 0x10, 0, 0, 0}, 6, EMULATE_JUMP);
}

static void calls(void **state)
{
	(void)state;
	agree((const uint8_t[]){0xe8, 0x20, 0x01, 0, 0}, 5, EMULATE_CALL);
	agree((const uint8_t[]){0xe8, 0x20, 0xff, 0xff, 0xff}, 5, EMULATE_CALL);
	agree((const uint8_t[]){0xf2, 0xe8, 0x20, 0xff, 0xff, 0xff}, 6, EMULATE_CALL);
}

/* The return address must be one that the stack can hold, as the step is compared there. */
static void return_once(const uint8_t *code, size_t len, uint64_t at)
{
	struct user_regs_struct base;
	uint64_t regs[ARCH_REGS], wanted[ARCH_REGS];
	struct emulated i;
	memcpy(page + CODE_AT, code, len);
	assert_int_equal(emulate_decode(code, len, &i), 0);
	assert_int_equal(i.kind, EMULATE_RET);
	assert_int_equal(i.len, len);
	assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &base), 0);
	random_regs(regs, &base);
	stack[256] = (uintptr_t)page + 16;
	memcpy(wanted, regs, sizeof(regs));
	step(wanted, at, &base);
	assert_int_equal(emulate_run(&i, at, regs, &memory), 0);
	compare(code, regs, wanted);
}

static void returns(void **state)
{
	(void)state;
	uint64_t at = (uintptr_t)page + CODE_AT;
	memset(page, 0x90, 4096);
	return_once((const uint8_t[]){0xc3, 0, 0, 0}, 1, at);
	return_once((const uint8_t[]){0xf3, 0xc3, 0, 0}, 2, at);
	return_once((const uint8_t[]){0xf2, 0xc3, 0, 0}, 2, at);
	return_once((const uint8_t[]){0xc2, 0x18, 0x00, 0}, 3, at);
}

static void stack_arithmetic(void **state)
{
	(void)state;
	for (unsigned imm = 0; imm < 256; imm += 5) {
		agree((const uint8_t[]){0x48, 0x83, 0xec, (uint8_t)imm}, 4, EMULATE_SUB_SP);
		agree((const uint8_t[]){0x48, 0x83, 0xc4, (uint8_t)imm}, 4, EMULATE_SUB_SP);
		agree((const uint8_t[]){0x48, 0x81, 0xec, (uint8_t)imm, 3, 0, 0}, 7,
		      EMULATE_SUB_SP);
		agree((const uint8_t[]){0x48, 0x81, 0xc4, (uint8_t)imm, 0xfe, 0xff, 0xff}, 7,
		      EMULATE_SUB_SP);
	}
}

static void moves(void **state)
{
	(void)state;
	for (unsigned rex = 0x48; rex <= 0x4d; rex++) {
		if (rex & 2)
			continue;
		for (unsigned modrm = 0xc0; modrm <= 0xff; modrm++) {
			agree((const uint8_t[]){(uint8_t)rex, 0x89, (uint8_t)modrm}, 3,
			      EMULATE_MOVE);
			agree((const uint8_t[]){(uint8_t)rex, 0x8b, (uint8_t)modrm}, 3,
			      EMULATE_MOVE);
		}
	}
}

static void others_are_not_emulated(void **state)
{
	static const uint8_t all[][8] = {
	    {0x0f, 0x05},	      /* syscall */
	    {0xff, 0xe0},	      /* jmp *%rax */
	    {0xff, 0x25, 1, 0, 0, 0}, /* jmp *1(%rip) */
	    {0x48, 0x8b, 0x07},	      /* mov (%rdi),%rax */
	    {0x48, 0x83, 0xe8, 1},    /* sub $1,%rax */
	    {0x83, 0xec, 8},	      /* sub $8,%esp */
	    {0x89, 0xc0},	      /* mov %eax,%eax */
	    {0xcc},
	    {0x66, 0x50}, /* push %ax */
	};
	struct emulated i;
	(void)state;
	for (unsigned k = 0; k < sizeof(all) / sizeof(all[0]); k++)
		assert_int_equal(emulate_decode(all[k], 8, &i), -ENOTSUP);
	assert_int_equal(emulate_decode((const uint8_t[]){0xe8, 1, 2}, 3, &i), -ENOTSUP);
	assert_int_equal(emulate_decode((const uint8_t[]){0x41}, 1, &i), -ENOTSUP);
	assert_int_equal(emulate_decode((const uint8_t[]){0}, 0, &i), -ENOTSUP);
}

static void memory_that_faults_changes_nothing(void **state)
{
	static const uint8_t all[][5] = {{0x55}, {0x5d}, {0xe8, 1, 2, 3, 4}, {0xc3}};
	const struct emulate_memory none = {no_read, no_write, NULL};
	struct emulated i;
	uint64_t regs[ARCH_REGS], before[ARCH_REGS];
	(void)state;
	for (unsigned k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
		for (unsigned r = 0; r < ARCH_REGS; r++)
			before[r] = regs[r] = random_word();
		assert_int_equal(emulate_decode(all[k], 5, &i), 0);
		assert_int_equal(emulate_run(&i, 0x1000, regs, &none), -EFAULT);
		assert_memory_equal(regs, before, sizeof(regs));
	}
}

/* A relocated instruction has the same effect as at its old place, on the processor, too. */
static void moved_agrees(const uint8_t *code, size_t len)
{
	enum { ELSEWHERE = 0x200, DATA = 0xc00 };
	uint8_t moved[EMULATE_INSN_MAX];
	struct user_regs_struct base;
	uint64_t regs[ARCH_REGS], there[ARCH_REGS], at = (uintptr_t)page + CODE_AT,
						    to = (uintptr_t)page + ELSEWHERE;
	memset(page, 0x90, 4096);
	memcpy(page + CODE_AT, code, len);
	*(uint64_t *)(page + DATA) = 0x1122334455667788;
	int n = emulate_relocate(page + CODE_AT, 16, at, to, moved);
	assert_int_equal(n, len);
	memcpy(page + ELSEWHERE, moved, (size_t)n);
	assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &base), 0);
	random_regs(regs, &base);
	regs[ARCH_DI] = (uintptr_t)&stack[100];
	memcpy(there, regs, sizeof(regs));
	step(regs, at, &base);
	step(there, to, &base);
	there[ARCH_IP] += at - to;
	compare(code, there, regs);
}

static void instructions_are_moved(void **state)
{
	(void)state;
	moved_agrees((const uint8_t[]){0x48, 0x8b, 0x07, 0}, 3); /* mov (%rdi),%rax */
	moved_agrees((const uint8_t[]){0x48, 0x89, 0x44, 0x24, 8}, 5);
	moved_agrees((const uint8_t[]){0x31, 0xc0, 0, 0}, 2);
	moved_agrees((const uint8_t[]){0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0}, 9);
	/* mov, lea and cmp relative to rip: 0x3f9 bytes after the instruction's end */
	moved_agrees((const uint8_t[]){0x48, 0x8b, 0x05, 0xf9, 3, 0, 0}, 7);
	moved_agrees((const uint8_t[]){0x4c, 0x8d, 0x3d, 0xf9, 3, 0, 0}, 7);
	moved_agrees((const uint8_t[]){0x48, 0x83, 0x3d, 0xf8, 3, 0, 0, 0x11}, 8);
}

static void what_cannot_be_moved(void **state)
{
	static const uint8_t flows[][8] = {
	    {0xe8, 1, 0, 0, 0}, {0x74, 1},   {0xff, 0xd0}, {0xff, 0x25, 1, 0, 0, 0}, {0xc3},
	    {0x0f, 0x05},	{0x0f, 0x0b}};
	uint8_t out[EMULATE_INSN_MAX];
	(void)state;
	for (unsigned i = 0; i < sizeof(flows) / sizeof(flows[0]); i++)
		assert_int_equal(emulate_relocate(flows[i], 8, 0x1000, 0x2000, out), -ENOTSUP);
	/* Beyond the reach of 32 bits. */
	const uint8_t far[] = {0x48, 0x8b, 0x05, 0xf9, 3, 0, 0};
	assert_int_equal(emulate_relocate(far, 7, 0x7f0000000000, 0x550000000000, out), -ENOTSUP);
	assert_int_equal(emulate_relocate((const uint8_t[]){0x06}, 1, 0x1000, 0x2000, out),
			 -EILSEQ);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(push_and_pop),
	    cmocka_unit_test(nops),
	    cmocka_unit_test(jumps),
	    cmocka_unit_test(calls),
	    cmocka_unit_test(returns),
	    cmocka_unit_test(stack_arithmetic),
	    cmocka_unit_test(moves),
	    cmocka_unit_test(others_are_not_emulated),
	    cmocka_unit_test(memory_that_faults_changes_nothing),
	    cmocka_unit_test(instructions_are_moved),
	    cmocka_unit_test(what_cannot_be_moved),
	};
	return unit_run(tests, setup, teardown);
}
