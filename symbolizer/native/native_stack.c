#define _GNU_SOURCE
#include "symbolizer/native/internal.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <inttypes.h>
#include <libiberty/demangle.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/text.h"
#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/target/elf.h"

/* Cached facts of one code address. */
struct place {
	struct native_frame frame;
	bool no_table; /* its function has no unwind table */
	bool described;
	struct place *next; /* in the same bucket */
};

/* A function without an unwind table that was met on a stack. */
struct walked {
	uint64_t start, size;
	struct mem mem; /* of the process */
	uint8_t *code;
	struct frame_code *steps; /* NULL: cannot be analysed */
	struct walked *next;
};

enum { BUCKETS = 1024 };

struct native_stacks {
	pid_t pid;
	struct target_files *files;
	const struct maps *maps; /* borrowed, as then `files`; or `own` */
	struct maps own;
	Dwfl *dwfl;
	struct arena arena;
	struct place *places[BUCKETS];
	struct walked *walked;
	/* State of the walk in progress; exactly one of out, pcs, at and wanted is set. */
	const struct native_thread *thread;
	struct native_frame *out;
	uint64_t *pcs;
	struct native_place *at;
	native_wanted_fn *wanted;
	void *wanted_arg;
	bool found;
	unsigned most, n;
	bool failed; /* out of memory */
	bool missed; /* unwinding from the last frame needs memory that cannot be read */
	uint64_t regs[ARCH_REGS]; /* of the last frame */
	uint32_t known;		  /* bit n: regs[n] is valid */
	bool no_table;		  /* the last frame's function has no unwind table */
};

/* find_elf has no context argument of ours. */
static _Thread_local const struct native_stacks *finding;

/* Open the file that is mapped there, not what now has its name. */
static int open_module(const struct native_stacks *s, Dwfl_Module *mod)
{
	Dwarf_Addr start = 0, end = 0;
	dwfl_module_info(mod, NULL, &start, &end, NULL, NULL, NULL, NULL);
	for (size_t i = 0; i < s->maps->n; i++) {
		const struct mapping *m = &s->maps->map[i];
		if (m->start >= start && m->start < end && m->inode)
			return maps_open_in(s->files, m, NULL);
	}
	return -1;
}

static int find_elf(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
		    char **file_name, Elf **elf)
{
	if (!strncmp(name, "[vdso", 5))
		return dwfl_linux_proc_find_elf(mod, userdata, name, base, file_name, elf);
	int fd = open_module(finding, mod);
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

/* A word among code, which stays as it is: unwinding tables of stubs refer to such
 * (tracer/engine/shim/stub_image.h). */
static bool read_code_word(const struct native_stacks *s, uint64_t addr, uint64_t *out)
{
	const struct mapping *m = maps_find(s->maps, addr);
	const struct mem live = mem_process(s->pid);
	return m && m->exec && !mem_read_u64(&live, addr, out);
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *out, void *arg)
{
	struct native_stacks *s = arg;
	uint64_t word;
	(void)dwfl;
	if (mem_read_u64(s->thread->mem, addr, &word) && !read_code_word(s, addr, &word)) {
		s->missed = true;
		return false;
	}
	*out = word;
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	const struct native_stacks *s = arg;
	for (int i = 0; i < ARCH_DWARF_REGS; i++) {
		unsigned r = arch_dwarf_reg[i];
		Dwarf_Word value = s->regs[r];
		if (s->known >> r & 1 && !dwfl_thread_state_registers(thread, i, 1, &value))
			return false;
	}
	dwfl_thread_state_register_pc(thread, s->regs[ARCH_IP]);
	return true;
}

const char *native_stacks_keep(struct native_stacks *s, const char *text)
{
	const char *kept = text ? arena_strndup(&s->arena, text, strlen(text)) : NULL;
	s->failed |= text && !kept;
	return kept;
}

static const char *demangle(struct native_stacks *s, const char *symbol, int how)
{
	char *text = elf_demangle(symbol, how);
	const char *kept = native_stacks_keep(s, text ? text : symbol);
	free(text);
	return kept;
}

const char *native_stacks_demangle(struct native_stacks *s, const char *symbol)
{
	return demangle(s, symbol, DMGL_NO_OPTS);
}

Dwfl_Module *native_stacks_module(const struct native_stacks *s, uint64_t pc)
{
	Dwarf_Addr start = 0, end = 0;
	finding = s;
	/* It also returns the one below a hole, in which another has been mapped since. */
	Dwfl_Module *mod = dwfl_addrmodule(s->dwfl, pc);
	if (mod)
		dwfl_module_info(mod, NULL, &start, &end, NULL, NULL, NULL, NULL);
	return pc >= start && pc < end ? mod : NULL;
}

static void describe(struct native_stacks *s, struct native_frame *f, Dwfl_Module *mod)
{
	GElf_Off off = 0;
	GElf_Sym sym;
	f->symbol =
	    native_stacks_keep(s, dwfl_module_addrinfo(mod, f->pc, &off, &sym, NULL, NULL, NULL));
	f->start = f->symbol ? f->pc - off : 0;
	Dwarf_Addr start = 0;
	f->file = native_stacks_keep(
	    s, dwfl_module_info(mod, NULL, &start, NULL, NULL, NULL, NULL, NULL));
	f->offset = f->pc - (f->file ? start : 0);
	if (!f->symbol)
		return;
	f->name = demangle(s, f->symbol, DMGL_NO_OPTS);
	f->full_name = demangle(s, f->symbol, DMGL_PARAMS | DMGL_ANSI);
}

Dwarf_Frame *native_stacks_row(Dwfl_Module *mod, uint64_t pc)
{
	Dwarf_Addr bias;
	Dwarf_Frame *row = NULL;
	Dwarf_CFI *cfi = dwfl_module_eh_cfi(mod, &bias);
	if (cfi && !dwarf_cfi_addrframe(cfi, pc - bias, &row))
		return row;
	cfi = dwfl_module_dwarf_cfi(mod, &bias);
	return cfi && !dwarf_cfi_addrframe(cfi, pc - bias, &row) ? row : NULL;
}

static bool has_table(Dwfl_Module *mod, uint64_t pc)
{
	Dwarf_Frame *row = native_stacks_row(mod, pc);
	const bool has = row;
	free(row);
	return has;
}

void native_stacks_describe(struct native_stacks *s, uint64_t pc, struct native_frame *out)
{
	Dwfl_Module *mod = native_stacks_module(s, pc);
	*out = (struct native_frame){.pc = pc, .offset = pc};
	if (mod)
		describe(s, out, mod);
}

/* Cached, since a symbol lookup scans all symbols of the library. NULL when out of memory. */
static const struct place *place_at(struct native_stacks *s, uint64_t pc, bool described)
{
	struct place **bucket = &s->places[pc * 0x9e3779b97f4a7c15u >> 54], *p = *bucket;
	while (p && p->frame.pc != pc)
		p = p->next;
	if (p && (p->described || !described))
		return p;
	Dwfl_Module *mod = dwfl_addrmodule(s->dwfl, pc);
	if (!p) {
		p = arena_alloc(&s->arena, sizeof(*p));
		if (!p)
			return NULL;
		p->frame.pc = p->frame.offset = pc;
		p->no_table = !mod || !has_table(mod, pc);
		p->next = *bucket;
		*bucket = p;
	}
	if (mod && described)
		describe(s, &p->frame, mod);
	p->described = described;
	return p;
}

static void keep_registers(struct native_stacks *s, Dwfl_Frame *frame, uint64_t pc)
{
	s->known = 1U << ARCH_IP;
	s->regs[ARCH_IP] = pc;
	for (unsigned i = 0; i < ARCH_DWARF_REGS; i++) {
		unsigned r = arch_dwarf_reg[i];
		Dwarf_Word value;
		if (r == ARCH_IP || dwfl_frame_reg(frame, i, &value))
			continue;
		s->regs[r] = value;
		s->known |= 1U << r;
	}
}

/* In a caller's frame, the caller-saved registers are unknown. */
static int on_wanted(struct native_stacks *s, Dwfl_Frame *frame, uint64_t pc, bool is_activation)
{
	keep_registers(s, frame, pc);
	s->known &= is_activation ? ~0U : ~arch_call_clobbers;
	s->found = true;
	return DWARF_CB_ABORT;
}

static uint64_t sp_of(Dwfl_Frame *frame)
{
	Dwarf_Word sp = 0;
	return dwfl_frame_reg(frame, ARCH_DWARF_SP, &sp) ? 0 : sp;
}

/* Stops at a function without an unwind table: libdw would fall back to the frame pointer, which
 * may hold anything there. */
static int on_frame(Dwfl_Frame *frame, void *arg)
{
	struct native_stacks *s = arg;
	const struct place *p;
	Dwarf_Addr pc;
	bool is_activation;
	s->missed = false;
	if (s->n >= s->most || !dwfl_frame_pc(frame, &pc, &is_activation))
		return DWARF_CB_ABORT;
	/* A caller's pc is the return address; step back into the call instruction. */
	pc -= is_activation ? 0 : 1;
	if (s->pcs) {
		s->pcs[s->n++] = pc;
		return DWARF_CB_OK;
	}
	if (s->wanted && s->wanted(s->wanted_arg, pc))
		return on_wanted(s, frame, pc, is_activation);
	p = place_at(s, pc, s->out);
	if (!p)
		return DWARF_CB_ABORT;
	if (s->wanted)
		s->n++;
	else if (s->at)
		s->at[s->n++] = (struct native_place){.pc = pc, .sp = sp_of(frame)};
	else
		s->out[s->n++] = p->frame;
	s->no_table = p->no_table;
	if (s->no_table)
		keep_registers(s, frame, pc);
	return s->no_table ? DWARF_CB_ABORT : DWARF_CB_OK;
}

static bool bounds_of(struct native_stacks *s, uint64_t pc, uint64_t *start, uint64_t *size)
{
	GElf_Off off;
	GElf_Sym sym = {0};
	if (s->thread->bounds)
		return s->thread->bounds(s->thread->arg, pc, start, size);
	Dwfl_Module *mod = dwfl_addrmodule(s->dwfl, pc);
	if (!mod || !dwfl_module_addrinfo(mod, pc, &off, &sym, NULL, NULL, NULL) ||
	    off >= sym.st_size)
		return false;
	*start = pc - off;
	*size = sym.st_size;
	return true;
}

static void read_code(struct native_stacks *s, struct walked *w)
{
	w->mem = mem_process(s->pid);
	w->code = malloc(w->size);
	const struct frame_step_code f = {
	    .code = w->code, .len = w->size, .vaddr = w->start, .mem = &w->mem};
	if (!w->code || mem_read(&w->mem, w->start, w->code, w->size) ||
	    frame_code_new(&f, &w->steps))
		w->steps = NULL;
}

/* NULL: the code cannot be read or analysed. */
static struct frame_code *code_at(struct native_stacks *s, uint64_t pc)
{
	enum { LARGEST = 1 << 20 };
	uint64_t start, size;
	for (struct walked *w = s->walked; w; w = w->next)
		if (pc >= w->start && pc - w->start < w->size)
			return w->steps;
	if (!bounds_of(s, pc, &start, &size) || size > LARGEST)
		return NULL;
	struct walked *w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->start = start;
	w->size = size;
	w->next = s->walked;
	s->walked = w;
	read_code(s, w);
	return w->steps;
}

/* Step from a frame without an unwind table to its caller, by its code. */
static bool step(struct native_stacks *s)
{
	struct frame_code *code = code_at(s, s->regs[ARCH_IP]);
	bool done =
	    code && !frame_code_step(code, s->thread->mem, s->regs[ARCH_IP], s->regs, &s->known);
	s->regs[ARCH_IP]--; /* back into the call instruction */
	return done;
}

static bool same_file(const struct mapping *a, const struct mapping *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && !strcmp(a->path, b->path);
}

static bool report_module(struct native_stacks *s, const char *name, uint64_t start, uint64_t end)
{
	return start && start < end && dwfl_report_module(s->dwfl, name, start, end);
}

/* Report a module for each file with an executable mapping. Records of other mappings may be stale.
 */
static void report_maps(struct native_stacks *s, native_base_fn *base, void *arg)
{
	const struct mapping *map = s->maps->map;
	uint64_t before = 0; /* end of the last module */
	char vdso[32];
	snprintf(vdso, sizeof(vdso), "[vdso: %d]", s->pid);
	for (size_t i = 0; i < s->maps->n; i++) {
		size_t first = i, last = i;
		if (!strcmp(map[i].path, "[vdso]"))
			report_module(s, vdso, map[i].start, map[i].end);
		if (!map[i].exec || !map[i].inode || map[i].path[0] != '/')
			continue;
		while (first && same_file(&map[first - 1], &map[i]))
			first--;
		while (last + 1 < s->maps->n && same_file(&map[last + 1], &map[i]))
			last++;
		uint64_t from = map[first].offset ? base(arg, &map[i]) : map[first].start;
		if (from >= before && report_module(s, map[i].path, from, map[last].end))
			before = map[last].end;
		i = last;
	}
}

/* If `base` is set, report s->maps, else the current mappings, which s->maps become. */
static int open_dwfl(struct native_stacks *s, native_base_fn *base, void *arg)
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
	finding = s;
	int r = base ? 0 : dwfl_linux_proc_report(s->dwfl, s->pid);
	if (r)
		return r > 0 ? -r : -ENOEXEC;
	/* Afterwards: a module whose mapping is not known would stay without its file. */
	if (base)
		report_maps(s, base, arg);
	else if ((r = maps_read(s->pid, &s->own, NULL)))
		return r;
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

static int stacks_finish(struct native_stacks *s, int r, struct native_stacks **out, struct err *e)
{
	if (r) {
		cannot_read(r, e);
		native_stacks_close(s);
		return r;
	}
	*out = s;
	return 0;
}

int native_stacks_open_maps(struct target_files *files, const struct maps *maps,
			    native_base_fn *base, void *arg, struct native_stacks **out,
			    struct err *e)
{
	struct native_stacks *s = calloc(1, sizeof(*s));
	if (!s)
		return cannot_read(-ENOMEM, e);
	s->pid = target_files_pid(files);
	s->files = files;
	s->maps = maps;
	return stacks_finish(s, open_dwfl(s, base, arg), out, e);
}

int native_stacks_open(pid_t pid, struct native_stacks **out, struct err *e)
{
	struct native_stacks *s = calloc(1, sizeof(*s));
	if (!s)
		return cannot_read(-ENOMEM, e);
	s->pid = pid;
	s->maps = &s->own;
	s->files = target_files_new(pid);
	return stacks_finish(s, s->files ? open_dwfl(s, NULL, NULL) : -ENOMEM, out, e);
}

void native_stacks_close(struct native_stacks *s)
{
	if (!s)
		return;
	dwfl_end(s->dwfl);
	if (s->maps == &s->own)
		target_files_free(s->files);
	maps_free(&s->own);
	for (struct walked *w = s->walked, *next; w; w = next) {
		next = w->next;
		frame_code_free(w->steps);
		free(w->code);
		free(w);
	}
	arena_free(&s->arena);
	free(s);
}

/* Output of a walk: exactly one of the first four is set. */
struct walk_out {
	struct native_frame *frames;
	uint64_t *pcs;
	struct native_place *places;
	native_wanted_fn *wanted;
	void *arg;
};

static int walk(struct native_stacks *s, const struct native_thread *t, const struct walk_out *out,
		unsigned most, bool *whole, struct err *e)
{
	s->out = out->frames;
	s->pcs = out->pcs;
	s->at = out->places;
	s->wanted = out->wanted;
	s->wanted_arg = out->arg;
	s->found = false;
	s->thread = t;
	s->most = most;
	s->n = 0;
	s->failed = false;
	finding = s;
	s->known = (1U << ARCH_REGS) - 1;
	memcpy(s->regs, t->regs, sizeof(s->regs));
	do {
		s->no_table = false;
		s->missed = false;
		/* libdw reports an unreadable return address as the end of the stack. */
		*whole = !dwfl_getthread_frames(s->dwfl, t->tid, on_frame, s) && !s->missed;
	} while (s->no_table && !s->found && s->n < most && step(s));
	s->thread = NULL;
	if (s->failed)
		return cannot_read(-ENOMEM, e);
	return s->n ? (int)s->n : cannot_read(-ENOEXEC, e);
}

int native_stacks_walk(struct native_stacks *s, const struct native_thread *t,
		       struct native_frame *out, unsigned most, bool *whole, struct err *e)
{
	return walk(s, t, &(struct walk_out){.frames = out}, most, whole, e);
}

int native_stacks_pcs(struct native_stacks *s, const struct native_thread *t, uint64_t *pc,
		      unsigned most, bool *whole, struct err *e)
{
	return walk(s, t, &(struct walk_out){.pcs = pc}, most, whole, e);
}

int native_stacks_places(struct native_stacks *s, const struct native_thread *t,
			 struct native_place *out, unsigned most, bool *whole, struct err *e)
{
	return walk(s, t, &(struct walk_out){.places = out}, most, whole, e);
}

int native_stacks_find(struct native_stacks *s, const struct native_thread *t, unsigned most,
		       native_wanted_fn *wanted, void *arg, uint64_t *regs, uint32_t *known)
{
	bool whole;
	walk(s, t, &(struct walk_out){.wanted = wanted, .arg = arg}, most, &whole, NULL);
	if (!s->found)
		return -ENOENT;
	memcpy(regs, s->regs, sizeof(s->regs));
	*known = s->known;
	return 0;
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
		text_print_safe(f, text_base_name(x->file));
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
