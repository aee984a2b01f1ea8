/* The functions that stubs call (tracer/engine/shim/jumps.h): with a number on the stack above the
 * return address, which they pop. They keep all registers but the flags. */
#include "symbolizer/code/arch_x86_64.h"
#include "tracer/shim/record/internal.h"

_Static_assert(ARCH_R15 == 0 && ARCH_DI == 14 && ARCH_SP == 19 && ARCH_REGS == 20,
	       "the order in which they are pushed");

/* Registers by enum arch_reg at rsp, which is kept in rbx; `above`: bytes from the number to where
 * the stack pointer was. */
#define PUSH(above)                                                                                \
	"sub $40, %%rsp\n\t"                                                                       \
	"push %%rdi\n\tpush %%rsi\n\tpush %%rdx\n\tpush %%rcx\n\tpush %%rax\n\t"                   \
	"push %%r8\n\tpush %%r9\n\tpush %%r10\n\tpush %%r11\n\tpush %%rbx\n\t"                     \
	"push %%rbp\n\tpush %%r12\n\tpush %%r13\n\tpush %%r14\n\tpush %%r15\n\t"                   \
	"lea 176+" above "(%%rsp), %%rax\n\t"                                                      \
	"mov %%rax, 152(%%rsp)\n\t"                                                                \
	"mov %%rsp, %%rdi\n\t"                                                                     \
	"mov 168(%%rsp), %%esi\n\t"                                                                \
	"mov %%rsp, %%rbx\n\t"                                                                     \
	"cld\n\t"

#define POP                                                                                        \
	"mov %%rbx, %%rsp\n\t"                                                                     \
	"pop %%r15\n\tpop %%r14\n\tpop %%r13\n\tpop %%r12\n\tpop %%rbp\n\t"                        \
	"pop %%rbx\n\tpop %%r11\n\tpop %%r10\n\tpop %%r9\n\tpop %%r8\n\t"                          \
	"pop %%rax\n\tpop %%rcx\n\tpop %%rdx\n\tpop %%rsi\n\tpop %%rdi\n\t"                        \
	"add $40, %%rsp\n\t"                                                                       \
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
ENTRY_HANDLER(on_step, jump_stepped)

/* At the entry of a function without SSE arguments. */
__attribute__((naked, used, noinline)) static void on_memory(void)
{
	__asm__ volatile(PUSH("0") "and $-64, %%rsp\n\t"
				   "call %P0\n\t" POP ::"i"(jump_memory_told));
}

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
