#include "tests/unit/windows_of.h"

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

/* ---- a jump by pointer when the frame is gone, as to a virtual function ---- */

CODE(by_pointer, "push rbp; mov rbp, rsp; nop; call t_work; pop rbp; jmp rax")
CODE(by_pointer_slot, "endbr64; sub rsp, 8; nop; call t_work; add rsp, 8; jmp [rax + 16]")
CODE(by_pointer_long, "mov eax, 1; call t_work; jmp rax")
CODE(by_pointer_bare, "nop; mov eax, 1; call t_work; jmp rax")
CODE(by_pointer_late, "nop; push rbp; mov rbp, rsp; call t_work; pop rbp; jmp rax")
CODE(by_pointer_popped, "push rbp; pop rbp; nop; nop; nop; call t_work; jmp rax")
CODE(by_pointer_framed, "push rbp; mov rbp, rsp; nop; call t_work; jmp rax")

static void test_by_pointer(void **state)
{
	static const char computes[] = "it jumps to an address that it computes";
	(void)state;
	REFUSED(by_pointer, NULL, computes);
	REFUSED(by_pointer_slot, NULL, computes);
	REFUSED(by_pointer_long, NULL, computes);
	BOTH(by_pointer_bare, computes);
	BOTH(by_pointer_late, computes);
	BOTH(by_pointer_popped, computes);
	BOTH(by_pointer_framed, computes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_fits),    cmocka_unit_test(test_entry),
	    cmocka_unit_test(test_exit),    cmocka_unit_test(test_handlers),
	    cmocka_unit_test(test_neither), cmocka_unit_test(test_by_pointer),
	};

	return unit_run(tests, NULL, NULL);
}
