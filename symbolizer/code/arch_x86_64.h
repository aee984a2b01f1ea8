/* x86-64 specifics of machine-code analysis: register numbers, which instructions the kernel's
 * uprobes emulate, and the effects of an instruction on control flow, the stack and the registers.
 */
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
	/* bytes below the stack pointer that signal handlers do not touch (System V ABI for
	   AMD64, 3.2.2) */
	ARCH_RED_ZONE = 128,
	/* first integer argument, or hidden pointer to a class returned by value; integer result
	   (System V ABI for AMD64, 3.2.3) */
	ARCH_ARG0 = ARCH_DI,
	ARCH_RESULT = ARCH_AX,
};

/* Time-stamp counter (rdtsc); not serialising. */
static inline uint64_t arch_ticks(void)
{
	return __builtin_ia32_rdtsc();
}

/* The bits, one place higher, with whether `w` is not 0 in the lowest. */
static inline uint64_t arch_shift_in(uint64_t bits, uint64_t w)
{
	__asm__("neg %1\n\tadc %0, %0" : "+r"(bits), "+r"(w) : : "cc");
	return bits;
}

/* Maps DWARF register numbers to enum arch_reg; the last one, the return address, maps to ARCH_IP.
 * System V ABI for AMD64, figure 3.36. */
enum { ARCH_DWARF_REGS = 17, ARCH_DWARF_SP = 7 };
static const uint8_t arch_dwarf_reg[ARCH_DWARF_REGS] = {
    ARCH_AX, ARCH_DX,  ARCH_CX,	 ARCH_BX,  ARCH_SI,  ARCH_DI,  ARCH_BP,	 ARCH_SP, ARCH_R8,
    ARCH_R9, ARCH_R10, ARCH_R11, ARCH_R12, ARCH_R13, ARCH_R14, ARCH_R15, ARCH_IP};

/* The general registers, enum arch_reg, by their number in an instruction; Intel SDM volume 2,
 * table 2-2. */
enum { ARCH_NUMBERED_REGS = 16 };
static const uint8_t arch_numbered_reg[ARCH_NUMBERED_REGS] = {
    ARCH_AX, ARCH_CX, ARCH_DX,	ARCH_BX,  ARCH_SP,  ARCH_BP,  ARCH_SI,	ARCH_DI,
    ARCH_R8, ARCH_R9, ARCH_R10, ARCH_R11, ARCH_R12, ARCH_R13, ARCH_R14, ARCH_R15};

/* Registers of the integer arguments in order, enum arch_reg; System V ABI for AMD64, 3.2.3. */
static const uint8_t arch_int_arg[ARCH_INT_ARGS] = {ARCH_DI, ARCH_SI, ARCH_DX,
						    ARCH_CX, ARCH_R8, ARCH_R9};

/* Caller-saved integer registers, as a bit mask of 1 << enum arch_reg; System V ABI for AMD64,
 * figure 3.4. All SSE registers are caller-saved. */
static const uint32_t arch_call_clobbers = 1 << ARCH_AX | 1 << ARCH_CX | 1 << ARCH_DX |
					   1 << ARCH_SI | 1 << ARCH_DI | 1 << ARCH_R8 |
					   1 << ARCH_R9 | 1 << ARCH_R10 | 1 << ARCH_R11;

enum arch_flow {
	ARCH_FLOW_NEXT, /* falls through */
	ARCH_FLOW_COND, /* jumps to `target` or falls through */
	ARCH_FLOW_JUMP,
	ARCH_FLOW_JUMP_IND,
	ARCH_FLOW_CALL,
	ARCH_FLOW_CALL_IND,
	ARCH_FLOW_RET,
	ARCH_FLOW_STOP, /* ud2, hlt, int3: does not continue */
};

enum arch_effect {
	ARCH_EFF_OTHER,	  /* none other than `writes` and `fp_writes` */
	ARCH_EFF_COPY,	  /* low `width` bytes of dst = those of src */
	ARCH_EFF_LEA,	  /* dst = base + disp */
	ARCH_EFF_INDEX,	  /* dst = base + disp + something unknown */
	ARCH_EFF_LOAD,	  /* low `width` bytes of dst = memory at base + disp */
	ARCH_EFF_STORE,	  /* `width` bytes at base + disp = src, fp_src or something unknown */
	ARCH_EFF_PUSH,	  /* pushes src or something unknown */
	ARCH_EFF_POP,	  /* pops to dst or something unknown */
	ARCH_EFF_LEAVE,	  /* sp = bp, then pop bp */
	ARCH_EFF_COMPARE, /* compares src with `disp` */
};

/* What an instruction does to the status flags CF, PF, AF, ZF, SF and OF. */
enum arch_flags {
	ARCH_FLAGS_UNKNOWN, /* may read them */
	ARCH_FLAGS_UNREAD,  /* reads none, and may write some */
	ARCH_FLAGS_SET,	    /* reads none, and writes all, some to undefined values */
};

struct arch_insn {
	uint32_t off;	   /* offset of its first byte in the function */
	uint8_t len;	   /* bytes */
	uint8_t flow;	   /* enum arch_flow */
	uint8_t effect;	   /* enum arch_effect */
	uint8_t dst;	   /* enum arch_reg or ARCH_NOREG, also src and base */
	uint8_t src;	   /* ARCH_NOREG: something unknown, or the SSE register fp_src */
	uint8_t base;	   /* ARCH_NOREG: absolute, rip-relative or segment-relative */
	uint8_t fp_src;	   /* number of an SSE argument register, or ARCH_NOREG */
	uint8_t fp_writes; /* bit n: writes xmm n */
	uint8_t index;	   /* of the memory operand; 0: none, 1 + enum arch_reg, or ARCH_NOREG */
	uint8_t atomic;	   /* lock prefix */
	uint8_t above;	   /* jumps to `target` on unsigned greater */
	uint8_t emulated;  /* arch_emulated() */
	uint8_t flags;	   /* enum arch_flags; of those that fall through */
	uint8_t movable;   /* falls through, and does the same at any address; known for the
			      instructions whose flags are known */
	uint8_t relative;  /* would be movable, but for its last four bytes: the displacement of a
			      memory operand from its end */
	uint16_t width;	   /* bytes moved, 0: unknown */
	int32_t disp;
	uint32_t writes; /* bit n: writes register n; without rsp for pop, push and leave */
	uint64_t target; /* address: of a direct branch, or computed by a rip-relative lea */
};

/* Bytes of a jump to an address within 2 GiB: jmp rel32 (Intel SDM volume 2). */
enum { ARCH_JUMP_LEN = 5 };

/* Whether the kernel emulates the instruction of `len` bytes under a uprobe, so that a hit costs
 * one trap and no single-step: push of a register, nop, direct jumps, conditional jumps and calls,
 * without prefixes other than the push's REX.B (Linux, arch/x86/kernel/uprobes.c,
 * branch_setup_xol_ops and push_setup_xol_ops). Multi-byte nops are emulated only since 6.16 and do
 * not count. */
bool arch_emulated(const uint8_t *insn, size_t len);

/* Length in bytes of the landing pad instruction (endbr64, Intel SDM volume 2) at the start of a
 * function, else 0. */
size_t arch_landing_pad(const uint8_t *code, size_t len);

/* Length in bytes of the return instruction at `code` (ret, repz ret, ret imm16), else 0. */
size_t arch_ret_len(const uint8_t *code, size_t len);

/* Address of the word that holds the target of the PLT stub whose `len` bytes of code are at
 * address `vaddr` (jmp *slot(%rip), optionally after endbr64 and with a bnd prefix: System V ABI
 * for AMD64, 5.2); 0 if it is not a stub. */
uint64_t arch_stub_slot(const uint8_t *code, size_t len, uint64_t vaddr);

/* A disassembler; not thread-safe. */
struct arch_decoder;

/* NULL when out of memory. Free with arch_decoder_free (NULL allowed). */
struct arch_decoder *arch_decoder_new(void);
void arch_decoder_free(struct arch_decoder *d);

/* Decode the instruction at code[off]; `code` is `len` bytes at address `vaddr`. Returns 0, or
 * -EILSEQ when there is no valid instruction within the bytes. */
int arch_decode(struct arch_decoder *d, const uint8_t *code, size_t len, uint64_t vaddr,
		uint32_t off, struct arch_insn *out);

/* Recognise a jump through a table of 4-byte offsets relative to the table, as compilers emit for a
 * switch in position-independent code. `insn` are `n` consecutive instructions, the last of which
 * jumps. Returns the number of entries with *table the table's address, or 0. */
uint32_t arch_jump_table(const struct arch_insn *insn, uint32_t n, uint64_t *table);

/* Registers as ptrace(2) gives them. */

/* word[] is indexed by enum arch_reg. */
union regs {
	struct user_regs_struct user;
	uint64_t word[sizeof(struct user_regs_struct) / sizeof(uint64_t)];
};

/* The number of the system call in progress, its six arguments in arg[]; -1 if none (Linux,
 * arch/x86/entry/entry_64.S). */
static inline long regs_syscall(const uint64_t *word, uint64_t *arg)
{
	static const uint8_t place[] = {ARCH_DI, ARCH_SI, ARCH_DX, ARCH_R10, ARCH_R8, ARCH_R9};
	for (unsigned i = 0; i < sizeof(place); i++)
		arg[i] = word[place[i]];
	return (long)word[ARCH_ORIG_AX];
}

#endif
