/* The files that a process has mapped, as modules of libdw: their symbols and unwinding tables. */
#define _GNU_SOURCE
#include "symbolizer/native/internal.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <libiberty/demangle.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "symbolizer/code/arch_x86_64.h"
#include "symbolizer/target/elf.h"

/* find_elf has no context argument of ours. */
static _Thread_local const struct native_stacks *finding;

void native_stacks_use(const struct native_stacks *s)
{
	finding = s;
}

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
	native_stacks_use(s);
	/* It also returns the one below a hole, in which another has been mapped since. */
	Dwfl_Module *mod = dwfl_addrmodule(s->dwfl, pc);
	if (mod)
		dwfl_module_info(mod, NULL, &start, &end, NULL, NULL, NULL, NULL);
	return pc >= start && pc < end ? mod : NULL;
}

/* The bytes of a segment at `vaddr`, NULL unless there are so many. */
static const void *segment_at(Elf *elf, const GElf_Phdr *p, uint64_t vaddr, size_t len)
{
	uint64_t off = vaddr - p->p_vaddr;
	if (p->p_type != PT_LOAD || p->p_flags & PF_W || vaddr < p->p_vaddr || off > p->p_filesz ||
	    len > p->p_filesz - off)
		return NULL;
	Elf_Data *d = elf_getdata_rawchunk(elf, (int64_t)(p->p_offset + off), len, ELF_T_BYTE);
	return d && d->d_size == len ? d->d_buf : NULL;
}

int native_stacks_file_read(struct native_stacks *s, uint64_t addr, void *buf, size_t len)
{
	GElf_Addr bias = 0;
	Dwfl_Module *mod = native_stacks_module(s, addr);
	Elf *elf = mod ? dwfl_module_getelf(mod, &bias) : NULL;
	const void *found = NULL;
	size_t n = 0;
	if (!elf || elf_getphdrnum(elf, &n))
		return -EFAULT;
	for (size_t i = 0; i < n && !found; i++) {
		GElf_Phdr p;
		if (gelf_getphdr(elf, (int)i, &p))
			found = segment_at(elf, &p, addr - bias, len);
	}
	if (!found)
		return -EFAULT;
	memcpy(buf, found, len);
	return 0;
}

void native_stacks_describe_in(struct native_stacks *s, struct native_frame *f, Dwfl_Module *mod)
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

bool native_stacks_has_table(Dwfl_Module *mod, uint64_t pc)
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
		native_stacks_describe_in(s, out, mod);
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
	s->dwfl = dwfl_begin(&files);
	if (!s->dwfl)
		return -ENOMEM;
	native_stacks_use(s);
	int r = base ? 0 : dwfl_linux_proc_report(s->dwfl, s->pid);
	if (r)
		return r > 0 ? -r : -ENOEXEC;
	/* Afterwards: a module whose mapping is not known would stay without its file. */
	if (base)
		report_maps(s, base, arg);
	else if ((r = maps_read(s->pid, &s->own, NULL)))
		return r;
	if (dwfl_report_end(s->dwfl, NULL, NULL) ||
	    !dwfl_attach_state(s->dwfl, NULL, s->pid, &native_stacks_threads, s))
		return -ENOEXEC;
	return 0;
}

int native_stacks_failed(int code, struct err *e)
{
	return err_set(e, code, "the native stack cannot be read: %s",
		       code == -ENOEXEC ? dwfl_errmsg(-1) : strerror(-code));
}

static int stacks_finish(struct native_stacks *s, int r, struct native_stacks **out, struct err *e)
{
	if (r) {
		native_stacks_failed(r, e);
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
		return native_stacks_failed(-ENOMEM, e);
	s->pid = target_files_pid(files);
	s->files = files;
	s->maps = maps;
	return stacks_finish(s, open_dwfl(s, base, arg), out, e);
}

int native_stacks_open(pid_t pid, struct native_stacks **out, struct err *e)
{
	struct native_stacks *s = calloc(1, sizeof(*s));
	if (!s)
		return native_stacks_failed(-ENOMEM, e);
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
	for (struct walked_code *w = s->walked, *next; w; w = next) {
		next = w->next;
		frame_code_free(w->steps);
		free(w->code);
		free(w);
	}
	arena_free(&s->arena);
	free(s);
}
