/* Registers as ptrace(2) gives them. */
#ifndef SYMBOLIZER_CODE_REGS_X86_64_H
#define SYMBOLIZER_CODE_REGS_X86_64_H

#include <stdint.h>
#include <sys/user.h>

#include "symbolizer/code/arch_x86_64.h"

/* The registers by enum arch_reg are the first words of struct user_regs_struct. */
union regs {
	struct user_regs_struct user;
	uint64_t word[sizeof(struct user_regs_struct) / sizeof(uint64_t)];
};

/* The system call that the thread is in, with its six arguments in arg[]; -1: in none (Linux,
 * arch/x86/entry/entry_64.S). */
static inline long regs_syscall(const uint64_t *word, uint64_t *arg)
{
	static const uint8_t place[] = {ARCH_DI, ARCH_SI, ARCH_DX, ARCH_R10, ARCH_R8, ARCH_R9};
	for (unsigned i = 0; i < sizeof(place); i++)
		arg[i] = word[place[i]];
	return (long)word[ARCH_ORIG_AX];
}

#endif
