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

#include "base/text.h"
#include "tracer/arch_x86_64.h"

struct unwinding {
	FILE *f;
	const char *indent;
	pid_t pid, tid;
	const uint64_t *regs;
	const struct mem *mem;
	unsigned most, n;
	bool given; /* the thread */
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
	struct unwinding *u = arg;
	(void)dwfl;
	if (u->given)
		return 0;
	u->given = true;
	*thread_arg = u;
	return u->tid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	(void)dwfl;
	*thread_arg = arg;
	return tid == ((struct unwinding *)arg)->tid;
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *out, void *arg)
{
	uint64_t word;
	(void)dwfl;
	if (mem_read_u64(((struct unwinding *)arg)->mem, addr, &word))
		return false;
	*out = word;
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	const struct unwinding *u = arg;
	Dwarf_Word regs[ARCH_DWARF_REGS];
	for (unsigned i = 0; i < ARCH_DWARF_REGS; i++)
		regs[i] = u->regs[arch_dwarf_reg[i]];
	return dwfl_thread_state_registers(thread, 0, ARCH_DWARF_REGS, regs);
}

static const char *base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	return slash ? slash + 1 : path;
}

static void print_frame(struct unwinding *u, Dwfl_Module *mod, uint64_t pc)
{
	const char *file =
	    mod ? dwfl_module_info(mod, NULL, NULL, NULL, NULL, NULL, NULL, NULL) : NULL;
	const char *symbol = mod ? dwfl_module_addrname(mod, pc) : NULL;
	char *text = symbol ? cplus_demangle_v3(symbol, DMGL_PARAMS | DMGL_ANSI) : NULL;
	fputs(u->indent, u->f);
	if (symbol)
		text_print_safe(u->f, text ? text : symbol);
	else
		fprintf(u->f, "0x%" PRIx64, pc);
	if (file) {
		fputs("  (", u->f);
		text_print_safe(u->f, base_name(file));
		putc(')', u->f);
	}
	putc('\n', u->f);
	free(text);
}

static int on_frame(Dwfl_Frame *frame, void *arg)
{
	struct unwinding *u = arg;
	Dwarf_Addr pc;
	bool is_activation;
	if (u->n >= u->most || !dwfl_frame_pc(frame, &pc, &is_activation))
		return DWARF_CB_ABORT;
	/* Of a caller, the call is meant, and not what comes behind it. */
	pc -= is_activation ? 0 : 1;
	print_frame(u, dwfl_addrmodule(dwfl_thread_dwfl(dwfl_frame_thread(frame)), pc), pc);
	u->n++;
	return DWARF_CB_OK;
}

static int unwind(Dwfl *dwfl, struct unwinding *u)
{
	static const Dwfl_Thread_Callbacks callbacks = {
	    .next_thread = next_thread,
	    .get_thread = get_thread,
	    .memory_read = read_memory,
	    .set_initial_registers = set_registers,
	};
	int r = dwfl_linux_proc_report(dwfl, u->pid);
	if (r)
		return r > 0 ? -r : -ENOEXEC;
	if (dwfl_report_end(dwfl, NULL, NULL) ||
	    !dwfl_attach_state(dwfl, NULL, u->pid, &callbacks, u))
		return -ENOEXEC;
	dwfl_getthread_frames(dwfl, u->tid, on_frame, u);
	return u->n ? 0 : -ENOEXEC;
}

int native_stack_print(FILE *f, const char *indent, pid_t pid, pid_t tid, const uint64_t *regs,
		       const struct mem *mem, unsigned most, struct err *e)
{
	static const Dwfl_Callbacks callbacks = {
	    .find_elf = find_elf,
	    .find_debuginfo = no_debuginfo,
	};
	struct unwinding u = {.f = f,
			      .indent = indent,
			      .pid = pid,
			      .tid = tid,
			      .regs = regs,
			      .mem = mem,
			      .most = most};
	Dwfl *dwfl = dwfl_begin(&callbacks);
	if (!dwfl)
		return err_set(e, -ENOMEM, "no memory");
	finding = pid;
	int r = unwind(dwfl, &u);
	if (r)
		err_set(e, r, "the native stack cannot be read: %s",
			r == -ENOEXEC ? dwfl_errmsg(-1) : strerror(-r));
	dwfl_end(dwfl);
	return r ? r : (int)u.n;
}
