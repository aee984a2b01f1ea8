/* Numbers and strings of records, and the checksum of what they are in. */
#include "perf/trace/coding.h"

#include <pthread.h>

#include "perf/trace/trace_format.h"

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

void out_bytes(struct out *o, const void *bytes, size_t len)
{
	if ((size_t)(o->end - o->p) < len) {
		o->full = true;
		return;
	}
	memcpy(o->p, bytes, len);
	o->p += len;
}

void out_str(struct out *o, const char *s, size_t len)
{
	out_u(o, len);
	out_bytes(o, s, len);
}

void out_f(struct out *o, double f)
{
	out_bytes(o, &f, sizeof(f));
}

static uint32_t table[8][256];

static void fill_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;
		for (int k = 0; k < 8; k++)
			c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
		table[0][i] = c;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++)
			table[k][i] = table[0][table[k - 1][i] & 0xff] ^ table[k - 1][i] >> 8;
}

uint32_t trace_crc(uint32_t crc, const void *bytes, size_t len)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, fill_table);
	const unsigned char *p = bytes;
	uint32_t c = ~crc;
	for (; len >= 8; p += 8, len -= 8) {
		c ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
		     (uint32_t)p[3] << 24;
		c = table[7][c & 0xff] ^ table[6][c >> 8 & 0xff] ^ table[5][c >> 16 & 0xff] ^
		    table[4][c >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^
		    table[0][p[7]];
	}
	while (len--)
		c = table[0][(c ^ *p++) & 0xff] ^ c >> 8;
	return ~c;
}
