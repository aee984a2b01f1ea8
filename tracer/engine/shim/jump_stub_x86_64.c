#define _GNU_SOURCE
#include "tracer/engine/shim/jumps.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>

/* Intel SDM volume 2. The status flags are dead where a stub begins, so rsp may be changed by add
 * and sub; but not between the handler and the window's instructions other than there. */
static const uint8_t skip[] = {0x48, 0x83, 0xc4, 0x80};	  /* add rsp, -128 */
static const uint8_t unskip[] = {0x48, 0x83, 0xec, 0x80}; /* sub rsp, -128 */
enum { PUSH = 0x68, JMP = 0xe9, PUSH_LEN = 5, CALL_LEN = 6, OPERAND = 4 };
static const uint8_t call[] = {0xff, 0x15}; /* call [rip + disp32] */

/* At the end of a stub: the address of its window, its length, and whether it skips. */
enum { WINDOW_AT = JUMP_STUB - 8, LEN_SHIFT = 56, SKIP_SHIFT = 63 };
_Static_assert(sizeof(skip) + PUSH_LEN + CALL_LEN + sizeof(unskip) + JUMP_WINDOW_MAX +
		       ARCH_JUMP_LEN <=
		   WINDOW_AT,
	       "the longest stub");

static uint8_t *put(uint8_t *to, const void *bytes, size_t n)
{
	memcpy(to, bytes, n);
	return to + n;
}

static uint32_t distance(uint64_t from, uint64_t to)
{
	return (uint32_t)(to - from);
}

/* Of instructions that were at `from` and are at `to`. */
static void move_displacement(uint8_t *operand, uint64_t from, uint64_t to)
{
	uint32_t d;
	memcpy(&d, operand, sizeof(d));
	d += distance(to, from);
	memcpy(operand, &d, sizeof(d));
}

void jump_contents(uint8_t out[ARCH_JUMP_LEN], uint64_t at, uint64_t to)
{
	uint32_t d = distance(at + ARCH_JUMP_LEN, to);
	*out = JMP;
	memcpy(out + 1, &d, sizeof(d));
}

bool jump_reaches(uint64_t at, uint64_t to)
{
	int64_t d = (int64_t)(to - (at + ARCH_JUMP_LEN));
	return d == (int32_t)d;
}

uint64_t jump_target(const uint8_t code[ARCH_JUMP_LEN], uint64_t at)
{
	int32_t d;
	memcpy(&d, code + 1, sizeof(d));
	return *code == JMP ? at + ARCH_JUMP_LEN + (uint64_t)(int64_t)d : 0;
}

uint64_t jump_relative_target(const struct jump_site *s)
{
	int32_t d;
	memcpy(&d, s->bytes + s->len - OPERAND, sizeof(d));
	return s->addr + s->len + (uint64_t)(int64_t)d;
}

unsigned jump_stub_copy(const struct jump_site *s)
{
	unsigned skips = s->skips_red_zone ? sizeof(skip) + sizeof(unskip) : 0;
	return skips + PUSH_LEN + CALL_LEN;
}

void jump_stub_contents(uint8_t out[JUMP_STUB], const struct jump_site *s, uint64_t at,
			uint64_t handler_at)
{
	const uint64_t window =
	    s->addr | (uint64_t)s->len << LEN_SHIFT | (uint64_t)s->skips_red_zone << SKIP_SHIFT;
	uint8_t *p = out;
	memset(out, 0, JUMP_STUB);
	if (s->skips_red_zone)
		p = put(p, skip, sizeof(skip));
	*p++ = PUSH;
	p = put(p, &s->number, OPERAND);
	p = put(p, call, sizeof(call));
	const uint32_t d = distance(at + (uint64_t)(p - out) + OPERAND, handler_at);
	p = put(p, &d, OPERAND);
	if (s->skips_red_zone)
		p = put(p, unskip, sizeof(unskip));
	const uint64_t copy = at + (uint64_t)(p - out);
	p = put(p, s->bytes, s->len);
	if (s->relative)
		move_displacement(p - OPERAND, s->addr, copy);
	jump_contents(p, at + (uint64_t)(p - out), s->addr + s->len);
	memcpy(out + WINDOW_AT, &window, sizeof(window));
}

static uint64_t window_word(const uint8_t stub[JUMP_STUB])
{
	uint64_t word;
	memcpy(&word, stub + WINDOW_AT, sizeof(word));
	return word;
}

uint64_t jump_stub_window(const uint8_t stub[JUMP_STUB])
{
	return window_word(stub) & ((UINT64_C(1) << LEN_SHIFT) - 1);
}

bool jump_stub_is_like(const uint8_t a[JUMP_STUB], const uint8_t b[JUMP_STUB])
{
	uint8_t like[JUMP_STUB];
	const unsigned push = window_word(b) >> SKIP_SHIFT ? sizeof(skip) : 0;
	const unsigned number = push + 1, handler = push + PUSH_LEN + sizeof(call);
	memcpy(like, a, JUMP_STUB);
	memcpy(like + number, b + number, OPERAND);
	memcpy(like + handler, b + handler, OPERAND);
	return !memcmp(like, b, JUMP_STUB);
}

/* The selectors in struct sigcontext (Linux, arch/x86/include/uapi/asm/sigcontext.h): cs, gs, fs
 * and ss of a 64-bit program. Before them are the flags, rip and rsp. */
bool jump_is_signal_frame(const uint64_t *word, size_t i, uint64_t *sp)
{
	enum { SP_BEFORE = 3 };
	if (word[i] != UINT64_C(0x002b000000000033) || i < SP_BEFORE)
		return false;
	*sp = word[i - SP_BEFORE];
	return true;
}

int jump_move_thread(pid_t tid, uint64_t to)
{
	const size_t at = offsetof(struct user, regs.rip);
	return ptrace(PTRACE_POKEUSER, tid, (void *)at, (void *)to) ? -errno : 0;
}
