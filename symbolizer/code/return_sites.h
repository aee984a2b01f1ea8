/* Where to put the probes of one function, found from its machine code alone: at its entry, and at
 * an instruction that every call that returns passes exactly once, late enough that nothing but
 * clean-up runs after it. And what is where: floating-point arguments, the result. */
#ifndef SYMBOLIZER_CODE_RETURN_SITES_H
#define SYMBOLIZER_CODE_RETURN_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/code/arch_x86_64.h"

enum exit_kind {
	EXIT_NONE,     /* no set of instructions is known to catch every return */
	EXIT_EMULATED, /* instructions that the kernel emulates; each call that returns passes
			* exactly one of them, once, and only clean-up follows */
	EXIT_RET,      /* the return instructions, all of them; the kernel single-steps them */
};

enum { EXITS_MAX = 8 };

struct func_facts {
	uint32_t entry; /* offset of the instruction to probe at the entry: behind a landing pad */
	uint32_t frame; /* bytes from the stack pointer at the exit up to that at the entry */
	uint8_t entry_emulated; /* the kernel emulates that instruction */
	uint8_t exit_kind;	/* enum exit_kind */
	uint8_t nexits;
	uint8_t frame_known;
	uint32_t exits[EXITS_MAX]; /* offsets */
	const char *reason;	   /* why not EXIT_EMULATED, else NULL; static */
	/* A second place for the entry's probe, behind the instructions that put the SSE arguments,
	 * which no probe sees, into the frame. Every call passes it once, in a straight line from
	 * the entry, before the function has called or written anything outside its frame. */
	struct deferred_entry {
		uint32_t off; /* of an emulated instruction; 0: there is none, or no need */
		uint32_t sp;  /* bytes from the stack pointer there up to that at the entry */
		/* which register holds integer argument n there: enum arch_reg, ARCH_NOREG: none */
		uint8_t arg[ARCH_INT_ARGS];
		/* Where the 8 bytes that came in xmm n lie, in bytes from the stack pointer at the
		 * entry (which points at the return address). */
		struct fp_slot {
			bool known;
			int32_t sp_off;
		} xmm[ARCH_FP_ARGS];
	} late;
	/* Integer result at the exit: in register ret_reg (enum arch_reg), or, when that is
	 * ARCH_NOREG, at ret_sp_off from the stack pointer at the entry. Its low ret_width bytes
	 * are good. */
	bool ret_known;
	uint8_t ret_reg;
	uint8_t ret_width;
	int32_t ret_sp_off;
	bool ret_is_hidden_ptr; /* the function returns the value of its first integer argument */
};

/* What the analysis asks of its user. Any may be NULL. */
struct return_sites_ops {
	/* Whether the function at address `target` only cleans up (free, a destructor of what
	 * cannot run ops), so that the op is over when it is called. NULL: none is. */
	bool (*is_cleanup)(void *arg, uint64_t target);
	/* As in struct cfg_reader. NULL: functions with jump tables, with a part elsewhere, are
	 * EXIT_NONE. */
	int (*read)(void *arg, uint64_t addr, void *buf, size_t len);
	const uint8_t *(*piece)(void *arg, uint64_t addr, uint64_t *start, size_t *len);
	void *arg;
};

/* Whether a symbol of the C or C++ libraries or of c10, as mangled, is clean-up: freeing,
 * unlocking, counting down a reference, destructors. For use in is_cleanup. */
bool return_sites_cleanup_symbol(const char *name);

/* Buffers for the analysis. One thread uses it at a time; several may be used at once. */
struct return_sites_ctx;

/* NULL when there is no memory. `ops` may be NULL, is copied. Free with return_sites_free (NULL
 * allowed).
 */
struct return_sites_ctx *return_sites_new(const struct return_sites_ops *ops);
void return_sites_free(struct return_sites_ctx *c);

/* Analyse the function whose `len` bytes of machine code begin at address `vaddr`. The address must
 * be in the terms that is_cleanup understands. Returns 0 with *out filled (EXIT_NONE is no error),
 * -EINVAL for an empty function, or -ENOMEM. */
int return_sites_analyze(struct return_sites_ctx *c, const uint8_t *code, size_t len,
			 uint64_t vaddr, struct func_facts *out);

#endif
