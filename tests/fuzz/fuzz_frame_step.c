/* Fuzzes code and stack of an unwinding step: it reads nothing else, and values reported as known
 * come from there. The first bytes are the offset in the code and the offset of the stack pointer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/native/native_stack.h"
#include "tracer/monitor/monitor.h"
#include "tracer/proc/thread_facts.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { STACK = 512, BASE = 0x10000 };

static const unsigned char *input;
static size_t input_size;

/* The input repeated from BASE on. */
static int read_input(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	(void)m;
	if (addr < BASE || addr - BASE > STACK || len > STACK - (addr - BASE))
		return -EFAULT;
	for (size_t i = 0; i < len; i++)
		((unsigned char *)buf)[i] = input[(addr - BASE + i) % input_size];
	return 0;
}

static void parse(const unsigned char *data, size_t size)
{
	char *text = strndup((const char *)data, size);
	struct thread_facts facts;
	uint64_t bytes;
	if (text && !device_usage_parse(text, 1, &bytes) && bytes % (1 << 20))
		abort();
	if (text)
		thread_facts_syscall(text, &facts);
	free(text);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	const struct mem mem = {.read = read_input};
	uint64_t regs[ARCH_REGS];
	uint32_t known = (1U << ARCH_REGS) - 1;
	if (size < 3)
		return 0;
	const struct frame_step_code f = {
	    .code = data + 2, .len = size - 2, .vaddr = 0x400000, .mem = &mem};
	input = data;
	input_size = size;
	for (unsigned i = 0; i < ARCH_REGS; i++)
		regs[i] = BASE + data[1];
	int r = frame_step(&f, &mem, f.vaddr + data[0], regs, &known);
	if (!r && (known & (1U << ARCH_AX) || !(known >> ARCH_IP & 1) || regs[ARCH_SP] <= BASE))
		abort();
	parse(data, size);
	return 0;
}
