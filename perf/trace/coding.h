/* The numbers and strings of a record, in the forms of trace_format.h. */
#ifndef PERF_TRACE_CODING_H
#define PERF_TRACE_CODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The inline functions are short, and called many times for each event. */

/* Once `bad` is set (the payload ended, or a number made no sense), what is read means nothing. */
struct in {
	const uint8_t *p, *end;
	bool bad;
};

/* in_u for any length; called only by in_u. */
uint64_t in_long(struct in *in);

static inline uint8_t in_b(struct in *in)
{
	if (in->p < in->end)
		return *in->p++;
	in->bad = true;
	return 0;
}

static inline uint64_t in_u(struct in *in)
{
	const uint8_t *p = in->p;
	if (in->end - p >= 2 && p[0] < 0x80) {
		in->p = p + 1;
		return p[0];
	}
	if (in->end - p >= 2 && p[1] < 0x80) {
		in->p = p + 2;
		return (p[0] & 0x7fu) | (unsigned)p[1] << 7;
	}
	return in_long(in);
}

static inline int64_t in_s(struct in *in)
{
	uint64_t n = in_u(in);
	return (int64_t)((n >> 1) ^ (0 - (n & 1)));
}

int32_t in_s32(struct in *in);

/* A number that the file of an older ditrace does not have, at the end of a record or in its
 * padding: then 0. */
static inline uint64_t in_later_u(struct in *in)
{
	return in->p < in->end ? in_u(in) : 0;
}

static inline int64_t in_later_s(struct in *in)
{
	return in->p < in->end ? in_s(in) : 0;
}

/* A number below `limit`, at most 2^32. */
static inline uint32_t in_below(struct in *in, uint64_t limit)
{
	uint64_t n = in_u(in);
	if (n < limit)
		return (uint32_t)n;
	in->bad = true;
	return 0;
}

static inline double in_f(struct in *in)
{
	double f = 0;
	if (in->end - in->p < (ptrdiff_t)sizeof(f)) {
		in->bad = true;
		return 0;
	}
	memcpy(&f, in->p, sizeof(f));
	in->p += sizeof(f);
	return f;
}

/* The bytes of a str: *len of them, not NUL-terminated. */
const char *in_str(struct in *in, uint32_t *len);

/* Skip `n` numbers, each a u or an s. */
void in_pass(struct in *in, unsigned n);

/* Skip `n` bytes. */
static inline void in_pass_bytes(struct in *in, size_t n)
{
	if (n > (size_t)(in->end - in->p))
		in->bad = true;
	else
		in->p += n;
}

/* A buffer being filled; once `full`, nothing more is added. */
struct out {
	uint8_t *p, *end;
	bool full;
};

/* The forms of trace_format.h: b, u, s, f, str, and plain bytes. */

static inline void out_b(struct out *o, uint8_t b)
{
	if (o->p < o->end)
		*o->p++ = b;
	else
		o->full = true;
}

static inline void out_u(struct out *o, uint64_t n)
{
	if (o->end - o->p < 10) {
		o->full = true;
		return;
	}
	for (; n >= 0x80; n >>= 7)
		*o->p++ = (uint8_t)(n | 0x80);
	*o->p++ = (uint8_t)n;
}

static inline void out_s(struct out *o, int64_t n)
{
	out_u(o, ((uint64_t)n << 1) ^ (uint64_t)(n >> 63));
}

void out_f(struct out *o, double f);
void out_str(struct out *o, const char *s, size_t len);
void out_bytes(struct out *o, const void *bytes, size_t len);

#endif
