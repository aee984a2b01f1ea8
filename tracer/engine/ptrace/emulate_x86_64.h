/* Executes the instruction under a breakpoint without lifting the breakpoint: common instructions
 * are emulated on the registers of the stopped thread, others relocated to be executed out of line.
 * x86-64. */
#ifndef TRACER_ENGINE_PTRACE_EMULATE_X86_64_H
#define TRACER_ENGINE_PTRACE_EMULATE_X86_64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EMULATE_INSN_MAX = 15 }; /* bytes of the longest instruction; Intel SDM volume 2, 2.3.11 */
enum { EMULATE_MOVED_MAX = EMULATE_INSN_MAX + 14 }; /* with a jump behind it */

enum emulate_kind {
	EMULATE_NONE, /* not emulated: see emulate_relocate */
	EMULATE_NOP,  /* nop of any length, endbr64, pause */
	EMULATE_PUSH, /* of a register */
	EMULATE_POP,  /* to a register */
	EMULATE_JUMP, /* relative */
	EMULATE_COND, /* conditional jump, relative */
	EMULATE_CALL, /* relative */
	EMULATE_RET,
	EMULATE_SUB_SP, /* sub or add of a constant to rsp */
	EMULATE_MOVE,	/* 64-bit register to register */
};

struct emulated {
	uint8_t kind; /* enum emulate_kind */
	uint8_t len;
	uint8_t reg, src; /* enum arch_reg */
	uint8_t cond;	  /* the low four bits of the opcode */
	int32_t value; /* displacement, constant subtracted, or bytes ret pops beside the address */
};

/* Decode the instruction at `code`, of which `n` bytes are given. 0, or -ENOTSUP when it is not one
 * of these. */
int emulate_decode(const uint8_t *code, size_t n, struct emulated *out);

/* Access to 8 bytes of the thread's memory at `addr`. 0 or -errno. */
struct emulate_memory {
	int (*read)(void *arg, uint64_t addr, uint64_t *out);
	int (*write)(void *arg, uint64_t addr, uint64_t value);
	void *arg;
};

/* Emulate `i`, which is at `addr`, on the ARCH_REGS registers. 0, or -errno of a memory access,
 * with nothing changed. */
int emulate_run(const struct emulated *i, uint64_t addr, uint64_t *regs,
		const struct emulate_memory *m);

/* Rewrite the instruction at `from` so that it does the same when executed at `to`; its bytes go to
 * out. Returns its length; -ENOTSUP when it transfers control, or its RIP-relative operand is out
 * of range from `to`; -EILSEQ when it is no instruction; -ENOMEM. */
int emulate_relocate(const uint8_t *code, size_t n, uint64_t from, uint64_t to,
		     uint8_t out[EMULATE_INSN_MAX]);

/* Write a jump to `to`, which changes no register. Returns its length. */
size_t emulate_jump(uint8_t *out, uint64_t to);

/* Write a push, whose length is *len, and what undoes it and jumps to `to`. Returns the length of
 * both. */
size_t emulate_touch(uint8_t out[EMULATE_MOVED_MAX], uint64_t to, size_t *len);

#endif
