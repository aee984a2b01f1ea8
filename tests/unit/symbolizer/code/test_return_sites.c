#include "tests/unit/libtorch.h"

#include <errno.h>

#include "base/arena.h"
#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/code/return_sites.h"
#include "symbolizer/ops/ops.h"
#include "symbolizer/ops/schema.h"
#include "symbolizer/target/elf.h"
#include "tests/unit/code_search.h"

CODE(t_work, "ret")
CODE(t_free, "ret")
CODE(t_fail, "ud2")

static bool is_free(void *arg, uint64_t target)
{
	(void)arg;
	return target == (uint64_t)(uintptr_t)t_free;
}

static int read_self(void *arg, uint64_t addr, void *buf, size_t len)
{
	(void)arg;
	memcpy(buf, (const void *)(uintptr_t)addr, len);
	return 0;
}

static const struct return_sites_ops self_ops = {.is_cleanup = is_free, .read = read_self};

static bool is_exit(const struct func_facts *f, uint32_t off)
{
	for (unsigned i = 0; i < f->nexits; i++)
		if (f->exits[i] == off)
			return true;
	return false;
}

/* Every path passes a return site, and no path passes two, or one twice. */
static void check_exits(struct arch_decoder *d, const uint8_t *code, size_t len, uint64_t vaddr,
			const struct func_facts *f, const char *name)
{
	code_search_check(d, code, len, vaddr, f->exits, f->nexits, name);
	for (unsigned i = 0; i < f->nexits; i++) {
		struct arch_insn at;
		assert_int_equal(arch_decode(d, code, len, vaddr, f->exits[i], &at), 0);
		assert_true(f->exit_kind == EXIT_EMULATED
				? arch_emulated(code + f->exits[i], at.len)
				: at.flow == ARCH_FLOW_RET || at.flow == ARCH_FLOW_JUMP);
	}
}

static struct func_facts analyze_with(const struct return_sites_ops *ops, const uint8_t *code,
				      const uint8_t *end)
{
	struct return_sites_ctx *c = return_sites_new(ops);
	struct arch_decoder *d = arch_decoder_new();
	struct func_facts f;
	size_t len = (size_t)(end - code);
	uint64_t vaddr = (uint64_t)(uintptr_t)code;

	assert_true(c && d);
	assert_int_equal(return_sites_analyze(c, code, len, vaddr, &f), 0);
	if (f.exit_kind != EXIT_NONE)
		check_exits(d, code, len, vaddr, &f, "function");
	assert_int_equal(f.reason == NULL, f.exit_kind == EXIT_EMULATED);
	arch_decoder_free(d);
	return_sites_free(c);
	return f;
}

#define ANALYZE(name) analyze_with(&self_ops, name, name##_end)

static void check_one(const struct func_facts *f, enum exit_kind kind, const uint8_t *code,
		      const uint8_t *at)
{
	assert_int_equal(f->exit_kind, kind);
	assert_int_equal(f->nexits, 1);
	assert_int_equal(f->exits[0], at - code);
}

static void check_none(const struct func_facts *f, const char *reason)
{
	assert_int_equal(f->exit_kind, EXIT_NONE);
	assert_int_equal(f->nexits, 0);
	assert_string_equal(f->reason, reason);
}

static void test_emulated(void **state)
{
	static const struct {
		uint8_t code[6], len;
		bool yes;
	} c[] = {
	    {{0x55}, 1, true},
	    {{0x41, 0x57}, 2, true},
	    {{0x90}, 1, true},
	    {{0xeb, 0}, 2, true},
	    {{0x74, 0}, 2, true},
	    {{0x7f, 0}, 2, true},
	    {{0xe8, 0, 0, 0, 0}, 5, true},
	    {{0xe9, 0, 0, 0, 0}, 5, true},
	    {{0x0f, 0x85, 0, 0, 0, 0}, 6, true},
	    {{0x48, 0x55}, 2, false},
	    {{0x66, 0x55}, 2, false},
	    {{0x66, 0x90}, 2, false},
	    {{0xc3}, 1, false},
	    {{0x5d}, 1, false},
	    {{0xff, 0xd0}, 2, false},
	    {{0xe3, 0}, 2, false},
	    {{0x0f, 0x1f, 0x44, 0, 0}, 5, false},
	    {{0xf2, 0xe9, 0, 0, 0, 0}, 6, false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		assert_int_equal(arch_emulated(c[i].code, c[i].len), c[i].yes);
}

static void test_stub(void **state)
{
	static const uint8_t plain[16] = {0xff, 0x25, 0x10, 0, 0, 0};
	static const uint8_t fenced[16] = {0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff,
					   0x25, 0xf0, 0xff, 0xff, 0xff};
	static const uint8_t other[16] = {0x55, 0xff, 0x25};
	(void)state;
	assert_int_equal(arch_stub_slot(plain, 16, 0x1000), 0x1016);
	assert_int_equal(arch_stub_slot(fenced, 16, 0x1000), 0x1000 + 11 - 16);
	assert_int_equal(arch_stub_slot(other, 16, 0x1000), 0);
	assert_int_equal(arch_stub_slot(plain, 5, 0x1000), 0);
}

/* ---- where the return site is ---- */

CODE(clean_end,
     "push rbx; mov rbx, rdi; call t_work; test al, al; clean_end_x: je 1f; mov rdi, rbx;"
     "call t_free; 1: mov rax, rbx; pop rbx; ret")
PLACE(clean_end_x)

static void test_cleanup(void **state)
{
	(void)state;
	struct func_facts f = ANALYZE(clean_end);
	check_one(&f, EXIT_EMULATED, clean_end, clean_end_x);
	assert_int_equal(f.entry, 0);
	assert_true(f.entry_emulated);
	assert_true(f.frame_known);
	assert_int_equal(f.frame, 8);
	assert_true(f.ret_known && f.ret_is_hidden_ptr);
	assert_int_equal(f.ret_reg, ARCH_BX);
	assert_int_equal(f.ret_width, 8);

	f = analyze_with(NULL, clean_end, clean_end_end);
	assert_int_equal(f.exit_kind, EXIT_RET);
}

CODE(work_after,
     "push rbx; mov rbx, rdi; test rdi, rdi; je 1f; call t_work; 1: mov rax, rbx; pop rbx;"
     "work_after_x: ret")
PLACE(work_after_x)
CODE(call_last, "sub rsp, 8; call t_work; add rsp, 8; call_last_x: ret")
PLACE(call_last_x)
CODE(call_pointer, "push rbx; test rdi, rdi; je 1f; call [rdi]; 1: pop rbx; call_pointer_x: ret")
PLACE(call_pointer_x)
CODE(result_after, "push rbx; mov rbx, rdi; call t_work; test rax, rax; je 1f; 1: mov [rbx], rax;"
		   "pop rbx; result_after_x: ret")
PLACE(result_after_x)
CODE(count_down, "push rbx; mov rbx, rdi; call t_work; test rax, rax; count_down_x: je 1f;"
		 "lock dec dword ptr [rbx]; 1: pop rbx; ret")
PLACE(count_down_x)

static void test_work_after(void **state)
{
	(void)state;
	struct func_facts f = ANALYZE(work_after);
	check_one(&f, EXIT_RET, work_after, work_after_x);
	assert_int_equal(f.frame, 0);
	assert_true(f.ret_known && f.ret_is_hidden_ptr);
	assert_int_equal(f.ret_reg, ARCH_AX);
	f = ANALYZE(call_last);
	check_one(&f, EXIT_RET, call_last, call_last_x);
	assert_false(f.ret_is_hidden_ptr);
	f = ANALYZE(call_pointer);
	check_one(&f, EXIT_RET, call_pointer, call_pointer_x);
	f = ANALYZE(result_after);
	check_one(&f, EXIT_RET, result_after, result_after_x);
	f = ANALYZE(count_down);
	check_one(&f, EXIT_EMULATED, count_down, count_down_x);
}

CODE(looping, "looping_x: push rbx; call [rdi]; 1: dec rdi; jne 1b; pop rbx; looping_r: ret")
PLACE(looping_r)
CODE(loop_first, "1: dec rdi; jne 1b; test rsi, rsi; loop_first_x: jne 2f; 2: ret")
PLACE(loop_first_x)
CODE(loop_only, "loop_only_x: push rbx; 1: dec rdi; jne 1b; pop rbx; ret")
PLACE(loop_only_x)

static void test_loops(void **state)
{
	(void)state;
	struct func_facts f = ANALYZE(looping);
	check_one(&f, EXIT_RET, looping, looping_r);
	f = ANALYZE(loop_first);
	check_one(&f, EXIT_EMULATED, loop_first, loop_first_x);
	f = ANALYZE(loop_only);
	check_one(&f, EXIT_EMULATED, loop_only, loop_only_x);
}

CODE(two_returns,
     "call t_work; test eax, eax; two_returns_x: je 1f; xor eax, eax; ret; 1: mov eax, 1;"
     "ret")
PLACE(two_returns_x)
CODE(own_exits,
     "push rbx; test rdi, rdi; je 1f; call t_work; test eax, eax; own_exits_x: je 2f;"
     "call t_free; 2: pop rbx; ret; 1: call t_work; own_exits_y: jmp 3f; nop; 3: pop rbx;"
     "ret")
PLACE(own_exits_x)
PLACE(own_exits_y)
CODE(crossing, "push rbx; call t_work; test rdi, rdi; je 1f; call t_work; pop rbx; ret;"
	       "1: call t_work; pop rbx; ret")

static void test_returns(void **state)
{
	(void)state;
	struct func_facts f = ANALYZE(two_returns);
	check_one(&f, EXIT_EMULATED, two_returns, two_returns_x);
	assert_false(f.ret_known);
	f = ANALYZE(own_exits);
	assert_int_equal(f.exit_kind, EXIT_EMULATED);
	assert_int_equal(f.nexits, 2);
	assert_true(is_exit(&f, (uint32_t)(own_exits_x - own_exits)));
	assert_true(is_exit(&f, (uint32_t)(own_exits_y - own_exits)));
	f = ANALYZE(crossing);
	assert_int_equal(f.exit_kind, EXIT_RET);
	assert_int_equal(f.nexits, 2);
}

CODE(outside, "ud2")
CODE(cold_branch, "push rbx; call t_work; test al, al; jne outside; pop rbx; ret")
CODE(landing_pad, "push rbx; call t_work; test al, al; landing_pad_x: jne 1f; pop rbx; ret;"
		  "1: call t_fail; mov rbx, rax; jmp outside")
PLACE(landing_pad_x)
CODE(no_return,
     "push rbx; call t_work; test al, al; no_return_x: jne 1f; pop rbx; ret; 1: call t_fail")
PLACE(no_return_x)
CODE(tail_work, "push rbx; call t_work; pop rbx; jmp t_work")
CODE(tail_free,
     "push rbx; mov rbx, rdi; call t_work; mov rdi, rbx; pop rbx; tail_free_x: jmp t_free")
PLACE(tail_free_x)
CODE(tail_pointer, "push rbx; pop rbx; jmp rax")
CODE(endless, "1: jmp 1b")
CODE(garbage, "push rbx; .byte 0x06; ret")
CODE(middle, "test rdi, rdi; je 1f; .byte 0xf0; 1: .byte 0xff, 0x0f; middle_x: je 2f; 2: ret")
PLACE(middle_x)

static void test_ways_out(void **state)
{
	(void)state;
	struct func_facts f = ANALYZE(cold_branch);
	check_none(&f, "part of it lies elsewhere");
	f = ANALYZE(landing_pad);
	check_one(&f, EXIT_EMULATED, landing_pad, landing_pad_x);
	f = ANALYZE(no_return);
	check_one(&f, EXIT_EMULATED, no_return, no_return_x);
	f = ANALYZE(tail_work);
	check_none(&f, "it ends in a jump to another function");
	f = ANALYZE(tail_free);
	check_one(&f, EXIT_EMULATED, tail_free, tail_free_x);
	f = ANALYZE(tail_pointer);
	check_none(&f, "it jumps to an address that it computes");
	f = ANALYZE(endless);
	check_none(&f, "it never returns");
	f = ANALYZE(garbage);
	assert_int_equal(f.exit_kind, EXIT_NONE);
	f = ANALYZE(middle);
	check_one(&f, EXIT_EMULATED, middle, middle_x);
}

/* the cold part jumps back before the site, or behind it */
CODE(unlikely_early, "call t_work; jmp unlikely_early_r")
CODE(early, "push rbx; call t_work; test al, al; jne unlikely_early; unlikely_early_r: test al, al;"
	    "early_x: je 1f; 1: pop rbx; ret")
PLACE(early_x)
CODE(unlikely_late, "call t_work; jmp unlikely_late_r")
CODE(late, "push rbx; call t_work; test al, al; late_x: jne unlikely_late; test al, al; je 1f;"
	   "1: unlikely_late_r: pop rbx; late_r: ret")
PLACE(late_r)
CODE(unlikely_ret, "pop rbx; ret")
CODE(ret_elsewhere, "push rbx; call t_work; test al, al; jne unlikely_ret; pop rbx; ret")

static const uint8_t *piece_self(void *arg, uint64_t addr, uint64_t *start, size_t *len)
{
	(void)arg;
	const uint8_t *const piece[][2] = {{unlikely_early, unlikely_early_end},
					   {unlikely_late, unlikely_late_end},
					   {unlikely_ret, unlikely_ret_end}};
	for (size_t i = 0; i < sizeof(piece) / sizeof(piece[0]); i++) {
		*start = (uint64_t)(uintptr_t)piece[i][0];
		*len = (size_t)(piece[i][1] - piece[i][0]);
		if (addr - *start < *len)
			return piece[i][0];
	}
	return NULL;
}

static void test_unlikely_parts(void **state)
{
	const struct return_sites_ops ops = {.is_cleanup = is_free, .piece = piece_self};
	(void)state;
	struct func_facts f = analyze_with(&ops, early, early_end);
	check_one(&f, EXIT_EMULATED, early, early_x);
	f = analyze_with(&self_ops, early, early_end);
	check_none(&f, "part of it lies elsewhere");
	f = analyze_with(&ops, late, late_end);
	check_one(&f, EXIT_RET, late, late_r);
	f = analyze_with(&ops, ret_elsewhere, ret_elsewhere_end);
	check_none(&f, "it returns from a part that lies elsewhere");
	f = analyze_with(&ops, cold_branch, cold_branch_end);
	check_none(&f, "part of it lies elsewhere");
}

CODE(guarded, "endbr64; push rbx; call t_work; test al, al; je 1f; 1: pop rbx; ret")
CODE(plain_entry, "sub rsp, 8; call t_work; test al, al; je 1f; 1: add rsp, 8; ret")

static void test_entry(void **state)
{
	(void)state;
	struct func_facts f = ANALYZE(guarded);
	assert_int_equal(f.entry, 4);
	assert_true(f.entry_emulated);
	f = ANALYZE(plain_entry);
	assert_int_equal(f.entry, 0);
	assert_false(f.entry_emulated);
}

CODE(table,
     "push rbx; cmp edi, 2; ja 9f; mov edi, edi; lea rdx, [rip + table_of]; movsxd rax, dword ptr"
     "[rdx + rdi * 4]; add rax, rdx; jmp rax; 1: call t_work; jmp 9f; 2: call t_work; 3: nop;"
     "9: test al, al; table_x: je 8f; 8: pop rbx; ret\n.pushsection .rodata\n.balign 4\n"
     "table_of: .long 1b - table_of, 2b - table_of, 3b - table_of\n.popsection")
PLACE(table_x)
CODE(table_unbounded, "push rbx; lea rdx, [rip + table_of]; movsxd rax, dword ptr [rdx + rdi * 4];"
		      "add rax, rdx; jmp rax; pop rbx; ret")
CODE(table_other_bound,
     "push rbx; cmp esi, 2; ja 9f; mov edi, edi; lea rdx, [rip + table_of];"
     "movsxd rax, dword ptr [rdx + rdi * 4]; add rax, rdx; jmp rax; 9: pop rbx; ret")

static void test_tables(void **state)
{
	(void)state;
	struct func_facts f = ANALYZE(table);
	check_one(&f, EXIT_EMULATED, table, table_x);
	f = analyze_with(NULL, table, table_end);
	check_none(&f, "it jumps to an address that it computes");
	f = ANALYZE(table_unbounded);
	check_none(&f, "it jumps to an address that it computes");
	f = ANALYZE(table_other_bound);
	check_none(&f, "it jumps to an address that it computes");
}

/* ---- floating-point arguments ---- */

CODE(spill_bp,
     "push rbp; mov rbp, rsp; sub rsp, 0x40; movsd [rbp - 0x18], xmm0; movsd [rbp - 0x20], xmm1;"
     "mov [rbp - 8], rdi; mov eax, [rsi]; spill_bp_p: je 2f; 2: lea rdi, [rbp - 0x10];"
     "call t_work; test al, al; je 1f; 1: leave; ret")
PLACE(spill_bp_p)
CODE(spill_sp, "push rbx; sub rsp, 0x20; movsd [rsp + 8], xmm0; spill_sp_p: push rdi; call t_work;"
	       "pop rdi; test al, al; je 1f; 1: add rsp, 0x20; pop rbx; ret")
PLACE(spill_sp_p)
/* a slot that is reused later, and registers that were moved */
CODE(spill_moved,
     "push rbx; push r12; sub rsp, 0x20; mov rbx, rdi; mov r12, rsi; mov rdi, [rsp + 0x38];"
     "xor esi, esi; movaps [rsp], xmm1; spill_moved_p: je 2f; 2: call t_work; mov [rsp], rax;"
     "test al, al; je 1f; 1: add rsp, 0x20; pop r12; pop rbx; ret")
PLACE(spill_moved_p)
/* the call itself is the first instruction that can be probed */
CODE(spill_call, "push rbx; movsd [rsp - 8], xmm0; spill_call_p: call t_work; test al, al; je 1f;"
		 "1: pop rbx; ret")
PLACE(spill_call_p)

static void test_spills(void **state)
{
	(void)state;
	struct func_facts f = ANALYZE(spill_bp);
	assert_true(f.late.xmm[0].known && f.late.xmm[1].known && !f.late.xmm[2].known);
	assert_int_equal(f.late.off, spill_bp_p - spill_bp);
	assert_int_equal(f.late.sp, 0x48);
	assert_int_equal(f.late.xmm[0].sp_off, -8 - 0x18);
	assert_int_equal(f.late.xmm[1].sp_off, -8 - 0x20);
	for (unsigned n = 0; n < ARCH_INT_ARGS; n++)
		assert_int_equal(f.late.arg[n], arch_int_arg[n]);
	assert_int_equal(f.frame, 0x48);
	f = ANALYZE(spill_sp);
	assert_true(f.late.xmm[0].known);
	assert_int_equal(f.late.off, spill_sp_p - spill_sp);
	assert_int_equal(f.late.sp, 0x28);
	assert_int_equal(f.late.xmm[0].sp_off, -8 - 0x20 + 8);
	f = ANALYZE(spill_moved);
	assert_int_equal(f.late.off, spill_moved_p - spill_moved);
	assert_true(f.late.xmm[1].known && !f.late.xmm[0].known);
	assert_int_equal(f.late.arg[0], ARCH_BX);
	assert_int_equal(f.late.arg[1], ARCH_R12);
	assert_int_equal(f.late.arg[2], ARCH_DX);
	f = ANALYZE(spill_call);
	assert_int_equal(f.late.off, spill_call_p - spill_call);
	assert_int_equal(f.late.xmm[0].sp_off, -16);
}

#define SPILL(...)                                                                                 \
	"push rbx; sub rsp, 0x20; " __VA_ARGS__ "; je 2f; 2: call t_work; test al, al; je 1f; 1:"  \
	"add rsp, 0x20; pop rbx; ret"

CODE(spill_none, SPILL("xor eax, eax"))
CODE(spill_half, SPILL("movsd [rsp + 8], xmm0; mov dword ptr [rsp + 12], 0"))
CODE(spill_over, SPILL("movsd [rsp + 8], xmm0; movsd [rsp + 4], xmm8"))
CODE(spill_pushed,
     "push rbx; movsd [rsp - 8], xmm0; push rcx; sub rsp, 0x18; je 2f; 2: call t_work;"
     "test al, al; je 1f; 1: add rsp, 0x20; pop rbx; ret")
CODE(spill_narrow, SPILL("movss [rsp + 8], xmm0"))
CODE(spill_changed, SPILL("pxor xmm0, xmm0; movsd [rsp + 8], xmm0"))
CODE(spill_indexed, SPILL("movsd [rsp + rdi * 8], xmm0"))
CODE(spill_outside, SPILL("movsd [rdi + 8], xmm0"))
/* writes to the caller's part of the stack; to memory outside the frame */
CODE(spill_caller, SPILL("mov qword ptr [rsp + 0x30], 0; movsd [rsp + 8], xmm0"))
CODE(spill_written, SPILL("mov qword ptr [rdi], 0; movsd [rsp + 8], xmm0"))
CODE(spill_aligned, "push rbp; mov rbp, rsp; and rsp, -32; sub rsp, 0x40; movsd [rsp + 8], xmm0;"
		    "je 2f; 2: call t_work; test al, al; je 1f; 1: leave; ret")
CODE(spill_late, SPILL("call t_free; movsd [rsp + 8], xmm0"))
CODE(spill_one_way, SPILL("test rdi, rdi; je 3f; movsd [rsp + 8], xmm0; 3: test edi, edi"))
CODE(spill_below, "push rbx; movsd [rsp - 0x88], xmm0; je 2f; 2: call t_work; test al, al; je 1f;"
		  "1: pop rbx; ret")
CODE(spill_loop, "1: push rbx; sub rsp, 0x20; movsd [rsp + 8], xmm0; je 2f; 2: call t_work;"
		 "add rsp, 0x20; pop rbx; test al, al; jne 1b; je 3f; 3: ret")
/* the return site comes first */
CODE(spill_after, "push rbx; call t_work; test al, al; sub rsp, 0x20; movsd [rsp + 8], xmm0;"
		  "add rsp, 0x20; nop; pop rbx; ret")

static void test_no_spills(void **state)
{
	const struct func_facts none[] = {
	    ANALYZE(spill_none),    ANALYZE(spill_half),    ANALYZE(spill_over),
	    ANALYZE(spill_narrow),  ANALYZE(spill_changed), ANALYZE(spill_indexed),
	    ANALYZE(spill_outside), ANALYZE(spill_caller),  ANALYZE(spill_written),
	    ANALYZE(spill_aligned), ANALYZE(spill_late),    ANALYZE(spill_one_way),
	    ANALYZE(spill_below),   ANALYZE(spill_loop),    ANALYZE(spill_after),
	};
	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		if (none[i].late.off)
			fail_msg("number %zu: an entry at %u", i, none[i].late.off);
		if (none[i].exit_kind == EXIT_NONE)
			fail_msg("number %zu: %s", i, none[i].reason);
		for (unsigned n = 0; n < ARCH_FP_ARGS; n++)
			assert_false(none[i].late.xmm[n].known);
	}
	/* valid before the push that overwrites it, not after */
	struct func_facts f = ANALYZE(spill_pushed);
	assert_int_equal(f.late.sp, 8);
}

/* ---- the result ---- */

CODE(ret_bool,
     "push rbx; sub rsp, 0x20; call t_work; cmp byte ptr [rsp + 8], 0; je 1f; mov [rsp + 7], al;"
     "call t_free; movzx eax, byte ptr [rsp + 7]; 1: add rsp, 0x20; pop rbx; ret")
CODE(ret_saved, "push rbx; sub rsp, 0x20; call t_work; mov [rsp], rax; test al, al; je 1f;"
		"call t_free; 1: mov rax, [rsp]; add rsp, 0x20; pop rbx; ret")
CODE(ret_int,
     "push r12; call t_work; mov r12d, eax; test al, al; je 1f; call t_free; 1: mov eax, r12d;"
     "pop r12; ret")
CODE(ret_hidden, "push rbx; sub rsp, 0x20; mov [rsp + 8], rdi; call t_work; test al, al; je 1f;"
		 "call t_free; 1: mov rax, [rsp + 8]; add rsp, 0x20; pop rbx; ret")
CODE(ret_not_hidden, "push rbx; sub rsp, 0x20; mov [rsp + 8], rdi; call t_work; mov [rsp + 8], rax;"
		     "test al, al; je 1f; 1: mov rax, [rsp + 8]; add rsp, 0x20; pop rbx; ret")
CODE(ret_lost, "push rbx; call t_work; test al, al; je 1f; call t_free; 1: pop rbx; ret")
CODE(ret_popped, "push rdi; call t_work; test al, al; je 1f; 1: pop rax; ret")

static void test_results(void **state)
{
	(void)state;
	struct func_facts f = ANALYZE(ret_bool);
	assert_true(f.ret_known && f.ret_reg == ARCH_AX && f.ret_width == 1);
	f = ANALYZE(ret_saved);
	assert_true(f.ret_known && f.ret_reg == ARCH_NOREG && f.ret_width == 8);
	assert_int_equal(f.ret_sp_off, -8 - 0x20);
	f = ANALYZE(ret_int);
	assert_true(f.ret_known && f.ret_reg == ARCH_R12 && f.ret_width == 4);
	assert_false(f.ret_is_hidden_ptr);
	f = ANALYZE(ret_hidden);
	assert_true(f.ret_known && f.ret_is_hidden_ptr);
	f = ANALYZE(ret_not_hidden);
	assert_true(f.ret_known && !f.ret_is_hidden_ptr);
	f = ANALYZE(ret_lost);
	assert_false(f.ret_known || f.ret_is_hidden_ptr);
	assert_int_equal(f.ret_reg, ARCH_NOREG);
	f = ANALYZE(ret_popped);
	assert_true(f.ret_is_hidden_ptr);
}

static void test_symbols(void **state)
{
	static const char *const yes[] = {
	    "free",
	    "_ZdlPvm",
	    "_ZN3c106SymInt8release_Ev.isra.0",
	    "_ZNSt6vectorIN2at6TensorESaIS1_EED2Ev",
	    "_ZN3c104impl17InlineStreamGuardINS0_16VirtualGuardImplEED1Ev",
	    "_ZN3c1013intrusive_ptrINS_13GeneratorImplENS_6detail34intrusive_target_default_null_"
	    "typeIS1_EEE15reset_not_null_EPS1_",
	};
	static const char *const no[] = {"",
					 "freeze",
					 "_Znwm",
					 "_ZN2at14RecordFunctionD1Ev",
					 "_ZN2at4_ops4flip4callERKNS_6TensorEN3c108ArrayRefIlEE",
					 "_ZNSt6vectorIN2at6TensorESaIS1_EED2Evil"};
	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(return_sites_cleanup_symbol(yes[i]));
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(return_sites_cleanup_symbol(no[i]));
}

/* ---- random bytes ---- */

static void test_mutations(void **state)
{
	struct return_sites_ctx *c = return_sites_new(NULL);
	struct arch_decoder *d = arch_decoder_new();
	uint32_t rng = 1;
	uint8_t code[256];

	(void)state;
	assert_true(c && d);
	assert_int_equal(return_sites_analyze(c, code, 0, 0, &(struct func_facts){0}), -EINVAL);
	for (int n = 0; n < 20000; n++) {
		size_t len = (size_t)(own_exits_end - own_exits);
		memcpy(code, own_exits, len);
		for (int k = 0; k < 3; k++) {
			rng = rng * 1664525 + 1013904223;
			code[(rng >> 8) % len] = (uint8_t)(rng >> 24);
		}
		struct func_facts f;
		assert_int_equal(return_sites_analyze(c, code, len, 0x1000, &f), 0);
		if (f.exit_kind != EXIT_NONE)
			check_exits(d, code, len, 0x1000, &f, "mutation");
	}
	arch_decoder_free(d);
	return_sites_free(c);
}

/* ---- real code ---- */

struct tally {
	struct elf_file *elf;
	struct return_sites_ctx *c;
	struct arch_decoder *d;
	const char *part; /* of the symbols to count */
	struct arena arena;
	unsigned n, kind[3], entry_emulated, hidden, fp, fp_known;
};

/* Number of leading SSE arguments. */
static unsigned count_doubles(struct tally *t, const char *symbol)
{
	struct cxx_function fn;
	unsigned n = 0;

	arena_reset(&t->arena);
	assert_int_equal(cxx_function_parse(symbol, &t->arena, &fn), 0);
	for (unsigned i = 0; i < fn.nparams; i++)
		n += !strcmp(fn.params[i].text, "double");
	return n;
}

static void tally_doubles(struct tally *t, const char *symbol, const struct func_facts *f)
{
	unsigned n = count_doubles(t, symbol), seen = 0;

	for (unsigned i = 0; i < n && i < ARCH_FP_ARGS; i++)
		seen += f->late.xmm[i].known;
	t->fp += n > 0;
	t->fp_known += n && seen == n;
}

/* Known facts of these ops, from their declarations in ATen/ops/NAME_ops.h. */
static void check_known(const char *symbol, const struct func_facts *f)
{
	static const struct {
		const char *part;
		bool hidden;
	} known[] = {
	    {"_ops10add_Tensor4callE", true},	{"_ops11max_dim_max4callE", true},
	    {"_ops7max_dim4callE", true},	{"_ops4item4callE", true},
	    {"_ops10is_nonzero4callE", false},	{"_ops5equal4callE", false},
	    {"_ops8size_int4callE", false},	{"_ops10is_complex4callE", false},
	    {"_ops11add__Tensor4callE", false}, {"_ops7add_out4callE", false},
	};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (!strstr(symbol, known[i].part))
			continue;
		assert_true(f->ret_known);
		assert_int_equal(f->ret_is_hidden_ptr, known[i].hidden);
	}
}

static int tally_symbol(const struct elf_symbol *s, void *arg)
{
	struct tally *t = arg;
	struct func_facts f;

	if (!s->is_function || s->from_symtab || !strstr(s->name, t->part) ||
	    (!strstr(s->name, "4callE") && !strstr(s->name, "5applyE")))
		return 0;
	const uint8_t *code = elf_bytes(t->elf, s->vaddr, s->size);
	assert_non_null(code);
	assert_int_equal(return_sites_analyze(t->c, code, s->size, s->vaddr, &f), 0);
	t->n++;
	t->kind[f.exit_kind]++;
	t->entry_emulated += f.entry_emulated;
	t->hidden += f.ret_is_hidden_ptr;
	if (f.exit_kind != EXIT_NONE)
		check_exits(t->d, code, s->size, s->vaddr, &f, s->name);
	if (f.exit_kind == EXIT_NONE || f.exit_kind == EXIT_RET)
		print_message("# %s: %s\n", s->name, f.reason);
	check_known(s->name, &f);
	if (strstr(s->name, "4callE"))
		tally_doubles(t, s->name, &f);
	return 0;
}

static void tally_part(struct tally *t, const char *part)
{
	t->part = part;
	t->n = t->entry_emulated = t->hidden = t->fp = t->fp_known = 0;
	memset(t->kind, 0, sizeof(t->kind));
	assert_int_equal(elf_each_symbol(t->elf, false, tally_symbol, t), 0);
	print_message(
	    "# %s: %u functions, %u emulated, %u at ret, %u none; %u push at the entry; %u"
	    " hidden results; %u with doubles, %u of them known\n",
	    part, t->n, t->kind[EXIT_EMULATED], t->kind[EXIT_RET], t->kind[EXIT_NONE],
	    t->entry_emulated, t->hidden, t->fp, t->fp_known);
}

static void check_library(const struct libtorch *l)
{
	struct tally t = {.d = arch_decoder_new()};
	struct callees *callees;

	assert_int_equal(elf_file_open(l->path, &t.elf, NULL), 0);
	assert_int_equal(callees_open(t.elf, &callees), 0);
	struct return_sites_ops ops = callees_ops(callees);
	t.c = return_sites_new(&ops);
	assert_true(t.c && t.d);
	tally_part(&t, "_ZN2at4_ops");
	assert_true(t.n > 1000);
	assert_int_equal(t.entry_emulated, t.n);
	assert_true(t.kind[EXIT_NONE] <= 1);
	assert_true(t.kind[EXIT_EMULATED] * 1000 >= t.n * 998);
	assert_true(t.fp > 100);
	assert_int_equal(t.fp_known, t.fp);
	tally_part(&t, "_ZN5torch8autograd9generated");
	assert_true(t.n > 300);
	assert_int_equal(t.kind[EXIT_NONE], 0);
	return_sites_free(t.c);
	arch_decoder_free(t.d);
	arena_free(&t.arena);
	callees_close(callees);
	elf_file_close(t.elf);
}

static void test_libraries(void **state)
{
	(void)state;
	libtorch_each(check_library);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_emulated),  cmocka_unit_test(test_stub),
	    cmocka_unit_test(test_cleanup),   cmocka_unit_test(test_work_after),
	    cmocka_unit_test(test_loops),     cmocka_unit_test(test_returns),
	    cmocka_unit_test(test_ways_out),  cmocka_unit_test(test_unlikely_parts),
	    cmocka_unit_test(test_entry),     cmocka_unit_test(test_tables),
	    cmocka_unit_test(test_spills),    cmocka_unit_test(test_no_spills),
	    cmocka_unit_test(test_results),   cmocka_unit_test(test_symbols),
	    cmocka_unit_test(test_mutations), cmocka_unit_test(test_libraries),
	};

	return unit_run(tests, NULL, NULL);
}
