#include "perf/trace/internal.h"

uint64_t in_long(struct in *in)
{
	uint64_t n = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t b = in_b(in);
		n |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return in->bad ? 0 : n;
	}
	in->bad = true;
	return 0;
}

int32_t in_s32(struct in *in)
{
	int64_t n = in_s(in);
	if (n < INT32_MIN || n > INT32_MAX) {
		in->bad = true;
		return 0;
	}
	return (int32_t)n;
}

const char *in_str(struct in *in, uint32_t *len)
{
	uint64_t n = in_u(in);
	if (in->bad || n > (uint64_t)(in->end - in->p)) {
		in->bad = true;
		*len = 0;
		return "";
	}
	const char *s = (const char *)in->p;
	in->p += n;
	*len = (uint32_t)n;
	return s;
}

/* The end of the u at `p`, NULL if it is longer than 8 bytes. 8 bytes must be readable there. */
static const uint8_t *end_of(const uint8_t *p)
{
	uint64_t w;
	memcpy(&w, p, sizeof(w));
	w = ~w & 0x8080808080808080u; /* the top bit of each byte that ends a u */
	return w ? p + __builtin_ctzll(w) / 8 + 1 : NULL;
}

void in_pass(struct in *in, unsigned n)
{
	const uint8_t *p = in->p, *end;
	for (; n && in->end - p >= 8 && (end = end_of(p)); n--)
		p = end;
	in->p = p;
	for (; n && !in->bad; n--)
		in_long(in);
}
