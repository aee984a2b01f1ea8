/* Instructions carried out on the registers of a stopped thread, so that a breakpoint that stands
 * in their place need not be lifted; and how the others are carried out elsewhere than where they
 * stand. x86-64. */
#ifndef TRACER_ENGINE_PTRACE_EMULATE_X86_64_H
#define TRACER_ENGINE_PTRACE_EMULATE_X86_64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EMULATE_INSN_MAX = 15 }; /* bytes of the longest instruction; Intel SDM volume 2, 2.3.11 */

enum emulate_kind {
	EMULATE_NONE, /* not known here: see emulate_relocate */
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
	int32_t value;	  /* displacement, or what is subtracted, or popped beside the address */
};

/* The instruction at `code`, of which `n` bytes are there. 0, or -ENOTSUP when it is not one of
 * these. */
int emulate_decode(const uint8_t *code, size_t n, struct emulated *out);

/* What emulating needs of the thread's memory: 8 bytes at `addr`. 0 or -errno. */
struct emulate_memory {
	int (*read)(void *arg, uint64_t addr, uint64_t *out);
	int (*write)(void *arg, uint64_t addr, uint64_t value);
	void *arg;
};

/* Carry out `i`, which stands at `addr`, on the ARCH_REGS registers. 0, or -errno of the memory,
 * and then nothing has changed. */
int emulate_run(const struct emulated *i, uint64_t addr, uint64_t *regs,
		const struct emulate_memory *m);

/* Make of the instruction that stands at `from` one that does the same when executed at `to`: its
 * bytes into out. Returns its length; -ENOTSUP when it goes elsewhere than to the next instruction,
 * or what it names relative to itself cannot be reached from there; -EILSEQ when it is none. */
int emulate_relocate(const uint8_t *code, size_t n, uint64_t from, uint64_t to,
		     uint8_t out[EMULATE_INSN_MAX]);

#endif
