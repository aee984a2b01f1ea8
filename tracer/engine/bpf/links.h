/* The links of the engine bpf, made and closed by a process of its own.
 *
 * A task that is being killed can neither put uprobes into another process nor take them out again:
 * those that it was busy with stay in the code for as long as the process lives (uprobe_unregister,
 * "failed to unregister, leaking uprobe", kernel/events/uprobes.c of Linux 6.18). So a SIGKILL must
 * not find ditrace itself at that. */
#ifndef TRACER_ENGINE_BPF_LINKS_H
#define TRACER_ENGINE_BPF_LINKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tracer/engine/engine.h"

struct links;

/* One link to be made: as uprobe_multi_link's arguments. `owner` is any number, for links_drop. */
struct link_wanted {
	int prog;
	pid_t pid;
	uint16_t owner;
	uint32_t n;
	const char *path;
	const uint64_t *offsets, *cookies;
};

/* Start the process. The programs must be loaded before: it has their descriptors from this one. It
 * ends with ditrace, however that ends. 0 or -errno. */
int links_open(struct links **out);

/* 0 or -errno; -ECHILD when the process is gone. */
int links_add(struct links *l, const struct link_wanted *w);

/* Close the links of one owner, or of all (ENGINE_ALL_PROCS); done when it returns. */
void links_drop(struct links *l, uint16_t owner);

/* Whether the process is still there, with all links made. */
bool links_alive(const struct links *l);

/* Close all links, wait for the process to end, and free `l` (may be NULL). */
void links_close(struct links *l);

/* What comes before any of ditrace's eBPF programs is loaded. */

/* The PID namespace of this process, by whose numbers the programs tell threads, as
 * bpf_get_ns_current_pid_tgid wants it (st_dev and st_ino of /proc/self/ns/pid: bpf-helpers(7));
 * and libbpf prints nothing from here on, unless DITRACE_LIBBPF_LOG is set. 0 or -errno. */
int bpf_begin(uint64_t *ns_dev, uint64_t *ns_ino);

/* Links of the kind uprobe_multi (include/uapi/linux/bpf.h of Linux 6.6; older headers and libbpf
 * 1.1 have none of it). */

enum { BPF_ATTACH_UPROBE_MULTI = 48 }; /* enum bpf_attach_type, BPF_TRACE_UPROBE_MULTI */

/* Run the program with descriptor `prog` at `n` places of the file `path`, in the process `pid`
 * only. `offsets` are file offsets; `cookies` (may be NULL: 0) are what bpf_get_attach_cookie
 * gives at each. Nothing is kept. The link's descriptor (closing it takes the probes out), or
 * -errno. */
int uprobe_multi_link(int prog, pid_t pid, const char *path, const uint64_t *offsets,
		      const uint64_t *cookies, uint32_t n);

#endif
