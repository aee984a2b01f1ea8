#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/unit/pythons.h"

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/native/native_stack.h"
#include "tracer/proc/thread_facts.h"
#include "tracer/stack/stack_snapshot.h"

#define CODE(name, text)                                                                           \
	asm(".pushsection .text\n.intel_syntax noprefix\n" #name ":\n" text "\n" #name             \
	    "_end:\n.att_syntax\n.popsection");                                                    \
	extern const uint8_t name[], name##_end[]

/* Registers saved by stores below a moved stack pointer, as in hand-written kernels. */
CODE(t_stores, "sub rsp, 0x20\n mov [rsp], rbx\n mov [rsp + 8], rbp\n mov rbp, rdi\n mov rbx, rsi\n"
	       ".globl t_stores_at\nt_stores_at: add rax, rbx\n jne t_stores_at\n mov rbx, [rsp]\n"
	       " mov rbp, [rsp + 8]\n add rsp, 0x20\n ret");
/* An aligned stack pointer: only the frame pointer leads to the frame's start. */
CODE(t_aligned, "push rbp\n mov rbp, rsp\n push r12\n and rsp, -64\n sub rsp, 0x40\n mov r12, rdi\n"
		".globl t_aligned_at\nt_aligned_at: add rax, r12\n jne t_aligned_at\n"
		" lea rsp, [rbp - 8]\n pop r12\n pop rbp\n ret");
/* The frame's start cannot be recovered. */
CODE(t_lost, "mov rax, rsp\n and rsp, -64\n xor eax, eax\n"
	     ".globl t_lost_at\nt_lost_at: dec rdx\n jne t_lost_at\n ret");
extern const uint8_t t_stores_at[], t_aligned_at[], t_lost_at[];

enum { WORDS = 64, TOP = 48, KNOWN = (1 << ARCH_REGS) - 1 };

/* A stack with the words 1000, 1001 ... */
static uint64_t words[WORDS];

static int read_words(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	uint64_t start = (uint64_t)(uintptr_t)words;
	(void)m;
	if (addr < start || len > sizeof(words) || addr - start > sizeof(words) - len)
		return -EFAULT;
	memcpy(buf, (const char *)words + (addr - start), len);
	return 0;
}

static const struct mem stack = {.read = read_words};

static uint64_t address(unsigned word)
{
	return (uint64_t)(uintptr_t)&words[word];
}

static int step(const uint8_t *code, const uint8_t *end, const uint8_t *at, uint64_t *regs,
		uint32_t *known)
{
	const struct frame_step_code f = {.code = code,
					  .len = (size_t)(end - code),
					  .vaddr = (uint64_t)(uintptr_t)code,
					  .mem = &stack};
	for (unsigned i = 0; i < WORDS; i++)
		words[i] = 1000 + i;
	*known = KNOWN;
	return frame_step(&f, &stack, (uint64_t)(uintptr_t)at, regs, known);
}

static void test_stores(void **state)
{
	uint64_t regs[ARCH_REGS] = {[ARCH_R12] = 12, [ARCH_BX] = 7, [ARCH_AX] = 8};
	uint32_t known;
	(void)state;
	regs[ARCH_SP] = address(TOP - 4);
	assert_int_equal(step(t_stores, t_stores_end, t_stores_at, regs, &known), 0);
	assert_int_equal(regs[ARCH_IP], 1000 + TOP);
	assert_true(regs[ARCH_SP] == address(TOP + 1));
	assert_int_equal(regs[ARCH_BX], 1000 + TOP - 4);
	assert_int_equal(regs[ARCH_BP], 1000 + TOP - 3);
	assert_int_equal(regs[ARCH_R12], 12);
	assert_true(known >> ARCH_BX & 1 && known >> ARCH_R12 & 1);
	assert_false(known >> ARCH_AX & 1 || known >> ARCH_DI & 1);
}

static void test_before_the_stores(void **state)
{
	uint64_t regs[ARCH_REGS] = {[ARCH_BX] = 7};
	uint32_t known;
	(void)state;
	regs[ARCH_SP] = address(TOP);
	assert_int_equal(step(t_stores, t_stores_end, t_stores, regs, &known), 0);
	assert_int_equal(regs[ARCH_IP], 1000 + TOP);
	assert_int_equal(regs[ARCH_BX], 7);
}

static void test_aligned(void **state)
{
	uint64_t regs[ARCH_REGS] = {0};
	uint32_t known;
	(void)state;
	regs[ARCH_SP] = address(8);
	regs[ARCH_BP] = address(TOP - 1);
	assert_int_equal(step(t_aligned, t_aligned_end, t_aligned_at, regs, &known), 0);
	assert_int_equal(regs[ARCH_IP], 1000 + TOP);
	assert_int_equal(regs[ARCH_BP], 1000 + TOP - 1);
	assert_int_equal(regs[ARCH_R12], 1000 + TOP - 2);
	assert_true(regs[ARCH_SP] == address(TOP + 1));
}

static void test_lost(void **state)
{
	uint64_t regs[ARCH_REGS] = {0};
	uint32_t known;
	(void)state;
	regs[ARCH_SP] = address(8);
	assert_int_equal(step(t_lost, t_lost_end, t_lost_at, regs, &known), -ENOTSUP);
	assert_int_equal(step(t_stores, t_stores_end, t_stores_end, regs, &known), -ENOTSUP);
	regs[ARCH_SP] = address(WORDS);
	assert_int_equal(step(t_stores, t_stores_end, t_stores_at, regs, &known), -EFAULT);
}

static void test_names(void **state)
{
	(void)state;
	assert_true(native_op_is("aten::add.Tensor", 16, "add_Tensor"));
	assert_true(native_op_is("add.Tensor", 10, "add_Tensor"));
	assert_true(native_op_is("aten::mm", 8, "mm"));
	assert_false(native_op_is("aten::mm", 8, "mm_out"));
	assert_false(native_op_is("aten::mm.out", 12, "mm"));
	assert_false(native_op_is("prim::mm", 8, "mm"));
}

static void test_syscall(void **state)
{
	struct thread_facts f;
	(void)state;
	thread_facts_syscall("202 0x55 0x189 0x0 0x1 0x2 0xffffffff 0x7ffe 0x7fff", &f);
	assert_true(f.in_syscall && f.syscall == 202);
	assert_true(f.arg[0] == 0x55 && f.arg[1] == 0x189 && f.arg[5] == 0xffffffff);
	thread_facts_syscall("running", &f);
	assert_false(f.in_syscall);
	thread_facts_syscall("-1 0x7ffe 0x7fff", &f);
	assert_false(f.in_syscall);
	thread_facts_syscall("202 0x55 0x189", &f);
	assert_false(f.in_syscall);
	thread_facts_syscall("", &f);
	assert_false(f.in_syscall);
}

/* Whether the look has Python frames of the main thread. */
static bool has_python(struct stack_reader *l, pid_t pid)
{
	const struct stack_snapshot *look;
	bool has = false;
	assert_int_equal(stack_reader_take(l, &look, NULL), 0);
	for (size_t i = 0; i < look->n; i++)
		has |= look->threads[i].facts.tid == pid && look->threads[i].python;
	return has;
}

/* A process that has no Python yet when it is first looked at. */
static void test_late_python(void **state)
{
	static const char *const argv[] = {
	    "sh", "-c",
	    "kill -STOP $$; exec python3 -c 'import time; print(1, flush=True); "
	    "time.sleep(99)'",
	    NULL};
	struct python p = python_start(argv);
	struct stack_reader *l;
	char line[8];
	int status;
	(void)state;
	assert_int_equal(waitpid(p.pid, &status, WUNTRACED), p.pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(stack_reader_open(p.pid, false, &l, NULL), 0);
	assert_false(has_python(l, p.pid));
	kill(p.pid, SIGCONT);
	if (!fgets(line, sizeof(line), p.out)) {
		print_message("# no python3 on this machine\n");
		skip();
	}
	assert_true(has_python(l, p.pid));
	stack_reader_close(l);
	python_stop(&p, SIGKILL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_stores),	cmocka_unit_test(test_before_the_stores),
	    cmocka_unit_test(test_aligned),	cmocka_unit_test(test_lost),
	    cmocka_unit_test(test_names),	cmocka_unit_test(test_syscall),
	    cmocka_unit_test(test_late_python),
	};
	return unit_run(tests, NULL, NULL);
}
