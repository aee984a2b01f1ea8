#define _GNU_SOURCE
#include "tracer/engine/shim/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/native/native_stack.h"
#include "symbolizer/target/elf.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"

enum { FRAMES = 2048, RANGES = 256, STACK_LEAST = 128 << 10 };

enum owner {
	OTHER,
	LIBC,	/* or a part of it before glibc 2.34 */
	LOCKED, /* the loader, or another malloc: may hold locks */
};

struct safepoints {
	struct maps maps;
	struct native_stacks *stacks;
	struct mem mem;
	unsigned n;
	struct {
		uint64_t begin, end;
	} range[RANGES]; /* addresses of the functions in `waiting` */
};

/* Functions that wait or merely make a system call, and hold no lock of the C library then. */
static const char *const waiting[] = {
    "accept",
    "accept4",
    "clock_gettime",
    "clock_nanosleep",
    "connect",
    "epoll_pwait",
    "epoll_wait",
    "fcntl",
    "fcntl64",
    "fsync",
    "gettimeofday",
    "ioctl",
    "madvise",
    "nanosleep",
    "pause",
    "poll",
    "ppoll",
    "pread",
    "pread64",
    "pselect",
    "pthread_cond_clockwait",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_join",
    "pthread_mutex_lock",
    "pthread_timedjoin_np",
    "pwrite",
    "pwrite64",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmsg",
    "sched_yield",
    "select",
    "sem_clockwait",
    "sem_timedwait",
    "sem_wait",
    "send",
    "sendmsg",
    "sendto",
    "sigtimedwait",
    "sigwait",
    "sigwaitinfo",
    "sleep",
    "syscall",
    "usleep",
    "wait4",
    "waitid",
    "waitpid",
    "write",
    "writev",
    NULL,
};

static enum owner owner_of(const char *name)
{
	static const char *const locked[] = {"ld-",	    "ld.so",	   "ld64.so",
					     "libdl.so",    "libdl-",	   "libc_malloc_debug",
					     "libmemusage", "libjemalloc", "libtcmalloc",
					     "libmimalloc", "libasan",	   "libtsan",
					     NULL};
	static const char *const libc[] = {
	    "libc.so", "libc-", "libpthread.so", "libpthread-", "librt.so", "librt-", NULL};
	for (unsigned i = 0; locked[i]; i++)
		if (!strncmp(name, locked[i], strlen(locked[i])))
			return LOCKED;
	for (unsigned i = 0; libc[i]; i++)
		if (!strncmp(name, libc[i], strlen(libc[i])))
			return LIBC;
	return OTHER;
}

struct adding {
	struct safepoints *s;
	uint64_t bias;
};

static int add_range(const struct elf_symbol *sym, void *arg)
{
	struct adding *a = arg;
	for (unsigned i = 0; waiting[i]; i++) {
		if (strcmp(sym->name, waiting[i]) || !sym->is_function || !sym->size)
			continue;
		if (a->s->n == RANGES)
			return 1;
		uint64_t begin = sym->vaddr + a->bias;
		a->s->range[a->s->n].begin = begin;
		a->s->range[a->s->n++].end = begin + sym->size;
	}
	return 0;
}

static int add_library(struct safepoints *s, pid_t pid, const struct mapping *m, struct err *e)
{
	struct adding a = {.s = s};
	struct elf_file *f;
	int fd = maps_open(pid, m, e);
	int r = fd < 0 ? fd : elf_file_open_fd(fd, m->path, &f, e);
	if (fd >= 0)
		close(fd);
	if (r)
		return r;
	r = elf_bias(f, m, &a.bias);
	if (!r)
		elf_each_symbol(f, false, add_range, &a);
	elf_file_close(f);
	return r ? err_set(e, r, "%s is not mapped as its file says", m->path) : 0;
}

int safepoints_new(pid_t pid, struct safepoints **out, struct err *e)
{
	struct safepoints *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, -ENOMEM, "no memory");
	s->mem = mem_process(pid);
	int r = maps_read(pid, &s->maps, e);
	const struct mapping *m = NULL;
	while (!r && (m = maps_next_exec(&s->maps, m)))
		if (owner_of(mapping_name(m)) == LIBC)
			r = add_library(s, pid, m, e);
	r = r ? r : native_stacks_open(pid, &s->stacks, e);
	if (r) {
		safepoints_free(s);
		return r;
	}
	*out = s;
	return 0;
}

void safepoints_free(struct safepoints *s)
{
	if (!s)
		return;
	native_stacks_close(s->stacks);
	maps_free(&s->maps);
	free(s);
}

static enum owner owner_at(const struct safepoints *s, uint64_t pc)
{
	const struct mapping *m = maps_find(&s->maps, pc);
	return m ? owner_of(mapping_name(m)) : LOCKED;
}

static bool is_waiting(const struct safepoints *s, uint64_t pc)
{
	for (unsigned i = 0; i < s->n; i++)
		if (pc >= s->range[i].begin && pc < s->range[i].end)
			return true;
	return false;
}

static bool has_room(const struct safepoints *s, uint64_t sp)
{
	const struct mapping *m = maps_find(&s->maps, sp);
	return m && m->write && (sp - m->start >= STACK_LEAST || !strcmp(m->path, "[stack]"));
}

/* The number of frames without the outermost ones of the C library, which started the thread. */
static int without_beginning(const enum owner *of, int n)
{
	if (n > 1 && of[n - 1] == OTHER && of[n - 2] == LIBC)
		n--; /* _start */
	while (n > 0 && of[n - 1] == LIBC)
		n--;
	return n;
}

/* In a run of C library frames the outermost is the function that was called from outside. */
static bool frames_are_safe(const struct safepoints *s, const uint64_t *pc, int n)
{
	enum owner of[FRAMES];
	for (int i = 0; i < n; i++) {
		of[i] = owner_at(s, pc[i]);
		if (of[i] == LOCKED)
			return false;
	}
	n = without_beginning(of, n);
	for (int i = 0; i < n; i++)
		if (of[i] == LIBC && (i + 1 == n || of[i + 1] != LIBC) && !is_waiting(s, pc[i]))
			return false;
	return n > 0;
}

bool safepoint(struct safepoints *s, pid_t tid, const uint64_t *regs)
{
	const struct native_thread t = {.tid = tid, .regs = regs, .mem = &s->mem};
	uint64_t pc[FRAMES];
	bool whole;
	if (!has_room(s, regs[ARCH_SP]))
		return false;
	int n = native_stacks_pcs(s->stacks, &t, pc, FRAMES, &whole, NULL);
	return n > 0 && whole && frames_are_safe(s, pc, n);
}
