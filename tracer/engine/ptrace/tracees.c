#define _GNU_SOURCE
#include "tracer/engine/ptrace/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <time.h>
#include <unistd.h>

#include "symbolizer/target/process.h"
#include "tracer/engine/ptrace/linker.h"

static const long options = PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
			    PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;

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
	const struct news n = {kind, pid, tid, parent, held};
	return share_tell(t->share, &n) && held;
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
	free(x->ops);
	free(x);
}

static struct tracee_process *new_process(struct tracer *t, pid_t pid, struct breakpoints *space)
{
	struct tracee_process *p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	*p = (struct tracee_process){.next = t->processes, .pid = pid, .space = space};
	t->processes = p;
	return p;
}

/* The linker's breakpoint reports new libraries. A static program maps none. */
static void watch_linker(struct tracee_process *p)
{
	const struct use use = {.kind = USE_LINKER, .proc = NO_PROC};
	uint64_t addr;
	uint8_t code[CODE_BYTES];
	if (!linker_find(p->pid, &addr, code))
		breakpoints_add(p->space, addr, code, &use);
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
	struct tracee_process *p = new_process(t, pid, space);
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
	free(x->ops);
	x->ops = NULL;
	x->skip_addr = 0;
	if (!breakpoints_open(p->pid, t->share, &fresh, NULL)) {
		breakpoints_put(p->space);
		p->space = fresh;
	} else {
		return; /* it is exiting */
	}
	p->told = p->probed = false;
	tracee_tell(t, FOLLOW_EXEC, p->pid, p->pid, 0, false);
	if (!t->leaving)
		watch_linker(p);
}

/* Retries on EPERM: another ditrace may have just detached, or have been killed while its tracing
 * process is still leaving. */
static int seize(pid_t tid)
{
	enum { SOON_MS = 100, ENDING_MS = 3000 };
	const struct timespec pause = {.tv_nsec = 1000 * 1000};
	struct process p, by;
	for (unsigned ms = 0;; ms++) {
		if (!ptrace(PTRACE_SEIZE, tid, NULL, (void *)options))
			return 0;
		int r = -errno;
		if (r != -EPERM || process_read(tid, &p, NULL) || p.status.tracer == getpid())
			return r;
		bool ours = p.status.tracer && !process_read(p.status.tracer, &by, NULL) &&
			    !strcmp(by.comm, TRACER_NAME);
		if (ms >= (ours ? ENDING_MS : SOON_MS))
			return r;
		nanosleep(&pause, NULL);
	}
}

/* Seize the threads that are not traced yet; *fresh: there was one. */
static int seize_threads(struct tracer *t, pid_t pid, bool *fresh, struct err *e)
{
	pid_t *tids;
	ssize_t n = process_threads(pid, &tids);
	int r = n > 0 ? 0 : process_error(pid, n ? (int)n : -ESRCH, "trace", e);
	*fresh = false;
	for (ssize_t i = 0; i < n && !r; i++) {
		if (tracee_find(t, tids[i]))
			continue;
		int code = seize(tids[i]);
		if (!code) {
			*fresh = true;
			r = tracee_add(t, tids[i]) ? 0 : err_set(e, -ENOMEM, "no memory");
			continue;
		}
		struct process who;
		/* It has ended, or it is new, was attached with its parent and will report
		 * itself. */
		if (code == -ESRCH || process_read(tids[i], &who, NULL) ||
		    who.status.tracer == getpid() || who.status.state == 'Z')
			continue;
		r = process_seize_error(tids[i], code, e);
	}
	if (n > 0)
		free(tids);
	return r;
}

int tracee_seize(struct tracer *t, pid_t pid, struct tracee_process **out, struct err *e)
{
	struct breakpoints *space;
	bool fresh = true;
	*out = tracee_process_find(t, pid);
	if (*out)
		return 0;
	int r = process_check(pid, e);
	if (!r && process_has_shadow_stack(pid)) {
		err_set(e, -ENOTSUP,
			"process %d has a shadow stack, which ptrace tracing would break", pid);
		err_hint(e, "trace it with: --engine bpf, as root");
		r = -ENOTSUP;
	}
	if (r)
		return r;
	/* One thread first, to see whether this is permitted. */
	r = seize(pid);
	if (r)
		return process_seize_error(pid, r, e);
	r = breakpoints_open(pid, t->share, &space, e);
	if (r)
		return r;
	*out = new_process(t, pid, space);
	if (!*out || !tracee_add(t, pid))
		return err_set(e, -ENOMEM, "no memory");
	while (fresh && !r)
		r = seize_threads(t, pid, &fresh, e);
	if (r)
		return r;
	r = tracees_settle(t, pid);
	if (r)
		return process_error(pid, r, "trace", e);
	watch_linker(*out);
	return 0;
}
