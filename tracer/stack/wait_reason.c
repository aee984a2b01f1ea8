#define _GNU_SOURCE

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"
#include "tracer/stack/internal.h"
#include "tracer/stack/stack_snapshot.h"

#define CALL(name, kind)                                                                           \
	{                                                                                          \
		SYS_##name, kind, #name                                                            \
	}

static const struct {
	long nr;
	enum syscall_kind kind;
	const char *name;
} calls[] = {
    CALL(futex, SYSCALL_FUTEX),
#ifdef SYS_futex_waitv
    CALL(futex_waitv, SYSCALL_FUTEX),
#endif
    CALL(restart_syscall, SYSCALL_RESTART),
    CALL(nanosleep, SYSCALL_SLEEP),
    CALL(clock_nanosleep, SYSCALL_SLEEP),
#ifdef SYS_poll
    CALL(poll, SYSCALL_POLL),
    CALL(select, SYSCALL_POLL),
    CALL(epoll_wait, SYSCALL_POLL),
    CALL(pause, SYSCALL_SIGNAL),
#endif
    CALL(ppoll, SYSCALL_POLL),
    CALL(pselect6, SYSCALL_POLL),
    CALL(epoll_pwait, SYSCALL_POLL),
#ifdef SYS_epoll_pwait2
    CALL(epoll_pwait2, SYSCALL_POLL),
#endif
    CALL(io_getevents, SYSCALL_POLL),
    CALL(io_uring_enter, SYSCALL_POLL),
    CALL(read, SYSCALL_IO),
    CALL(write, SYSCALL_IO),
    CALL(readv, SYSCALL_IO),
    CALL(writev, SYSCALL_IO),
    CALL(pread64, SYSCALL_IO),
    CALL(pwrite64, SYSCALL_IO),
    CALL(recvfrom, SYSCALL_IO),
    CALL(sendto, SYSCALL_IO),
    CALL(recvmsg, SYSCALL_IO),
    CALL(sendmsg, SYSCALL_IO),
    CALL(accept, SYSCALL_IO),
    CALL(accept4, SYSCALL_IO),
    CALL(connect, SYSCALL_IO),
    CALL(fsync, SYSCALL_IO),
    CALL(fdatasync, SYSCALL_IO),
    CALL(flock, SYSCALL_IO),
    CALL(fcntl, SYSCALL_IO),
    CALL(ioctl, SYSCALL_IO),
    CALL(sendfile, SYSCALL_IO),
    CALL(wait4, SYSCALL_CHILD),
    CALL(waitid, SYSCALL_CHILD),
    CALL(rt_sigtimedwait, SYSCALL_SIGNAL),
    CALL(rt_sigsuspend, SYSCALL_SIGNAL),
    CALL(openat, SYSCALL_OTHER),
    CALL(close, SYSCALL_OTHER),
    CALL(mmap, SYSCALL_OTHER),
    CALL(munmap, SYSCALL_OTHER),
    CALL(mprotect, SYSCALL_OTHER),
    CALL(madvise, SYSCALL_OTHER),
    CALL(sched_yield, SYSCALL_OTHER),
    CALL(exit_group, SYSCALL_OTHER),
};

const char *syscall_name(long nr, enum syscall_kind *kind)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i].nr != nr)
			continue;
		*kind = calls[i].kind;
		return calls[i].name;
	}
	*kind = SYSCALL_OTHER;
	return NULL;
}

static const struct {
	const char *word, *text;
} kinds[WAIT_KINDS] = {
    [WAIT_NONE] = {"running", "runs"},
    [WAIT_STOPPED] = {"stopped", "is stopped by a signal (SIGSTOP and the like)"},
    [WAIT_TRACED] = {"traced", "is stopped by a debugger"},
    [WAIT_ENDED] = {"ended", "has ended"},
    [WAIT_GIL] = {"gil", "waits for the GIL"},
    [WAIT_COLLECTIVE] = {"collective", "is in a collective"},
    [WAIT_DATALOADER] = {"dataloader", "waits for a batch from the DataLoader's workers"},
    [WAIT_PYTHON_LOCK] = {"python lock", "waits for a lock of Python"},
    [WAIT_MUTEX] = {"mutex", "waits for a mutex"},
    [WAIT_CONDITION] = {"condition", "waits on a condition variable"},
    [WAIT_SEMAPHORE] = {"semaphore", "waits for a semaphore"},
    [WAIT_OPENMP] = {"openmp", "waits for OpenMP's other threads"},
    [WAIT_AUTOGRAD] = {"autograd", "waits for work of the autograd engine"},
    [WAIT_FUTEX] = {"futex", "waits for another thread"},
    [WAIT_SLEEP] = {"sleep", "sleeps for a time"},
    [WAIT_POLL] = {"poll", "waits for I/O"},
    [WAIT_IO] = {"io", "waits for I/O"},
    [WAIT_CHILD] = {"child", "waits for a child process"},
    [WAIT_SIGNAL] = {"signal", "waits for a signal"},
    [WAIT_OTHER] = {"other", "waits in the kernel"},
};

const char *wait_reason_word(enum wait_kind kind)
{
	return kinds[kind].word;
}

const char *wait_reason_text(const struct wait_reason *w, char *out, size_t size)
{
	int n = snprintf(out, size, "%s", kinds[w->kind].text);
	size_t at = n > 0 && (size_t)n < size ? (size_t)n : size;
	if (w->kind == WAIT_COLLECTIVE && w->in)
		snprintf(out + at, size - at, ": %s", w->in);
	else if (w->kind == WAIT_IO && w->file[0])
		snprintf(out + at, size - at, " (%s of %s)", w->in, w->file);
	else if (w->holder)
		snprintf(out + at, size - at, " that thread %d holds", w->holder);
	else if (w->in && w->kind >= WAIT_POLL)
		snprintf(out + at, size - at, " (%s)", w->in);
	return out;
}

static bool has_prefix(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static const char *const collective_scopes[] = {"c10d::", "gloo::", "nccl", "pnccl",
						"Hccl",	  "hccl",   "cncl", NULL};
static const char *const collective_words[] = {
    "allreduce", "all_reduce", "reduce", "broadcast", "barrier", "gather", "scatter",
    "alltoall",	 "all_to_all", "send",	 "recv",      "wait",	 NULL};
/* Rendezvous stores and watchdogs always wait. */
static const char *const collective_not[] = {"Store", "Watchdog", "Heartbeat", "Monitor", NULL};

static bool has_any(const char *s, const char *const *words)
{
	for (; *words; words++)
		if (strcasestr(s, *words))
			return true;
	return false;
}

static bool is_collective(const char *name)
{
	const char *const *scope = collective_scopes;
	while (*scope && !has_prefix(name, *scope))
		scope++;
	return *scope && has_any(name, collective_words) && !has_any(name, collective_not);
}

static const char *find_collective(const struct wait_reason_input *in)
{
	for (unsigned i = 0; i < in->nframes; i++)
		if (in->frames[i].name && is_collective(in->frames[i].name))
			return in->frames[i].name;
	return NULL;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);
	return n >= k && !strcmp(s + n - k, end);
}

/* torch/utils/data/dataloader.py, _MultiProcessingDataLoaderIter (1.13.1, 2.13.0). */
static bool in_dataloader(const struct py_stack *s)
{
	for (unsigned i = 0; s && i < s->depth; i++)
		if (ends_with(s->frames[i]->file, "torch/utils/data/dataloader.py") &&
		    ends_with(s->frames[i]->function, "_get_data"))
			return true;
	return false;
}

/* Functions on the stack of a thread that waits for another, found from the innermost frame. */
static const struct {
	const char *name;
	enum wait_kind kind;
} waiting[] = {
    {"take_gil", WAIT_GIL},
    {"PyEval_RestoreThread", WAIT_GIL},
    {"PyEval_AcquireThread", WAIT_GIL},
    {"PyGILState_Ensure", WAIT_GIL},
    {"PyThread_acquire_lock_timed", WAIT_PYTHON_LOCK},
    {"PyThread_acquire_lock", WAIT_PYTHON_LOCK},
    {"_PyMutex_LockTimed", WAIT_PYTHON_LOCK},
    {"torch::autograd::ReadyQueue::pop", WAIT_AUTOGRAD},
    {"pthread_mutex_lock", WAIT_MUTEX},
    {"__pthread_mutex_lock", WAIT_MUTEX},
    {"___pthread_mutex_lock", WAIT_MUTEX},
    {"__lll_lock_wait", WAIT_MUTEX},
    {"pthread_cond_wait", WAIT_CONDITION},
    {"pthread_cond_timedwait", WAIT_CONDITION},
    {"pthread_cond_clockwait", WAIT_CONDITION},
    {"sem_wait", WAIT_SEMAPHORE},
    {"sem_timedwait", WAIT_SEMAPHORE},
    {"sem_clockwait", WAIT_SEMAPHORE},
};

static enum wait_kind kind_of_name(const char *name)
{
	size_t n = strcspn(name, "@"); /* a symbol's version */
	for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
		if (strlen(waiting[i].name) == n && !strncmp(name, waiting[i].name, n))
			return waiting[i].kind;
	return WAIT_FUTEX;
}

static bool is_openmp(const struct native_frame *f)
{
	const char *name = f->file ? text_base_name(f->file) : "";
	return has_prefix(name, "libgomp") || has_prefix(name, "libiomp5") ||
	       has_prefix(name, "libomp.");
}

/* A condition variable or semaphore is often the means of what a frame further out waits for. */
static enum wait_kind kind_of_futex(const struct wait_reason_input *in)
{
	enum { NEAR = 10 };
	enum wait_kind kind = WAIT_FUTEX;
	for (unsigned i = 0; i < in->nframes && i < NEAR; i++) {
		const struct native_frame *f = &in->frames[i];
		enum wait_kind this = f->name ? kind_of_name(f->name) : WAIT_FUTEX;
		if (i < 3 && is_openmp(f))
			return WAIT_OPENMP;
		if (this == WAIT_FUTEX)
			continue;
		if (kind == WAIT_FUTEX)
			kind = this;
		else if (kind == WAIT_CONDITION || kind == WAIT_SEMAPHORE)
			kind = this < kind || this == WAIT_AUTOGRAD ? this : kind;
	}
	return kind;
}

/* The first argument of FUTEX_WAIT and FUTEX_WAIT_BITSET is the address (futex(2)). A call that was
 * restarted still has it. */
static bool waits_for_gil(const struct wait_reason_input *in)
{
	const struct thread_facts *f = in->facts;
	return in->gil && f->in_syscall && f->arg[0] - in->gil->addr < in->gil->size;
}

/* pthread_mutex_t begins with lock and count, followed by the owner's tid (glibc 2.17 to 2.41,
 * sysdeps/nptl/bits/struct_mutex.h). */
static pid_t mutex_holder(const struct wait_reason_input *in)
{
	enum { OWNER = 8 };
	int32_t owner;
	const struct thread_facts *f = in->facts;
	if (!f->in_syscall || mem_read(in->mem, f->arg[0] + OWNER, &owner, sizeof(owner)))
		return 0;
	return owner > 0 ? owner : 0;
}

static void find_file(const struct wait_reason_input *in, struct wait_reason *w)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/fd/%llu", in->pid,
		 (unsigned long long)(in->facts->arg[0] & 0xffffffff));
	ssize_t n = readlink(path, w->file, sizeof(w->file) - 1);
	w->file[n > 0 ? n : 0] = '\0';
}

/* After restart_syscall the original call is not known, but its wrapper in the C library is. */
static enum syscall_kind restarted(const struct wait_reason_input *in)
{
	const char *name = in->nframes && in->frames[0].name ? in->frames[0].name : "";
	if (strstr(name, "nanosleep"))
		return SYSCALL_SLEEP;
	if (strstr(name, "poll") || strstr(name, "select"))
		return SYSCALL_POLL;
	if (strstr(name, "futex") || strstr(name, "pthread") || strstr(name, "sem_"))
		return SYSCALL_FUTEX;
	return SYSCALL_RESTART;
}

static enum wait_kind kind_in_call(const struct wait_reason_input *in, enum syscall_kind call)
{
	static const enum wait_kind of[] = {
	    [SYSCALL_OTHER] = WAIT_OTHER,   [SYSCALL_SLEEP] = WAIT_SLEEP,
	    [SYSCALL_POLL] = WAIT_POLL,	    [SYSCALL_IO] = WAIT_IO,
	    [SYSCALL_CHILD] = WAIT_CHILD,   [SYSCALL_SIGNAL] = WAIT_SIGNAL,
	    [SYSCALL_RESTART] = WAIT_OTHER,
	};
	if (call == SYSCALL_FUTEX)
		return kind_of_futex(in);
	return of[call];
}

/* select(2) and poll(2) without files are used to sleep: the number of files is the first or second
 * argument. */
static bool polls_nothing(const struct thread_facts *f, const char *call)
{
	if (!call)
		return false;
	if (!strcmp(call, "select") || !strcmp(call, "pselect6"))
		return !f->arg[0];
	return (!strcmp(call, "poll") || !strcmp(call, "ppoll")) && !f->arg[1];
}

static bool by_state(const struct thread_facts *f, struct wait_reason *w)
{
	switch (f->state) {
	case 'R':
		w->kind = WAIT_NONE;
		return true;
	case 'T':
		w->kind = WAIT_STOPPED;
		return true;
	case 't':
		w->kind = WAIT_TRACED;
		return true;
	case 'Z':
	case 'X':
		w->kind = WAIT_ENDED;
		return true;
	}
	return false;
}

struct wait_reason wait_reason_of(const struct wait_reason_input *in)
{
	struct wait_reason w = {.kind = WAIT_OTHER};
	enum syscall_kind call = SYSCALL_OTHER;
	const char *collective = find_collective(in);
	if (by_state(in->facts, &w))
		return w;
	if (in->facts->in_syscall)
		w.in = syscall_name(in->facts->syscall, &call);
	if (call == SYSCALL_RESTART)
		call = restarted(in);
	if (call == SYSCALL_FUTEX && waits_for_gil(in)) {
		w.kind = WAIT_GIL;
	} else if (collective) {
		w.kind = WAIT_COLLECTIVE;
		w.in = collective;
	} else if (in_dataloader(in->python)) {
		w.kind = WAIT_DATALOADER;
	} else {
		w.kind = kind_in_call(in, call);
	}
	if (w.kind == WAIT_POLL && polls_nothing(in->facts, w.in))
		w.kind = WAIT_SLEEP;
	if (w.kind == WAIT_MUTEX)
		w.holder = mutex_holder(in);
	if (w.kind == WAIT_IO)
		find_file(in, &w);
	return w;
}
