/* Thread IDs of processes in another PID namespace: the library knows those of its own. */
#include <stdlib.h>

#include "symbolizer/target/process.h"
#include "tracer/engine/shim/internal.h"

static pid_t find(pid_t pid, pid_t inner)
{
	pid_t *tids, found = 0;
	ssize_t n = process_threads(pid, &tids);
	for (ssize_t i = 0; i < n && !found; i++) {
		struct process p;
		if (!process_read(tids[i], &p, NULL) && p.status.ns_pid == inner)
			found = tids[i];
	}
	if (n > 0)
		free(tids);
	return found;
}

uint32_t shim_tid(struct inside *i, unsigned slot, uint32_t inner)
{
	struct shim_tid *t = &i->tids[slot];
	struct process p;
	if (!i->pids_known) {
		i->pids_known = true;
		i->other_pids = !process_read(i->pid, &p, NULL) && p.ns_known && p.other_pid_ns;
	}
	if (!i->other_pids)
		return inner;
	if (t->inner != inner) {
		pid_t outer = find(i->pid, (pid_t)inner);
		*t = (struct shim_tid){inner, outer ? (uint32_t)outer : inner};
	}
	return t->outer;
}
