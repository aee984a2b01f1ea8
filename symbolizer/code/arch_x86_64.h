/* All that is particular to x86-64 in reaching into a function: the numbers of its registers, which
 * instructions the kernel's uprobes emulate, and what an instruction does to control flow, the
 * stack and the registers. */
#ifndef SYMBOLIZER_CODE_ARCH_X86_64_H
#define SYMBOLIZER_CODE_ARCH_X86_64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

/* Registers are numbered as the words of struct pt_regs (Linux, arch/x86/include/asm/ptrace.h),
 * which are also the first words of struct user_regs_struct (sys/user.h). */
enum arch_reg {
	ARCH_R15,
	ARCH_R14,
	ARCH_R13,
	ARCH_R12,
	ARCH_BP,
	ARCH_BX,
	ARCH_R11,
	ARCH_R10,
	ARCH_R9,
	ARCH_R8,
	ARCH_AX,
	ARCH_CX,
	ARCH_DX,
	ARCH_SI,
	ARCH_DI,
	ARCH_ORIG_AX,
	ARCH_IP,
	ARCH_CS,
	ARCH_FLAGS,
	ARCH_SP,
	ARCH_REGS,
	ARCH_NOREG = 0xff,
};

enum {
	ARCH_INT_ARGS = 6, /* registers that carry integer arguments */
	ARCH_FP_ARGS = 8,  /* xmm0..7 */
	/* bytes below the stack pointer that signals leave alone (the same, 3.2.2) */
	ARCH_RED_ZONE = 128,
	/* the register of the first integer argument, or of the hidden pointer to a class returned
	 * by value, and the register of an integer result (System V ABI for AMD64, 3.2.3) */
	ARCH_ARG0 = ARCH_DI,
	ARCH_RESULT = ARCH_AX,
};

/* The processor's counter of time (rdtsc), not ordered with what stands around it. */
static inline uint64_t arch_ticks(void)
{
	return __builtin_ia32_rdtsc();
}

/* DWARF's numbers of registers to ours: the last is the return address, which stands for the
 * instruction pointer; System V ABI for AMD64, figure 3.36. */
enum { ARCH_DWARF_REGS = 17, ARCH_DWARF_SP = 7 };
extern const uint8_t arch_dwarf_reg[ARCH_DWARF_REGS];

/* Registers of the integer arguments in order, enum arch_reg; System V ABI for AMD64, 3.2.3. */
extern const uint8_t arch_int_arg[ARCH_INT_ARGS];

/* Registers a call may change, as a bit mask of 1 << enum arch_reg; System V ABI for AMD64,
 * figure 3.4. It preserves no SSE register. */
extern const uint32_t arch_call_clobbers;

enum arch_flow {
	ARCH_FLOW_NEXT, /* goes on to the next instruction */
	ARCH_FLOW_COND, /* to `target` or to the next */
	ARCH_FLOW_JUMP,
	ARCH_FLOW_JUMP_IND,
	ARCH_FLOW_CALL,
	ARCH_FLOW_CALL_IND,
	ARCH_FLOW_RET,
	ARCH_FLOW_STOP, /* ud2, hlt, int3: does not go on */
};

enum arch_effect {
	ARCH_EFF_OTHER,	  /* nothing but that it changes `writes` and `fp_writes` */
	ARCH_EFF_COPY,	  /* low `width` bytes of dst = those of src */
	ARCH_EFF_LEA,	  /* dst = base + disp */
	ARCH_EFF_INDEX,	  /* dst = base + disp + something unknown */
	ARCH_EFF_LOAD,	  /* low `width` bytes of dst = memory at base + disp */
	ARCH_EFF_STORE,	  /* `width` bytes at base + disp = src, or fp src, or something unknown */
	ARCH_EFF_PUSH,	  /* of src, or of something unknown */
	ARCH_EFF_POP,	  /* to dst, or to somewhere unknown */
	ARCH_EFF_LEAVE,	  /* sp = bp, then pop bp */
	ARCH_EFF_COMPARE, /* of src with `disp` */
};

struct arch_insn {
	uint32_t off;	   /* of its first byte in the function */
	uint8_t len;	   /* bytes */
	uint8_t flow;	   /* enum arch_flow */
	uint8_t effect;	   /* enum arch_effect */
	uint8_t dst;	   /* enum arch_reg or ARCH_NOREG, as the two below */
	uint8_t src;	   /* ARCH_NOREG: something unknown, or the SSE register fp_src */
	uint8_t base;	   /* ARCH_NOREG: absolute, relative to rip or to a segment */
	uint8_t fp_src;	   /* number of an SSE register of the arguments, or ARCH_NOREG */
	uint8_t fp_writes; /* bit n: changes xmm n */
	uint8_t index;	   /* of a memory operand: 0: none, 1 + enum arch_reg, or ARCH_NOREG */
	uint8_t atomic;	   /* lock prefix */
	uint8_t above;	   /* flow goes to `target` on unsigned greater */
	uint8_t emulated;  /* arch_emulated() */
	uint16_t width;	   /* bytes moved, 0: not known */
	int32_t disp;
	uint32_t writes; /* bit n: changes register n; pop, push and leave do not list rsp */
	uint64_t target; /* address, of flows with one, and of what a lea relative to rip takes */
};

/* Whether the kernel emulates the instruction of `len` bytes when a uprobe sits on it, so that a
 * hit costs one trap and no single step: push of a register, nop, jumps, conditional jumps and
 * calls relative to rip, all without prefixes other than the push's REX.B (Linux,
 * arch/x86/kernel/uprobes.c, branch_setup_xol_ops and push_setup_xol_ops; longer nops only
 * since 6.16, so they do not count). */
bool arch_emulated(const uint8_t *insn, size_t len);

/* Length of the landing pad instruction (endbr64, Intel SDM volume 2) at the start of a function,
 * else 0. */
size_t arch_landing_pad(const uint8_t *code, size_t len);

/* Length in bytes of the return instruction at `code` (ret, repz ret, ret imm16), else 0. */
size_t arch_ret_len(const uint8_t *code, size_t len);

/* Address of the word that holds the target of the linkage stub whose `len` bytes of code stand at
 * address `vaddr` (jmp *slot(%rip), perhaps behind endbr64 and with a bnd prefix: System V ABI for
 * AMD64, 5.2), 0 when it is none. */
uint64_t arch_stub_slot(const uint8_t *code, size_t len, uint64_t vaddr);

/* A disassembler; not shared between threads. */
struct arch_decoder;

/* NULL when there is no memory. Free with arch_decoder_free (NULL allowed). */
struct arch_decoder *arch_decoder_new(void);
void arch_decoder_free(struct arch_decoder *d);

/* Decode the instruction at code[off], `len` bytes of code that begin at address `vaddr`. Returns
 * 0, or -EILSEQ when there is no valid instruction within the bytes. */
int arch_decode(struct arch_decoder *d, const uint8_t *code, size_t len, uint64_t vaddr,
		uint32_t off, struct arch_insn *out);

/* Recognise a jump through a table of 4-byte offsets from its own start, as compilers make for
 * switch in position-independent code: `insn` are the `n` instructions in a row the last of which
 * jumps. Returns the number of entries, with the table's address, or 0. */
uint32_t arch_jump_table(const struct arch_insn *insn, uint32_t n, uint64_t *table);

/* Registers as ptrace(2) gives them. */

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
