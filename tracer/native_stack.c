#define _GNU_SOURCE
#include "tracer/native_stack.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libiberty/demangle.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/text.h"
#include "tracer/arch_x86_64.h"

/* One address that was asked for. */
struct place {
	struct native_frame frame;
	struct place *next; /* of the same bucket */
};

enum { BUCKETS = 1024 };

struct native_stacks {
	pid_t pid;
	Dwfl *dwfl;
	struct arena arena;
	struct place *places[BUCKETS];
	/* The walk that is going on. */
	const struct native_thread *thread;
	struct native_frame *out;
	unsigned most, n;
	bool failed; /* no memory */
};

/* libdwfl passes nothing of ours to find_elf. */
static _Thread_local pid_t finding;

/* The file as the process sees it: it may have another root directory. */
static int find_elf(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
		    char **file_name, Elf **elf)
{
	char path[PATH_MAX];
	if (name[0] != '/')
		return dwfl_linux_proc_find_elf(mod, userdata, name, base, file_name, elf);
	snprintf(path, sizeof(path), "/proc/%d/root%s", finding, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	*file_name = fd < 0 ? NULL : strdup(name);
	return fd;
}

static int no_debuginfo(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
			const char *file_name, const char *link, GElf_Word crc, char **out)
{
	(void)mod, (void)userdata, (void)name, (void)base;
	(void)file_name, (void)link, (void)crc, (void)out;
	return -1;
}

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	(void)dwfl, (void)arg, (void)thread_arg;
	return 0;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	struct native_stacks *s = arg;
	(void)dwfl;
	*thread_arg = s;
	return s->thread && tid == s->thread->tid;
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *out, void *arg)
{
	const struct native_stacks *s = arg;
	uint64_t word;
	(void)dwfl;
	if (mem_read_u64(s->thread->mem, addr, &word))
		return false;
	*out = word;
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	const struct native_stacks *s = arg;
	Dwarf_Word regs[ARCH_DWARF_REGS];
	for (unsigned i = 0; i < ARCH_DWARF_REGS; i++)
		regs[i] = s->thread->regs[arch_dwarf_reg[i]];
	return dwfl_thread_state_registers(thread, 0, ARCH_DWARF_REGS, regs);
}

static const char *keep(struct native_stacks *s, const char *text)
{
	const char *kept = text ? arena_strndup(&s->arena, text, strlen(text)) : NULL;
	s->failed |= text && !kept;
	return kept;
}

static const char *demangle(struct native_stacks *s, const char *symbol, int how)
{
	char *text = cplus_demangle_v3(symbol, how);
	const char *kept = keep(s, text ? text : symbol);
	free(text);
	return kept;
}

static void describe(struct native_stacks *s, struct native_frame *f, Dwfl_Module *mod)
{
	f->symbol = keep(s, dwfl_module_addrname(mod, f->pc));
	f->file = keep(s, dwfl_module_info(mod, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
	if (!f->symbol)
		return;
	f->name = demangle(s, f->symbol, DMGL_NO_OPTS);
	f->full_name = demangle(s, f->symbol, DMGL_PARAMS | DMGL_ANSI);
}

/* To look a symbol up takes a walk over all of its library. NULL without memory. */
static const struct native_frame *frame_at(struct native_stacks *s, uint64_t pc)
{
	struct place **bucket = &s->places[pc * 0x9e3779b97f4a7c15u >> 54], *p = *bucket;
	while (p && p->frame.pc != pc)
		p = p->next;
	if (p)
		return &p->frame;
	Dwfl_Module *mod = dwfl_addrmodule(s->dwfl, pc);
	p = arena_alloc(&s->arena, sizeof(*p));
	if (!p)
		return NULL;
	p->frame.pc = pc;
	if (mod)
		describe(s, &p->frame, mod);
	p->next = *bucket;
	*bucket = p;
	return &p->frame;
}

static int on_frame(Dwfl_Frame *frame, void *arg)
{
	struct native_stacks *s = arg;
	const struct native_frame *f;
	Dwarf_Addr pc;
	bool is_activation;
	if (s->n >= s->most || !dwfl_frame_pc(frame, &pc, &is_activation))
		return DWARF_CB_ABORT;
	/* Of a caller, the call is meant, and not what comes behind it. */
	f = frame_at(s, pc - (is_activation ? 0 : 1));
	if (!f)
		return DWARF_CB_ABORT;
	s->out[s->n++] = *f;
	return DWARF_CB_OK;
}

static int open_dwfl(struct native_stacks *s)
{
	static const Dwfl_Callbacks files = {
	    .find_elf = find_elf,
	    .find_debuginfo = no_debuginfo,
	};
	static const Dwfl_Thread_Callbacks threads = {
	    .next_thread = next_thread,
	    .get_thread = get_thread,
	    .memory_read = read_memory,
	    .set_initial_registers = set_registers,
	};
	s->dwfl = dwfl_begin(&files);
	if (!s->dwfl)
		return -ENOMEM;
	finding = s->pid;
	int r = dwfl_linux_proc_report(s->dwfl, s->pid);
	if (r)
		return r > 0 ? -r : -ENOEXEC;
	if (dwfl_report_end(s->dwfl, NULL, NULL) ||
	    !dwfl_attach_state(s->dwfl, NULL, s->pid, &threads, s))
		return -ENOEXEC;
	return 0;
}

static int cannot_read(int code, struct err *e)
{
	return err_set(e, code, "the native stack cannot be read: %s",
		       code == -ENOEXEC ? dwfl_errmsg(-1) : strerror(-code));
}

int native_stacks_open(pid_t pid, struct native_stacks **out, struct err *e)
{
	struct native_stacks *s = calloc(1, sizeof(*s));
	int r = s ? 0 : -ENOMEM;
	if (s) {
		s->pid = pid;
		r = open_dwfl(s);
	}
	if (r) {
		cannot_read(r, e);
		native_stacks_close(s);
		return r;
	}
	*out = s;
	return 0;
}

void native_stacks_close(struct native_stacks *s)
{
	if (!s)
		return;
	dwfl_end(s->dwfl);
	arena_free(&s->arena);
	free(s);
}

int native_stacks_walk(struct native_stacks *s, const struct native_thread *t,
		       struct native_frame *out, unsigned most, bool *whole, struct err *e)
{
	s->thread = t;
	s->out = out;
	s->most = most;
	s->n = 0;
	s->failed = false;
	finding = s->pid;
	*whole = !dwfl_getthread_frames(s->dwfl, t->tid, on_frame, s);
	s->thread = NULL;
	if (s->failed)
		return cannot_read(-ENOMEM, e);
	return s->n ? (int)s->n : cannot_read(-ENOEXEC, e);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static void print_frame(FILE *f, const char *indent, const struct native_frame *x)
{
	fputs(indent, f);
	if (x->symbol)
		text_print_safe(f, x->full_name);
	else
		fprintf(f, "0x%" PRIx64, x->pc);
	if (x->file) {
		fputs("  (", f);
		text_print_safe(f, base_name(x->file));
		putc(')', f);
	}
	putc('\n', f);
}

int native_stack_print(FILE *f, const char *indent, pid_t pid, const struct native_thread *t,
		       struct err *e)
{
	struct native_frame frames[NATIVE_FRAMES];
	struct native_stacks *s;
	bool whole;
	int n = native_stacks_open(pid, &s, e);
	if (n)
		return n;
	n = native_stacks_walk(s, t, frames, NATIVE_FRAMES, &whole, e);
	for (int i = 0; i < n; i++)
		print_frame(f, indent, &frames[i]);
	native_stacks_close(s);
	return n;
}
