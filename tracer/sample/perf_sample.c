#include "tracer/sample/internal.h"

#include <string.h>

/* Enough for the stack of a Python program inside its outermost op, some 30 C++ functions. */
enum { STACK_BYTES = 24 << 10 };

void perf_sample_ask(struct perf_event_attr *attr)
{
	attr->sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD |
			    PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	attr->sample_regs_user = perf_regs_mask;
	attr->sample_stack_user = STACK_BYTES;
}

struct in {
	const uint8_t *p;
	size_t left;
	bool bad;
};

static void in_take(struct in *in, void *out, size_t n)
{
	if (n > in->left) {
		in->bad = true;
		in->left = 0;
		memset(out, 0, n);
		return;
	}
	memcpy(out, in->p, n);
	in->p += n;
	in->left -= n;
}

static uint64_t word(struct in *in)
{
	uint64_t v;
	in_take(in, &v, sizeof(v));
	return v;
}

/* u64 size; bytes[size]; and, when size is not 0, u64 number of valid bytes. */
static void take_stack(struct in *in, struct perf_sample *out)
{
	uint64_t size = word(in);
	if (!size)
		return;
	if (size > in->left) {
		in->bad = true;
		return;
	}
	out->stack = in->p;
	in->p += size;
	in->left -= size;
	uint64_t used = word(in);
	in->bad |= used > size;
	out->len = used;
}

bool perf_sample_parse(const struct perf_event_header *h, struct perf_sample *out)
{
	struct in in = {(const uint8_t *)(h + 1), h->size - sizeof(*h), false};
	uint64_t regs[PERF_REGS];
	uint32_t numbers[2];
	*out = (struct perf_sample){0};
	if (h->type != PERF_RECORD_SAMPLE || h->size < sizeof(*h))
		return false;
	in_take(&in, numbers, sizeof(numbers));
	out->pid = (pid_t)numbers[0];
	out->tid = (pid_t)numbers[1];
	out->time = word(&in);
	out->period = word(&in);
	out->in_kernel = (h->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
	uint64_t abi = word(&in);
	if (abi)
		in_take(&in, regs, sizeof(regs));
	take_stack(&in, out);
	if (in.bad)
		return false;
	out->has_regs = abi == PERF_REGS_ABI;
	if (out->has_regs)
		perf_regs_take(regs, out->regs);
	else
		out->len = 0;
	return true;
}
