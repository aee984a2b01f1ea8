/* Strings of libstdc++ in the target's memory. */
#ifndef SYMBOLIZER_TARGET_STD_STRING_H
#define SYMBOLIZER_TARGET_STD_STRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolizer/target/mem.h"

/* sizeof(std::string). C++11 ABI: {char *, size_t, 16 bytes: the text itself or its capacity}
 * (bits/basic_string.h). The ABI before that, `cow` (bits/cow_string.h): {char *}, before the text
 * {size_t length, capacity; int references less one}; PyTorch's packages of PyPI for Linux have it
 * up to 2.5. */
static inline unsigned std_string_size(bool cow)
{
	return cow ? 8 : 32;
}

/* Copies the std::string at `addr`, which must be printable, to out (with a NUL). Returns its
 * length; -1 when there is none, or one of `size` bytes or more. */
int std_string_read(const struct mem *m, bool cow, uint64_t addr, char *out, size_t size);

#endif
