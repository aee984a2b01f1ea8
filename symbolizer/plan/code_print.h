/* The print of a Python code object: a hash of what frames show of it, its file name, name, line
 * table and first line. Two code objects that have, one after the other, the same address are told
 * apart by it, whatever the addresses of their parts are. The eBPF programs compute it while a
 * frame keeps the object alive (tracer/sample/code_print.bpf.h), user space when it reads the
 * object (symbolizer/python/pyprint.c). */
#ifndef SYMBOLIZER_PLAN_CODE_PRINT_H
#define SYMBOLIZER_PLAN_CODE_PRINT_H

#include "symbolizer/plan/plan.h"

enum {
	PRINT_PIECE = 1024,	 /* bytes hashed at a time; a multiple of 8 */
	PRINT_TEXT = 256,	 /* of a str, its length and so many last bytes */
	PRINT_LONGEST = 1 << 24, /* of a str or line table; longer ones are taken to be corrupt */
	PRINT_STR_HEAD = 40,	 /* bytes of a str up to its state, at least */
};

/* The parts that a print has; none has 0. A part has not been hashed if its memory was mapped but
 * not present, where the page cannot be faulted in: what was just made is present, so it is of an
 * object that lives long. */
enum { PRINT_FILE = 1, PRINT_NAME = 2, PRINT_LINES = 4, PRINT_FIRST = 8, PRINT_PARTS = 15 };

static inline __u64 print_mix(__u64 h, __u64 word)
{
	h = (h ^ word) * 0x9e3779b97f4a7c15ULL;
	return h ^ h >> 29;
}

/* `n`, at most PRINT_PIECE, bytes, in words. */
static inline __u64 print_bytes(__u64 h, const __u64 *words, __u32 n)
{
	for (__u32 i = 0; i < PRINT_PIECE / 8; i++) {
		if (i >= n >> 3)
			break;
		h = print_mix(h, words[i]);
	}
	if (n & 7)
		h = print_mix(h, words[(n >> 3) & (PRINT_PIECE / 8 - 1)] &
				     ((1ULL << 8 * (n & 7)) - 1));
	return h;
}

/* The text of the str at `addr` whose head is `words`: 0, or -1 when it is not an exact, compact
 * one. state: interned 2 bits, kind 3 bits (the width), compact, ascii (pyobject.c). */
static inline int print_text(const struct py_code_read *c, __u64 addr, const __u64 *words,
			     __u64 *text, __u64 *bytes)
{
	__u64 state = words[(c->str_state >> 3) & 7] >> 8 * (c->str_state & 4);
	__u64 length = words[(c->str_length >> 3) & 7], width = state >> 2 & 7;
	if (!(state & 0x20) || (width != 1 && width != 2 && width != 4) || length > PRINT_LONGEST)
		return -1;
	*text = addr + (state & 0x40 ? c->str_ascii : c->str_compact);
	*bytes = length * width;
	return 0;
}

/* The hash of a part that is not there is 0. */
static inline __u64 print_whole(__u32 first, __u64 file, __u64 name, __u64 lines)
{
	__u64 h = print_mix(print_mix(print_mix(print_mix(1, first), file), name), lines);
	return (h & ~(__u64)PRINT_PARTS) | PRINT_FIRST | (file ? PRINT_FILE : 0) |
	       (name ? PRINT_NAME : 0) | (lines ? PRINT_LINES : 0);
}

#endif
