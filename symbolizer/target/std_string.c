#include "symbolizer/target/std_string.h"

#include <ctype.h>

#include "symbolizer/plan/plan.h"

enum { LONGEST = 1 << 30 };

/* Where the text is, and its length; false: it is none. */
static bool find_cow(const struct mem *m, uint64_t addr, uint64_t *text, uint64_t *len)
{
	uint64_t rep[3];
	if (mem_read_u64(m, addr, text) || *text < 4096 ||
	    mem_read(m, *text - COW_LENGTH, rep, sizeof(rep)))
		return false;
	*len = rep[0];
	return rep[0] <= rep[1] && rep[1] < LONGEST && (int32_t)rep[2] >= -1;
}

static bool find_cxx11(const struct mem *m, uint64_t addr, uint64_t *text, uint64_t *len)
{
	uint64_t w[4];
	if (mem_read(m, addr, w, sizeof(w)))
		return false;
	*text = w[0];
	*len = w[1];
	return w[0] == addr + 16 ? w[1] <= 15 : w[2] >= w[1] && w[0] >= 4096;
}

int std_string_read(const struct mem *m, bool cow, uint64_t addr, char *out, size_t size)
{
	uint64_t text = 0, len = 0;
	if (!(cow ? find_cow : find_cxx11)(m, addr, &text, &len) || len >= size ||
	    mem_read(m, text, out, len + 1) || out[len])
		return -1;
	for (size_t i = 0; i < len; i++)
		if (!isprint((unsigned char)out[i]))
			return -1;
	return (int)len;
}
