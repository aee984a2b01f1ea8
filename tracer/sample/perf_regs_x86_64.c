#include "tracer/sample/internal.h"

#include <cpuid.h>
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"

/* Bits of enum perf_event_x86_regs (Linux, arch/x86/include/uapi/asm/perf_regs.h); 12 to 15 are
 * segment registers that struct pt_regs does not have. */
static const struct {
	uint8_t perf, arch;
} order[PERF_REGS] = {
    {0, ARCH_AX},   {1, ARCH_BX},     {2, ARCH_CX},   {3, ARCH_DX},   {4, ARCH_SI},
    {5, ARCH_DI},   {6, ARCH_BP},     {7, ARCH_SP},   {8, ARCH_IP},   {9, ARCH_FLAGS},
    {10, ARCH_CS},  {11, ARCH_NOREG}, {16, ARCH_R8},  {17, ARCH_R9},  {18, ARCH_R10},
    {19, ARCH_R11}, {20, ARCH_R12},   {21, ARCH_R13}, {22, ARCH_R14}, {23, ARCH_R15},
};

const uint64_t perf_regs_mask = 0xff0fff;

bool perf_counters_are_virtual(void)
{
	enum { HYPERVISOR = 1U << 31 };
	unsigned a, b, c = 0, d;
	return __get_cpuid(1, &a, &b, &c, &d) && (c & HYPERVISOR);
}

void perf_regs_take(const uint64_t *words, uint64_t *regs)
{
	memset(regs, 0, ARCH_REGS * sizeof(*regs));
	for (size_t i = 0; i < PERF_REGS; i++)
		if (order[i].arch != ARCH_NOREG)
			regs[order[i].arch] = words[i];
}
