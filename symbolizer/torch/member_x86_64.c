/* Which member of its object a small function returns, by its code. */
#include <string.h>

#include "symbolizer/torch/layout.h"

enum { RDI_DISP8 = 0x47, RDI_DISP32 = 0x87, RET = 0xc3 };

/* What is still to be read of a function. */
struct code_rest {
	const uint8_t *at;
	size_t n;
};

static bool takes(struct code_rest *c, const char *bytes, size_t n)
{
	if (c->n < n || memcmp(c->at, bytes, n) != 0)
		return false;
	c->at += n;
	c->n -= n;
	return true;
}

/* A ModRM byte of `disp8`, or of `disp32` and a longer displacement: from rdi. */
static int32_t displacement(struct code_rest *c, uint8_t disp8, uint8_t disp32)
{
	int32_t at = MEMBER_NOT_KNOWN;
	size_t n = c->n && c->at[0] == disp32 ? 1 + sizeof(at) : 2;
	if (c->n < n || (n == 2 && c->at[0] != disp8))
		return MEMBER_NOT_KNOWN;
	if (n > 2)
		memcpy(&at, c->at + 1, sizeof(at));
	else if (c->at[1] <= INT8_MAX) /* signed */
		at = c->at[1];
	c->at += n;
	c->n -= n;
	return at < 0 ? MEMBER_NOT_KNOWN : at;
}

static struct code_rest begin(const uint8_t *code, size_t len)
{
	struct code_rest c = {code, code ? len : 0};
	takes(&c, "\xf3\x0f\x1e\xfa", 4); /* endbr64 */
	return c;
}

static bool returns(const struct code_rest *c)
{
	return c->n && c->at[0] == RET;
}

int32_t member_returned(const uint8_t *code, size_t len)
{
	struct code_rest c = begin(code, len);
	if (!takes(&c, "\x48\x8b", 2)) /* mov (rdi), rax */
		return MEMBER_NOT_KNOWN;
	int32_t at = displacement(&c, RDI_DISP8, RDI_DISP32);
	return returns(&c) ? at : MEMBER_NOT_KNOWN;
}

int32_t member_counted_up(const uint8_t *code, size_t len)
{
	enum { FROM_EDX_DISP8 = 0x57, FROM_EDX_DISP32 = 0x97 };
	struct code_rest c = begin(code, len);
	if (!takes(&c, "\x8b", 1)) /* mov (rdi), eax */
		return MEMBER_NOT_KNOWN;
	int32_t at = displacement(&c, RDI_DISP8, RDI_DISP32);
	if (!takes(&c, "\x8d\x50\x01\x89", 4)) /* lea 1(rax), edx; mov edx, (rdi) */
		return MEMBER_NOT_KNOWN;
	int32_t to = displacement(&c, FROM_EDX_DISP8, FROM_EDX_DISP32);
	return to == at && returns(&c) ? at : MEMBER_NOT_KNOWN;
}
