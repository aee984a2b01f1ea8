/* The functions that stubs call (tracer/engine/shim/jumps.h): with a number on the stack above the
 * return address, which they pop. They keep all registers but the flags. */
#include "symbolizer/code/arch_x86_64.h"
#include "tracer/shim/record/internal.h"

_Static_assert(ARCH_R15 == 0 && ARCH_DI == 14 && ARCH_SP == 19 && ARCH_REGS == 20,
	       "the order in which they are pushed");

/* For unwinders the caller of a handler is the function with the jump, with all its registers as
 * they were: at the window, whose address is at the end of the stub that the return address is in
 * (tracer/engine/shim/jump_stub_x86_64.c), plus one, as from the return address of a call one is
 * subtracted. `above`: bytes from the number to where the stack pointer was. In DWARF 5 (2.5, 6.4):
 * DW_CFA_val_expression of the return address: CFA - (16 + above), deref, & -64, deref at + 56, its
 * lower 56 bits, + 1. */
#define CALLER(above)                                                                              \
	".cfi_def_cfa rsp, 16+" above "\n\t"                                                       \
	".cfi_escape 0x16, 0x10, 16, 0x08, 16+" above ", 0x1c, 0x06, 0x09, 0xc0, 0x1a, "           \
	"0x23, 56, 0x06, 0x38, 0x24, 0x38, 0x25, 0x23, 1\n\t"

#define SAVE(reg) "push %%" reg "\n\t.cfi_adjust_cfa_offset 8\n\t.cfi_rel_offset " reg ", 0\n\t"
#define RESTORE(reg) "pop %%" reg "\n\t.cfi_adjust_cfa_offset -8\n\t.cfi_restore " reg "\n\t"

/* Registers by enum arch_reg at rsp, which is kept in rbx. */
#define PUSH(above)                                                                                \
	CALLER(above)                                                                              \
	"sub $40, %%rsp\n\t.cfi_adjust_cfa_offset 40\n\t" SAVE("rdi") SAVE("rsi") SAVE("rdx")      \
	    SAVE("rcx") SAVE("rax") SAVE("r8") SAVE("r9") SAVE("r10") SAVE("r11") SAVE("rbx")      \
		SAVE("rbp") SAVE("r12") SAVE("r13") SAVE("r14")                                    \
		    SAVE("r15") "lea 176+" above "(%%rsp), %%rax\n\t"                              \
				"mov %%rax, 152(%%rsp)\n\t"                                        \
				"mov %%rsp, %%rdi\n\t"                                             \
				"mov 168(%%rsp), %%esi\n\t"                                        \
				"mov %%rsp, %%rbx\n\t"                                             \
				".cfi_def_cfa_register rbx\n\t"                                    \
				"cld\n\t"

#define POP                                                                                        \
	"mov %%rbx, %%rsp\n\t.cfi_def_cfa_register rsp\n\t" RESTORE("r15") RESTORE("r14")          \
	    RESTORE("r13") RESTORE("r12") RESTORE("rbp") RESTORE("rbx") RESTORE("r11")             \
		RESTORE("r10") RESTORE("r9") RESTORE("r8") RESTORE("rax") RESTORE("rcx")           \
		    RESTORE("rdx") RESTORE("rsi") RESTORE("rdi") "add $40, %%rsp\n\t"              \
								 ".cfi_adjust_cfa_offset -40\n\t"  \
								 "ret $8\n\t"

/* At the entry of a function: its SSE arguments are kept, and passed as third argument. */
#define ENTRY_HANDLER(name, function)                                                              \
	__attribute__((naked, used, noinline)) static void name(void)                              \
	{                                                                                          \
		__asm__ volatile(PUSH("0") "sub $128, %%rsp\n\t"                                   \
					   "and $-64, %%rsp\n\t"                                   \
					   "movaps %%xmm0, (%%rsp)\n\t"                            \
					   "movaps %%xmm1, 16(%%rsp)\n\t"                          \
					   "movaps %%xmm2, 32(%%rsp)\n\t"                          \
					   "movaps %%xmm3, 48(%%rsp)\n\t"                          \
					   "movaps %%xmm4, 64(%%rsp)\n\t"                          \
					   "movaps %%xmm5, 80(%%rsp)\n\t"                          \
					   "movaps %%xmm6, 96(%%rsp)\n\t"                          \
					   "movaps %%xmm7, 112(%%rsp)\n\t"                         \
					   "mov %%rsp, %%rdx\n\t"                                  \
					   "call %P0\n\t"                                          \
					   "movaps (%%rsp), %%xmm0\n\t"                            \
					   "movaps 16(%%rsp), %%xmm1\n\t"                          \
					   "movaps 32(%%rsp), %%xmm2\n\t"                          \
					   "movaps 48(%%rsp), %%xmm3\n\t"                          \
					   "movaps 64(%%rsp), %%xmm4\n\t"                          \
					   "movaps 80(%%rsp), %%xmm5\n\t"                          \
					   "movaps 96(%%rsp), %%xmm6\n\t"                          \
					   "movaps 112(%%rsp), %%xmm7\n\t" POP ::"i"(function));   \
	}

ENTRY_HANDLER(on_entry, jump_entered)
ENTRY_HANDLER(on_announced, jump_announced)

/* At the entry of a function without SSE arguments, as none of enum shim_step and enum shim_memory
 * has any. */
#define PLAIN_HANDLER(name, function)                                                              \
	__attribute__((naked, used, noinline)) static void name(void)                              \
	{                                                                                          \
		__asm__ volatile(PUSH("0") "and $-64, %%rsp\n\t"                                   \
					   "call %P0\n\t" POP ::"i"(function));                    \
	}

PLAIN_HANDLER(on_step, jump_stepped)
PLAIN_HANDLER(on_memory, jump_memory_told)

/* At an exit, whose stub has stepped over the red zone. */
__attribute__((naked, used, noinline)) static void on_exit_window(void)
{
	__asm__ volatile(PUSH("128") "and $-64, %%rsp\n\t"
				     "call %P0\n\t" POP ::"i"(jump_left));
}

/* The number is of no op. Below the red zone. */
void jump_idle(void)
{
	__asm__ volatile("sub $128, %%rsp\n\t"
			 "push $0x7fffffff\n\t"
			 "call %P0\n\t"
			 "add $128, %%rsp" ::"i"(on_entry)
			 : "cc", "memory");
}

void jump_handlers(struct shim_jumps *out)
{
	out->entry = (uint64_t)(uintptr_t)on_entry;
	out->exit = (uint64_t)(uintptr_t)on_exit_window;
	out->announced = (uint64_t)(uintptr_t)on_announced;
	out->step = (uint64_t)(uintptr_t)on_step;
	out->memory = (uint64_t)(uintptr_t)on_memory;
}
