#include <errno.h>
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/code/internal.h"
#include "tests/unit/unit.h"

#define BIT(r) (UINT32_C(1) << (r))

/* As GNU as 2.40 assembles them. */
static const struct {
	const char *what;
	uint8_t code[12], len;
	uint8_t base; /* of a store; ARCH_NOREG: it is none */
	uint32_t writes;
	bool relative;
} cases[] = {
    {"vandps %zmm0,%zmm4,%zmm7", {0x62, 0xf1, 0x5c, 0x48, 0x54, 0xf8}, 6, ARCH_NOREG, 0, false},
    {"vandps 0x1a39(%rip),%zmm0,%zmm6",
     {0x62, 0xf1, 0x7c, 0x48, 0x54, 0x35, 0x39, 0x1a, 0, 0},
     10,
     ARCH_NOREG,
     0,
     true},
    {"vpternlogd $0xff,%zmm9,%zmm9,%zmm9",
     {0x62, 0x53, 0x35, 0x48, 0x25, 0xc9, 0xff},
     7,
     ARCH_NOREG,
     0,
     false},
    {"vmovups %zmm1,0x40(%rcx){%k1}",
     {0x62, 0xf1, 0x7c, 0x49, 0x11, 0x49, 0x01},
     7,
     ARCH_CX,
     0,
     false},
    {"vmovdqu8 %zmm16,-0x240(%rbp,%rax,2)",
     {0x62, 0xe1, 0x7f, 0x48, 0x7f, 0x44, 0x45, 0xf7},
     8,
     ARCH_BP,
     0,
     false},
    {"vmovdqu16 0x1000(%r13),%zmm1",
     {0x62, 0xd1, 0xff, 0x48, 0x6f, 0x4d, 0x40},
     7,
     ARCH_NOREG,
     0,
     false},
    {"vpmovqd %zmm1,0x20(%r12)",
     {0x62, 0xd2, 0x7e, 0x48, 0x35, 0x4c, 0x24, 0x01},
     8,
     ARCH_R12,
     0,
     false},
    {"vpscatterdd %zmm1,(%rsi,%zmm2,4){%k1}",
     {0x62, 0xf2, 0x7d, 0x49, 0xa0, 0x0c, 0x96},
     7,
     ARCH_SI,
     0,
     false},
    {"vcvttss2usi %xmm17,%r13",
     {0x62, 0x31, 0xfe, 0x08, 0x78, 0xe9},
     6,
     ARCH_NOREG,
     BIT(ARCH_R13),
     false},
    {"vpextrq $1,%xmm18,%r9",
     {0x62, 0xc3, 0xfd, 0x08, 0x16, 0xd1, 0x01},
     7,
     ARCH_NOREG,
     BIT(ARCH_R9),
     false},
    {"vpextrq $1,%xmm18,0x8(%rdx)",
     {0x62, 0xe3, 0xfd, 0x08, 0x16, 0x52, 0x01, 0x01},
     8,
     ARCH_DX,
     0,
     false},
    {"vmovd %xmm17,%r11d",
     {0x62, 0xc1, 0x7d, 0x08, 0x7e, 0xcb},
     6,
     ARCH_NOREG,
     BIT(ARCH_R11),
     false},
    {"vaddph %zmm1,%zmm2,%zmm3", {0x62, 0xf5, 0x6c, 0x48, 0x58, 0xd9}, 6, ARCH_NOREG, 0, false},
    /* the displacement is not the last of it */
    {"vrangeps $3,0x1a39(%rip),%zmm0,%zmm6",
     {0x62, 0xf3, 0x7d, 0x48, 0x50, 0x35, 0x39, 0x1a, 0, 0, 0x03},
     11,
     ARCH_NOREG,
     0,
     false},
};

static void check_case(size_t k)
{
	struct arch_insn i = {.base = ARCH_NOREG};
	assert_int_equal(evex_decode(cases[k].code, cases[k].len, &i), 0);
	assert_int_equal(i.len, cases[k].len);
	assert_int_equal(i.flow, ARCH_FLOW_NEXT);
	assert_int_equal(i.effect == ARCH_EFF_STORE, cases[k].base != ARCH_NOREG);
	assert_int_equal(i.base, cases[k].base);
	assert_int_equal(i.writes, cases[k].writes);
	assert_int_equal(i.relative, cases[k].relative);
	assert_int_equal(i.movable, (cases[k].code[5] & 0xc7) != 5);
	assert_int_equal(evex_decode(cases[k].code, cases[k].len - 1U, &i), -EILSEQ);
}

static void test_instructions(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		print_message("%s\n", cases[k].what);
		check_case(k);
	}
}

/* With the bits that AVX-512 leaves fixed otherwise it is another's. */
static void test_foreign(void **state)
{
	static const struct {
		uint8_t at, keep, set; /* the byte; its bits that stay; those that are set */
	} changes[] = {{1, 0xff, 8}, {2, 0xfb, 0}, {1, 0xf8, 4}, {0, 0, 0x90}};
	struct arch_insn i;
	(void)state;
	for (size_t k = 0; k < sizeof(changes) / sizeof(changes[0]); k++) {
		uint8_t code[6];
		memcpy(code, cases[0].code, sizeof(code));
		code[changes[k].at] = (code[changes[k].at] & changes[k].keep) | changes[k].set;
		assert_int_equal(evex_decode(code, sizeof(code), &i), -EILSEQ);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_instructions),
	    cmocka_unit_test(test_foreign),
	};
	return unit_run(tests, NULL, NULL);
}
