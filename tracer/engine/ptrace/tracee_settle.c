#define _GNU_SOURCE
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "tracer/engine/ptrace/tracees.h"
#include "tracer/proc/thread_facts.h"

static bool is_fork(long nr)
{
	return nr == SYS_clone || nr == SYS_fork || nr == SYS_vfork || nr == SYS_clone3;
}

bool tracee_ask(struct tracee *x)
{
	long nr = thread_syscall(x->of ? x->of->pid : x->tid, x->tid);
	bool waits = nr >= 0 && !is_fork(nr);
	x->asked = !waits && !ptrace(PTRACE_INTERRUPT, x->tid, NULL, NULL);
	return x->asked;
}

static bool is_asked(const struct tracer *t, pid_t pid)
{
	for (unsigned i = 0; i < TRACEE_SLOTS; i++)
		for (const struct tracee *x = t->slot[i]; x; x = x->next)
			if (x->asked && x->of && x->of->pid == pid)
				return true;
	return false;
}

static void ask_all(struct tracer *t, pid_t pid)
{
	for (unsigned i = 0; i < TRACEE_SLOTS; i++)
		for (struct tracee *x = t->slot[i]; x; x = x->next)
			if (x->of && x->of->pid == pid)
				tracee_ask(x);
}

int tracees_settle(struct tracer *t, pid_t pid)
{
	ask_all(t, pid);
	for (unsigned turn = 0; turn < TRACEE_TURNS && is_asked(t, pid); turn++) {
		int status;
		pid_t tid;
		while ((tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0)
			tracee_waited(t, tid, status);
		nanosleep(&tracee_turn, NULL);
	}
	return tracee_process_find(t, pid) ? 0 : -ESRCH;
}
