#define _GNU_SOURCE
#include "symbolizer/native/internal.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/event/event.h"

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
 * (stub_image_make). */
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

const Dwfl_Thread_Callbacks native_stacks_threads = {
    .next_thread = next_thread,
    .get_thread = get_thread,
    .memory_read = read_memory,
    .set_initial_registers = set_registers,
};

/* Cached, since a symbol lookup scans all symbols of the library. NULL when out of memory. */
static const struct code_place *place_at(struct native_stacks *s, uint64_t pc, bool described)
{
	struct code_place **bucket = &s->places[pc * 0x9e3779b97f4a7c15u >> 54], *p = *bucket;
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
		p->no_table = !mod || !native_stacks_has_table(mod, pc);
		p->next = *bucket;
		*bucket = p;
	}
	if (mod && described)
		native_stacks_describe_in(s, &p->frame, mod);
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
	const struct code_place *p;
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

/* The process may have ended, and its ID be another's. */
static int read_walked(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	const struct walked_code *w = (const struct walked_code *)m;
	const struct mem live = mem_process(w->in->pid);
	return native_stacks_file_read(w->in, addr, buf, len) ? mem_read(&live, addr, buf, len) : 0;
}

static void read_code(struct native_stacks *s, struct walked_code *w)
{
	w->mem = (struct mem){.read = read_walked, .pid = s->pid};
	w->in = s;
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
	for (struct walked_code *w = s->walked; w; w = w->next)
		if (pc >= w->start && pc - w->start < w->size)
			return w->steps;
	if (!bounds_of(s, pc, &start, &size) || size > LARGEST)
		return NULL;
	struct walked_code *w = calloc(1, sizeof(*w));
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
static bool step_by_code(struct native_stacks *s)
{
	struct frame_code *code = code_at(s, s->regs[ARCH_IP]);
	bool done =
	    code && !frame_code_step(code, s->thread->mem, s->regs[ARCH_IP], s->regs, &s->known);
	s->regs[ARCH_IP]--; /* back into the call instruction */
	return done;
}

/* Output of a walk: exactly one of the first four is set. */
struct walk_out {
	struct native_frame *frames;
	uint64_t *pcs;
	struct native_place *places;
	native_wanted_fn *wanted;
	void *arg;
};

static int stack_walk(struct native_stacks *s, const struct native_thread *t,
		      const struct walk_out *out, unsigned most, bool *whole, struct err *e)
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
	native_stacks_use(s);
	s->known = (1U << ARCH_REGS) - 1;
	memcpy(s->regs, t->regs, sizeof(s->regs));
	do {
		s->no_table = false;
		s->missed = false;
		/* libdw reports an unreadable return address as the end of the stack. */
		*whole = !dwfl_getthread_frames(s->dwfl, t->tid, on_frame, s) && !s->missed;
	} while (s->no_table && !s->found && s->n < most && step_by_code(s));
	s->thread = NULL;
	if (s->failed)
		return native_stacks_failed(-ENOMEM, e);
	return s->n ? (int)s->n : native_stacks_failed(-ENOEXEC, e);
}

int native_stacks_walk(struct native_stacks *s, const struct native_thread *t,
		       struct native_frame *out, unsigned most, bool *whole, struct err *e)
{
	return stack_walk(s, t, &(struct walk_out){.frames = out}, most, whole, e);
}

int native_stacks_pcs(struct native_stacks *s, const struct native_thread *t, uint64_t *pc,
		      unsigned most, bool *whole, struct err *e)
{
	return stack_walk(s, t, &(struct walk_out){.pcs = pc}, most, whole, e);
}

int native_stacks_places(struct native_stacks *s, const struct native_thread *t,
			 struct native_place *out, unsigned most, bool *whole, struct err *e)
{
	return stack_walk(s, t, &(struct walk_out){.places = out}, most, whole, e);
}

int native_stacks_find(struct native_stacks *s, const struct native_thread *t, unsigned most,
		       native_wanted_fn *wanted, void *arg, uint64_t *regs, uint32_t *known)
{
	bool whole;
	stack_walk(s, t, &(struct walk_out){.wanted = wanted, .arg = arg}, most, &whole, NULL);
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
		if (!frames[i].file || !native_file_is_python(frames[i].file))
			print_frame(f, indent, &frames[i]);
	native_stacks_close(s);
	return n;
}
