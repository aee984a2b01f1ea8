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

#endif
