/* A record's payload being read: the forms of trace_format.h. Short, and called many times for each
 * event. */
#ifndef PERF_TRACE_TRACE_IN_H
#define PERF_TRACE_TRACE_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Once `bad` (the payload ended, or a number made no sense) what is read means nothing. */
struct in {
	const uint8_t *p, *end;
	bool bad;
};

/* in_u for any length; for in_u alone. */
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

/* The bytes of a str; *len of them, without a NUL. */
const char *in_str(struct in *in, uint32_t *len);

/* As many u or s as `n`, unread. */
void in_pass(struct in *in, unsigned n);

/* So many bytes, unread. */
static inline void in_pass_bytes(struct in *in, size_t n)
{
	if (n > (size_t)(in->end - in->p))
		in->bad = true;
	else
		in->p += n;
}

#endif
