/* Samples of perf_event_open(2): what is asked for, and what a record says. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "symbolizer/target/process.h"
#include "tracer/proc/follow.h"
#include "tracer/sample/internal.h"

/* Enough for the stack of a Python program inside its outermost op, some 30 C++ functions. */
enum { STACK_BYTES = 24 << 10 };

void perf_sample_ask(struct perf_event_attr *attr)
{
	attr->sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD |
			    PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	attr->sample_regs_user = perf_regs_mask;
	attr->sample_stack_user = STACK_BYTES;
}

static int closed(int fd)
{
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* Linux before 5.12 has no build_id. */
static int try_open(struct perf_event_attr *attr)
{
	attr->mmap2 = attr->mmap = attr->build_id = 1;
	int fd = (int)syscall(SYS_perf_event_open, attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 && errno == EINVAL) {
		attr->build_id = 0;
		fd = (int)syscall(SYS_perf_event_open, attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	}
	return closed(fd);
}

/* With kernel time where that is permitted. */
static int try_event(struct perf_event_attr *a, uint32_t type, uint64_t config)
{
	a->type = type;
	a->config = config;
	a->exclude_kernel = 0;
	int r = try_open(a);
	if (r != -EACCES && r != -EPERM)
		return r;
	a->exclude_kernel = 1;
	return try_open(a);
}

static int not_permitted(int code, struct err *e)
{
	long paranoid = -1;
	process_setting("/proc", "kernel/perf_event_paranoid", &paranoid);
	err_set(e, code, "cannot take samples: perf_event_open: %s", strerror(-code));
	if (paranoid > 2)
		return err_hint(e,
				"kernel.perf_event_paranoid is %ld: sysctl "
				"kernel.perf_event_paranoid=2, or run ditrace as root",
				paranoid);
	return err_hint(e, "run ditrace as root (CAP_PERFMON); in a container its seccomp profile "
			   "must allow perf_event_open");
}

int perf_sample_choose(uint64_t hz, struct perf_event_attr *attr, struct sampling *how,
		       struct err *e)
{
	if (!hz)
		return err_set(e, -EINVAL, "cannot take 0 samples a second");
	hz = perf_rate_within(hz);
	*attr = (struct perf_event_attr){
	    .size = sizeof(*attr), .freq = 1, .sample_freq = hz, .exclude_hv = 1, .disabled = 1};
	perf_sample_ask(attr);
	*how = (struct sampling){.frequency = hz, .event = "cycles"};
	/* The kernel throttles interrupts of emulated counters for the time that they take, and
	 * lowers its limit; those of the clock it does not. */
	int r = -ENOENT;
	if (!perf_counters_are_virtual())
		r = try_event(attr, PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
	if (r && r != -EACCES && r != -EPERM) {
		how->event = "cpu-clock";
		r = try_event(attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
	}
	how->kernel = !attr->exclude_kernel;
	return r ? not_permitted(r, e) : 0;
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
