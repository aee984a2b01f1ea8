/* Windows of functions written by hand. */
#ifndef TESTS_UNIT_WINDOWS_OF_H
#define TESTS_UNIT_WINDOWS_OF_H

#include "tests/unit/code_search.h"

#include <errno.h>

#include "symbolizer/code/return_sites.h"

CODE(t_work, "mov eax, 7; ret")
CODE(t_free, "ret")
CODE(t_fail, "ud2")

/* What is known beyond the function, for one test. */
static struct around {
	const uint8_t *pad[2], *piece, *piece_end;
	bool shared, no_pads;
} around;

static inline bool is_cleanup(void *arg, uint64_t target)
{
	(void)arg;
	return target == (uint64_t)(uintptr_t)t_free || target == (uint64_t)(uintptr_t)t_fail;
}

static inline int read_self(void *arg, uint64_t addr, void *buf, size_t len)
{
	(void)arg;
	memcpy(buf, (const void *)(uintptr_t)addr, len);
	return 0;
}

static inline const uint8_t *piece_self(void *arg, uint64_t addr, uint64_t *start, size_t *len)
{
	(void)arg;
	*start = (uint64_t)(uintptr_t)around.piece;
	*len = (size_t)(around.piece_end - around.piece);
	return addr - *start < *len ? around.piece : NULL;
}

static inline int pads_self(void *arg, uint64_t start, int (*fn)(uint64_t vaddr, void *fn_arg),
			    void *fn_arg)
{
	int r = around.no_pads ? -ENOEXEC : 0;
	(void)arg;
	for (int i = 0; i < 2 && !r; i++)
		if (around.pad[i] && start != (uint64_t)(uintptr_t)around.piece)
			r = fn((uint64_t)(uintptr_t)around.pad[i], fn_arg);
	return r;
}

static inline bool shared_self(void *arg, uint64_t start, size_t len)
{
	(void)arg;
	return around.shared && start && len;
}

static inline void windows_check_one(struct arch_decoder *d, const struct code_window *w,
				     const uint8_t *code, size_t len)
{
	struct arch_insn i;
	uint32_t n = 0;
	for (; n < w->len; n += i.len) {
		assert_true(n < ARCH_JUMP_LEN);
		assert_int_equal(arch_decode(d, code, len, 0x1000, w->off + n, &i), 0);
		assert_true(i.movable);
	}
	assert_int_equal(n, w->len);
}

/* The windows of the function, of which every path passes those of its returns. */
static inline struct func_windows windows_of(const uint8_t *code, const uint8_t *end)
{
	const struct return_sites_ops ops = {
	    .is_cleanup = is_cleanup, .read = read_self, .piece = piece_self};
	const struct windows_ops beyond = {.pads = pads_self, .is_shared = shared_self};
	struct return_sites_ctx *c = return_sites_new(&ops);
	struct arch_decoder *d = arch_decoder_new();
	size_t len = (size_t)(end - code);
	uint64_t vaddr = (uint64_t)(uintptr_t)code;
	uint32_t exits[EXITS_MAX];
	struct func_facts f;
	struct func_windows w;

	assert_true(c && d);
	assert_int_equal(return_sites_analyze(c, code, len, vaddr, &f), 0);
	assert_int_equal(windows_find(c, &f, &beyond, &w), 0);
	assert_int_equal(w.entry_reason == NULL, w.entry.len > 0);
	assert_int_equal(w.exit_reason == NULL, w.nexits > 0);
	windows_check_one(d, &w.entry, code, len);
	for (unsigned i = 0; i < w.nexits; i++) {
		windows_check_one(d, &w.exit[i], code, len);
		exits[i] = w.exit[i].off;
	}
	if (w.nexits)
		code_search_check(d, code, len, vaddr, exits, w.nexits, "function");
	arch_decoder_free(d);
	return_sites_free(c);
	around = (struct around){0};
	return w;
}

#define WINDOWS(name) windows_of(name, name##_end)

/* A frame, and its end. */
#define FRAME "push rbp; mov rbp, rsp; push rbx;"
#define UNFRAME "pop rbx; pop rbp; ret"

/* Functions that a jump fits, at both ends. */
CODE(framed, FRAME "sub rsp, 8; mov rbx, rdi; call t_work; add rax, rbx;"
		   "framed_x: add rsp, 8; " UNFRAME)
PLACE(framed_x)
CODE(guarded, "endbr64;" FRAME "sub rsp, 8; call t_work; guarded_x: add rsp, 8;" UNFRAME)
PLACE(guarded_x)
/* the last five bytes that can be moved are the last that can be */
CODE(popped, FRAME "push r12; push r13; call t_work; popped_x: pop r13; pop r12;" UNFRAME)
PLACE(popped_x)
/* a canary, whose flags are made in the window and needed behind it */
CODE(canary, FRAME "mov rax, fs:[0x28]; push rax; call t_work; pop rbx;"
		   "canary_x: sub rbx, fs:[0x28]; jne 1f;" UNFRAME "; 1: call t_fail")
PLACE(canary_x)
CODE(tail, FRAME "sub rsp, 8; call t_work; tail_x: add rsp, 8; pop rbx; pop rbp; jmp t_free")
PLACE(tail_x)
CODE(two_ways, FRAME "sub rsp, 8; mov rbx, rdi; test rdi, rdi; je 1f; call t_work;"
		     "add rsp, 8;" UNFRAME "; 1: call t_work; add rax, 2; add rsp, 8;" UNFRAME)
CODE(leaf, "mov rax, rdi; add rax, rsi; leaf_x: add rax, 3; mov rdx, rax; ret")
PLACE(leaf_x)
CODE(table, FRAME "sub rsp, 8; cmp edi, 2; ja 9f; mov edi, edi; lea rdx, [rip + table_of];"
		  "movsxd rax, dword ptr [rdx + rdi * 4]; add rax, rdx; jmp rax; 1: call t_work;"
		  "jmp 9f; 2: call t_work; 3: nop; 9: mov eax, 5; table_x: add rsp, 8;" UNFRAME
		  "\n.pushsection .rodata\n.balign 4\n"
		  "table_of: .long 1b - table_of, 2b - table_of, 3b - table_of\n.popsection")
PLACE(table_x)

#endif
