#include "symbolizer/code/arch_x86_64.h"

const uint8_t arch_dwarf_reg[ARCH_DWARF_REGS] = {
    ARCH_AX, ARCH_DX,  ARCH_CX,	 ARCH_BX,  ARCH_SI,  ARCH_DI,  ARCH_BP,	 ARCH_SP, ARCH_R8,
    ARCH_R9, ARCH_R10, ARCH_R11, ARCH_R12, ARCH_R13, ARCH_R14, ARCH_R15, ARCH_IP};

const uint8_t arch_numbered_reg[ARCH_NUMBERED_REGS] = {
    ARCH_AX, ARCH_CX, ARCH_DX,	ARCH_BX,  ARCH_SP,  ARCH_BP,  ARCH_SI,	ARCH_DI,
    ARCH_R8, ARCH_R9, ARCH_R10, ARCH_R11, ARCH_R12, ARCH_R13, ARCH_R14, ARCH_R15};

const uint8_t arch_int_arg[ARCH_INT_ARGS] = {ARCH_DI, ARCH_SI, ARCH_DX, ARCH_CX, ARCH_R8, ARCH_R9};

#define BIT(r) (UINT32_C(1) << (r))
const uint32_t arch_call_clobbers = BIT(ARCH_AX) | BIT(ARCH_CX) | BIT(ARCH_DX) | BIT(ARCH_SI) |
				    BIT(ARCH_DI) | BIT(ARCH_R8) | BIT(ARCH_R9) | BIT(ARCH_R10) |
				    BIT(ARCH_R11);
