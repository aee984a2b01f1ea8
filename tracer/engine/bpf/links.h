/* The links of the engine bpf, made and closed by a helper process.
 *
 * A task that is being killed can neither insert uprobes into another process nor remove them:
 * those it was working on stay in the code for the life of that process (uprobe_unregister, "failed
 * to unregister, leaking uprobe", kernel/events/uprobes.c of Linux 6.18). So that work must not be
 * done by ditrace itself, which may get a SIGKILL. */
#ifndef TRACER_ENGINE_BPF_LINKS_H
#define TRACER_ENGINE_BPF_LINKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tracer/engine/engine.h"

struct links;

/* One link to make, with uprobe_multi_link's arguments. `owner` is any number, for links_drop. */
struct link_wanted {
	int prog;
	pid_t pid;
	uint16_t owner;
	uint32_t n;
	const char *path;
	const uint64_t *offsets, *cookies;
};

/* Start the helper process. Load the programs before: it inherits their descriptors. It ends when
 * ditrace does, however that happens. 0 and *out, or -errno. */
int links_open(struct links **out);

/* 0 or -errno; -ECHILD when the helper process is gone. */
int links_add(struct links *l, const struct link_wanted *w);

/* Close the links of one owner, or of all (ENGINE_ALL_PROCS), which returns once they are closed.
 * Those of one owner may be closed later, but before the owner gets another by links_add. */
void links_drop(struct links *l, uint16_t owner);

/* The same for one owner, and return once they are closed. */
void links_await(struct links *l, uint16_t owner);

/* Whether the helper process is alive, and so all links are in place. */
bool links_alive(const struct links *l);

/* Close all links, wait for the helper process, and free `l` (may be NULL). */
void links_close(struct links *l);

/* Setup common to all of ditrace's eBPF programs, before the first is loaded. */

/* Returns the PID namespace whose thread IDs the programs report, as bpf_get_ns_current_pid_tgid
 * wants it (st_dev and st_ino of /proc/self/ns/pid: bpf-helpers(7)), and silences libbpf unless
 * DITRACE_LIBBPF_LOG is set. 0 or -errno. */
int bpf_begin(uint64_t *ns_dev, uint64_t *ns_ino);

/* uprobe_multi links (include/uapi/linux/bpf.h of Linux 6.6), which older headers and libbpf 1.1
 * lack. */

enum { BPF_ATTACH_UPROBE_MULTI = 48 }; /* enum bpf_attach_type, BPF_TRACE_UPROBE_MULTI */

/* Run the program with descriptor `prog` at `n` places of the file `path`, in process `pid` only.
 * `offsets` are file offsets; `cookies` (NULL: all 0) are what bpf_get_attach_cookie returns at
 * each. Keeps no pointer. Returns the link's descriptor, whose close removes the probes, or -errno.
 */
int uprobe_multi_link(int prog, pid_t pid, const char *path, const uint64_t *offsets,
		      const uint64_t *cookies, uint32_t n);

#endif
