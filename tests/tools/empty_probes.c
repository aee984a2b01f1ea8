/* Attaches empty eBPF programs to every op of a process and waits for SIGINT, to measure the
 * overhead of the kernel alone.
 *
 *     empty_probes PID entry|both READY
 *
 * `entry`: a probe for each call; `both`: also at the exit, at the sites of the engine bpf. READY:
 * a file that is created once the probes are attached. */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tracer/engine/bpf/links.h"
#include "tracer/session/session.h"

static int load_nothing(void)
{
	const struct bpf_insn prog[] = {
	    {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
	    {.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = (enum bpf_attach_type)BPF_ATTACH_UPROBE_MULTI);
	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "nothing", "GPL", prog,
			     sizeof(prog) / sizeof(prog[0]), &opts);
}

/* File offsets of the sites of that kind in libtorch_cpu, into `out`; returns their number. */
static uint32_t offsets_of(const struct op_table *t, uint32_t kind, uint64_t *out)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < t->n; i++) {
		const struct op_probe *o = &t->ops[i];
		const struct probe_site *s = t->sites + o->first_site;
		for (uint32_t k = 0; o->role == ROLE_CALL && k < o->nsites; k++)
			if (s[k].kind == kind)
				out[n++] = s[k].offset;
	}
	return n;
}

static int link_all(pid_t pid, const struct op_table *t, uint32_t kind)
{
	uint64_t *offsets = malloc(t->nsites * sizeof(*offsets));
	uint32_t n = offsets ? offsets_of(t, kind, offsets) : 0;
	int r = uprobe_multi_link(load_nothing(), pid, t->path[OPS_CPU], offsets, NULL, n);
	free(offsets);
	return r;
}

static int probe(pid_t pid, bool both, struct err *e)
{
	struct maps maps;
	struct libraries l;
	struct op_table *t;
	int r = maps_read(pid, &maps, NULL);
	if (r)
		return err_set(e, r, "no process %d", pid);
	libraries_find(&maps, &l);
	r = l.torch ? load_ops(pid, &l, OPS_PROBES, &t, e) : err_set(e, -ENOENT, "no libtorch_cpu");
	maps_free(&maps);
	if (r)
		return r;
	r = link_all(pid, t, SITE_ENTRY);
	if (r >= 0 && both)
		r = link_all(pid, t, SITE_EXIT);
	op_table_free(t);
	return r < 0 ? err_set(e, r, "cannot probe: %s", strerror(-r)) : 0;
}

static int ready(const char *path, struct err *e)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	return fd < 0 ? err_set(e, -errno, "cannot make %s", path) : close(fd);
}

int main(int argc, char **argv)
{
	struct err e = {0};
	sigset_t s;
	int got;
	if (argc != 4)
		return 2;
	sigemptyset(&s);
	sigaddset(&s, SIGINT);
	sigprocmask(SIG_BLOCK, &s, NULL);
	if (probe(atoi(argv[1]), !strcmp(argv[2], "both"), &e) || ready(argv[3], &e)) {
		fprintf(stderr, "empty_probes: %s\n", e.what);
		return 1;
	}
	return sigwait(&s, &got);
}
