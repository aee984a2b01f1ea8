#include "tui/proc_figures.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* proc_pid_stat(5): the fields after the name, which ends with the last parenthesis. */
static bool read_stat(pid_t pid, uint64_t *cpu_ticks, struct top_process *out)
{
	char path[64], line[1024];
	unsigned long user, system;
	long threads, rss;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *f = fopen(path, "re");
	bool got = f && fgets(line, sizeof(line), f);
	if (f)
		fclose(f);
	const char *rest = got ? strrchr(line, ')') : NULL;
	if (!rest || sscanf(rest,
			    ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d "
			    "%ld %*d %*u %*u %ld",
			    &user, &system, &threads, &rss) != 4)
		return false;
	*cpu_ticks = user + system;
	out->threads = (unsigned)threads;
	out->rss_bytes = (uint64_t)rss * (uint64_t)sysconf(_SC_PAGESIZE);
	return true;
}

bool proc_figures_read(struct proc_figures *f, pid_t pid, struct top_process *out)
{
	enum { SECOND = 1000000000 };
	uint64_t ticks, now = clock_ns(CLOCK_MONOTONIC);
	if (!read_stat(pid, &ticks, out))
		return false;
	uint64_t cpu_ns = ticks * (SECOND / (uint64_t)sysconf(_SC_CLK_TCK));
	if (!f->read_ns)
		f->percent = -1;
	else if (now - f->read_ns >= SECOND && cpu_ns >= f->cpu_ns)
		f->percent = 100.0 * (double)(cpu_ns - f->cpu_ns) / (double)(now - f->read_ns);
	if (!f->read_ns || now - f->read_ns >= SECOND) {
		f->read_ns = now;
		f->cpu_ns = cpu_ns;
	}
	out->cpu_percent = f->percent;
	return true;
}
