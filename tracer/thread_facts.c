#define _GNU_SOURCE
#include "tracer/thread_facts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tracer/process.h"

/* A file of the thread, without a newline at its end; "" when it cannot be read. */
static const char *slurp(pid_t pid, pid_t tid, const char *name, char *out, size_t size)
{
	char path[96];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);
	if (fd >= 0)
		close(fd);
	out[n > 0 ? n : 0] = '\0';
	if (n > 0 && out[n - 1] == '\n')
		out[n - 1] = '\0';
	return out;
}

/* "running", "-1 SP PC" (it waits, but in no system call), or "NUMBER ARG... SP PC". */
void thread_facts_syscall(const char *text, struct thread_facts *out)
{
	char *end;
	long nr = strtol(text, &end, 10);
	out->in_syscall = end != text && nr >= 0;
	out->syscall = out->in_syscall ? nr : -1;
	for (unsigned i = 0; out->in_syscall && i < SYSCALL_ARGS; i++) {
		const char *at = end;
		out->arg[i] = strtoull(at, &end, 16);
		out->in_syscall = end != at;
	}
}

static uint64_t number_after(const char *text, const char *key)
{
	const char *p = strstr(text, key);
	return p ? strtoull(p + strlen(key), NULL, 10) : 0;
}

int thread_facts_read(pid_t pid, pid_t tid, struct thread_facts *out)
{
	char text[8192];
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
	out->switches = number_after(text, "\nvoluntary_ctxt_switches:") +
			number_after(text, "\nnonvoluntary_ctxt_switches:");
	return 0;
}
