#define _GNU_SOURCE

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "tracer/stack/internal.h"

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

int stack_copy_init(struct stack_copy *c)
{
	c->room = malloc(STACK_COPY_MOST);
	c->of = (struct mem_copy){.mem = {.read = mem_copy_read}, .bytes = c->room};
	return c->room ? 0 : -ENOMEM;
}

void stack_copy_free(struct stack_copy *c)
{
	free(c->room);
	*c = (struct stack_copy){0};
}

int stack_copy_take(struct stack_copy *c, const struct maps *maps, const struct mem *from,
		    uint64_t sp)
{
	const struct mapping *map = maps_find(maps, sp);
	struct mem_copy *of = &c->of;
	of->len = 0;
	if (!map)
		return -EFAULT;
	of->start = sp - map->start < ARCH_RED_ZONE ? sp : sp - ARCH_RED_ZONE;
	const size_t len =
	    map->end - of->start < STACK_COPY_MOST ? map->end - of->start : STACK_COPY_MOST;
	int r = mem_read(from, of->start, c->room, len);
	of->len = r ? 0 : len;
	return r;
}
