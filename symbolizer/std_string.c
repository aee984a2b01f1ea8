#include "symbolizer/std_string.h"

#include <ctype.h>
#include <stdbool.h>

int std_string_read(const struct mem *m, uint64_t addr, char *out, size_t size)
{
	uint64_t w[4];
	if (mem_read(m, addr, w, sizeof(w)) || w[1] >= size)
		return -1;
	bool local = w[0] == addr + 16;
	if (local && w[1] > 15)
		return -1;
	if (!local && (w[2] < w[1] || w[0] < 4096))
		return -1;
	if (mem_read(m, w[0], out, w[1] + 1) || out[w[1]])
		return -1;
	for (size_t i = 0; i < w[1]; i++)
		if (!isprint((unsigned char)out[i]))
			return -1;
	return (int)w[1];
}
