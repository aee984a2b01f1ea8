/* Prints of code objects (symbolizer/plan/code_print.h), read from the target. */
#include "symbolizer/plan/code_print.h"

#include <string.h>

#include "symbolizer/python/internal.h"
#include "symbolizer/python/python.h"

/* Hash the `n` bytes at `addr`; 0: unreadable. */
static uint64_t print_piece(const struct py_runtime *rt, uint64_t h, uint64_t addr, uint32_t n)
{
	__u64 words[PRINT_PIECE / 8];
	if (n && mem_read(rt->mem, addr, words, n))
		return 0;
	h = print_bytes(h, words, n);
	return h ? h : 1;
}

static uint64_t print_str(const struct py_runtime *rt, const struct py_code_read *c, uint64_t addr)
{
	__u64 head[8] = {0}, text, bytes;
	if (addr < 4096 || mem_read(rt->mem, addr, head, PRINT_STR_HEAD) ||
	    print_text(c, addr, head, &text, &bytes))
		return 0;
	uint32_t n = bytes < PRINT_TEXT ? (uint32_t)bytes : PRINT_TEXT;
	return print_piece(rt, print_mix(2, bytes), text + bytes - n, n);
}

/* A line table: its first and its last bytes, which are all of it unless it is long. */
static uint64_t print_table(const struct py_runtime *rt, const struct py_code_read *c,
			    uint64_t addr)
{
	uint64_t size;
	if (py_read_word(rt, addr + c->bytes_size, &size) || size > PRINT_LONGEST)
		return 0;
	uint32_t first = size < PRINT_PIECE ? (uint32_t)size : PRINT_PIECE;
	uint32_t last = size - first < PRINT_PIECE ? (uint32_t)(size - first) : PRINT_PIECE;
	uint64_t h = print_piece(rt, print_mix(3, size), addr + c->bytes_data, first);
	return h && last ? print_piece(rt, h, addr + c->bytes_data + size - last, last) : h;
}

uint64_t py_code_print(const struct py_runtime *rt, uint64_t code, uint64_t like)
{
	const struct py_code_read c = python_code_read(rt);
	uint8_t object[MAX_CODE];
	uint32_t first;
	if (code < 4096 || mem_read(rt->mem, code, object, c.size))
		return 0;
	memcpy(&first, object + c.firstlineno, sizeof(first));
	uint64_t file = print_str(rt, &c, py_word_in(object, c.filename));
	uint64_t name = print_str(rt, &c, py_word_in(object, c.name));
	uint64_t lines = print_table(rt, &c, py_word_in(object, c.linetable));
	return print_whole(first, like & PRINT_FILE ? file : 0, like & PRINT_NAME ? name : 0,
			   like & PRINT_LINES ? lines : 0);
}
