#define _GNU_SOURCE
#include "tracer/engine/ptrace/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"

static struct tracee **tracee_slot(struct tracer *t, pid_t tid)
{
	return &t->slot[(uint32_t)tid % TRACEE_SLOTS];
}

struct tracee *tracee_find(const struct tracer *t, pid_t tid)
{
	struct tracee *x = t->slot[(uint32_t)tid % TRACEE_SLOTS];
	while (x && x->tid != tid)
		x = x->next;
	return x;
}

struct tracee_process *tracee_process_find(const struct tracer *t, pid_t pid)
{
	struct tracee_process *p = t->processes;
	while (p && p->pid != pid)
		p = p->next;
	return p;
}

void tracee_take_stop(const struct tracee *x)
{
	int status;
	waitpid(x->tid, &status, __WALL | WNOHANG);
}

bool tracee_get_regs(const struct tracee *x, union regs *r)
{
	return !ptrace(PTRACE_GETREGS, x->tid, NULL, &r->user);
}

void tracee_set_regs(const struct tracee *x, const union regs *r)
{
	ptrace(PTRACE_SETREGS, x->tid, NULL, &r->user);
}

void tracee_resume(const struct tracee *x, int sig)
{
	/* Fails when the thread has been killed, which waitpid will report. */
	ptrace(PTRACE_CONT, x->tid, NULL, (void *)(long)sig);
}

static void set_process(struct tracee *x, struct tracee_process *p)
{
	x->of = p;
	p->threads++;
}

struct tracee *tracee_add(struct tracer *t, pid_t tid)
{
	struct process who;
	struct tracee *x = calloc(1, sizeof(*x)), **slot = tracee_slot(t, tid);
	if (!x)
		return NULL;
	x->tid = tid;
	x->next = *slot;
	*slot = x;
	struct tracee_process *p =
	    process_read(tid, &who, NULL) ? NULL : tracee_process_find(t, who.pid);
	if (p)
		set_process(x, p);
	return x;
}

bool tracee_tell(struct tracer *t, enum follow_kind kind, pid_t pid, pid_t tid, pid_t parent,
		 bool held)
{
	const struct news n = {kind, pid, tid, parent, held && !t->away};
	return share_tell(t->share, &n) && n.held;
}

static void drop_process(struct tracer *t, struct tracee_process *p)
{
	struct tracee_process **at = &t->processes;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	breakpoints_put(p->space);
	tracee_tell(t, FOLLOW_EXIT, p->pid, p->pid, 0, false);
	free(p);
}

static void tracee_forget_ops(struct tracee *x)
{
	if (x->sums)
		atomic_store_explicit(&x->sums->ended, true, memory_order_release);
	if (x->ops)
		free(x->ops->sums_writer);
	free(x->ops);
	x->ops = NULL;
	x->sums = NULL;
}

void tracee_drop(struct tracer *t, struct tracee *x)
{
	if (!x)
		return;
	struct tracee **at = tracee_slot(t, x->tid);
	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	if (x->of && !--x->of->threads)
		drop_process(t, x->of);
	tracee_forget_ops(x);
	free(x);
}

struct tracee_process *tracee_process_new(struct tracer *t, pid_t pid, struct breakpoints *space)
{
	struct tracee_process *p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	*p = (struct tracee_process){.next = t->processes, .pid = pid, .space = space};
	t->processes = p;
	return p;
}

void tracee_watch_linker(struct tracee_process *p)
{
	const struct use use = {.kind = USE_LINKER, .proc = NO_PROC};
	struct linker l;
	if (!linker_find(p->pid, 0, &l))
		breakpoints_add(p->space, l.notify, l.code, &use);
}

static bool adopt_process(struct tracer *t, struct tracee *x, struct tracee_process *parent,
			  pid_t pid)
{
	struct breakpoints *space = NULL;
	bool shared = process_shares_memory(pid, parent->pid);
	int r = 0;
	if (shared)
		space = breakpoints_ref(parent->space);
	else
		r = breakpoints_fork(parent->space, pid, &space, NULL);
	if (!space)
		return true; /* it is exiting */
	struct tracee_process *p = tracee_process_new(t, pid, space);
	if (!p) {
		if (!shared)
			breakpoints_restore(space);
		breakpoints_put(space);
		return true;
	}
	set_process(x, p);
	p->told = parent->told;
	if (r)
		tracee_tell(t, FOLLOW_LEFT, pid, pid, parent->pid, false);
	else if (t->leaving && !shared)
		breakpoints_restore(space);
	else if (!shared && breakpoints_live(space) && t->interesting(pid))
		x->held = tracee_tell(t, FOLLOW_FORK, pid, pid, parent->pid, true);
	return true;
}

bool tracee_adopt(struct tracer *t, struct tracee *x, struct tracee_process *parent)
{
	struct process who;
	if (x->of)
		return true;
	if (process_read(x->tid, &who, NULL))
		return true;
	struct tracee_process *p = tracee_process_find(t, who.pid);
	if (p) {
		set_process(x, p);
		return true;
	}
	parent = parent ? parent : tracee_process_find(t, who.status.ppid);
	return parent && adopt_process(t, x, parent, who.pid);
}

static void drop_other_threads(struct tracer *t, const struct tracee *x)
{
	for (unsigned i = 0; i < TRACEE_SLOTS; i++) {
		for (struct tracee *y = t->slot[i], *next; y; y = next) {
			next = y->next;
			if (y != x && y->of == x->of)
				tracee_drop(t, y);
		}
	}
}

void tracee_exec(struct tracer *t, struct tracee *x)
{
	struct tracee_process *p = x->of;
	struct breakpoints *fresh;
	if (!p)
		return;
	drop_other_threads(t, x);
	tracee_forget_ops(x);
	x->skip_addr = 0;
	x->checked = false;
	if (!breakpoints_open(p->pid, t->share, &fresh, NULL)) {
		breakpoints_put(p->space);
		p->space = fresh;
	} else {
		return; /* it is exiting */
	}
	p->told = p->probed = false;
	tracee_tell(t, FOLLOW_EXEC, p->pid, p->pid, 0, false);
}
