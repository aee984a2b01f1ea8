/* Registers as ptrace(2) gives them. */
#ifndef TRACER_REGS_X86_64_H
#define TRACER_REGS_X86_64_H

#include <stdint.h>
#include <sys/user.h>

/* The registers by enum arch_reg are the first words of struct user_regs_struct. */
union regs {
	struct user_regs_struct user;
	uint64_t word[sizeof(struct user_regs_struct) / sizeof(uint64_t)];
};

#endif
