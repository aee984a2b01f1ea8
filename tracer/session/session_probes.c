#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "symbolizer/decode/decoder.h"
#include "symbolizer/python/python.h"
#include "symbolizer/target/maps.h"
#include "tracer/proc/seize.h"
#include "tracer/session/internal.h"

#define S_NS 1000000000ULL

int session_probe_library(struct session *s, uint16_t index, const struct libraries *l,
			  unsigned lib, const struct probe_site *sites, size_t n, bool late,
			  struct err *e)
{
	char path[PATH_MAX];
	pid_t pid = s->procs[index].target->pid;
	const struct mapping *m = ops_mapping(l, lib);
	if (!m || !n)
		return 0;
	int r = maps_open_path(pid, m, path, sizeof(path), e);
	struct probe_file f = {
	    .path = path,
	    .sites = sites,
	    .nsites = n,
	    .elf = s->ops->elf[lib],
	    .bias = s->procs[index].target->bias[lib],
	    .engine_main = s->ops->engine_main,
	    .engine_main_size = s->ops->engine_main_size,
	    .late = late,
	};
	if (lib == OPS_CPU && s->o->memory && s->ops->elf[OPS_C10]) {
		f.memory = s->ops->memory;
		f.c10 = s->ops->elf[OPS_C10];
		f.c10_bias = s->procs[index].target->bias[OPS_C10];
	}
	return r ? r : s->engine->attach(s->engine, pid, index, &f, e);
}

/* Probe a place in a file for which only an address in the process is known. */
static int probe_address(struct session *s, struct proc *p, uint64_t addr, uint32_t kind,
			 uint32_t op)
{
	struct maps maps;
	char path[PATH_MAX];
	if (maps_read(p->target->pid, &maps, NULL))
		return -ESRCH;
	const struct mapping *m = maps_find(&maps, addr);
	int r =
	    m && m->inode ? maps_open_path(p->target->pid, m, path, sizeof(path), NULL) : -ENOENT;
	if (!r) {
		struct probe_site site = {addr - m->start + m->offset, op, (uint16_t)kind, 0, 0};
		struct probe_file f = {.path = path, .sites = &site, .nsites = 1};
		r = s->engine->attach(s->engine, p->target->pid, (uint16_t)(p - s->procs), &f,
				      NULL);
	}
	maps_free(&maps);
	return r;
}

static void probe_code_freed(struct session *s, struct proc *p)
{
	uint64_t addr;
	if (p->code_freed || !p->target->py || py_code_dealloc_addr(p->target->py, &addr))
		return;
	p->code_freed = true;
	probe_address(s, p, addr, SITE_CODE_FREED, 0);
}

/* Probe the function at `at`, through which all boxed calls go. Its exits are found like those of
 * other functions, from the code in the file. */
static void place_boxed(struct session *s, struct proc *p, uint64_t at)
{
	struct target *t = p->target;
	uint64_t vaddr = at - t->bias[OPS_CPU];
	struct probe_site sites[1 + EXITS_MAX + 1];
	size_t own = op_table_boxed_sites(s->ops, vaddr, false, sites);
	int changed = own ? -1 : op_table_call_boxed(s->ops, vaddr);
	struct maps maps;
	struct libraries l;
	if ((!own && changed < 0) || maps_read(t->pid, &maps, NULL))
		return;
	libraries_find(&maps, &l);
	if (changed >= 0)
		s->engine->set_plans(s->engine, (uint32_t)changed, &s->ops->plans[changed], 1,
				     NULL);
	for (unsigned file = 0; file < OPS_FILES; file++) {
		size_t n = file == OPS_CPU ? own : 0;
		if (changed >= 0)
			n = op_table_call_boxed_sites(s->ops, file, false, sites);
		/* Probe parseSchema, too: an operator called this way may be gone when its call is
		 * decoded. */
		if (file == OPS_CPU && s->ops->schema_off)
			sites[n++] = (struct probe_site){s->ops->schema_off, 0, SITE_SCHEMA, 0, 0};
		if (n)
			session_probe_library(s, (uint16_t)(p - s->procs), &l, file, sites, n,
					      false, NULL);
	}
	maps_free(&maps);
}

/* The same of the copies of that function which other callers have. */
static void probe_copies(struct session *s, struct proc *p, uint64_t at)
{
	size_t ncopies;
	const uint64_t *copies =
	    op_table_boxed_copies(s->ops, at - p->target->bias[OPS_CPU], &ncopies);
	struct probe_site *sites = calloc(ncopies + 1, (1 + EXITS_MAX) * sizeof(*sites));
	struct maps maps;
	struct libraries l;
	size_t n = 0;
	for (size_t i = 0; sites && i < ncopies; i++)
		n += op_table_boxed_sites(s->ops, copies[i], false, &sites[n]);
	if (n && !maps_read(p->target->pid, &maps, NULL)) {
		libraries_find(&maps, &l);
		session_probe_library(s, (uint16_t)(p - s->procs), &l, OPS_CPU, sites, n, false,
				      NULL);
		maps_free(&maps);
	}
	free(sites);
}

/* And of dispatches inlined into other functions, whose values nobody sees: those are no use to
 * what stops threads for them. */
static void probe_inlined(struct session *s, struct proc *p)
{
	const struct op_inlined *in = s->stops ? NULL : op_table_inlined(s->ops);
	struct maps maps;
	struct libraries l;
	if (!in || !in->n ||
	    s->engine->set_plans(s->engine, in->first, &s->ops->plans[in->first], in->nops, NULL) ||
	    maps_read(p->target->pid, &maps, NULL))
		return;
	libraries_find(&maps, &l);
	const uint16_t index = (uint16_t)(p - s->procs);
	session_probe_library(s, index, &l, OPS_CPU, in->sites, in->cpu, false, NULL);
	session_probe_library(s, index, &l, OPS_PYTHON, in->sites + in->cpu, in->n - in->cpu, false,
			      NULL);
	maps_free(&maps);
}

/* The same where the function at `vaddr` only jumps to Dispatcher::callBoxed. Of the libraries that
 * define that, the dynamic linker has chosen one; so each must have places. */
static int find_call_boxed(struct session *s, uint64_t vaddr, struct probe_site *first)
{
	const int op = op_table_call_boxed(s->ops, vaddr);
	if (op < 0 || !op_table_call_boxed_sites(s->ops, OPS_CPU, true, first))
		return -ENOTSUP;
	s->nboxed_python = op_table_call_boxed_sites(s->ops, OPS_PYTHON, true, s->boxed_python);
	if (!s->nboxed_python && op_table_call_boxed_is_in(s->ops, OPS_PYTHON)) {
		first->len = 0;
		return -ENOTSUP;
	}
	return s->engine->set_plans(s->engine, (uint32_t)op, &s->ops->plans[op], 1, NULL);
}

int session_find_boxed(struct session *s, const struct proc *p)
{
	struct probe_site *first = &s->sites[s->boxed_site];
	if (first->len)
		return 0;
	uint64_t at = target_find_boxed(p->target);
	if (!at)
		return -EAGAIN;
	at -= p->target->bias[OPS_CPU];
	return op_table_boxed_sites(s->ops, at, true, first) ? 0 : find_call_boxed(s, at, first);
}

static int jump_at_boxed(struct session *s, struct proc *p)
{
	const struct probe_site *first = &s->sites[s->boxed_site];
	struct maps maps;
	struct libraries l;
	size_t n = 0;
	while (n < 1 + EXITS_MAX && first[n].len)
		n++;
	if (maps_read(p->target->pid, &maps, NULL))
		return -ESRCH;
	libraries_find(&maps, &l);
	const uint16_t index = (uint16_t)(p - s->procs);
	int r = session_probe_library(s, index, &l, OPS_CPU, first, n, true, NULL);
	r = r ? r
	      : session_probe_library(s, index, &l, OPS_PYTHON, s->boxed_python, s->nboxed_python,
				      true, NULL);
	maps_free(&maps);
	return r;
}

/* With -ECHILD no jump at all can be written there, which is told of. */
static void say_no_blocks(struct session *s, const struct proc *p, int code)
{
	struct err *e = &s->engine->trouble;
	if (!code || code == -ECHILD || code == -ESRCH || code == -ENOTCONN || e->code)
		return;
	err_set(e, code, "blocks of record_function in process %d are missing: %s", p->target->pid,
		code == -ENOSPC	   ? "no memory is free near libtorch_cpu"
		: code == -ENOTSUP ? "there is no place for a jump"
				   : strerror(-code));
	err_hint(e, "--engine bpf and --engine ptrace need no jumps");
}

/* The address of boxed calls is known once PyTorch is imported, and the program may run its first
 * op soon after. The main thread is frozen meanwhile, since placing probes is slow when many
 * processes are traced at once. A program that does not import it in a minute may have been
 * stopped; where the address cannot be found, looking for it takes long. */
static void probe_boxed(struct session *s, struct proc *p)
{
	enum { WAIT_MS = 100 };
	struct freeze *frozen = NULL;
	const uint64_t age = s->now - p->added;
	if (p->boxed || s->now < p->next_boxed)
		return;
	p->next_boxed = s->now + (age > 60 * S_NS ? age / 16 : 0);
	if (s->engine->observes) {
		int r = session_find_boxed(s, p);
		p->boxed = r != -EAGAIN;
		s->no_blocks += r == -ENOTSUP;
		if (p->boxed)
			say_no_blocks(s, p, r ? r : jump_at_boxed(s, p));
		return;
	}
	uint64_t at = target_find_boxed(p->target);
	if (!at)
		return;
	p->boxed = true;
	if (!s->engine->follow)
		freeze_thread(p->target->pid, WAIT_MS, &frozen);
	place_boxed(s, p, at);
	/* The others take a tenth of a second, and are of collectives: only a rank that has just
	 * begun waits for them. */
	if (!p->is_whole || p->is_worker || p->rank.rank < 0) {
		freeze_release(frozen);
		frozen = NULL;
	}
	probe_copies(s, p, at);
	probe_inlined(s, p);
	freeze_release(frozen);
}

/* Where there is none all its files are searched, so ever more seldom. */
static void find_python(struct session *s, struct proc *p)
{
	struct err why = {0};
	if (p->target->py || s->now < p->next_python)
		return;
	p->next_python = s->now + (s->now - p->added) / 8;
	if (target_find_python(p->target, &why))
		return;
	s->engine->set_proc(s->engine, (uint16_t)(p - s->procs), &p->target->conf);
}

static void learn_pynode(struct session *s, struct proc *p)
{
	uint16_t off = s->pynode_known ? 0 : target_pynode_obj(p->target);
	int op = off ? op_table_set_pynode(s->ops, off) : -1;
	if (op < 0)
		return;
	s->pynode_known = true;
	s->engine->set_plans(s->engine, (uint32_t)op, &s->ops->plans[op], 1, NULL);
}

void session_complete_procs(struct session *s)
{
	s->now = session_now();
	for (unsigned i = 0; i < PROCS_MAX; i++) {
		struct proc *p = &s->procs[i];
		if (!p->target || !p->alive)
			continue;
		find_python(s, p);
		learn_pynode(s, p);
		if (target_prepare(p->target))
			s->engine->set_proc(s->engine, (uint16_t)i, &p->target->conf);
		probe_code_freed(s, p);
		probe_boxed(s, p);
	}
}

bool session_is_settled(const struct session *s)
{
	for (unsigned i = 0; i < PROCS_MAX; i++) {
		const struct proc *p = &s->procs[i];
		if (p->target && p->alive && !p->boxed && s->now - p->added < 10 * S_NS)
			return false;
	}
	return true;
}

static int probe_dispatch(struct session *s, pid_t pid, uint16_t index)
{
	struct probe_site site = {s->ops->dispatch_off, 0, SITE_DISPATCH, 0, 0};
	struct maps maps;
	struct libraries l;
	char path[PATH_MAX];
	int r = maps_read(pid, &maps, NULL);
	if (r)
		return r;
	libraries_find(&maps, &l);
	r = l.torch ? maps_open_path(pid, l.torch, path, sizeof(path), NULL) : -ENOENT;
	struct probe_file f = {.path = path, .sites = &site, .nsites = 1};
	r = r ? r : s->engine->attach(s->engine, pid, index, &f, NULL);
	maps_free(&maps);
	return r;
}

/* Counts for about a twentieth of the first seconds and less later: while counting, each dispatcher
 * call costs a trap. */
void session_sample_dispatch(struct session *s)
{
	enum { WINDOW_NS = 50 * 1000 * 1000, PAUSE_NS = 1000 * 1000 * 1000 };
	uint16_t index = PROCS_MAX;
	if (!s->ops || !s->ops->dispatch_off || !s->first_ns)
		return;
	if (s->dispatch_since && s->now - s->dispatch_since >= WINDOW_NS) {
		s->engine->count_dispatch(s->engine, 0);
		s->engine->detach(s->engine, index);
		s->dispatch_since = 0;
		s->dispatch_next = s->now + PAUSE_NS * (1 + (s->now - s->first_ns) / PAUSE_NS / 4);
		return;
	}
	if (s->dispatch_since || s->now < s->dispatch_next || !session_is_settled(s))
		return;
	for (unsigned i = 0; i < PROCS_MAX; i++) {
		const struct proc *p = &s->procs[i];
		if (!p->target || !p->alive)
			continue;
		if (!probe_dispatch(s, p->target->pid, index)) {
			s->engine->count_dispatch(s->engine, 1);
			s->dispatch_since = s->now;
		}
		break;
	}
}

/* Kernels that inductor generates: their libraries are loaded while something is compiled, long
 * after the process was added. */

static bool kernel_is_of(const struct session_kernel *k, const struct mapping *m)
{
	return k->inode == m->inode && k->major == m->dev_major && k->minor == m->dev_minor &&
	       !strcmp(k->name, mapping_name(m));
}

/* What is known of the kernel in this library, whether a place for probes was found or not; NULL
 * when out of memory. */
static struct session_kernel *kernel_of(struct session *s, struct elf_file *f,
					const struct mapping *m)
{
	for (size_t i = 0; i < s->nkernels; i++)
		if (kernel_is_of(&s->kernels[i], m))
			return &s->kernels[i];
	if (array_grow(&s->kernels, &s->kernels_room, s->nkernels + 1, sizeof(*s->kernels)))
		return NULL;
	struct session_kernel *k = &s->kernels[s->nkernels++];
	*k = (struct session_kernel){
	    .inode = m->inode, .major = m->dev_major, .minor = m->dev_minor};
	snprintf(k->name, sizeof(k->name), "%s", mapping_name(m));
	k->code = op_table_add_kernel(s->ops, f, m->path, s->engine->observes, &k->sites);
	if (!k->code) {
		const uint32_t op = k->sites.site[0].op;
		k->code = s->engine->set_plans(s->engine, op, &s->ops->plans[op], 1, NULL);
	}
	return k;
}

/* 0; -ENOENT: it is no kernel; or -errno. */
static int kernel_probe(struct session *s, struct proc *p, struct elf_file *f,
			const struct mapping *m)
{
	char path[PATH_MAX];
	pid_t pid = p->target->pid;
	const struct session_kernel *k = kernel_of(s, f, m);
	struct probe_file to = {.path = path, .elf = f, .late = true};
	int r = !k ? -ENOMEM : k->code;
	r = r ? r : elf_bias(f, m, &to.bias);
	r = r ? r : maps_open_path(pid, m, path, sizeof(path), NULL);
	if (r)
		return r;
	to.sites = k->sites.site;
	to.nsites = k->sites.n;
	return s->engine->attach(s->engine, pid, (uint16_t)(p - s->procs), &to, NULL);
}

static int kernel_open_and_probe(struct session *s, struct proc *p, const struct mapping *m)
{
	struct elf_file *f;
	int fd = maps_open(p->target->pid, m, NULL);
	int r = fd < 0 ? fd : elf_file_open_fd(fd, m->path, &f, NULL);
	if (fd >= 0)
		close(fd);
	if (r)
		return r;
	r = kernel_probe(s, p, f, m);
	elf_file_close(f);
	return r;
}

/* Whether it was met before in this process; it is from now on. */
static bool kernel_is_met(struct proc *p, uint64_t start)
{
	for (size_t i = 0; i < p->nkernels; i++)
		if (p->kernels[i] == start)
			return true;
	if (!array_grow(&p->kernels, &p->kernels_room, p->nkernels + 1, sizeof(*p->kernels)))
		p->kernels[p->nkernels++] = start;
	return false;
}

static void say_missing_kernels(struct session *s, const struct proc *p, int code)
{
	struct err *e = &s->engine->trouble;
	char kernels[40];
	if (e->code)
		return;
	err_set(e, code, "%s of inductor in process %d %s missing: %s",
		text_counted(kernels, sizeof(kernels), p->missing_kernels, "kernel"),
		p->target->pid, p->missing_kernels == 1 ? "is" : "are",
		code == -ENOSPC	   ? "no memory is free near the library"
		: code == -ECHILD  ? "jumps cannot be written there"
		: code == -ENOTSUP ? "there is no place for a probe"
				   : strerror(-code));
	if (s->engine->observes)
		err_hint(e, "--engine bpf and --engine ptrace need no jumps");
}

void session_probe_kernels(struct session *s, struct proc *p, pid_t tid)
{
	enum { WAIT_MS = 100 };
	struct maps maps;
	if (!p->target || !p->alive || maps_read(p->target->pid, &maps, NULL))
		return;
	struct freeze *frozen = NULL;
	unsigned missing = p->missing_kernels;
	int code = 0;
	for (const struct mapping *m = NULL; (m = maps_next_exec(&maps, m));) {
		if (!kernel_is_library(m->path) || kernel_is_met(p, m->start))
			continue;
		if (tid && !s->engine->follow && !frozen)
			freeze_thread(tid, WAIT_MS, &frozen);
		int r = kernel_open_and_probe(s, p, m);
		p->missing_kernels += r && r != -ENOENT;
		code = r && r != -ENOENT ? r : code;
	}
	freeze_release(frozen);
	maps_free(&maps);
	if (!missing && p->missing_kernels)
		say_missing_kernels(s, p, code);
}

void session_look_for_kernels(struct session *s, const struct hit *h)
{
	if ((h->kind != HIT_ENTRY && h->kind != HIT_SUM) || h->op >= s->ops->n ||
	    s->ops->ops[h->op].role != ROLE_COUNTER_STOP || h->proc >= PROCS_MAX)
		return;
	/* The shim has the thread stand only if it has loaded something. */
	if (!s->engine->observes || h->flags & HIT_STOPPED || h->kind == HIT_SUM)
		session_probe_kernels(s, &s->procs[h->proc], (pid_t)h->tid);
}
