#define _GNU_SOURCE
#include "tracer/proc/thread_facts.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "symbolizer/target/process.h"

enum { TEXT_SIZE = 8192 };

/* Parses the fields of stat after the name, which may contain any characters (proc_pid_stat(5));
 * utime is the 12th of these fields. */
bool usage_read_stat(pid_t pid, struct usage *out)
{
	char text[1024];
	unsigned long long utime, stime, start;
	long threads, pages;
	*out = (struct usage){.at_ns = clock_ns(CLOCK_MONOTONIC)};
	process_file(pid, "stat", text, sizeof(text));
	const char *p = strrchr(text, ')');
	if (!p || sscanf(p + 1,
			 " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d "
			 "%ld %*d %llu %*u %ld",
			 &utime, &stime, &threads, &start, &pages) != 5)
		return false;
	out->rss = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
	out->cpu_ns = (utime + stime) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
	out->threads = (uint64_t)threads;
	out->start_ticks = start;
	return true;
}

static bool count_fds(pid_t pid, uint64_t *n)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	DIR *d = opendir(path);
	*n = 0;
	if (!d)
		return false;
	for (struct dirent *x; (x = readdir(d));)
		*n += x->d_name[0] != '.';
	closedir(d);
	return true;
}

static uint64_t count_switches(pid_t pid)
{
	pid_t *tids;
	uint64_t sum = 0;
	ssize_t n = process_threads(pid, &tids);
	for (ssize_t i = 0; i < n; i++) {
		struct thread_facts f;
		if (!thread_facts_read(pid, tids[i], &f))
			sum += f.switches;
	}
	if (n >= 0)
		free(tids);
	return sum;
}

int usage_read(pid_t pid, struct usage *out, struct err *e)
{
	char text[TEXT_SIZE];
	uint64_t kib;
	if (!process_alive(pid))
		return process_error(pid, -ESRCH, "watch", e);
	if (!usage_read_stat(pid, out) || process_file(pid, "status", text, sizeof(text)) <= 0)
		return process_error(pid, -EPERM, "watch", e);
	if (process_number(text, "VmRSS", &kib))
		out->rss = kib * 1024;
	if (process_number(text, "VmHWM", &kib))
		out->peak = kib * 1024;
	out->has_fds = count_fds(pid, &out->fds);
	out->has_io = process_file(pid, "io", text, sizeof(text)) > 0 &&
		      process_number(text, "rchar", &out->read) &&
		      process_number(text, "wchar", &out->written);
	out->switches = count_switches(pid);
	return 0;
}
