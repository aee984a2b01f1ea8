#define _GNU_SOURCE
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PAGE = 4096 };

/* The start of a file of /proc, NUL-terminated; "" when it cannot be read. */
static const char *text_of(int fd, char *out, size_t size)
{
	ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);
	if (fd >= 0)
		close(fd);
	out[n > 0 ? n : 0] = '\0';
	return out;
}

/* What the time namespace adds to CLOCK_MONOTONIC; 0 where the kernel has none (before 5.6). */
static uint64_t clock_offset(void)
{
	char text[256];
	int64_t s = 0, ns = 0;
	const char *line = strstr(
	    text_of(open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC), text, sizeof(text)),
	    "monotonic");
	if (!line || sscanf(line, "monotonic %" SCNd64 " %" SCNd64, &s, &ns) != 2)
		return 0;
	return (uint64_t)s * 1000000000u + (uint64_t)ns;
}

void clock_identify(uint8_t out[16])
{
	char text[64];
	unsigned n = 0, byte;
	const char *p = text_of(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC), text,
				sizeof(text));
	uint64_t offset = clock_offset();
	memset(out, 0, 16);
	for (; n < 16 && sscanf(p, "%2x", &byte) == 1; p += p[2] == '-' ? 3 : 2)
		out[n++] = (uint8_t)byte;
	if (n < 16)
		memset(out, 0, 16);
	for (unsigned i = 0; i < 8 && n == 16; i++)
		out[i] ^= (uint8_t)(offset >> 8 * i);
}

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

static struct rlimit given;
static bool raised;

void file_limit_raise(void)
{
	if (getrlimit(RLIMIT_NOFILE, &given))
		return;
	struct rlimit l = given;
	l.rlim_cur = l.rlim_max;
	raised = !setrlimit(RLIMIT_NOFILE, &l);
}

void file_limit_restore(void)
{
	if (raised)
		setrlimit(RLIMIT_NOFILE, &given);
}

int file_limit_check(unsigned n, struct err *e)
{
	struct rlimit l;
	if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur >= n)
		return 0;
	return err_set(e, -EMFILE, "too many open files: %llu may be open, and %u are needed",
		       (unsigned long long)l.rlim_cur, n);
}

int thread_start(pthread_t *out, void *(*fn)(void *arg), void *arg)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int r = pthread_create(out, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}

void thread_hurry(bool realtime)
{
	enum { NICE = -10 };
	const struct sched_param p = {.sched_priority = sched_get_priority_min(SCHED_RR)};
	if (!realtime || sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &p))
		setpriority(PRIO_PROCESS, 0, NICE);
}
