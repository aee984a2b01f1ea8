/* What speaks against the engine shim before anything is touched. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "symbolizer/target/process.h"
#include "tracer/engine/engine.h"
#include "tracer/engine/shim/jumps.h"
#include "tracer/engine/shim/shim_share.h"
#include "tracer/proc/spawn.h"

/* Bytes of address space that the process (0: one that is not there yet) has, proc_pid_statm(5). */
static uint64_t size_of(pid_t pid)
{
	char text[128];
	if (!pid || process_file(pid, "statm", text, sizeof(text)) <= 0)
		return 0;
	return strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int too_much(const char *what, const char *option, rlim_t limit, struct err *e)
{
	char share[32], most[32];
	return err_set(e, -ENOMEM, "its library maps %s, and %s may have %s (ulimit %s)",
		       text_bytes(share, sizeof(share), sizeof(struct shim_share)), what,
		       text_bytes(most, sizeof(most), limit), option);
}

/* Each library maps what it shares with ditrace, a file, whole; ditrace maps that of all. */
static int check_limits(pid_t pid, struct err *e)
{
	enum { PROCESSES = 16, ITSELF = 1 << 30 };
	const uint64_t share = sizeof(struct shim_share), needs = size_of(pid) + share + ITSELF;
	struct rlimit own, file, space;
	if (getrlimit(RLIMIT_AS, &own) || getrlimit(RLIMIT_FSIZE, &file) ||
	    prlimit(pid, RLIMIT_AS, NULL, &space))
		return 0;
	if (space.rlim_cur < needs)
		return too_much("it", "-v", space.rlim_cur, e);
	if (own.rlim_cur < PROCESSES * share)
		return too_much("ditrace", "-v", own.rlim_cur, e);
	return file.rlim_cur < share ? too_much("a file", "-f", file.rlim_cur, e) : 0;
}

/* A sanitizer's library ends a program in which another one was preloaded before it. */
static int check_preloaded(pid_t pid, struct err *e)
{
	const char *others = pid ? NULL : getenv("LD_PRELOAD");
	if (!others ||
	    !(strstr(others, "asan") || strstr(others, "tsan") || strstr(others, "msan")))
		return 0;
	return err_set(e, -ENOTSUP, "a sanitizer in LD_PRELOAD must be loaded first");
}

static __attribute__((noinline, noclone)) void written(void)
{
	__asm__ volatile("nop" ::: "memory");
}

/* As a jump is written: the first byte of a function, here with what it is. */
static int write_text(pid_t pid)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	int status, r = ptrace(PTRACE_SEIZE, pid, NULL, NULL) ||
				ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) ||
				waitpid(pid, &status, __WALL) != pid
			    ? -errno
			    : 0;
	int mem = r ? -1 : open(path, O_RDWR | O_CLOEXEC);
	r = r || mem >= 0 ? r : -errno;
	r = r ? r : jump_mem_write(mem, (uintptr_t)written, (const void *)(uintptr_t)written, 1);
	if (mem >= 0)
		close(mem);
	return r;
}

/* Whether this machine lets a tracer write the code of a process, tried on a child. */
static int check_text(struct err *e)
{
	written();
	pid_t pid = spawn_part(SIGKILL);
	if (pid < 0)
		return 0;
	if (!pid)
		for (;;)
			pause();
	int r = write_text(pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return r ? err_set(e, -EACCES, "jumps cannot be written into code here: %s", strerror(-r))
		 : 0;
}

static bool sleeps(pid_t tid)
{
	struct process p;
	return !process_read(tid, &p, NULL) && p.status.state == 'D';
}

static bool sleeps_long(pid_t tid)
{
	enum { LOOKS = 20, EVERY_MS = 25 };
	for (unsigned i = 0; i < LOOKS && sleeps(tid); i++)
		nanosleep(&(struct timespec){.tv_nsec = EVERY_MS * 1000 * 1000}, NULL);
	return sleeps(tid);
}

/* All threads stop while jumps are written. */
static int check_threads(pid_t pid, struct err *e)
{
	pid_t *tids = NULL, asleep = 0;
	ssize_t n = pid ? process_threads(pid, &tids) : 0;
	for (ssize_t i = 0; i < n && !asleep; i++)
		if (sleeps_long(tids[i]))
			asleep = tids[i];
	free(tids);
	return asleep ? err_set(e, -EBUSY, "thread %d waits in the kernel and cannot be stopped",
				asleep)
		      : 0;
}

int engine_shim_fits(pid_t pid, struct err *e)
{
	int r = check_limits(pid, e);
	r = r ? r : check_preloaded(pid, e);
	r = r ? r : check_threads(pid, e);
	return r ? r : check_text(e);
}
