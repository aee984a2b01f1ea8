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
	} range[RANGES]; /* addresses of the functions in `waiting` and what they end in */
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
	struct elf_file *f;
	uint64_t bias;
};

static void add_range(struct adding *a, uint64_t vaddr, uint64_t size)
{
	struct safepoints *s = a->s;
	const uint64_t begin = vaddr + a->bias;
	unsigned i = 0;
	while (i < s->n && s->range[i].begin != begin)
		i++;
	if (!size || i < s->n || s->n == RANGES)
		return;
	s->range[s->n].begin = begin;
	s->range[s->n++].end = begin + size;
}

static int add_symbol(const struct elf_symbol *sym, void *arg)
{
	for (unsigned i = 0; waiting[i]; i++)
		if (!strcmp(sym->name, waiting[i]) && sym->is_function)
			add_range(arg, sym->vaddr, sym->size);
	return 0;
}

/* What the function jumps to in place of its own end is on the stack for it, without a symbol:
 * sem_wait waits in such a function (glibc 2.36, nptl/sem_wait.c). */
static void add_tail_calls(struct adding *a, struct arch_decoder *d, uint64_t vaddr, uint64_t size)
{
	const uint8_t *code = elf_bytes(a->f, vaddr, size);
	struct arch_insn insn;
	for (uint32_t off = 0; code && !arch_decode(d, code, size, vaddr, off, &insn);
	     off += insn.len)
		if ((insn.flow == ARCH_FLOW_JUMP || insn.flow == ARCH_FLOW_COND) &&
		    insn.target - vaddr >= size)
			add_range(a, insn.target, elf_function_size(a->f, insn.target));
}

static int add_functions(struct adding *a)
{
	struct arch_decoder *d = arch_decoder_new();
	unsigned i = a->s->n;
	if (!d)
		return -ENOMEM;
	elf_each_symbol(a->f, false, add_symbol, a);
	for (; i < a->s->n; i++)
		add_tail_calls(a, d, a->s->range[i].begin - a->bias,
			       a->s->range[i].end - a->s->range[i].begin);
	arch_decoder_free(d);
	return 0;
}

static int add_library(struct safepoints *s, pid_t pid, const struct mapping *m, struct err *e)
{
	struct adding a = {.s = s};
	int fd = maps_open(pid, m, e);
	int r = fd < 0 ? fd : elf_file_open_fd(fd, m->path, &a.f, e);
	if (fd >= 0)
		close(fd);
	if (r)
		return r;
	r = elf_bias(a.f, m, &a.bias);
	if (r)
		err_set(e, r, "%s is not mapped as its file says", m->path);
	else if ((r = add_functions(&a)))
		err_set(e, r, "no memory");
	elf_file_close(a.f);
	return r;
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
