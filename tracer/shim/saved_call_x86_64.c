#include <cpuid.h>
#include <stddef.h>
#include <stdint.h>

#include "tracer/shim/shim.h"

/* Intel SDM volume 1, chapter 13: the area of XSAVE begins with 512 bytes and a header of 64; its
 * other parts are where CPUID leaf 0DH says. Saved are x87, SSE, AVX and AVX-512; nothing that is
 * called here uses others. */
enum { LEGACY = 512, HEADER = 64, ALIGN = 64, PARTS = 0xe7, LAST = 7 };

static size_t area;
static uint32_t parts;

bool saved_call_prepare(void)
{
	unsigned a, b, c, d, low, high;
	if (area)
		return true;
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return false;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	parts = low & PARTS;
	size_t end = LEGACY + HEADER;
	for (unsigned i = 2; i <= LAST; i++) {
		if (!(parts >> i & 1) || !__get_cpuid_count(0xd, i, &a, &b, &c, &d))
			continue;
		end = a + b > end ? a + b : end;
	}
	area = end;
	return true;
}

__attribute__((noipa)) void saved_call(void (*fn)(void *), void *arg)
{
	if (!area) {
		fn(arg); /* there are no jumps */
		return;
	}
	uint8_t *at = __builtin_alloca_with_align(area, 8 * ALIGN);
	volatile uint64_t *header = (uint64_t *)(at + LEGACY);
	for (unsigned i = 0; i < HEADER / sizeof(*header); i++)
		header[i] = 0;
	__asm__ volatile("xsave64 (%0)" ::"r"(at), "a"(parts), "d"(0) : "memory");
	fn(arg);
	__asm__ volatile("xrstor64 (%0)" ::"r"(at), "a"(parts), "d"(0) : "memory");
}
