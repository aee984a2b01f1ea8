#define _GNU_SOURCE
#include "tracer/engine/ptrace/trap_page.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "symbolizer/target/maps.h"
#include "symbolizer/target/process.h"
#include "tracer/engine/ptrace/internal.h"

/* The list. */

static int trap_page_note(struct trap_page *p, uint64_t entry)
{
	int r = array_grow(&p->entry, &p->room, p->n + 1, sizeof(*p->entry));
	r = r ? r : map_put(&p->by_addr, trap_entry_addr(entry), (uint32_t)p->n);
	if (!r)
		p->entry[p->n++] = entry;
	return r;
}

static int trap_page_load(struct trap_page *p, int mem)
{
	enum { AT_ONCE = 512 };
	uint64_t some[AT_ONCE];
	while (p->n < TRAP_LIST_MOST) {
		off_t at = (off_t)(p->addr + TRAP_LIST_AT + p->n * sizeof(*some));
		ssize_t n = pread(mem, some, sizeof(some), at);
		for (ssize_t i = 0; i < n / (ssize_t)sizeof(*some); i++) {
			int r = some[i] ? trap_page_note(p, some[i]) : 0;
			if (r || !some[i])
				return r;
		}
		if (n <= 0)
			return n ? -errno : -EFAULT;
	}
	return 0;
}

void trap_page_close(struct trap_page *p)
{
	free(p->entry);
	map_free(&p->by_addr);
	*p = (struct trap_page){0};
}

int trap_page_open(struct trap_page *p, int mem, uint64_t addr, bool left_behind)
{
	uint8_t code[TRAP_CODE_MOST];
	uint64_t taken;
	off_t taken_at = (off_t)addr + TRAP_TAKEN_AT;
	if (pread(mem, code, sizeof(code), (off_t)addr) != sizeof(code) ||
	    !trap_page_is_like(code) ||
	    pread(mem, &taken, sizeof(taken), taken_at) != sizeof(taken))
		return -ENOENT;
	taken += left_behind;
	if (left_behind && pwrite(mem, &taken, sizeof(taken), taken_at) != sizeof(taken))
		return -EFAULT;
	*p = (struct trap_page){
	    .addr = addr,
	    .taken = taken,
	    .slot = addr + TRAP_SLOTS_AT + taken % TRAP_SLOTS * TRAP_SLOT,
	};
	int r = trap_page_load(p, mem);
	if (r)
		trap_page_close(p);
	return r;
}

int trap_page_list(struct trap_page *p, int mem, uint64_t addr, uint8_t was)
{
	uint64_t entry = trap_entry(addr, was);
	int64_t i = map_get(&p->by_addr, addr);
	if (!p->addr || (i >= 0 && p->entry[i] == entry))
		return 0;
	if (i < 0 && p->n + 1 >= TRAP_LIST_MOST)
		return -E2BIG;
	int r = i < 0 ? trap_page_note(p, entry) : 0;
	if (r)
		return r;
	i = i < 0 ? (int64_t)p->n - 1 : i;
	p->entry[i] = entry;
	off_t at = (off_t)(p->addr + TRAP_LIST_AT + (uint64_t)i * sizeof(entry));
	return pwrite(mem, &entry, sizeof(entry), at) == sizeof(entry) ? 0 : -EFAULT;
}

bool trap_page_lists(const struct trap_page *p, uint64_t addr)
{
	return map_get(&p->by_addr, addr) >= 0;
}

/* System calls made by a stopped thread. The code for them lies where the linker's file has
 * nothing, and finds back to where the thread was even if this process is killed. */

enum { SYSCALL_STOP = SIGTRAP | 0x80 }; /* PTRACE_O_TRACESYSGOOD */

struct calls {
	struct tracee *x;
	uint64_t at;
	union regs was;
	uint8_t there[TRAP_CALL_SIZE];
	int other; /* another stop came first */
};

static int calls_begin(struct calls *c, struct tracee *x)
{
	struct linker l;
	uint8_t code[TRAP_CALL_SIZE];
	*c = (struct calls){.x = x, .other = TRACEE_NO_STATUS};
	if (linker_find(x->of->pid, TRAP_CALL_SIZE, &l) || !l.spare ||
	    !tracee_get_regs(x, &c->was) ||
	    breakpoints_read(x->of->space, l.spare, c->there, sizeof(c->there)))
		return -ENOTSUP;
	c->at = l.spare;
	/* A tracing process was killed while this thread made calls for it: where it came from is
	 * known to the code there alone. */
	if (c->was.word[ARCH_IP] - c->at < TRAP_CALL_SIZE)
		return -EAGAIN;
	trap_call_contents(code, &c->was);
	return breakpoints_write(x->of->space, c->at, code, sizeof(code));
}

/* 0 and *result (NULL allowed), or -errno, of the call, too. */
static int calls_make(struct calls *c, long nr, const uint64_t arg[6], uint64_t *result)
{
	enum { ENTER_AND_LEAVE = 2, ERRNO_MOST = 4095 };
	union regs r = c->was;
	if (c->other != TRACEE_NO_STATUS)
		return -EAGAIN;
	trap_call_enter(&r, c->at, nr, arg);
	tracee_set_regs(c->x, &r);
	for (unsigned i = 0; i < ENTER_AND_LEAVE; i++) {
		int status;
		if (ptrace(PTRACE_SYSCALL, c->x->tid, NULL, NULL) ||
		    tracee_wait(c->x->tid, 0, &status) != c->x->tid)
			return -ESRCH;
		if (!WIFSTOPPED(status) || status >> 8 != SYSCALL_STOP) {
			c->other = status;
			return -EAGAIN;
		}
	}
	if (!tracee_get_regs(c->x, &r))
		return -ESRCH;
	uint64_t back = r.word[ARCH_AX];
	if (result)
		*result = back;
	return back >= (uint64_t)-ERRNO_MOST ? (int)back : 0;
}

/* Bring the thread to a stop from which the kernel restarts an interrupted system call. */
static void calls_settle(struct calls *c)
{
	union regs r = c->was;
	int status;
	trap_call_leave(&r, c->at);
	tracee_set_regs(c->x, &r);
	if (ptrace(PTRACE_INTERRUPT, c->x->tid, NULL, NULL) ||
	    ptrace(PTRACE_CONT, c->x->tid, NULL, NULL) ||
	    tracee_wait(c->x->tid, 0, &status) != c->x->tid)
		return;
	/* A filter of system calls may have answered with a signal. */
	if (status != TRACEE_QUIET && !(WIFSTOPPED(status) && status >> 8 == SIGSYS))
		c->other = status;
}

/* The thread is as before; *other as of trap_page_put_in. */
static void calls_end(struct calls *c, int *other)
{
	if (c->other == TRACEE_NO_STATUS)
		calls_settle(c);
	tracee_set_regs(c->x, &c->was);
	breakpoints_write(c->x->of->space, c->at, c->there, sizeof(c->there));
	*other = c->other;
}

/* The present action for SIGTRAP; it is written below the thread's red zone. */
static int calls_ask_action(struct calls *c, struct kernel_action *out)
{
	uint64_t at = (c->was.word[ARCH_SP] - ARCH_RED_ZONE - sizeof(*out)) & ~15ULL;
	int r = calls_make(c, SYS_rt_sigaction, (uint64_t[6]){SIGTRAP, 0, at, 8}, NULL);
	return r ? r : breakpoints_read(c->x->of->space, at, out, sizeof(*out));
}

static int calls_set_action(struct calls *c, uint64_t at)
{
	return calls_make(c, SYS_rt_sigaction, (uint64_t[6]){SIGTRAP, at, 0, 8}, NULL);
}

/* The page in the process. */

/* Whether SIGTRAP is caught or ignored, or a filter of system calls may end the process for one. */
static bool is_unwelcome(pid_t pid)
{
	static const char *const sets[] = {"SigCgt", "SigIgn"};
	char text[4096];
	uint64_t seccomp;
	process_file(pid, "status", text, sizeof(text));
	if (process_number(text, "Seccomp", &seccomp) && seccomp)
		return true;
	for (unsigned i = 0; i < 2; i++) {
		const char *set = process_line(text, sets[i]);
		if (set && strtoull(set, NULL, 16) >> (SIGTRAP - 1) & 1)
			return true;
	}
	return false;
}

bool trap_page_is_missing(pid_t pid)
{
	return !is_unwelcome(pid);
}

static bool is_found_in(struct breakpoints *s, const struct mapping *m)
{
	enum { PAGE = 4096 };
	if (!m->exec || m->write || m->inode || *m->path)
		return false;
	for (uint64_t at = m->start; m->end - at >= TRAP_PAGE_SIZE; at += PAGE)
		if (!breakpoints_use_page(s, at, true))
			return true;
	return false;
}

/* One that a killed tracing process has left behind, maybe in one mapping with another's. */
static void find_left_behind(struct breakpoints *s)
{
	struct maps maps;
	if (maps_read(breakpoints_pid(s), &maps, NULL))
		return;
	for (size_t i = 0; i < maps.n && !is_found_in(s, &maps.map[i]); i++)
		;
	maps_free(&maps);
}

static int make_page(struct calls *c, struct breakpoints *s)
{
	uint8_t contents[TRAP_LIST_AT];
	uint64_t at;
	const uint64_t how[6] = {0, TRAP_PAGE_SIZE, PROT_READ | PROT_EXEC,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, (uint64_t)-1};
	int r = calls_make(c, SYS_mmap, how, &at);
	if (r)
		return r;
	trap_page_contents(contents, at);
	r = breakpoints_write(s, at, contents, sizeof(contents));
	return r ? r : breakpoints_use_page(s, at, false);
}

void trap_page_put_in(struct tracee *x, int *other)
{
	struct calls c;
	struct kernel_action before;
	struct breakpoints *s = x->of->space;
	*other = TRACEE_NO_STATUS;
	bool unwelcome = is_unwelcome(x->of->pid);
	if (!breakpoints_page(s)->addr)
		find_left_behind(s);
	if (unwelcome || calls_begin(&c, x))
		return;
	int r = breakpoints_page(s)->addr ? 0 : make_page(&c, s);
	uint64_t page = breakpoints_page(s)->addr;
	r = r ? r : calls_ask_action(&c, &before);
	if (!r)
		breakpoints_write(s, page + TRAP_BEFORE_AT, &before, sizeof(before));
	if (!r)
		calls_set_action(&c, page + TRAP_ACTION_AT);
	calls_end(&c, other);
}

void trap_page_take_out(struct tracee *x, int *other)
{
	struct calls c;
	struct kernel_action now;
	struct breakpoints *s = x->of->space;
	const struct trap_page *p = breakpoints_page(s);
	*other = TRACEE_NO_STATUS;
	if (!p->addr || calls_begin(&c, x))
		return;
	int r = calls_ask_action(&c, &now);
	if (!r && now.handler == p->addr)
		r = calls_set_action(&c, p->addr + TRAP_BEFORE_AT);
	/* A thread of before that tracing process was killed may still be in its code. */
	if (!r && !p->taken && !breakpoints_are_shared(s))
		calls_make(&c, SYS_munmap, (uint64_t[6]){p->addr, TRAP_PAGE_SIZE}, NULL);
	if (!r && !breakpoints_are_shared(s))
		breakpoints_leave_page(s);
	calls_end(&c, other);
}
