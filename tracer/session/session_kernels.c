/* Kernels that inductor generates: their libraries are loaded while something is compiled, long
 * after the process was added. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "symbolizer/target/maps.h"
#include "tracer/proc/seize.h"
#include "tracer/session/internal.h"

static bool is_of(const struct session_kernel *k, const struct mapping *m)
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
		if (is_of(&s->kernels[i], m))
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
static int probe(struct session *s, struct proc *p, struct elf_file *f, const struct mapping *m)
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

static int open_and_probe(struct session *s, struct proc *p, const struct mapping *m)
{
	struct elf_file *f;
	int fd = maps_open(p->target->pid, m, NULL);
	int r = fd < 0 ? fd : elf_file_open_fd(fd, m->path, &f, NULL);
	if (fd >= 0)
		close(fd);
	if (r)
		return r;
	r = probe(s, p, f, m);
	elf_file_close(f);
	return r;
}

/* Whether it was met before in this process; it is from now on. */
static bool is_met(struct proc *p, uint64_t start)
{
	for (size_t i = 0; i < p->nkernels; i++)
		if (p->kernels[i] == start)
			return true;
	if (!array_grow(&p->kernels, &p->kernels_room, p->nkernels + 1, sizeof(*p->kernels)))
		p->kernels[p->nkernels++] = start;
	return false;
}

static void say_missing(struct session *s, const struct proc *p, int code)
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
		if (!kernel_is_library(m->path) || is_met(p, m->start))
			continue;
		if (tid && !s->engine->follow && !frozen)
			freeze_thread(tid, WAIT_MS, &frozen);
		int r = open_and_probe(s, p, m);
		p->missing_kernels += r && r != -ENOENT;
		code = r && r != -ENOENT ? r : code;
	}
	freeze_release(frozen);
	maps_free(&maps);
	if (!missing && p->missing_kernels)
		say_missing(s, p, code);
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
