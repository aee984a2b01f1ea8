#include "tests/unit/unit.h"

#include "symbolizer/torch/layout.h"

#define CODE(name, text)                                                                           \
	asm(".pushsection .text\n.intel_syntax noprefix\n" #name ":\n" text "\n" #name             \
	    "_end:\n.att_syntax\n.popsection");                                                    \
	extern const uint8_t name[], name##_end[]

CODE(near, "mov rax, [rdi + 0x38]\n ret");
CODE(far, "endbr64\n mov rax, [rdi + 0x238]\n ret");
CODE(behind, "mov rax, [rdi - 8]\n ret");
CODE(more, "mov rax, [rdi + 0x38]\n inc rax\n ret");
CODE(other, "mov rax, [rsi + 0x38]\n ret");
CODE(counts_near, "mov eax, [rdi + 0x58]\n lea edx, [rax + 1]\n mov [rdi + 0x58], edx\n ret");
CODE(counts_far, "mov eax, [rdi + 0x158]\n lea edx, [rax + 1]\n mov [rdi + 0x158], edx\n ret");
CODE(counts_another, "mov eax, [rdi + 0x58]\n lea edx, [rax + 1]\n mov [rdi + 0x50], edx\n ret");
CODE(counts_by_two, "mov eax, [rdi + 0x58]\n lea edx, [rax + 2]\n mov [rdi + 0x58], edx\n ret");

#define RETURNED(name) member_returned(name, (size_t)(name##_end - name))
#define COUNTED(name) member_counted_up(name, (size_t)(name##_end - name))

static void returned(void **state)
{
	(void)state;
	assert_int_equal(RETURNED(near), 0x38);
	assert_int_equal(RETURNED(far), 0x238);
	assert_int_equal(RETURNED(behind), MEMBER_NOT_KNOWN);
	assert_int_equal(RETURNED(more), MEMBER_NOT_KNOWN);
	assert_int_equal(RETURNED(other), MEMBER_NOT_KNOWN);
	assert_int_equal(RETURNED(counts_near), MEMBER_NOT_KNOWN);
	assert_int_equal(member_returned(NULL, 0), MEMBER_NOT_KNOWN);
}

static void counted_up(void **state)
{
	(void)state;
	assert_int_equal(COUNTED(counts_near), 0x58);
	assert_int_equal(COUNTED(counts_far), 0x158);
	assert_int_equal(COUNTED(counts_another), MEMBER_NOT_KNOWN);
	assert_int_equal(COUNTED(counts_by_two), MEMBER_NOT_KNOWN);
	assert_int_equal(COUNTED(near), MEMBER_NOT_KNOWN);
	assert_int_equal(member_counted_up(NULL, 0), MEMBER_NOT_KNOWN);
}

static void cut(void **state)
{
	(void)state;
	for (const uint8_t *end = far; end < far_end; end++)
		assert_int_equal(member_returned(far, (size_t)(end - far)), MEMBER_NOT_KNOWN);
	for (const uint8_t *end = counts_far; end < counts_far_end; end++)
		assert_int_equal(member_counted_up(counts_far, (size_t)(end - counts_far)),
				 MEMBER_NOT_KNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(returned),
	    cmocka_unit_test(counted_up),
	    cmocka_unit_test(cut),
	};
	return unit_run(tests, NULL, NULL);
}
