#define _GNU_SOURCE
#include "tracer/proc/thread_facts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
