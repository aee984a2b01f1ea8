#define _GNU_SOURCE
#include "tracer/engine/bpf/uprobe_multi.h"

#include <errno.h>
#include <linux/types.h>
#include <sys/syscall.h>
#include <unistd.h>

/* union bpf_attr, link_create.uprobe_multi */
struct link_attr {
	__u32 prog_fd, target_fd, attach_type, flags;
	__u64 path, offsets, ref_ctr_offsets, cookies;
	__u32 cnt, multi_flags, pid;
};

int uprobe_multi_link(int prog, pid_t pid, const char *path, const uint64_t *offsets,
		      const uint64_t *cookies, uint32_t n)
{
	enum { LINK_CREATE = 28 };
	struct link_attr a = {
	    .prog_fd = (__u32)prog,
	    .attach_type = BPF_ATTACH_UPROBE_MULTI,
	    .path = (uintptr_t)path,
	    .offsets = (uintptr_t)offsets,
	    .cookies = (uintptr_t)cookies,
	    .cnt = n,
	    .pid = (__u32)pid,
	};
	int fd = (int)syscall(SYS_bpf, LINK_CREATE, &a, sizeof(a));
	return fd < 0 ? -errno : fd;
}
