#define _GNU_SOURCE
#include "tracer/stack/stack_access.h"

#include <errno.h>
#include <unistd.h>

#include "symbolizer/target/maps.h"
#include "symbolizer/target/mem.h"
#include "symbolizer/target/process.h"

static int not_allowed(pid_t pid, int code, struct err *e)
{
	struct process p;
	long scope = 0;
	process_setting("/proc", "kernel/yama/ptrace_scope", &scope);
	process_error(pid, code, "read the stacks of", e);
	if (process_read(pid, &p, NULL) || p.status.uid != geteuid() || !scope)
		return err_hint(e, "run it as root: sudo ditrace stack %d", pid);
	err_set(e, code, "cannot read the stacks of %d: Yama forbids it (ptrace_scope is %ld)", pid,
		scope);
	return err_hint(e,
			scope >= 3 ? "kernel.yama.ptrace_scope is 3, which only a boot changes"
				   : "sudo ditrace stack %d, or sysctl kernel.yama.ptrace_scope=0",
			pid);
}

int stack_access(pid_t pid, struct err *e)
{
	const struct mem mem = mem_process(pid);
	struct maps maps;
	uint8_t byte;
	int r = maps_read(pid, &maps, NULL);
	for (size_t i = 0; !r && i < maps.n; i++)
		if (maps.map[i].read && maps.map[i].exec && maps.map[i].inode) {
			r = mem_read(&mem, maps.map[i].start, &byte, 1);
			break;
		}
	if (!r && !maps.n)
		r = -ESRCH;
	maps_free(&maps);
	if (r == -EPERM || r == -EACCES)
		return not_allowed(pid, -EPERM, e);
	if (r == -ESRCH)
		return process_error(pid, r, "read the stacks of", e);
	return 0;
}

int stack_tracer(pid_t pid, struct err *e)
{
	struct process p, tracer;
	if (process_read(pid, &p, NULL) || !p.status.tracer)
		return 0;
	err_set(e, -EBUSY, "process %d (%s) is tracing it", p.status.tracer,
		process_read(p.status.tracer, &tracer, NULL) ? "?" : tracer.comm);
	return -EBUSY;
}
