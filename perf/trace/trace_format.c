#include "perf/trace/trace_format.h"

#include <pthread.h>

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
