#define _GNU_SOURCE
#include "tests/unit/code_search.h"

#include <errno.h>
#include <sys/mman.h>

#include "symbolizer/code/windows.h"

CODE(t_work, "mov eax, 7; ret")
CODE(t_free, "ret")
CODE(t_fail, "ud2")

/* What is known beyond the function, for one test. */
static struct around {
	const uint8_t *pad[2], *piece, *piece_end;
	bool shared, no_pads;
} around;

static bool is_cleanup(void *arg, uint64_t target)
{
	(void)arg;
	return target == (uint64_t)(uintptr_t)t_free || target == (uint64_t)(uintptr_t)t_fail;
}

static int read_self(void *arg, uint64_t addr, void *buf, size_t len)
{
	(void)arg;
	memcpy(buf, (const void *)(uintptr_t)addr, len);
	return 0;
}

static const uint8_t *piece_self(void *arg, uint64_t addr, uint64_t *start, size_t *len)
{
	(void)arg;
	*start = (uint64_t)(uintptr_t)around.piece;
	*len = (size_t)(around.piece_end - around.piece);
	return addr - *start < *len ? around.piece : NULL;
}

static int pads_self(void *arg, uint64_t start, int (*fn)(uint64_t vaddr, void *fn_arg),
		     void *fn_arg)
{
	int r = around.no_pads ? -ENOEXEC : 0;
	(void)arg;
	for (int i = 0; i < 2 && !r; i++)
		if (around.pad[i] && start != (uint64_t)(uintptr_t)around.piece)
			r = fn((uint64_t)(uintptr_t)around.pad[i], fn_arg);
	return r;
}

static bool shared_self(void *arg, uint64_t start, size_t len)
{
	(void)arg;
	return around.shared && start && len;
}

static void check_window(struct arch_decoder *d, const struct code_window *w, const uint8_t *code,
			 size_t len)
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
static struct func_windows windows_of(const uint8_t *code, const uint8_t *end)
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
	check_window(d, &w.entry, code, len);
	for (unsigned i = 0; i < w.nexits; i++) {
		check_window(d, &w.exit[i], code, len);
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

static void check_entry(const struct func_windows *w, unsigned off, unsigned len)
{
	if (w->entry_reason)
		fail_msg("%s", w->entry_reason);
	assert_int_equal(w->entry.off, off);
	assert_int_equal(w->entry.len, len);
}

static void check_exit(const struct func_windows *w, const uint8_t *code, const uint8_t *at,
		       unsigned len)
{
	if (w->exit_reason)
		fail_msg("%s", w->exit_reason);
	assert_int_equal(w->nexits, 1);
	assert_int_equal(w->exit[0].off, at - code);
	assert_int_equal(w->exit[0].len, len);
}

static void check_reason(const char *code, const char *what, const char *is, const char *expected)
{
	static const char none[] = "there is a window";
	if (strcmp(is ? is : none, expected ? expected : none) != 0)
		fail_msg("%s, %s: %s", code, what, is ? is : none);
}

/* The reasons why there is no window; NULL: there is one. */
#define REFUSED(name, entry_why, exit_why)                                                         \
	do {                                                                                       \
		struct func_windows refused = WINDOWS(name);                                       \
		check_reason(#name, "entry", refused.entry_reason, entry_why);                     \
		check_reason(#name, "exit", refused.exit_reason, exit_why);                        \
	} while (0)

#define BOTH(name, why) REFUSED(name, why, why)

/* ---- where a jump fits ---- */

#define FRAME "push rbp; mov rbp, rsp; push rbx;"
#define UNFRAME "pop rbx; pop rbp; ret"

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

static void test_fits(void **state)
{
	(void)state;
	struct func_windows w = WINDOWS(framed);
	check_entry(&w, 0, 5);
	check_exit(&w, framed, framed_x, 5);
	w = WINDOWS(guarded);
	check_entry(&w, 4, 5);
	check_exit(&w, guarded, guarded_x, 5);
	w = WINDOWS(popped);
	check_exit(&w, popped, popped_x, 5);
	w = WINDOWS(canary);
	check_exit(&w, canary, canary_x, 9);
	w = WINDOWS(tail);
	check_exit(&w, tail, tail_x, 5);
	w = WINDOWS(two_ways);
	assert_int_equal(w.nexits, 2);
	w = WINDOWS(leaf);
	check_entry(&w, 0, 6);
	check_exit(&w, leaf, leaf_x, 7);
	w = WINDOWS(table);
	check_entry(&w, 0, 5);
	check_exit(&w, table, table_x, 5);
}

/* ---- the entry ---- */

static const char entry_unmovable[] = "its first five bytes cannot all be moved";
static const char entry_branch[] = "a branch leads into its first five bytes";
static const char entry_back[] = "it branches back to its entry";

#define END "mov eax, 5; nop; ret"

CODE(starts_relative, "lea rax, [rip + t_work]; call t_work;" END)
CODE(starts_calling, "push rbx; mov rbx, rdi; call t_work; pop rbx;" END)
CODE(starts_branching, "test rdi, rdi; je 1f; call t_work; 1:" END)
CODE(starts_unknown, "nop; cpuid; nop; nop; nop; call t_work;" END)
CODE(starts_guarded, "push rbp; endbr64; mov rbp, rsp; call t_work;" END)
CODE(branch_inside,
     "push rbx; 1: push rbp; pop rbp; dec edi; nop; jne 1b; pop rbx; call t_work;" END)
CODE(branch_from_dead, "push rbp; 1: mov rbp, rsp; push rbx; call t_work; nop;" END "; jmp 1b")
/* into the middle of an instruction */
CODE(branch_between,
     "push rbp; mov rbp, rsp; push rbx; call t_work; nop;" END "; jmp branch_between + 2")
CODE(branch_back, "nop; mov eax, 1; nop; nop; dec edi; jne branch_back; call t_work;" END)
CODE(branch_guarded, "endbr64; 1: nop; mov eax, 1; nop; nop; dec edi; jne 1b; call t_work;" END)
CODE(flags_of_caller, "mov rax, rdi; mov rcx, rsi; adc rax, rcx; call t_work;" END)
CODE(flags_one_way, "mov rax, rdi; mov rcx, rsi; nop; jrcxz 1f; add rax, 1; 1: call t_work;" END)
CODE(table_inside, "push rbp; 1: mov rbp, rsp; push rbx; cmp edi, 1; ja 9f; mov edi, edi;"
		   "lea rdx, [rip + table_in]; movsxd rax, dword ptr [rdx + rdi * 4];"
		   "add rax, rdx; jmp rax; 9: call t_work;" END "\n.pushsection .rodata\n"
		   ".balign 4\ntable_in: .long 1b - table_in, 9b - table_in\n.popsection")
CODE(pad_inside, "push rbp; pad_inside_p: mov rbp, rsp; push rbx; call t_work; nop;" END)
PLACE(pad_inside_p)

static void test_entry(void **state)
{
	(void)state;
	REFUSED(starts_relative, entry_unmovable, NULL);
	REFUSED(starts_calling, entry_unmovable, NULL);
	REFUSED(starts_branching, entry_unmovable, NULL);
	REFUSED(starts_unknown, entry_unmovable, NULL);
	REFUSED(starts_guarded, entry_unmovable, NULL);
	REFUSED(branch_inside, entry_branch, NULL);
	REFUSED(branch_from_dead, entry_branch, NULL);
	REFUSED(branch_back, entry_back, NULL);
	REFUSED(branch_guarded, entry_back, NULL);
	REFUSED(flags_of_caller, "it needs the flags that its caller left", NULL);
	REFUSED(flags_one_way, "it needs the flags that its caller left", NULL);
	REFUSED(table_inside, entry_branch, NULL);
	around.pad[0] = pad_inside_p;
	REFUSED(pad_inside, entry_branch, NULL);
	REFUSED(pad_inside, NULL, NULL);
}

/* ---- the return ---- */

static const char exit_unmovable[] =
    "no five bytes that can be moved are on all ways out, behind all calls";
static const char exit_branch[] = "a branch leads into what lies on all ways out, behind all calls";

#define START "nop; mov eax, 1;"

CODE(call_last, START "call t_work; add rsp, 0; ret")
CODE(call_pointer, START "mov eax, 5; nop; call rsi; ret")
/* the way that calls is one of two */
CODE(call_behind, START "call t_work; mov eax, 5; test rdi, rdi; je 1f; call t_work; 1: ret")
CODE(free_behind, START "call t_work; mov eax, 5; test rdi, rdi; je 1f; call t_free; 1: ret")
/* what fails behind the window may throw */
CODE(throw_behind, START "call t_work; mov eax, 5; test rdi, rdi; jne 1f; ret; 1: call t_work")
CODE(fail_behind, START "call t_work; fail_behind_x: mov eax, 5; test rdi, rdi; jne 1f; ret;"
			"1: call t_fail")
PLACE(fail_behind_x)
CODE(exit_looping, START "call t_work; 1: mov eax, 5; dec edi; jne 1b; ret")
CODE(exit_relative, START "call t_work; lea rax, [rip + t_work]; ret")
CODE(exit_flags, START "call t_work; stc; mov rax, rdi; mov rcx, rdx; adc eax, ecx; ret")
CODE(exit_one_way, START "call t_work; cmp edi, 3; jrcxz 2f; 2: mov eax, 5; je 1f; nop; 1: ret")
CODE(exit_branch_dead, START "call t_work; add rsp, 0; 1: nop; ret; jmp 1b")
CODE(one_for_both, "mov eax, 1; ret")
CODE(entry_is_near, "mov eax, 1; nop; nop; nop; nop; ret")
CODE(endless, START "1: jmp 1b")
CODE(tail_unknown, START "call t_work; jmp t_work")
CODE(tail_work, START "call t_work; mov eax, 5; jmp t_work")
CODE(pad_in_exit, START "call t_work; add rsp, 0; pad_in_exit_p: nop; ret")
PLACE(pad_in_exit_p)

static void test_exit(void **state)
{
	(void)state;
	REFUSED(call_last, NULL, exit_unmovable);
	REFUSED(call_pointer, NULL, exit_unmovable);
	REFUSED(call_behind, NULL, exit_unmovable);
	REFUSED(free_behind, NULL, exit_unmovable);
	REFUSED(throw_behind, NULL, exit_unmovable);
	struct func_windows w = WINDOWS(fail_behind);
	check_exit(&w, fail_behind, fail_behind_x, 5);
	REFUSED(exit_looping, NULL, exit_unmovable);
	REFUSED(exit_relative, NULL, exit_unmovable);
	REFUSED(exit_flags, NULL, "it needs the flags that it has before its return");
	REFUSED(exit_one_way, NULL, "it needs the flags that it has before its return");
	REFUSED(exit_branch_dead, NULL, exit_branch);
	REFUSED(one_for_both, NULL, "its entry and its return lie in the same bytes");
	REFUSED(entry_is_near, NULL, "its entry and its return lie in the same bytes");
	REFUSED(endless, NULL, "it never returns");
	around.pad[0] = pad_in_exit_p;
	REFUSED(pad_in_exit, NULL, exit_branch);
	REFUSED(pad_in_exit, NULL, NULL);
}

/* ---- exceptions ---- */

#define CALLS START "call t_work; 1: mov eax, 5; ret;"

CODE(handled, CALLS "handled_p: call t_free; jmp 1b")
PLACE(handled_p)
CODE(handled_apart, CALLS "handled_apart_p: call t_free; mov eax, 6; ret")
PLACE(handled_apart_p)
CODE(handled_behind, START "call t_work; mov eax, 5; 1: nop; ret; handled_behind_p: call t_free;"
			   "jmp 1b")
PLACE(handled_behind_p)
CODE(handled_out, CALLS "handled_out_p: call t_free; jmp t_free")
PLACE(handled_out_p)
CODE(handled_stop, CALLS "handled_stop_p: call t_free; ud2")
PLACE(handled_stop_p)
CODE(handled_last, CALLS "handled_last_p: test eax, eax; je 1b; call t_fail")
PLACE(handled_last_p)
CODE(handled_jump, CALLS "handled_jump_p: jmp rax")
PLACE(handled_jump_p)
CODE(handled_far, CALLS "handled_far_p: mov rbx, rax; jmp handled_cold")
PLACE(handled_far_p)
CODE(handled_cold, "call t_free; jmp handled_far + 11")
CODE(handled_lost, CALLS "handled_lost_p: mov rbx, rax; jmp handled_ret")
PLACE(handled_lost_p)
CODE(handled_ret, "call t_free; ret")

CODE(handled_alone, START "call t_work; mov eax, 5; ret")
CODE(handled_apart_cold, "call t_free; jmp handled_alone + 11")
CODE(handled_into, "test eax, eax; je handled_alone + 1; jmp handled_alone + 16")

#define WITH_PAD(name) (around.pad[0] = name##_p)
#define WITH_PIECE(name) (around.piece = name, around.piece_end = name##_end)

static void test_handlers(void **state)
{
	static const char apart[] = "an exception handler returns by a way of its own";
	(void)state;
	WITH_PAD(handled);
	REFUSED(handled, NULL, NULL);
	WITH_PAD(handled_apart);
	REFUSED(handled_apart, NULL, apart);
	WITH_PAD(handled_behind);
	REFUSED(handled_behind, NULL, apart);
	WITH_PAD(handled_stop);
	REFUSED(handled_stop, NULL, NULL);
	WITH_PAD(handled_last);
	REFUSED(handled_last, NULL, NULL);
	WITH_PAD(handled_far);
	WITH_PIECE(handled_cold);
	REFUSED(handled_far, NULL, NULL);
	WITH_PAD(handled_lost);
	WITH_PIECE(handled_ret);
	REFUSED(handled_lost, NULL, apart);
	WITH_PAD(handled_out);
	REFUSED(handled_out, NULL, "an exception handler jumps out of it");
	/* the pad is beyond the function */
	around.pad[0] = handled_p;
	BOTH(framed, "it jumps to code of which nothing is known");
	/* cold parts that nothing else leads to: back before the return; into the entry and behind
	 * the exit; a return */
	around.pad[0] = handled_apart_cold;
	WITH_PIECE(handled_apart_cold);
	REFUSED(handled_alone, NULL, NULL);
	around.pad[0] = handled_into;
	WITH_PIECE(handled_into);
	REFUSED(handled_alone, entry_branch, apart);
	around.pad[0] = handled_ret;
	WITH_PIECE(handled_ret);
	REFUSED(handled_alone, NULL, apart);
}

/* ---- neither ---- */

CODE(undecodable, FRAME "call t_work; mov eax, 5; ret; .byte 0x06")
CODE(computed, FRAME "call t_work; test al, al; je 1f; jmp rax; 1:" END)
CODE(computed_dead, FRAME "call t_work;" END "; jmp rax")
CODE(table_between,
     FRAME "cmp edi, 1; ja 9f; mov edi, edi; lea rdx, [rip + table_btw]; movsxd rax,"
	   "dword ptr [rdx + rdi * 4]; add rax, rdx; jmp rax; 9: call t_work; 1: mov eax, 5; nop;"
	   "nop; nop; ret\n.pushsection .rodata\n.balign 4\n"
	   "table_btw: .long 1b + 1 - table_btw, 9b - table_btw\n.popsection")
CODE(calls_itself, FRAME "call 1f; 1:" END)
CODE(calls_itself_whole, FRAME "call calls_itself_whole;" END)
CODE(cold, FRAME "call t_work; test al, al; jne cold_part; cold_r:" END)
CODE(cold_part, "call t_work; jmp cold_r")
CODE(cold_in, FRAME "call t_work; test al, al; jne cold_in_part; cold_in_r:" END)
CODE(cold_in_part, "call t_work; test al, al; je cold_in + 1; jmp cold_in_r + 5")
CODE(cold_jump, FRAME "call t_work; test al, al; jne cold_jump_part;" END)
CODE(cold_jump_part, "jmp rax")
CODE(jumps_away, FRAME "call t_work;" END "; jmp t_work")
CODE(garbage, ".byte 0x06; ret")

static void test_neither(void **state)
{
	static const char unknown_jump[] = "part of it jumps to an address that it computes";
	static const char unknown_code[] = "it jumps to code of which nothing is known";
	(void)state;
	around.shared = true;
	BOTH(framed, "another function has the same code");
	around.no_pads = true;
	BOTH(framed, "where exceptions enter it is not known");
	BOTH(branch_between, "a branch leads into one of its instructions");
	BOTH(table_between, "a branch leads into one of its instructions");
	BOTH(undecodable, "part of it cannot be decoded");
	BOTH(computed, "it jumps to an address that it computes");
	BOTH(computed_dead, unknown_jump);
	BOTH(calls_itself, "it calls a part of itself");
	REFUSED(calls_itself_whole, NULL, NULL);
	BOTH(handled_jump, unknown_jump);
	REFUSED(cold, unknown_code, "part of it lies elsewhere");
	WITH_PIECE(cold_part);
	REFUSED(cold, NULL, NULL);
	WITH_PIECE(cold_in_part);
	REFUSED(cold_in, entry_branch, exit_unmovable);
	WITH_PIECE(cold_jump_part);
	BOTH(cold_jump, "it jumps to an address that it computes");
	BOTH(jumps_away, unknown_code);
	REFUSED(tail_unknown, unknown_code, "it ends in a jump to another function");
	BOTH(garbage, "it does not begin with an instruction");
	WITH_PIECE(t_work);
	REFUSED(tail_work, NULL, "it ends in a jump to another function");
}

/* ---- jumps taken ---- */

enum { STUB = 64, PAGE = 4096 };

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

static void protect(const uint8_t *code, int how)
{
	uintptr_t at = (uintptr_t)code & ~(uintptr_t)(PAGE - 1);
	assert_int_equal(mprotect((void *)at, 2 * PAGE, how), 0);
}

typedef uint64_t two_fn(uint64_t a, uint64_t b);

/* Call the function with jumps in all its windows: it must return the same, and have passed its
 * entry and one of its exits. */
static void jump(const uint8_t *code, const uint8_t *end, uint32_t flags, uint64_t arg)
{
	const struct func_windows w = windows_of(code, end);
	uint8_t *stub = stubs_near(code), saved[256];
	uint64_t entries = 0, exits = 0;
	two_fn *fn = (two_fn *)(uintptr_t)code;
	uint64_t expected = fn(arg, 5);

	if (!w.entry.len || !w.nexits)
		fail_msg("%s, %s", w.entry_reason, w.exit_reason);
	assert_true((size_t)(end - code) <= sizeof(saved));
	memcpy(saved, code, (size_t)(end - code));
	protect(code, PROT_READ | PROT_WRITE | PROT_EXEC);
	write_stub(stub, &entries, flags, code + w.entry.off, w.entry.len);
	put_jump((uint8_t *)(uintptr_t)code + w.entry.off, stub);
	for (unsigned i = 0; i < w.nexits; i++) {
		uint8_t *own = stub + (1 + i) * (size_t)STUB, *at = NULL;
		at = (uint8_t *)(uintptr_t)code + w.exit[i].off;
		write_stub(own, &exits, flags, at, w.exit[i].len);
		put_jump(at, own);
	}
	uint64_t got = fn(arg, 5);
	memcpy((void *)(uintptr_t)code, saved, (size_t)(end - code));
	protect(code, PROT_READ | PROT_EXEC);
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
	    {table, table_end},	  {handled, handled_end},
	};
	/* none, and all of CF PF AF ZF SF OF */
	static const uint32_t flags[] = {0x202, 0x8d5 | 0x202};
	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (int k = 0; k < 2; k++)
			for (uint64_t arg = 0; arg < 4; arg++)
				jump(all[i].code, all[i].end, flags[k], arg);
}

/* ---- random bytes ---- */

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
	    cmocka_unit_test(test_fits),      cmocka_unit_test(test_entry),
	    cmocka_unit_test(test_exit),      cmocka_unit_test(test_handlers),
	    cmocka_unit_test(test_neither),   cmocka_unit_test(test_jumps),
	    cmocka_unit_test(test_mutations),
	};

	return unit_run(tests, NULL, NULL);
}
