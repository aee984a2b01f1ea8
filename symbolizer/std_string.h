/* Strings of libstdc++ in the target's memory. */
#ifndef SYMBOLIZER_STD_STRING_H
#define SYMBOLIZER_STD_STRING_H

#include <stddef.h>
#include <stdint.h>

#include "tracer/mem.h"

/* C++11 ABI: {char *, size_t, 16 bytes: the text itself or its capacity} (bits/basic_string.h) */
enum { STD_STRING_SIZE = 32 };

/* Copies the std::string at `addr`, which must be printable, to out (with a NUL). Returns its
 * length; -1 when there is none, or one of `size` bytes or more. */
int std_string_read(const struct mem *m, uint64_t addr, char *out, size_t size);

#endif
