#define _GNU_SOURCE
#include "tracer/proc/thread_facts.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/system.h"
#include "symbolizer/target/process.h"

/* Read a file of the thread, without the trailing newline; "" if it cannot be read. */
static const char *slurp(pid_t pid, pid_t tid, const char *name, char *out, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "task/%d/%s", tid, name);
	ssize_t n = process_file(pid, path, out, size);
	if (n > 0 && out[n - 1] == '\n')
		out[n - 1] = '\0';
	return out;
}

/* Parse the number at the start of the thread's "syscall" file; *end is after it. */
static long call_number(const char *text, char **end)
{
	long nr = strtol(text, end, 10);
	return *end != text && nr >= 0 ? nr : -1;
}

long thread_syscall(pid_t pid, pid_t tid)
{
	char text[32], *end;
	return call_number(slurp(pid, tid, "syscall", text, sizeof(text)), &end);
}

/* The text is "running", "-1 SP PC" (blocked, but in no system call), or "NUMBER ARG... SP PC". */
void thread_facts_syscall(const char *text, struct thread_facts *out)
{
	char *end;
	out->syscall = call_number(text, &end);
	out->in_syscall = out->syscall >= 0;
	for (unsigned i = 0; out->in_syscall && i < SYSCALL_ARGS; i++) {
		const char *at = end;
		out->arg[i] = strtoull(at, &end, 16);
		out->in_syscall = end != at;
	}
}

int thread_facts_read(pid_t pid, pid_t tid, struct thread_facts *out)
{
	char text[8192];
	uint64_t voluntary = 0, forced = 0;
	struct process_status status;
	*out = (struct thread_facts){.tid = tid, .ns_tid = tid};
	slurp(pid, tid, "syscall", text, sizeof(text));
	thread_facts_syscall(text, out);
	slurp(pid, tid, "wchan", out->wchan, sizeof(out->wchan));
	if (!strcmp(out->wchan, "0"))
		out->wchan[0] = '\0';
	slurp(pid, tid, "comm", out->name, sizeof(out->name));
	out->run_ns = strtoull(slurp(pid, tid, "schedstat", text, sizeof(text)), NULL, 10);
	if (!*slurp(pid, tid, "status", text, sizeof(text)))
		return -ESRCH;
	process_parse_status(text, &status);
	out->state = status.state;
	out->tracer = status.tracer;
	out->ns_tid = status.ns_pid ? status.ns_pid : tid;
	process_number(text, "voluntary_ctxt_switches", &voluntary);
	process_number(text, "nonvoluntary_ctxt_switches", &forced);
	out->switches = voluntary + forced;
	return 0;
}

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

int process_list_add(struct process_list *l, pid_t pid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->pids[i] == pid)
			return 0;
	if (array_grow(&l->pids, &l->room, l->n + 1, sizeof(*l->pids)))
		return -ENOMEM;
	l->pids[l->n++] = pid;
	return 0;
}

int process_list_add_below(struct process_list *l)
{
	int r = 0;
	for (size_t i = 0; i < l->n && !r; i++) {
		pid_t *children = NULL;
		ssize_t n = process_children(l->pids[i], &children);
		r = n < 0 ? (int)n : 0;
		for (ssize_t k = 0; k < n && !r; k++)
			r = process_list_add(l, children[k]);
		free(children);
	}
	return r;
}

void process_list_free(struct process_list *l)
{
	free(l->pids);
	*l = (struct process_list){0};
}

/* Devices. */

/* `here` exists where there is a device, what `used` matches is open in processes that compute on
 * it; CUDA opens nvidia-uvm, which what only asks for the state of a device (NVML) does not. */
static const struct device {
	const char *here, *used, *variable;
} devices[] = {
    {"/dev/nvidiactl", "/dev/nvidia-uvm", "CUDA_VISIBLE_DEVICES"},
    {"/dev/dxg", "/dev/dxg", "CUDA_VISIBLE_DEVICES"}, /* CUDA on WSL */
    {"/dev/kfd", "/dev/kfd", "HIP_VISIBLE_DEVICES"},
    {"/dev/davinci_manager", "/dev/davinci_manager", "ASCEND_RT_VISIBLE_DEVICES"},
    {"/dev/cambricon_ctl", "/dev/cambricon_dev[0-9]*", "MLU_VISIBLE_DEVICES"},
};

enum { DEVICES = sizeof(devices) / sizeof(devices[0]) };

const char *devices_here(void)
{
	for (size_t i = 0; i < DEVICES; i++) {
		const char *visible = getenv(devices[i].variable);
		if ((!visible || (*visible && strcmp(visible, "-1") != 0)) &&
		    !access(devices[i].here, F_OK))
			return devices[i].here;
	}
	return NULL;
}

static const char *used_by(const char *link)
{
	for (size_t i = 0; i < DEVICES; i++)
		if (!fnmatch(devices[i].used, link, 0))
			return devices[i].here;
	return NULL;
}

const char *devices_of(pid_t pid)
{
	char path[64], link[PATH_MAX];
	const char *found = NULL;
	struct dirent *d;
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	DIR *dir = opendir(path);
	while (dir && !found && (d = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), d->d_name, link, sizeof(link) - 1);
		link[n < 0 ? 0 : n] = '\0';
		found = used_by(link);
	}
	if (dir)
		closedir(dir);
	return found;
}
