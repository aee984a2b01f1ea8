#include "tracer/shim/record/internal.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/system.h"

enum {
	GOOD_NS = 1000 * 1000,	      /* after this the clock itself is read again */
	LONG_NS = 1000 * 1000 * 1000, /* longest interval to learn a rate from */
	APART = 1000,		      /* most ticks between two readings that count as one */
	AGREE = 2000,		      /* two rates agree within 1 / AGREE */
};

static bool usable;

/* Documentation/ABI/testing/sysfs-devices-system-clocksource. */
void ticks_prepare(void)
{
	static const char path[] =
	    "/sys/devices/system/clocksource/clocksource0/current_clocksource";
	char text[8] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	usable = read(fd, text, sizeof(text)) == 4 && !memcmp(text, "tsc\n", 4);
	close(fd);
}

static bool is_same(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) <= a / AGREE;
}

/* The clock said `ns` at TSC value `at`. The TSC is trusted once two successive intervals give the
 * same rate: it may have been set, or run on while the clock stood still. */
static void learn_rate(struct ticks *t, uint64_t at, uint64_t ns)
{
	uint64_t past = ns - t->ns, was = t->rate;
	if (t->at && past < GOOD_NS && !t->good)
		return;
	t->rate = past < LONG_NS && at > t->at ? (past << 32) / (at - t->at) : 0;
	bool known = t->rate && is_same(t->rate, was);
	t->good = known ? ((uint64_t)GOOD_NS << 32) / t->rate : 0;
	t->at = at;
	t->ns = ns;
}

static void read_clock(void *arg)
{
	struct ticks *t = arg;
	uint64_t before = arch_ticks(), ns = clock_ns(CLOCK_MONOTONIC), after = arch_ticks();
	if (usable && after - before < APART)
		learn_rate(t, before + (after - before) / 2, ns);
	else
		t->good = 0;
	if (ns > t->last)
		t->last = ns;
}

uint64_t ticks_read_clock(struct ticks *t)
{
	saved_call(read_clock, t);
	return t->last;
}
