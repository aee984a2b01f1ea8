#define _GNU_SOURCE
#include "base/bus.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

static void (*other_cause)(int);
static volatile sig_atomic_t read_zeros;

/* An anonymous page in place of the one that the file no longer has. */
static bool bus_replace(void *address)
{
	void *page = (void *)((uintptr_t)address & ~(uintptr_t)(PAGE - 1));
	return mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		    0) == page;
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
	int before = errno;
	(void)context;
	if (info->si_code == BUS_ADRERR && bus_replace(info->si_addr)) {
		read_zeros = 1;
		errno = before;
		return;
	}
	signal(sig, SIG_DFL);
	if (other_cause)
		other_cause(sig);
	raise(sig);
}

void bus_guard(void (*otherwise)(int sig))
{
	struct sigaction a = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
	other_cause = otherwise;
	sigaction(SIGBUS, &a, NULL);
}

bool bus_read_zeros(void)
{
	return read_zeros;
}
