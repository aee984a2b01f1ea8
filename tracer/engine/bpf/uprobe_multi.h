/* Links of the kind uprobe_multi (include/uapi/linux/bpf.h of Linux 6.6; older headers and libbpf
 * 1.1 have none of it). */
#ifndef TRACER_ENGINE_BPF_UPROBE_MULTI_H
#define TRACER_ENGINE_BPF_UPROBE_MULTI_H

#include <stdint.h>
#include <sys/types.h>

enum { BPF_ATTACH_UPROBE_MULTI = 48 }; /* enum bpf_attach_type, BPF_TRACE_UPROBE_MULTI */

/* Run the program with descriptor `prog` at `n` places of the file `path`, in the process `pid`
 * only. `offsets` are file offsets; `cookies` (may be NULL: 0) are what bpf_get_attach_cookie
 * gives at each. Nothing is kept. The link's descriptor (closing it takes the probes out), or
 * -errno. */
int uprobe_multi_link(int prog, pid_t pid, const char *path, const uint64_t *offsets,
		      const uint64_t *cookies, uint32_t n);

#endif
