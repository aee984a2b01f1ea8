#define _GNU_SOURCE
#include "tracer/doctor/checks.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/kcmp.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbolizer/target/maps.h"
#include "tracer/engine/bpf/links.h"
#include "tracer/proc/spawn.h"

/* The function that is probed. */
static __attribute__((noinline, noclone)) void probed(void)
{
	__asm__ volatile("nop" ::: "memory");
}

static struct bpf_insn insn(int code, int dst, int src, int off, int imm)
{
	return (struct bpf_insn){.code = (__u8)code,
				 .dst_reg = dst & 15,
				 .src_reg = src & 15,
				 .off = (__s16)off,
				 .imm = imm};
}

/* ++*(u64 *)lookup(map, &zero) */
static int load_counter(int map)
{
	const struct bpf_insn prog[] = {
	    insn(BPF_ST | BPF_W | BPF_MEM, BPF_REG_10, 0, -4, 0),
	    insn(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map),
	    insn(0, 0, 0, 0, 0),
	    insn(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_2, BPF_REG_10, 0, 0),
	    insn(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, -4),
	    insn(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem),
	    insn(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 2, 0),
	    insn(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, 1),
	    insn(BPF_STX | BPF_DW | BPF_ATOMIC, BPF_REG_0, BPF_REG_1, 0, BPF_ADD),
	    insn(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0),
	    insn(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = (enum bpf_attach_type)BPF_ATTACH_UPROBE_MULTI);
	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "ditrace_check", "GPL", prog,
			     sizeof(prog) / sizeof(prog[0]), &opts);
}

/* File offset of probed() in ditrace's executable. */
static int probe_offset(uint64_t *offset)
{
	struct maps m;
	uint64_t addr = (uintptr_t)probed;
	int r = maps_read(getpid(), &m, NULL);
	if (r)
		return r;
	const struct mapping *x = maps_find(&m, addr);
	if (x)
		*offset = addr - x->start + x->offset;
	maps_free(&m);
	return x ? 0 : -ENOENT;
}

static int link_probe(int prog)
{
	uint64_t offset;
	int r = probe_offset(&offset);
	if (r)
		return r;
	return uprobe_multi_link(prog, getpid(), "/proc/self/exe", &offset, NULL, 1);
}

static uint64_t count_of(int map)
{
	uint32_t zero = 0;
	uint64_t n = 0;
	return bpf_map_lookup_elem(map, &zero, &n) ? 0 : n;
}

static void *call_probed(void *arg)
{
	(void)arg;
	probed();
	return NULL;
}

static void count_hits(int map, struct bpf_selftest *out)
{
	pthread_t t;
	probed();
	out->first = count_of(map);
	if (pthread_create(&t, NULL, call_probed, NULL))
		return;
	pthread_join(t, NULL);
	out->other = count_of(map) - out->first;
}

void selftest_bpf(struct bpf_selftest *out)
{
	*out = (struct bpf_selftest){.link = -ENOENT};
	int map = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ditrace_check", 4, 8, 1, NULL);
	if (map < 0) {
		out->load = -errno;
		return;
	}
	int prog = load_counter(map);
	out->load = prog < 0 ? -errno : 0;
	int link = prog < 0 ? -ENOENT : link_probe(prog);
	out->link = link < 0 ? link : 0;
	if (link >= 0) {
		count_hits(map, out);
		close(link);
	}
	if (prog >= 0)
		close(prog);
	close(map);
}

int selftest_perf(void)
{
	struct perf_event_attr attr = {
	    .type = PERF_TYPE_SOFTWARE,
	    .config = PERF_COUNT_SW_DUMMY,
	    .size = sizeof(attr),
	    .exclude_kernel = 1,
	    .exclude_hv = 1,
	    .mmap = 1,
	    .task = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

int selftest_pidfd(void)
{
	int fd = pidfd_open(getpid(), 0);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static int try_ptrace(pid_t pid)
{
	static const long value = 0x1234;
	long seen = 0;
	struct iovec ours = {&seen, sizeof(seen)}, its = {(void *)&value, sizeof(value)};
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) ||
	    syscall(SYS_kcmp, pid, getpid(), KCMP_VM, 0, 0) < 0 ||
	    process_vm_readv(pid, &ours, 1, &its, 1, 0) < 0)
		return -errno;
	return seen == value ? 0 : -EIO;
}

int selftest_ptrace(void)
{
	pid_t pid = spawn_part(SIGKILL);
	if (pid < 0)
		return -errno;
	if (!pid)
		for (;;)
			pause();
	int r = try_ptrace(pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return r;
}
