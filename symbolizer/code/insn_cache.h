/* Instructions that were decoded before: code repeats itself, and to look one up is far cheaper
 * than to disassemble it. For instruction sets in which no instruction is the beginning of another,
 * as x86-64's. */
#ifndef SYMBOLIZER_CODE_INSN_CACHE_H
#define SYMBOLIZER_CODE_INSN_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/code/arch_x86_64.h"

struct insn_cache;

/* NULL when there is no memory. Free with insn_cache_free (NULL allowed). */
struct insn_cache *insn_cache_new(void);
void insn_cache_free(struct insn_cache *c);

/* Find the instruction that begins the `left` bytes at `code`, which stand at address `at`. Fills
 * all of *out but `off`. */
bool insn_cache_find(const struct insn_cache *c, const uint8_t *code, size_t left, uint64_t at,
		     struct arch_insn *out);

/* Remember an instruction of insn->len bytes at address `at`. Its last `relative` bytes (0, 1 or 4)
 * are a signed distance d from its end, which any other may stand for: insn->target, unless 0, is
 * at + len + d, and insn->disp of a load, store or lea is d. Ignored when there is no room. */
void insn_cache_add(struct insn_cache *c, const uint8_t *code, uint64_t at, unsigned relative,
		    const struct arch_insn *insn);

#endif
