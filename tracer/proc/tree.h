/* Lists of processes, and what they have started. */
#ifndef TRACER_PROC_TREE_H
#define TRACER_PROC_TREE_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* Zero-initialise. */
struct process_list {
	pid_t *pids;
	size_t n, room;
};

/* Add a process, unless it is there. 0 or -ENOMEM. */
int process_list_add(struct process_list *l, pid_t pid);

/* Add all that are below those in the list now, parents before children
 * (/proc/PID/task/TID/children, of CONFIG_PROC_CHILDREN). One that starts or ends meanwhile may be
 * missing. 0 or -ENOMEM. */
int process_list_add_below(struct process_list *l);

void process_list_free(struct process_list *l);

#endif
